"""Figures in one style."""

import pytest
from matplotlib.figure import Figure

from adamplus.lab._present.colours import styles
from adamplus.lab._present.plot import draw_legend, mark_epochs


def test_legends_distinguish_variants_of_one_optimizer():
    labels = [f"adam-plus:norm_scope=tensor;beta={beta}" for beta in (0.1, 0.5, 0.9)]
    figure = Figure(figsize=(6, 3), layout="constrained")
    draw_legend(figure, dict(zip(labels, styles(labels), strict=True)))
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert [text[-8:] for text in texts] == ["beta=0.1", "beta=0.5", "beta=0.9"]
    assert all("adam-plus" in text for text in texts)


@pytest.mark.parametrize("epochs", [1, 2, 3, 40])
def test_epochs_on_an_axis_are_whole_numbers(epochs: int):
    figure = Figure(figsize=(4, 3))
    axes = figure.subplots()
    axes.plot(range(1, epochs + 1), range(epochs), marker="o")
    mark_epochs(axes)
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert ticks
    assert all(tick == round(tick) for tick in ticks)
