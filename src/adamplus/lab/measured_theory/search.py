"""Measurement of one case of Table 1: candidates are tuned on some runs, in two stages, and measured on others.

The first stage walks the candidates of the whole window. The second walks those around the first stage's choices, at
the last iterate and at the average, with batches that are factors of 2 apart. All criteria choose from both stages.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from adamplus.theory.problems import DoubleWell

from ._methods import METHODS, SHARES, STEPS, Group, Sampler
from .cases import BEYOND, CRITERIA, MARGIN, SEED, TUNING_SEED, Case
from .traces import Measuring, Rivalry, walk
from .walks import Curve

RESAMPLES = 200
"""Resamples of the bootstrap."""
PATIENCES = (3.0, 30.0)
"""Multiples of the evaluations of tuning that a measured walk may take: the second if the first is too few.

Other runs may need more than those of tuning. On the double well, one that starts beside a saddle point does.
"""


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


def measure(case: Case) -> dict[str, Any]:
    """Tune the method, measure the settings that a resample of the tuning runs would choose, and return the results."""
    problem = case.make_problem()
    groups, options = tune_in_stages(case, problem)
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


def tune_in_stages(case: Case, problem: DoubleWell) -> tuple[list[Group], dict[str, list[Option]]]:
    """Tune the method on its window, then around what it chose; return all groups and the options."""
    rivalry = Rivalry(MARGIN * case.epsilon, case.steps)
    groups = list(METHODS[case.method].all_groups(problem, case.epsilon))
    options = tune(case, problem, groups, rivalry)
    finer = list(METHODS[case.method].finer_groups(problem, case.epsilon, _chosen(groups, options)))
    added = tune(case, problem, finer, rivalry, len(groups))
    return groups + finer, {name: near_best(options[name] + added[name], rivalry) for name in CRITERIA}


def _chosen(groups: list[Group], options: dict[str, list[Option]]) -> list[tuple[float, int, int]]:
    """Batch share and places of the best candidate, at the last iterate and at the average."""
    found = [options[criterion] for criterion in ("last", "average") if options[criterion]]
    best = [min(each, key=lambda option: option.needed) for each in found]
    return [(groups[one.group].share, *groups[one.group].places[one.candidate]) for one in best]


def near_best(options: list[Option], rivalry: Rivalry) -> list[Option]:
    """Options that come near the best one of their criterion."""
    return [option for option in options if option.needed <= BEYOND * rivalry.needed[option.criterion]]


def tune(
    case: Case, problem: DoubleWell, groups: list[Group], rivalry: Rivalry, first: int = 0
) -> dict[str, list[Option]]:
    """Walk all candidates on the tuning runs, and return those that come near the best, under each criterion.

    Args:
        case: what is measured.
        problem: its problem.
        groups: the candidates.
        rivalry: the best so far under each criterion, which it keeps.
        first: number of groups before these.
    """
    goal = MARGIN * case.epsilon
    options: dict[str, list[Option]] = {criterion: [] for criterion in CRITERIA}
    for number, group in enumerate(groups, start=first):
        sampler = Sampler(problem, case.tuning_runs, case.seed(TUNING_SEED))
        trace = walk(group.begin(sampler.start), sampler, group.weights, case.steps, rivalry, growth=False)
        for candidate in range(len(group.settings)):
            for criterion, points in _judged(group).items():
                for point in points:
                    curve = trace.curve(candidate, point, criterion)
                    needed = float(curve.reached(goal)[0])
                    if needed <= BEYOND * rivalry.needed[criterion]:
                        options[criterion].append(Option(criterion, number, candidate, point, curve, needed))
    return {criterion: near_best(found, rivalry) for criterion, found in options.items()}


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
        "batch": (group.share >= SHARES[0]) - (group.share <= SHARES[-1]),
        "third": _edge(third, thirds),
        "weight": 0 if average is None else _edge(average, len(group.weights)),
    }
    return {"settings": group.text(option.candidate, average), "edges": places}


def _edge(place: int, length: int) -> int:
    """−1 at the first place of a window, 1 at the last, else 0."""
    return 0 if length == 1 else (place == length - 1) - (place == 0)
