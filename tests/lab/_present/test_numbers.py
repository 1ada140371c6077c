"""Numbers, counts and durations as text."""

import math

import pytest

from adamplus.lab._present.numbers import count, decimal, duration, number, plus_minus
from adamplus.lab._present.statistics import summarize


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.97, 0.98, 0.99], "0.9800 ± 0.0058"),
        ([100.0, 200.0], "150 ± 50"),
        ([0.5], "0.5000"),
        ([2.0, 2.0], "2.000 ± 0"),
        ([math.inf], "∞"),
        ([], "–"),
    ],
)
def test_numbers_have_as_many_digits_as_their_errors_allow(values: list[float], text: str):
    assert plus_minus(summarize(values)) == text


def test_numbers_far_from_one_are_powers_of_ten():
    assert [number(value, 3) for value in (1234567.0, 1e9, 1e-7, 0.0, math.nan)] == [
        "1,234,567",
        "1.00e+09",
        "1.00e-07",
        "0",
        "nan",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0.000"),
        (0.0004, "0.000"),
        (0.14, "0.140"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (1786.2, "1,786"),
    ],
)
def test_decimals_have_three_digits_and_at_most_three_places(value: float | None, text: str):
    assert decimal(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(5, "5"), (999, "999"), (1000, "1 k"), (999_999, "1 M"), (11_173_962, "11.2 M"), (10**10, "10 B")],
)
def test_counts_have_three_digits_and_a_unit(value: int, text: str):
    assert count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(9999.4, "9,999"), (12_345, "12.3 k"), (999_500, "1 M"), (999_600_000, "1.00 · 10^9"), (2.5e12, "2.50 · 10^12")],
)
def test_counts_may_be_exact_when_small_and_powers_of_ten_when_large(value: float, text: str):
    assert count(value, exact_below=1e4, powers=True) == text


@pytest.mark.parametrize(
    ("seconds", "text", "rough"),
    [
        (0.5, "0.500 s", "0.5 s"),
        (12.34, "12.3 s", "12 s"),
        (119, "119 s", "2 min"),
        (600, "10.0 min", "10 min"),
        (7200, "2.0 h", "120 min"),
    ],
)
def test_durations_have_a_unit_that_fits(seconds: float, text: str, rough: str):
    assert (duration(seconds), duration(seconds, rough=True)) == (text, rough)
