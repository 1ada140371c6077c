"""Measurement of one method of Table 1 on one problem for one ε: candidates are tuned on some runs, measured on others.

Every method is judged in three ways, and its settings are chosen for each of them:

- `last`: ‖∇F‖ at the point where the next gradient is taken. It is the iterate, and ŵ for the Adam⁺ family.
- `average`: ‖∇F‖ at a moving average of these points. It is w for the Adam⁺ family, with the weight β; for all other
  methods there are three weights in the same units.
- `random`: the mean of ‖∇F‖ over all iterates so far, which is E‖∇F‖ at an iterate drawn at random. Theorems bound it.
  The other two stop at the first step at which the mean of ‖∇F‖ over runs is at most ε, which only an oracle knows.
"""

import math
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adamplus.theory.problems import DoubleWell, Valley

from ._methods import METHODS, SHARES, STEPS, Group, Rule, Sampler
from .walks import Curve

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
LOOK = 1.02
"""Factor by which steps grow between two computations of ‖∇F‖."""
RESAMPLES = 200
"""Resamples of the bootstrap."""
PATIENCE = 0.4
"""A walk ends after PATIENCE/ε² + SPARE steps. Steps of 1/L need 1/(8ε²) for the floor of the valley."""
SPARE = 2000


PATIENCES = (3.0, 30.0)
"""Multiples of the evaluations of tuning that a measured walk may take: the second if the first is too few.

Other runs may need more than those of tuning. On the double well, one that starts beside a saddle point does.
"""


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


@dataclass
class Option:
    """A candidate under one criterion."""

    criterion: str
    group: int
    candidate: int
    point: int
    """Index of the point that is judged: 0 is the last iterate, k the k-th average, −1 the iterate of the theorem."""
    curve: Curve
    needed: float


@dataclass
class Trace:
    """‖∇F‖ along a walk of candidates × runs."""

    steps: list[int] = field(default_factory=list)
    evaluations: list[np.ndarray] = field(default_factory=list)
    """Per look: evaluations of each candidate; NaN after it was dropped."""
    norms: list[np.ndarray] = field(default_factory=list)
    """Per look: ‖∇F‖, of shape (points, candidates, runs)."""
    type1: list[np.ndarray] = field(default_factory=list)
    """Per look: mean over runs of Σ_i ‖g_{1:T,i}‖ of each candidate."""
    type2: list[np.ndarray] = field(default_factory=list)
    """Per look: mean over runs of Σ_t ‖z_t‖ of each candidate."""

    def curve(self, candidate: int, point: int, criterion: str) -> Curve:
        """Curve of one candidate under a criterion."""
        evaluations = np.array([look[candidate] for look in self.evaluations])
        alive = np.isfinite(evaluations)
        norms = np.array([look[point, candidate] for look in self.norms]).reshape(len(evaluations), -1)
        if criterion == "random":
            norms = running_means(np.array(self.steps), norms)
        return Curve(evaluations[alive], norms[alive])


def running_means(steps: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Means of ‖∇F‖ over all steps so far. The steps between two looks count as the later one."""
    return np.cumsum(norms * np.diff(steps, prepend=0)[:, None], axis=0) / steps[:, None]


@dataclass
class Look:
    """What is known of the candidates that are alive at one computation of ‖∇F‖."""

    step: int
    evaluations: np.ndarray
    means: np.ndarray
    """Mean ‖∇F‖ over runs, of shape (points, candidates)."""
    sums: np.ndarray
    """Sum over steps of the mean ‖∇F‖ over runs of the theorem's iterate."""

    def judged(self, criterion: str) -> np.ndarray:
        """Mean ‖∇F‖ that a criterion compares with ε."""
        if criterion == "random":
            return self.sums / self.step
        return self.means[0] if criterion == "last" else self.means[1:-1].min(0)


class Rivalry:
    """Which candidates continue while settings are tuned: those that may still come near the best.

    Args:
        epsilon: the target.
        steps: number of steps of a walk.
    """

    def __init__(self, epsilon: float, steps: int) -> None:
        self.epsilon: float = epsilon
        self.steps: int = steps
        self.needed: dict[str, float] = dict.fromkeys(CRITERIA, math.inf)
        """Fewest evaluations so far under each criterion."""

    def staying(self, look: Look) -> np.ndarray:
        """Mask of the candidates that continue."""
        staying = np.zeros(len(look.evaluations), dtype=bool)
        for criterion in CRITERIA:
            judged = look.judged(criterion)
            reached = look.evaluations[judged <= self.epsilon]
            self.needed[criterion] = min(self.needed[criterion], reached.min(initial=math.inf))
            limit = BEYOND * self.needed[criterion]
            if criterion == "random":  # if ‖∇F‖ were 0 from now on, the mean would be ε at this step
                least = np.maximum(look.sums / self.epsilon, look.step)
                hopeless = (least > self.steps) | (least / look.step * look.evaluations > limit)
            else:  # even if it falls as 1/t, it will not be at ε at the last step
                hopeless = (look.step >= self.steps / 16) & (judged > self.epsilon * self.steps / look.step)
            staying |= (look.evaluations < limit) & ~hopeless
        return staying


class Measuring:
    """Which candidates continue while they are measured: until every criterion has what its bootstrap needs.

    Args:
        epsilon: the target.
        tuned: under each criterion the evaluations that each candidate needed in tuning; NaN if it was not chosen.
        patience: multiple of these evaluations that a candidate may take.
    """

    def __init__(self, epsilon: float, tuned: dict[str, np.ndarray], patience: float) -> None:
        self.epsilon: float = epsilon
        self.limits: dict[str, np.ndarray] = {criterion: patience * values for criterion, values in tuned.items()}

    def staying(self, look: Look) -> np.ndarray:
        """Mask of the candidates that continue."""
        staying = np.zeros(len(look.evaluations), dtype=bool)
        for criterion, limits in self.limits.items():
            reached = look.judged(criterion) <= self.epsilon
            limits[reached] = np.fmin(limits[reached], BEYOND * look.evaluations[reached])
            staying |= look.evaluations < limits  # False if the limit is NaN
        self.limits = {criterion: limits[staying] for criterion, limits in self.limits.items()}
        return staying


@torch.inference_mode()
def walk(
    rule: Rule, sampler: Sampler, weights: tuple[float, ...], steps: int, watch: Rivalry | Measuring, *, growth: bool
) -> Trace:
    """Walk until no candidate continues, or for a number of steps.

    Args:
        rule: the method, with its candidates.
        sampler: the noise of the runs.
        weights: weights of the averages of the iterates.
        steps: number of steps.
        watch: decides which candidates continue.
        growth: record the sums of type I and type II.
    """
    averages = [rule.at] * len(weights)
    count, runs = len(rule.evaluations), sampler.runs
    alive = np.ones(count, dtype=bool)
    trace = Trace()
    sums: Tensor | None = None
    squares, lengths = torch.zeros_like(rule.at), torch.zeros(len(rule.at), dtype=rule.at.dtype)
    next_look = 1
    while rule.steps < steps and alive.any():
        rule.step(sampler)
        averages = [torch.lerp(mean, rule.at, weight) for mean, weight in zip(averages, weights, strict=True)]
        if growth:
            squares = torch.addcmul(squares, rule.g, rule.g)
            lengths = lengths + torch.linalg.vector_norm(rule.estimate, dim=1)
        if rule.steps < next_look and rule.steps < steps:
            continue
        next_look = math.floor(LOOK * rule.steps) + 1
        points = [rule.at, *([rule.output] if rule.averages_itself else averages), rule.output]
        norms = torch.stack([torch.linalg.vector_norm(sampler.problem.gradient(x), dim=1) for x in points])
        norms = norms.view(len(points), -1, runs)
        between = rule.steps - (trace.steps[-1] if trace.steps else 0)
        sums = between * norms[-1] if sums is None else sums + between * norms[-1]
        trace.steps.append(rule.steps)
        trace.evaluations.append(_all(rule.evaluations, alive))
        trace.norms.append(np.moveaxis(_all(np.moveaxis(norms.numpy(), 1, 0), alive), 0, 1))
        if growth:
            trace.type1.append(_all(squares.sqrt().sum(1).view(-1, runs).mean(1).numpy(), alive))
            trace.type2.append(_all(lengths.view(-1, runs).mean(1).numpy(), alive))
        means = norms.mean(2).numpy()
        staying = watch.staying(Look(rule.steps, rule.evaluations, means, sums.mean(1).numpy()))
        staying &= np.isfinite(means).all(0)
        if not staying.all():
            alive[alive] = staying
            rows = torch.from_numpy(np.repeat(staying, runs))
            rule.keep(staying)
            averages = [mean[rows] for mean in averages]
            squares, lengths, sums = squares[rows], lengths[rows], sums[torch.from_numpy(staying)]
    return trace


def _all(values: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """Values of the candidates that are alive, and NaN for all others."""
    filled = np.full((len(alive), *values.shape[1:]), math.nan)
    filled[alive] = values
    return filled


def measure(case: Case) -> dict[str, Any]:
    """Tune the method, measure the settings that a resample of the tuning runs would choose, and return the results."""
    problem = case.make_problem()
    groups = list(METHODS[case.method].all_groups(problem, case.epsilon))
    options = tune(case, problem, groups)
    random = np.random.default_rng(0)
    tuning_weights, weights = _weights(case.tuning_runs, random), _weights(case.runs, random)
    chosen = {criterion: choose(options[criterion], case.epsilon, tuning_weights) for criterion in CRITERIA}
    measured: dict[tuple[str, int], Measured] = {}
    for patience in PATIENCES:
        measured = _measure_chosen(case, problem, groups, options, chosen, patience)
        first = [measured[criterion, int(chosen[criterion][0])] for criterion in CRITERIA if len(chosen[criterion])]
        if all(np.isfinite(one.curve.reached(case.epsilon)).all() for one in first):
            break
    results = {}
    for criterion in CRITERIA:
        if len(chosen[criterion]):
            found = [measured[criterion, int(option)] for option in chosen[criterion]]
            own = METHODS[case.method].third
            option = options[criterion][chosen[criterion][0]]
            settings = _settings(groups[option.group], option, len(own))
            results[criterion] = {**_result(found, case.epsilon, weights), **settings}
        else:
            results[criterion] = None
    return {"candidates": sum(len(group.settings) for group in groups), "results": results}


def tune(case: Case, problem: DoubleWell, groups: list[Group]) -> dict[str, list[Option]]:
    """Walk all candidates on the tuning runs, and return those that come near the best, under each criterion."""
    goal = MARGIN * case.epsilon
    rivalry = Rivalry(goal, case.steps)
    options: dict[str, list[Option]] = {criterion: [] for criterion in CRITERIA}
    for number, group in enumerate(groups):
        sampler = Sampler(problem, case.tuning_runs, case.seed(TUNING_SEED))
        trace = walk(group.begin(sampler.start), sampler, group.weights, case.steps, rivalry, growth=False)
        for candidate in range(len(group.settings)):
            for criterion, points in _judged(group).items():
                for point in points:
                    curve = trace.curve(candidate, point, criterion)
                    needed = float(curve.reached(goal)[0])
                    if needed <= BEYOND * rivalry.needed[criterion]:
                        options[criterion].append(Option(criterion, number, candidate, point, curve, needed))
    return {
        criterion: [option for option in found if option.needed <= BEYOND * rivalry.needed[criterion]]
        for criterion, found in options.items()
    }


def _judged(group: Group) -> dict[str, list[int]]:
    """Indices of the points that are judged under each criterion."""
    return {"last": [0], "average": list(range(1, 1 + max(1, len(group.weights)))), "random": [-1]}


def choose(options: list[Option], epsilon: float, weights: np.ndarray) -> np.ndarray:
    """Index of the best option for each row of weights of the tuning runs; empty without options."""
    if not options:
        return np.zeros(0, dtype=int)
    needed = np.stack([option.curve.reached(MARGIN * epsilon, weights) for option in options])
    needed[:, 0] = [option.needed for option in options]
    return np.where(np.isnan(needed), math.inf, needed).argmin(0)


def _weights(runs: int, random: np.random.Generator) -> np.ndarray:
    """Weights of the runs: all equal in the first row, and resampled in the others."""
    drawn = random.multinomial(runs, np.full(runs, 1 / runs), RESAMPLES)
    return np.concatenate([np.ones((1, runs)), drawn]) / runs


@dataclass
class Measured:
    """Curve of chosen settings, and the sums of type I and type II along it."""

    curve: Curve
    steps: np.ndarray
    type1: np.ndarray
    type2: np.ndarray


def _measure_chosen(
    case: Case,
    problem: DoubleWell,
    groups: list[Group],
    options: dict[str, list[Option]],
    chosen: dict[str, np.ndarray],
    patience: float,
) -> dict[tuple[str, int], Measured]:
    """Walk all candidates that were ever chosen on fresh runs, for `patience` times the evaluations of tuning."""
    picked = [(criterion, int(i)) for criterion in CRITERIA for i in np.unique(chosen[criterion])]
    measured = {}
    for number in sorted({options[criterion][i].group for criterion, i in picked}):
        here = [(criterion, i) for criterion, i in picked if options[criterion][i].group == number]
        candidates = sorted({options[criterion][i].candidate for criterion, i in here})
        tuned = {criterion: np.full(len(candidates), math.nan) for criterion in CRITERIA}
        for criterion, i in here:
            place = candidates.index(options[criterion][i].candidate)
            tuned[criterion][place] = np.fmax(tuned[criterion][place], options[criterion][i].needed)
        sampler = Sampler(problem, case.runs, case.seed(SEED))
        rule, watch = groups[number].begin(sampler.start, candidates), Measuring(case.epsilon, tuned, patience)
        trace = walk(rule, sampler, groups[number].weights, 3 * case.steps, watch, growth=True)
        for criterion, i in here:
            option = options[criterion][i]
            place = candidates.index(option.candidate)
            evaluations = np.array([look[place] for look in trace.evaluations])
            alive = np.isfinite(evaluations)
            measured[criterion, i] = Measured(
                trace.curve(place, option.point, criterion),
                np.array(trace.steps)[alive],
                *(np.array([look[place] for look in sums])[alive] for sums in (trace.type1, trace.type2)),
            )
    return measured


def _result(found: list[Measured], epsilon: float, weights: np.ndarray) -> dict[str, Any]:
    """Evaluations with a bootstrap over runs and the choice of settings, and the sums of type I and type II."""
    curve = found[0].curve
    needed = float(curve.reached(epsilon)[0])
    if math.isnan(needed):
        return {"evaluations": None}
    by_settings = {id(one): one.curve for one in found}
    reached = {}
    for key, one in by_settings.items():
        values = one.reached(epsilon, weights)
        # a lower bound of what runs need that do not arrive before the walk's end
        reached[key] = np.where(np.isnan(values), one.evaluations[-1], values)
    drawn = np.array([reached[id(one)][row] for row, one in enumerate(found)])[1:]
    low, high = np.quantile(drawn, [0.025, 0.975])
    at = int(np.searchsorted(curve.evaluations, needed))
    return {
        "evaluations": needed,
        "interval": [min(float(low), needed), max(float(high), needed)],
        "spread": float(np.log(drawn).std()),
        "choices": len({id(one) for one in found}),
        "steps": int(found[0].steps[at]),
        "type1": float(found[0].type1[at]),
        "type2": float(found[0].type2[at]),
    }


def _settings(group: Group, option: Option, thirds: int) -> dict[str, Any]:
    """Chosen settings as text, and whether each of them is the first (−1) or the last (1) of its window."""
    step, third = group.places[option.candidate]
    average = option.point - 1 if option.criterion == "average" and group.weights else None
    places = {
        "step": _edge(step, len(STEPS)),
        "batch": -_edge(SHARES.index(group.share), len(SHARES)),
        "third": _edge(third, thirds),
        "weight": 0 if average is None else _edge(average, len(group.weights)),
    }
    return {"settings": group.text(option.candidate, average), "edges": places}


def _edge(place: int, length: int) -> int:
    """−1 at the first place of a window, 1 at the last, else 0."""
    return 0 if length == 1 else (place == length - 1) - (place == 0)
