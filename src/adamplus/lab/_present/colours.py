"""Colours and dashes of every figure and chart: those of an optimizer are the same in all of them."""

from collections.abc import Sequence

COLOURS = ("#4664CC", "#F2630E", "#10A46F", "#CF70C1", "#7C622C", "#9702F6", "#6A6C74")
"""Blue, orange, green, pink, brown, violet and grey.

Each has a contrast of 3 or more with white and with the page's dark paper, and any two differ for colour-blind readers,
too (by 22 or more in CIELAB, simulated after Machado et al.).
"""
BLUE, ORANGE, GREEN, PINK, BROWN, VIOLET, GREY = COLOURS
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
GRID = "#e4e4e4"

Style = tuple[str, str]
"""Colour and dash of a line."""
KNOWN: dict[str, Style] = {
    "adam-plus": (BLUE, "solid"),
    "adam": (ORANGE, "dash"),
    "nigt": (GREEN, "longdashdot"),
    "adagrad": (PINK, "longdash"),
    "msgd": (BROWN, "dashdot"),
    "sgd": (GREY, "dot"),
    "spectral-plus": (VIOLET, "solid"),
    "nadam-plus": (BLUE, "longdash"),
    "adamw": (ORANGE, "solid"),
    "muon": (GREEN, "dash"),
    "lion": (PINK, "dot"),
    "scion": (VIOLET, "dash"),
    "amsgrad": (ORANGE, "dot"),
    "radam": (ORANGE, "dashdot"),
    "rmsprop": (BROWN, "solid"),
    "schedule-free-sgd": (GREY, "longdash"),
    "schedule-free-adamw": (GREY, "solid"),
}
"""Styles of optimizers by name. Optimizers of the same colour differ in their dashes."""


def styles(labels: Sequence[str]) -> list[Style]:
    """The style of each contender, by its optimizer and not by its place among the others.

    Variants of one optimizer (`adam-plus:beta=0.5`) share its colour and differ in their dashes. Optimizers without a
    known style get the colours that are used least.
    """
    found: dict[str, Style] = {}
    colours = {name: KNOWN[name][0] for label in labels if (name := _optimizer(label)) in KNOWN}
    for label in labels:
        name = _optimizer(label)
        if name not in colours:
            used = list(colours.values())
            colours[name] = min(COLOURS, key=used.count)
        dash = KNOWN[name][1] if name in KNOWN else DASHES[0]
        start = DASHES.index(dash)
        order = [*DASHES[start:], *DASHES[:start]]
        free = (one for one in order if (colours[name], one) not in found.values())
        found[label] = colours[name], next(free, dash)
    return [found[label] for label in labels]


def style(number: int) -> Style:
    """Colour and dash of the line with this number: unique for the first 42, and neighbours share neither."""
    return COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]


def _optimizer(label: str) -> str:
    return label.partition(":")[0]
