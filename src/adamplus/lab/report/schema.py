"""Checks that a folder's JSON files have the types that a report needs."""

import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .._store import CorruptError
from ..errors import InputError

Check = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _whole(value: Any) -> bool:
    return isinstance(value, int)


def _number(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 1e300)  # a float holds no more


def _drawable(value: Any) -> bool:
    """Whether a value is no integer too large for a float; charts leave out other values that are no numbers."""
    return not isinstance(value, int) or _number(value)


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _maybe(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _object_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


SPEC: dict[str, tuple[Check, str]] = {
    "task": (_text, "a name"),
    "label": (_text, "a name"),
    "settings": (_object, "an object"),
    "seed": (_whole, "a whole number"),
    "epochs": (_whole, "a whole number"),
    "phase": (lambda value: value in ("search", "final"), "search or final"),
}
"""Required fields of every run's specification."""
SETTINGS: dict[str, tuple[Check, str]] = {
    "parameters": (_maybe(_number), "a number"),
    "versions": (_maybe(_object), "an object"),
    "git": (_maybe(_object), "an object"),
}
TASK: dict[str, tuple[Check, str]] = {
    "target": (_maybe(_number), "a number"),
    "rows": (_maybe(_object_of(_number)), "an object of numbers"),
}
END: dict[str, tuple[Check, str]] = {
    name: (_maybe(_number), "a number") for name in ("seconds", "steps_per_second", "state_bytes", "peak_bytes")
}
COMPARISON: dict[str, tuple[Check, str]] = {
    "tasks": (_list_of(_text), "a list of names"),
    "labels": (_list_of(_text), "a list of names"),
    "seeds": (_list_of(_whole), "a list of whole numbers"),
    "tune": (_whole, "a whole number"),
    "search": (_object_of(_object), "an object of objects"),
    "ranges": (_object_of(_object), "an object of objects"),
    "chosen": (_object_of(_object_of(_object)), "settings by task and optimizer"),
    "edge": (_object_of(_object_of(_list_of(_text))), "lists of settings by task and optimizer"),
    "runs": (_list_of(_text), "a list of folders"),
    "wall_seconds": (_number, "a number"),
}


def check_run(settings: Mapping[str, Any], epochs: list[dict[str, Any]], end: Mapping[str, Any]) -> None:
    """Raise CorruptError if a run's files lack something that a report needs."""
    spec, task = settings["spec"], settings.get("task")
    if not SPEC.keys() <= spec.keys() or not isinstance(task, dict) or not isinstance(task.get("metric"), str):
        raise CorruptError("settings.json does not describe the run")
    for name, content, fields in (
        ("settings.json", spec, SPEC),
        ("settings.json", settings, SETTINGS),
        ("settings.json", task, TASK),
        ("end.json", end, END),
    ):
        if wrong := _wrong(content, fields):
            raise CorruptError(f"{name}: {wrong}")
    judged = (f"test_{task['metric']}", f"validation_{task['metric']}", "test_loss", "seconds")
    for epoch in epochs:
        fields = dict.fromkeys(epoch, (_drawable, "below 1e300")) | dict.fromkeys(judged, (_maybe(_number), "a number"))
        if wrong := _wrong(epoch, fields):
            raise CorruptError(f"metrics.jsonl, epoch {epoch['epoch']}: {wrong}")


def check_comparison(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Return the content of comparison.json; InputError if it has wrong types."""
    if wrong := _wrong(content, COMPARISON):
        raise InputError(f"{path}: {wrong}: remove it to report the runs alone")
    return content


def _wrong(content: Mapping[str, Any], fields: Mapping[str, tuple[Check, str]]) -> str | None:
    """A message about the first field of a wrong type; None if there is none."""
    for name, (check, allowed) in fields.items():
        if name in content and not check(content[name]):
            return f"{name} is {reprlib.repr(content[name])}, but must be {allowed}"
    return None
