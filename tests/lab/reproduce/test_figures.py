"""The paper's figures: panels, scales and colours."""

from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from stores import add_run

from adamplus.lab._present.colours import KNOWN
from adamplus.lab.reproduce import EXPERIMENTS
from adamplus.lab.reproduce import figures as _figures
from adamplus.lab.reproduce.experiments import NAMES
from adamplus.lab.reproduce.stored_runs import read

METRICS = {"cifar10": "accuracy", "cifar100": "accuracy", "wikitext2": "perplexity", "an4": "loss", "swb300": "loss"}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """Figures by the names of their files, which are not written."""
    found: dict[str, Figure] = {}
    monkeypatch.setattr(_figures, "save", lambda figure, stem: found.update({stem.name: figure}) or [stem])
    return found


def draw(root: Path, name: str, optimizers: Any = NAMES, sums: Any = (1, 2, 3)) -> None:
    """Stored runs of three epochs."""
    for optimizer in optimizers:
        own = {f"running_{METRICS[name]}": 0.5} | ({"norm_sum": 1.0} if optimizer == "adam-plus" else {})
        run = add_run(
            root / "paper" / name,
            optimizer,
            [0.5] * len(sums),
            about={"metric": METRICS[name]},
            columns=own,
            status=None,
        )
        lines = run.metrics()
        (run.folder / "metrics.jsonl").unlink()
        for line, total in zip(lines, sums, strict=True):
            run.append(line | ({"norm_sum": float(total)} if "norm_sum" in line else {}))
        run.finish({"status": "finished", "reason": None, "seconds": 1.0})
    _figures.figures([read(root, "paper", one) for one in EXPERIMENTS.values()], root / "figures")


def colours(axes: Any) -> list[str]:
    return [to_hex(line.get_color()).upper() for line in axes.lines]


@pytest.mark.parametrize("name", METRICS)
def test_training_and_test_have_one_panel_each(name: str, drawn: dict[str, Figure], tmp_path: Path):
    draw(tmp_path, name)
    train, test = drawn[f"paper-{name}"].axes
    assert train.get_ylabel().startswith(f"training {METRICS[name]}")
    assert test.get_ylabel() == f"{'held-out' if METRICS[name] == 'loss' else 'test'} {METRICS[name]}"
    assert len(train.lines) == len(test.lines) == 6
    assert {axes.get_yscale() for axes in (train, test)} == {"log" if name == "wikitext2" else "linear"}
    (legend,) = drawn[f"paper-{name}"].legends
    assert [text.get_text().strip("\u200b") for text in legend.get_texts()] == list(NAMES.values())


def test_the_colour_of_an_optimizer_does_not_depend_on_the_others(drawn: dict[str, Figure], tmp_path: Path):
    draw(tmp_path / "one", "cifar10")
    assert colours(drawn["paper-cifar10"].axes[0]) == [KNOWN[name][0] for name in NAMES]
    draw(tmp_path / "other", "cifar10", ["adam", "msgd"])
    assert colours(drawn["paper-cifar10"].axes[0]) == [KNOWN["msgd"][0], KNOWN["adam"][0]]
    assert colours(drawn["paper-growth"].axes[0]) == [KNOWN["adam-plus"][0]]


def test_growth_shows_both_image_models_and_a_mark_only_if_it_flattens(drawn: dict[str, Figure], tmp_path: Path):
    draw(tmp_path, "cifar10", ["adam-plus", "sgd"], sums=[1, 2, 3, 4, 4, 4, 4, 4])
    draw(tmp_path, "cifar100", ["adam-plus"], sums=range(1, 9))
    one, other = drawn["paper-growth"].axes
    assert (one.get_title(), other.get_title()) == ("ResNet18 on CIFAR-10", "VGG19 on CIFAR-100")
    assert len(one.lines) == 2
    assert one.lines[1].get_xdata() == [40, 40]  # ten steps an epoch
    assert len(other.lines) == 1
    assert one.get_xlabel() == "iteration"
