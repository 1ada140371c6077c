"""Contenders as the command line writes them: `name:key=value;key=value`."""

import ast
import math
from typing import Any

import torch
from torch.nn import Parameter

from ..errors import InputError, nearest
from .contender import Contender, UnavailableError
from .registry import find


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """`name:key=value;key=value` as a name and settings; those of the optimizer's own that are left out stay."""
    name, _, rest = text.partition(":")
    contender, _ = find(name)
    settings: dict[str, Any] = {}
    for item in filter(None, rest.split(";")):
        key, equals, value = item.partition("=")
        key = key.strip()
        if not equals:
            raise InputError(f"{item!r} of {text!r} is no key=value, as in {name}:lr=0.1;weight_decay=1e-4")
        if key not in contender.names():
            raise InputError(f"{name} has no setting {key!r}: {nearest(key, contender.names())}")
        if key in settings:
            raise InputError(f"{text!r} sets {key!r} twice: leave one of them")
        settings[key] = _value(key, value.strip(), contender.words(key), text)
        wanted = contender.numbers(key)
        if wanted and not (isinstance(settings[key], tuple) and len(settings[key]) == wanted):
            raise InputError(f"{item.strip()} of {text!r}: it has to be {wanted} numbers in parentheses, with commas")
    return name, settings


def try_out(contender: Contender, given: dict[str, Any], text: str, device: str = "cpu") -> None:
    """Build it once: what it refuses, and that it is not installed, is told now and not by every run.

    On the device where it is to train, if that is one of this machine's; else without what can be refused only there.
    """
    here = device == "cpu" or torch.cuda.is_available()
    given = given if here else {key: value for key, value in given.items() if key not in ("fused", "capturable")}
    parameters = [Parameter(torch.zeros(shape, device=device if here else "cpu")) for shape in ((2, 2), (2,))]
    tuned = {key: space.at(0.5) for key, space in contender.search.items()}
    try:
        contender.build(parameters, **{**contender.settings, **tuned, **given})
    except UnavailableError as error:
        raise InputError(f"{text} cannot take part: {error}") from error
    except Exception as error:  # whatever the optimizer makes of them
        raise InputError(f"{text!r} is refused by the optimizer: {error}") from error


def _value(key: str, value: str, words: tuple[str, ...], text: str) -> Any:
    """A number, True, False, None, a tuple of numbers, or one of the words that the setting can be."""
    if (word := value.strip("\"'")) in words:
        return word
    try:
        parsed = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        parsed = ...
    numbers = parsed if isinstance(parsed, tuple) else (parsed,)
    if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
        raise InputError(f"{key}={value} of {text!r}: no optimizer can use a number that is not finite")
    if not all(number is None or isinstance(number, (bool, int, float)) for number in numbers):
        allowed = f"none of {', '.join(words)}" if words else "no number (nor True, False or None)"
        raise InputError(f"{key}={value} of {text!r}: the value is {allowed}")
    return parsed
