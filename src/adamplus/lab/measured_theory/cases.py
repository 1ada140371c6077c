"""Cases of the measured Table 1: one method on one problem for one ε, and the protocol that all of them share.

Every method is judged in three ways, and its settings are chosen for each of them:

- `last`: ‖∇F‖ at the point where the next gradient is taken. It is the iterate, and ŵ for the Adam⁺ family.
- `average`: ‖∇F‖ at a moving average of these points. It is w for the Adam⁺ family, with the weight β; for all other
  methods there are three weights in the same units.
- `random`: the mean of ‖∇F‖ over all iterates so far, which is E‖∇F‖ at an iterate drawn at random. Theorems bound it.
  The other two stop at the first step at which the mean of ‖∇F‖ over runs is at most ε, which only an oracle knows.
"""

import zlib
from dataclasses import dataclass
from typing import Any

from adamplus.theory.problems import DoubleWell, Valley

CRITERIA = ("last", "average", "random")
PROBLEMS: dict[str, dict[str, Any]] = {
    "double-well": {},
    "valley": {},
    "double-well-100": {"dim": 100},
    "valley-100": {"dim": 100},
    "double-well-noisy": {"sigma": 4.0},
    "valley-noisy": {"sigma": 4.0},
}
"""The problems, in 10 dimensions with σ = 1 unless another value is given."""
GAP = 0.5
"""Δ of the valley. The number of steps that its floor takes is proportional to it."""
TUNING_SEED, SEED = 1, 2
"""Seeds of the tuning runs and of the measured runs, which therefore differ."""
MARGIN = 0.9
"""Settings are tuned to this part of ε: a few runs may reach ε itself by chance."""
BEYOND = 1.5
"""Factor by which walks continue beyond the evaluations of the best, for the bootstrap."""
PATIENCE = 1.0
"""A walk ends after PATIENCE/ε² + SPARE steps. Steps of 1/L need 1/(8ε²) for the floor of the valley."""
SPARE = 2000


@dataclass(frozen=True)
class Case:
    """One method on one problem for one ε, and how it is measured."""

    problem: str
    method: str
    epsilon: float
    runs: int
    tuning_runs: int

    def make_problem(self) -> DoubleWell:
        """The problem. The valley is a different one for every ε."""
        about = PROBLEMS[self.problem]
        return Valley(self.epsilon, gap=GAP, **about) if self.problem.startswith("valley") else DoubleWell(**about)

    def seed(self, seed: int) -> int:
        """Seed of this case: every problem and every ε has noise of its own."""
        return zlib.crc32(f"{self.problem} {self.epsilon:g} {seed}".encode())

    @property
    def steps(self) -> int:
        """Number of steps after which a walk ends."""
        return round(PATIENCE / self.epsilon**2) + SPARE
