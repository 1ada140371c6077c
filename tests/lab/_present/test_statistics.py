"""Statistics against textbooks and by hand."""

import math

import pytest

from adamplus.lab._present.statistics import ranks, sensitivity, student, summarize, with_losses


def test_mean_error_and_interval_are_those_of_the_textbook():
    found = summarize([1.0, 2.0, 3.0, None])
    # s = 1, so the error is 1/√3, and t(0.975; 2) = 4.3027
    assert (found.n, found.mean) == (3, 2.0)
    assert found.error == pytest.approx(1 / math.sqrt(3))
    assert found.interval == pytest.approx((2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)))
    assert [round(student(n), 3) for n in (1, 2, 9)] == [12.706, 4.303, 2.262]


@pytest.mark.parametrize(("values", "mean"), [([], None), ([0.5], 0.5), ([0.5, math.inf], math.inf)])
def test_too_few_or_infinite_values_have_no_interval(values: list[float], mean: float | None):
    found = summarize(values)
    assert (found.mean, found.error, found.interval) == (mean, None, None)


def test_ranks_are_ranges_if_intervals_overlap():
    intervals = {"a": (8.0, 9.0), "b": (6.0, 8.5), "c": (1.0, 2.0), "d": None}
    assert ranks(intervals, higher=True) == {"a": (1, 2), "b": (1, 2), "c": (3, 3)}
    assert ranks(intervals, higher=False) == {"a": (2, 3), "b": (2, 3), "c": (1, 1)}


def test_touching_intervals_do_not_separate():
    assert ranks({"a": (1.0, 2.0), "b": (2.0, 3.0)}, higher=True) == {"a": (1, 2), "b": (1, 2)}


def test_a_single_interval_has_no_rank():
    assert ranks({"a": (1.0, 2.0), "b": None}, higher=True) == {}


def test_good_learning_rates_are_those_around_the_best_without_a_gap():
    trials = [(0.001, 0.89), (0.01, 0.5), (0.1, 0.88), (1.0, 0.9), (10.0, None)]
    found = sensitivity(trials, higher=True, searched=(0.001, 100.0))
    assert found is not None
    # 0.95 · 0.9 = 0.855: 0.1 is in, and 0.001 is beyond a gap
    assert (found.low, found.high) == (0.1, 1.0)
    assert (found.factor, found.searched) == pytest.approx((10.0, 1e5))
    assert found.points[-1] == (10.0, None)


def test_a_search_in_which_all_trials_diverged_has_no_sensitivity():
    assert sensitivity([(0.1, None), (1.0, math.nan)], higher=True) is None


def test_good_rates_are_within_five_percent_of_the_best_without_a_gap():
    values = [104.0, 100.0, 104.9, 105.1, 101.0]
    found = sensitivity([(10.0**i, value) for i, value in enumerate(values)], higher=False)
    assert found is not None
    assert (found.low, found.high) == (1.0, 100.0)


def test_lost_runs_make_the_interval_unbounded_on_the_worse_side():
    assert with_losses((1.0, 2.0), 1, higher=True) == (-math.inf, 2.0)
    assert with_losses((1.0, 2.0), 1, higher=False) == (1.0, math.inf)
    assert with_losses((1.0, 2.0), 0, higher=True) == (1.0, 2.0)
    assert with_losses(None, 1, higher=True) is None
