"""Colours and dashes of every figure and chart."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A7A7A")
"""Okabe and Ito's palette, which colour-blind readers can tell apart.

Grey replaces their black, and yellow is left out, so that each shows on light and on dark.
"""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
GREY = COLOURS[-1]
"""Lines and text beside the data: floors, guides, captions."""
GRID = "#e4e4e4"


def style(number: int) -> tuple[str, str]:
    """Colour and dash of the contender with this number: unique for the first 42, and neighbours share neither."""
    return COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
