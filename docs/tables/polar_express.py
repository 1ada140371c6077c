"""Compute the polynomials of optim/_orthogonal.py by the recipe of Polar Express, and print them as its tables.

Run `python docs/tables/polar_express.py`. The recipe is by Amsel, Persson, Musco and Gower, 2025, arXiv 2505.16932:
each polynomial a σ + b σ³ + c σ⁵ is the best approximation of 1 on the interval to which the ones before it map [ℓ, 1].
The Remez exchange runs with 50 digits, so that the printed float64 numbers do not depend on the machine.
"""

from typing import Any

import mpmath

CUSHION = 0.02407327424182761  # from the paper: fit no interval wider than this, or mid-range σ become tiny for a while
TABLES = {  # steps, ℓ, and by how much rounding may lift σ above its interval, for each dtype
    "bfloat16": (5, 1.2e-3, 0.02),
    "float32": (7, 6e-4, 1e-3),
    "float64": (12, 1.4e-6, 1e-5),
}


def best_quintic(low: Any, high: Any) -> tuple[Any, Any, Any]:
    """The odd quintic closest to 1 on [low, high]: its error has one size and alternating signs at four points."""
    inner = [low + (high - low) / 4, low + 3 * (high - low) / 4]
    while True:
        points = [low, *inner, high]
        rows = [[x, x**3, x**5, (-1) ** i] for i, x in enumerate(points)]
        a, b, c, _ = mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix([1, 1, 1, 1]))
        root = mpmath.sqrt(9 * b * b - 20 * a * c)
        before, inner = inner, [mpmath.sqrt((-3 * b - root) / (10 * c)), mpmath.sqrt((-3 * b + root) / (10 * c))]
        if sum(abs(x - y) for x, y in zip(before, inner, strict=True)) < mpmath.mpf(10) ** -40:
            return a, b, c


def polynomials(steps: int, lowest: float, slack: float) -> tuple[list[tuple[float, float, float]], float]:
    """Coefficients (a, b, c) of each step, and the largest error that they leave on [lowest, 1]."""
    with mpmath.workdps(50):
        low, high = mpmath.mpf(lowest), mpmath.mpf(1)
        rows: list[tuple[float, float, float]] = []
        error = mpmath.mpf(1)
        for step in range(steps):
            a, b, c = best_quintic(max(low, CUSHION * high), high)
            ends = [a * x + b * x**3 + c * x**5 for x in (low, high)]
            a, b, c = (2 * x / sum(ends) for x in (a, b, c))  # the image's centre is 1, also if the cushion cut it
            error = 1 - (a * low + b * low**3 + c * low**5)
            if step < steps - 1:
                a, b, c = (x / (1 + mpmath.mpf(slack)) ** power for x, power in ((a, 1), (b, 3), (c, 5)))
            rows.append((float(a), float(b), float(c)))
            low, high = a * low + b * low**3 + c * low**5, 1 + error
        return rows, float(error)


if __name__ == "__main__":
    for name, recipe in TABLES.items():
        rows, error = polynomials(*recipe)
        print(f"{name}: error {error:.2g}")
        print("".join(f"        ({a!r}, {b!r}, {c!r}),\n" for a, b, c in rows))
