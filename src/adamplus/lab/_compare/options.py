"""Options: fields of a request, as arguments of a function, options of a command and lines of a docstring."""

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import field, fields
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ..errors import InputError

P = ParamSpec("P")
RequestT = TypeVar("RequestT")
OutcomeT = TypeVar("OutcomeT")


def option(default: Any, text: str, *, least: int | None = None, always: bool = False) -> Any:
    """Declare a field of a request.

    Args:
        default: its value if the caller does not pass it.
        text: its line in the docstring of the function that takes the request.
        least: the smallest number that `check_least` accepts.
        always: whether the rerun command has the option even if its value is the default.
    """
    return field(default=default, metadata={"text": text, "least": least, "always": always})


def takes(request_type: Callable[P, RequestT]) -> Callable[[Callable[[RequestT], OutcomeT]], Callable[P, OutcomeT]]:
    """Let callers of a function pass the fields of its request as arguments.

    The function gets the signature of the request's class. The line `Args: …` of its docstring is replaced by the
    texts of the fields.
    """
    declared: Any = request_type
    arguments = ["Args:", *(f"    {each.name}: {each.metadata['text']}" for each in fields(declared))]

    def decorate(function: Callable[[RequestT], OutcomeT]) -> Callable[P, OutcomeT]:
        @wraps(function, assigned=("__module__", "__name__", "__qualname__"))
        def call(*args: P.args, **kwargs: P.kwargs) -> OutcomeT:
            return function(request_type(*args, **kwargs))

        made: Any = call
        returned = inspect.signature(function).return_annotation
        made.__signature__ = inspect.signature(request_type).replace(return_annotation=returned)
        lines = (inspect.getdoc(function) or "").splitlines()
        made.__doc__ = "\n".join(row for line in lines for row in (arguments if line.startswith("Args:") else [line]))
        return call

    return decorate


def check_least(request: Any) -> None:
    """Raise InputError if a number is below the least that its field accepts."""
    for each in fields(request):
        value, least = getattr(request, each.name), each.metadata.get("least")
        if least is not None and value is not None and value < least:
            raise InputError(f"{_name(each.name)} must be at least {least}, got {value}")


def command_options(request: Any, without: Collection[str] = ()) -> list[str]:
    """The command-line options of a request's fields, in their order, except for values that are the default."""
    words: list[str] = []
    for each in fields(request):
        value = getattr(request, each.name)
        if each.name not in without and (value != each.default or each.metadata.get("always")):
            words += [_name(each.name), *([] if value is True else [_text(value)])]
    return words


def split_list(text: str) -> list[str]:
    """The parts of a list on the command line, cut at commas outside of parentheses: `adam:betas=(0.9,0.99),sgd`."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _name(field_name: str) -> str:
    return "--" + field_name.replace("_", "-")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ",".join(value) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
