"""The epoch at which Σ‖z‖ flattens, on known curves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stores import add_run

from adamplus.lab.reproduce import EXPERIMENTS
from adamplus.lab.reproduce.growth import Growth, growth
from adamplus.lab.reproduce.growth_rules import FarFromIdeal, Flattens
from adamplus.lab.reproduce.stored_runs import Stored, read

PARTS = np.arange(1, 351) / 350
NOISE = np.random.default_rng(0).standard_normal(350)


def found(curve: Callable[[Any], Any]) -> Growth:
    made = growth(lines(curve(PARTS)))
    assert made is not None
    return made


def lines(totals: Any) -> list[dict[str, Any]]:
    """Epochs of 10 steps, with an accuracy that rises."""
    parts = np.arange(1, len(totals) + 1) / len(totals)
    return [
        {"epoch": i, "step": 10 * i, "norm_sum": float(total), "running_accuracy": part, "test_accuracy": part}
        for i, (total, part) in enumerate(zip(totals, parts.tolist(), strict=True), 1)
    ]


def broken(knee: float, slope: float) -> Callable[[Any], Any]:
    return lambda t: np.where(t <= knee, t, knee + slope * (t - knee))


def stored(root: Path, totals: Any) -> Stored:
    about = {"metric": "accuracy", "better": "higher"}
    run = add_run(root / "paper" / "cifar10", "adam-plus:lr=0.1", [0.0], about=about, epochs=len(totals), status=None)
    (run.folder / "metrics.jsonl").unlink()
    for line in lines(totals):
        run.append(line)
    run.finish({"status": "finished", "reason": None, "seconds": 1.0})
    return read(root, "paper", EXPERIMENTS["cifar10"])


def noisy(totals: Any, noise: float) -> Any:
    """Growth of each epoch, times a random factor near 1."""
    return np.cumsum(np.diff(totals, prepend=0) * np.exp(noise * NOISE))


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize(("knee", "slope"), [(0.44, 0.05), (0.80, 0.05), (0.44, 0.60), (0.1, 0.2), (0.1, 0.02)])
def test_a_knee_is_found_at_its_epoch(knee: float, slope: float, noise: float):
    one = found(lambda t: noisy(broken(knee, slope)(t), noise))
    assert one.part == pytest.approx(knee, abs=0.0015 if noise == 0 else 0.01)  # an epoch is 0.003
    assert one.flattens == (slope <= 0.05)  # 0.2 for nine tenths of the run: it grows to nearly three times as much


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("curve", [lambda t: t, lambda t: t**2, np.sqrt, lambda t: t**0.7, lambda t: t**0.3])
def test_powers_of_the_iterations_have_no_plateau(curve: Callable[[Any], Any], noise: float):
    assert not found(lambda t: noisy(curve(t), noise)).flattens


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("sharpness", [8, 15, 40])
def test_a_gradual_knee_is_where_growth_falls_by_the_largest_factor(sharpness: float, noise: float):
    """Growth falls from 1 to 0.05 around 0.44 of the run, over a tenth of it or a third."""
    growth = 0.05 + 0.95 / (1 + np.exp(sharpness * (PARTS - 0.44)))
    one = found(lambda _: noisy(np.cumsum(growth), noise))
    assert one.part == pytest.approx(PARTS[np.argmin(np.gradient(np.log(growth)))], abs=0.3 / sharpness)
    assert one.flattens


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_a_knee_is_found_though_growth_has_slowed_before_it(noise: float):
    """The curve resembles CIFAR-10: growth halves slowly, and then most of the rest goes within a few epochs."""
    growth = np.where(PARTS <= 0.43, 1 - 1.2 * PARTS, 0.1 + 0.2 * np.exp(-60 * (PARTS - 0.43)))
    one = found(lambda _: noisy(np.cumsum(growth), noise))
    assert one.part == pytest.approx(0.43, abs=0.015)
    assert one.flattens


def test_growth_that_rises_first_and_ends_at_once_does_not_hide_the_knee():
    """The curve resembles CIFAR-100: an S, whose end parabolas would find elsewhere."""
    growth = np.where(PARTS <= 0.43, PARTS * np.exp(-8 * PARTS), 0.003 * np.exp(-3 * (PARTS - 0.43)))
    one = found(lambda _: np.cumsum(growth))
    assert one.part == pytest.approx(0.43, abs=0.003)
    assert one.flattens


def test_growth_that_stops_flattens_at_that_epoch():
    one = found(lambda t: np.minimum(t, 0.6))
    assert one.part == pytest.approx(0.6, abs=0.0015)
    assert one.flattens


def test_growth_as_a_power_of_the_iterations_is_measured():
    one = found(lambda t: t**0.7)
    assert (one.exponent, one.later) == (pytest.approx(0.7), pytest.approx(0.7))


def test_five_epochs_are_too_few():
    assert growth([{"step": i, "norm_sum": 1.0} for i in range(1, 6)]) is None
    assert growth([{"step": i, "norm_sum": 1.0} for i in range(1, 7)]) is not None


@pytest.mark.parametrize(
    ("knee", "slope", "flat", "place"),
    [
        (0.44, 0.05, "reproduced", "reproduced"),
        (0.80, 0.05, "reproduced", "not reproduced"),
        (0.44, 0.60, "not reproduced", "not reproduced"),  # no plateau is no plateau at epoch 154
    ],
)
def test_both_claims_follow_from_the_line(knee: float, slope: float, flat: str, place: str, tmp_path: Path):
    runs = stored(tmp_path, broken(knee, slope)(PARTS))
    verdicts = [Flattens(where).judge(runs) for where in (False, True)]
    assert [verdict.verdict for verdict in verdicts] == [flat, place]
    assert verdicts[0].measured.startswith("flattens at" if slope < 0.25 else "no plateau")


def test_far_from_ideal_is_a_point_below_the_end_at_epoch_154(tmp_path: Path):
    verdict = FarFromIdeal().judge(stored(tmp_path / "flat", broken(0.44, 0.05)(PARTS)))
    assert verdict.verdict == "reproduced"
    assert "0.4400 after epoch 154, 1.000 at the end" in verdict.measured
    without = FarFromIdeal().judge(stored(tmp_path / "straight", PARTS))
    assert (without.verdict, without.measured) == ("open", f"no plateau; {verdict.measured}")
    few = FarFromIdeal().judge(stored(tmp_path / "few", PARTS[:5]))
    assert few == Flattens(where=False).judge(stored(tmp_path / "few", PARTS[:5]))
