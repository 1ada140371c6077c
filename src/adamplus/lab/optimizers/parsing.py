"""Contenders as the command line writes them: `name:key=value;key=value`."""

import ast
import math
import warnings
from typing import Any

import torch
from torch.nn import Parameter

from ..errors import InputError, nearest
from .contender import Contender, UnavailableError
from .registry import find


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the settings in `name:key=value;key=value`; other settings keep their defaults."""
    name, _, rest = text.partition(":")
    contender, _ = find(name)
    settings: dict[str, Any] = {}
    for item in filter(None, rest.split(";")):
        key, equals, value = item.partition("=")
        key = key.strip()
        if not equals:
            raise InputError(f"settings must be key=value, as {name}:lr=0.1;weight_decay=0, got {item!r} in {text!r}")
        if key not in contender.names():
            raise InputError(f"{name} has no setting {key!r}: {nearest(key, contender.names())}")
        if key in settings:
            raise InputError(f"{text!r} sets {key!r} twice: remove one of them")
        settings[key] = _value(key, value.strip(), contender.choices(key), text)
        length = contender.tuple_length(key)
        if length and not (isinstance(settings[key], tuple) and len(settings[key]) == length):
            raise InputError(f"{key} must be {length} numbers in parentheses, got {item.strip()} in {text!r}")
    return name, settings


def try_out(contender: Contender, given: dict[str, Any], text: str, device: str = "cpu") -> None:
    """Build the optimizer once, so that wrong settings and missing packages are reported before any run.

    It is built on the training device if this machine has it. Otherwise it is built on the CPU, without the settings
    that only the device can judge.
    """
    here = device == "cpu" or torch.cuda.is_available()
    given = given if here else {key: value for key, value in given.items() if key not in ("fused", "capturable")}
    parameters = [Parameter(torch.zeros(shape, device=device if here else "cpu")) for shape in ((2, 2), (2,))]
    tuned = {key: space.at(0.5) for key, space in contender.search.items()}
    try:
        contender.build(parameters, **{**contender.settings, **tuned, **given})
    except UnavailableError as error:
        raise InputError(f"{text} cannot be used: {error}") from error
    except Exception as error:  # an optimizer may raise anything
        raise InputError(f"the optimizer rejects {text!r}: {error}") from error


def _value(key: str, value: str, choices: tuple[str, ...], text: str) -> Any:
    """A number, True, False, None, a tuple of numbers, or one of the strings that the setting can be."""
    if (choice := value.strip("\"'")) in choices:
        return choice
    try:
        with warnings.catch_warnings(action="ignore"):  # Python warns of what it will refuse in later versions
            parsed = ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two for thousands of signs or brackets
        parsed = ...
    numbers = parsed if isinstance(parsed, tuple) else (parsed,)
    if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
        raise InputError(f"{key} must be finite, got {key}={value} in {text!r}")
    if not all(number is None or isinstance(number, (bool, int, float)) for number in numbers):
        allowed = f"one of {', '.join(choices)}" if choices else "a number, True, False or None"
        raise InputError(f"{key} must be {allowed}, got {key}={value} in {text!r}")
    return parsed
