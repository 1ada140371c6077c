"""Contenders as the command line writes them: `name:key=value;key=low..high`."""

import ast
import math
import warnings
from typing import Any

import torch
from torch import nn

from ..errors import InputError, nearest
from .contender import Contender, LogUniform, UnavailableError
from .registry import find

RANGE = ".."


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the settings in `name:key=value;key=low..high`; other settings keep their defaults.

    The value of a setting that is given as a range, `low..high`, is a `LogUniform`.
    """
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
        if RANGE in value:
            settings[key] = _range(key, value.strip(), text)
        else:
            settings[key] = _value(key, value.strip(), contender.choices(key), text)
        length = contender.tuple_length(key)
        if length and not (isinstance(settings[key], tuple) and len(settings[key]) == length):
            raise InputError(f"{key} must be {length} numbers in parentheses, got {item.strip()} in {text!r}")
    return name, settings


def label_of(text: str) -> str:
    """The label of a contender in tables: what the command line has, without the ranges to search."""
    name, _, rest = text.partition(":")
    if RANGE not in rest:
        return text
    fixed = ";".join(item for item in rest.split(";") if item.strip() and RANGE not in item)
    return f"{name}:{fixed}" if fixed else name


def try_out(contender: Contender, given: dict[str, Any], text: str, device: str = "cpu") -> None:
    """Build the optimizer, so that wrong settings and missing packages are reported before any run.

    Ranges are tried at both ends and in the middle. The optimizer is built on the training device if this machine has
    it. Otherwise it is built on the CPU, without the settings that only the device can judge.
    """
    here = device == "cpu" or torch.cuda.is_available()
    given = given if here else {key: value for key, value in given.items() if key not in ("fused", "capturable")}
    # One layer of three is hidden. No random numbers are drawn, because they are the caller's.
    layers = [nn.utils.skip_init(nn.Linear, 2, 2, device=device if here else "cpu") for _ in range(3)]
    ranges = {key: space for key, space in given.items() if isinstance(space, LogUniform)}
    fixed = {key: value for key, value in given.items() if key not in ranges}
    tuned = {key: space.at(0.5) for key, space in contender.search.items()}
    try:
        for fraction in (0.0, 0.5, 1.0) if ranges else (0.5,):
            tuned |= {key: space.at(fraction) for key, space in ranges.items()}
            contender.make(nn.Sequential(*layers), **{**contender.settings, **tuned, **fixed})
    except UnavailableError as error:
        raise InputError(f"{text} cannot be used: {error}") from error
    except Exception as error:  # an optimizer may raise anything
        raise InputError(f"the optimizer rejects {text!r}: {error}") from error


def _range(key: str, value: str, text: str) -> LogUniform:
    """The range `low..high`."""
    ends = [_value(key, end.strip(), (), text) for end in value.split(RANGE, 1)]
    if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends) or not 0 < ends[0] < ends[1]:
        raise InputError(f"a range must be two numbers, 0 < low < high, as 0.001..0.1, got {key}={value} in {text!r}")
    return LogUniform(*ends)


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
