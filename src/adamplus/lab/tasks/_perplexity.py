"""Perplexity, which models of text are judged by."""

import math


def with_perplexity(means: dict[str, float]) -> dict[str, float]:
    """exp(loss) beside the means; of a loss that is too large for it, infinity, and of one that is none, none."""
    loss = means["loss"]
    return {**means, "perplexity": math.exp(loss) if loss < 700 else math.inf if loss == loss else loss}
