"""Figures in one style."""

from matplotlib.figure import Figure

from adamplus.lab._present.colours import styles
from adamplus.lab._present.plot import draw_legend


def test_legends_distinguish_variants_of_one_optimizer():
    labels = [f"adam-plus:norm_scope=tensor;beta={beta}" for beta in (0.1, 0.5, 0.9)]
    figure = Figure(figsize=(6, 3), layout="constrained")
    draw_legend(figure, dict(zip(labels, styles(labels), strict=True)))
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert [text[-8:] for text in texts] == ["beta=0.1", "beta=0.5", "beta=0.9"]
    assert all("adam-plus" in text for text in texts)
