"""Numbers and settings as people read them."""

import math
from collections.abc import Mapping
from typing import Any

from .statistics import Summary

DASH = "–"


def number(value: float | None, digits: int = 4) -> str:
    """That many significant digits; a dash for what there is not."""
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


def plus_minus(summary: Summary) -> str:
    """Mean ± standard error, to two digits of the error."""
    if summary.mean is None or summary.error is None or summary.error == 0:
        return number(summary.mean) + (" ± 0" if summary.error == 0 else "")
    magnitude = math.floor(math.log10(summary.error))
    if magnitude < -6 or abs(summary.mean) >= 1e7:
        return f"{summary.mean:.4g} ± {summary.error:.2g}"
    places = max(0, 1 - magnitude)
    return _signed(f"{summary.mean:,.{places}f} ± {summary.error:,.{places}f}")


def _signed(text: str) -> str:
    """A minus as wide as a digit."""
    return text.replace("-", "−")


def seconds(value: float) -> str:
    """A duration."""
    if value >= 5400:
        return f"{value / 3600:.1f} h"
    return f"{value / 60:.1f} min" if value >= 120 else f"{number(value, 3)} s"


def settings(values: Mapping[str, Any] | None) -> str:
    """`lr=0.1, beta=0.1`."""
    if values is None:
        return DASH
    return ", ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in values.items()
    )


def listed(words: list[str]) -> str:
    """`a, b and c`."""
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)
