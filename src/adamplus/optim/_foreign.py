"""Keywords of other optimizers, and the errors that say what to pass instead."""

from collections.abc import Iterable
from difflib import get_close_matches

ADVICE = {
    "betas": "it has one moving average. Pass beta = 1 − betas[0] (betas=(0.9, 0.999) is beta=0.1), and another lr: "
    "Adam's is about a thousand times smaller",
    "momentum": "beta is the weight of the new gradient. Pass beta = 1 − momentum (momentum=0.9 is beta=0.1)",
    "dampening": "the new gradient always has the weight beta. Leave it out",
    "nesterov": "gradients are always taken ahead of w, by `lookahead` steps. Leave it out",
    "amsgrad": "it keeps no second moment. Leave it out",
    "learning_rate": "it is called lr",
}


def refuse(name: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise a TypeError for keywords that the optimizer `name` does not have, of which it has the `known` ones."""
    for keyword in given:
        if keyword in ADVICE:
            raise TypeError(f"{name} has no {keyword}: {ADVICE[keyword]}")
        close = get_close_matches(keyword, [*known], n=1)
        hint = f"did you mean {close[0]}?" if close else f"its settings are {', '.join(known)}"
        raise TypeError(f"{name} has no {keyword}: {hint}")


def refuse_in_group(name: str, group: Iterable[str]) -> None:
    """Raise a TypeError for a parameter group that has keywords of other optimizers. Its own keys are its user's."""
    refuse(name, [keyword for keyword in ADVICE if keyword in group], [])
