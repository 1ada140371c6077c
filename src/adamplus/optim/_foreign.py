"""Keywords of other optimizers, and the errors that say what to pass instead."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec

P = ParamSpec("P")

ADVICE = {
    "betas": "it has one moving average. Pass beta = 1 − betas[0] (betas=(0.9, 0.999) is beta=0.1), and tune lr, whose "
    "units are not Adam's",
    "momentum": "beta is the weight of the new gradient. Pass beta = 1 − momentum (momentum=0.9 is beta=0.1)",
    "dampening": "the new gradient always has the weight beta. Leave it out",
    "nesterov": "gradients are always taken ahead of w, by `lookahead` steps. Leave it out",
    "amsgrad": "it keeps no second moment. Leave it out",
    "learning_rate": "it is called lr",
}


def explained(init: Callable[P, None]) -> Callable[P, None]:
    """Let a constructor explain the keywords that it does not have."""
    known = [*inspect.signature(init).parameters][2:]  # without self and params

    @wraps(init)
    def checked(*args: P.args, **settings: P.kwargs) -> None:
        refuse_unknown(type(args[0]).__name__, settings.keys() - {"params"}, known)
        init(*args, **settings)

    return checked


def refuse_unknown(name: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise a TypeError for keywords that are not known, with the nearest one that is."""
    for keyword in given:
        if keyword not in known:
            refuse(name, [keyword])
            close = get_close_matches(keyword, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"its settings are {', '.join(known)}"
            raise TypeError(f"{name} has no {keyword}: {hint}")


def refuse(name: str, given: Iterable[str]) -> None:
    """Raise a TypeError for keywords of other optimizers. Other keys of a parameter group are its user's own."""
    for keyword in given:
        if keyword in ADVICE:
            raise TypeError(f"{name} has no {keyword}: {ADVICE[keyword]}")
