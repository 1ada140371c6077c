"""The error that is raised for input that cannot be used, and the end of its message."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """A request that cannot be carried out. The message says what is wrong and what to do."""


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known names that are similar, or all of them if none is."""
    names = list(names)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"choose from {', '.join(names)}" if names else "there are none"
