"""Colours: contrast with the page's paper, and the same ones for an optimizer wherever it stands."""

import itertools
import re
from importlib.resources import files

import pytest

from adamplus.lab._present.colours import COLOURS, KNOWN, style, styles
from adamplus.lab.optimizers import CONTENDERS


def luminance(colour: str) -> float:
    """Relative luminance by WCAG 2."""
    values = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


CSS = (files("adamplus.lab.report") / "page.css").read_text(encoding="utf-8")
PAPERS = re.findall(r"--paper: (#[0-9a-f]{6});", CSS)[:2]


def test_the_contrast_of_known_colours():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#ffffff", "#777777") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_line_has_a_contrast_of_three_with_the_paper_in_light_and_dark(paper: str):
    assert len(PAPERS) == 2
    assert all(contrast(colour, paper) >= 3 for colour in COLOURS)


def test_texts_have_a_contrast_of_four_and_a_half_with_the_paper():
    for name in ("ink", "quiet", "accent"):
        colours = re.findall(rf"--{name}: (#[0-9a-f]{{6}});", CSS)[:2]
        assert [contrast(*pair) >= 4.5 for pair in zip(colours, PAPERS, strict=True)] == [True, True]


def test_every_optimizer_has_a_style_that_does_not_depend_on_its_place():
    assert set(KNOWN) == set(CONTENDERS)
    assert len(set(KNOWN.values())) == len(KNOWN)
    for labels in itertools.permutations(("adam", "adam-plus", "muon.py", "sgd")):
        found = dict(zip(labels, styles(labels), strict=True))
        assert {name: found[name] for name in ("adam", "adam-plus", "sgd")} == {
            name: KNOWN[name] for name in ("adam", "adam-plus", "sgd")
        }
        assert found["muon.py"][0] not in {KNOWN[name][0] for name in ("adam", "adam-plus", "sgd")}


def test_variants_of_an_optimizer_have_its_colour_and_dashes_of_their_own():
    labels = ["adam-plus", *(f"adam-plus:beta=0.{i}" for i in range(1, 6))]
    found = styles(labels)
    assert {colour for colour, _ in found} == {KNOWN["adam-plus"][0]}
    assert len(set(found)) == len(labels)


def test_numbered_styles_repeat_late():
    assert len({style(number) for number in range(42)}) == 42
