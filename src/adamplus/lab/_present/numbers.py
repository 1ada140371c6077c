"""Numbers, durations, counts, settings and lists as text."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .statistics import Summary

DASH = "–"


def number(value: float | None, digits: int = 4) -> str:
    """A number with this many significant digits; a dash for None, and an exponent far from 1."""
    if value is None:
        return DASH
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if not -4 <= magnitude < 7:
        return f"{value:.{digits - 1}e}"
    return _signed(f"{value:,.{max(0, digits - 1 - magnitude)}f}")


def decimal(value: float | None) -> str:
    """A positive number with three significant digits and at most three decimals, for columns of one unit."""
    if value is None:
        return DASH
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3}f}"


def plus_minus(summary: Summary) -> str:
    """A mean ± its standard error, to two digits of the error."""
    if summary.mean is None or summary.error is None or summary.error == 0:
        return number(summary.mean) + (" ± 0" if summary.error == 0 else "")
    magnitude = math.floor(math.log10(summary.error))
    if magnitude < -6 or abs(summary.mean) >= 1e7:
        return f"{summary.mean:.4g} ± {summary.error:.2g}"
    places = max(0, 1 - magnitude)
    return _signed(f"{summary.mean:,.{places}f} ± {summary.error:,.{places}f}")


def spread(summary: Summary) -> str:
    """A mean ± its standard error, or the mean alone, with three digits, if the values do not differ."""
    return plus_minus(summary) if summary.error else number(summary.mean, 3)


def _signed(text: str) -> str:
    """The text with a minus sign as wide as a digit."""
    return text.replace("-", "−")


def count(value: float, exact_below: float = 1e3, powers: bool = False) -> str:
    """A count with three significant digits and a unit: `11.2 M`.

    Args:
        value: the count.
        exact_below: smaller counts are written in full.
        powers: write billions as `1.23 · 10^9` instead of `1.23 B`.
    """
    if value < exact_below:
        return f"{value:,.0f}"
    if powers and value >= 999.5e6:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{mantissa} · 10^{int(exponent)}"
    units = ((1e9, " B"), (1e6, " M"), (1e3, " k"))
    unit, name = next((pair for pair in units if value >= 0.9995 * pair[0]), (1, ""))
    return f"{value / unit:.3g}{name}"


def duration(seconds: float, rough: bool = False) -> str:
    """A duration: `12.3 s`, `4.5 min` or `6.7 h`; `rough`: `12 s` or `270 min`, for a display that changes."""
    if rough:
        return f"{seconds:.{1 if seconds < 10 else 0}f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 120 else f"{number(seconds, 3)} s"


def durations(summary: Summary) -> str:
    """A mean duration ± its standard error, in the unit of the mean."""
    if not summary.mean or not summary.error:
        return DASH if summary.mean is None else duration(summary.mean)
    size, unit = (3600, "h") if summary.mean >= 5400 else (60, "min") if summary.mean >= 120 else (1, "s")
    return f"{plus_minus(replace(summary, mean=summary.mean / size, error=summary.error / size))} {unit}"


def settings(values: Mapping[str, Any] | None) -> str:
    """Settings as `lr=0.1, beta=0.1`; a dash for None."""
    if values is None:
        return DASH
    return ", ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in values.items()
    )


def versions(found: Mapping[str, Any]) -> str:
    """Versions as `python 3.12.3, torch 2.13.0`."""
    return ", ".join(f"{name} {version}" for name, version in found.items())


def listed(items: Sequence[str]) -> str:
    """A list as `a, b and c`."""
    return ", ".join(items[:-1]) + " and " + items[-1] if len(items) > 1 else "".join(items)
