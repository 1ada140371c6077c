"""Colours and dashes of the optimizers in every figure and chart."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A7A7A")
"""Okabe and Ito's, apart to colour-blind eyes; grey for their black, and no yellow: each shows on light and dark."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def style(number: int) -> tuple[str, str]:
    """Colour and dash of a contender: no two of the first 42 share both, and neighbours share neither."""
    return COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
