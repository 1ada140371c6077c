"""What went wrong on the user's side, said plainly."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """What was asked for cannot be done; the message says what can."""


def nearest(name: str, names: Iterable[str]) -> str:
    """The names that somebody may have meant, as the end of a message; all of them, where none is near."""
    names = list(names)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"there are {', '.join(names)}" if names else "there are none"
