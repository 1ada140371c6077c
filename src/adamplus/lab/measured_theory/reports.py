"""What was measured, and where it comes from: kept as JSON."""

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .._store import certificate
from ..errors import InputError, nearest
from .measurement import PROBLEMS, SEED, TUNING_SEED, Asked, Point, measure_all
from .methods import METHODS
from .slope import RESAMPLES, resampled, slope
from .theorem_runs import PROVED

Report = dict[str, Any]
SMALLEST = 1e-6
"""ε, below which nobody can wait for anybody."""


def report(
    kind: str,
    *,
    command: str,
    problems: Sequence[str],
    methods: Sequence[str],
    epsilons: Sequence[float],
    runs: int,
    tuning_runs: int,
    max_steps: int,
    workers: int,
    told: Callable[[Point], None],
) -> Report:
    """Measure every method on every problem for every ε: kind "table1" is tuned, "rate" as proved."""
    tuned = kind == "table1"
    check(kind, problems, methods, epsilons, runs, tuning_runs, max_steps, workers)
    born = {"command": command, **certificate(torch.device("cpu")), "workers": workers}
    asked = [
        Asked(problem, method, tuned, epsilon, runs, tuning_runs, max_steps)
        for epsilon in sorted(epsilons)  # the smallest takes the longest: first
        for problem in problems
        for method in methods
    ]
    began, busy = time.perf_counter(), _processor_seconds()
    points: dict[tuple[str, str], list[Point]] = {}
    for point in measure_all(asked, workers):
        told(point)
        points.setdefault((point.asked.problem, point.asked.method), []).insert(0, point)
    born |= {"seconds": time.perf_counter() - began, "processor_seconds": _processor_seconds() - busy}
    return {
        "kind": kind,
        "certificate": born,
        "epsilons": sorted(epsilons, reverse=True),
        "runs": runs,
        "tuning_runs": tuning_runs if tuned else None,
        "max_steps": max_steps,
        "seeds": {"told": SEED, "tuning": TUNING_SEED if tuned else None},
        "resamples": RESAMPLES,
        "rows": [_row(kind, problem, method, points[problem, method]) for problem in problems for method in methods],
    }


def _processor_seconds() -> float:
    """Of this process and of those that it has waited for: what a machine that does other things does not lengthen."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def check(
    kind: str,
    problems: Sequence[str],
    methods: Sequence[str],
    epsilons: Sequence[float],
    runs: int,
    tuning_runs: int,
    max_steps: int,
    workers: int,
) -> None:
    """Refuse what cannot be measured."""
    known = METHODS if kind == "table1" else PROVED
    for what, names, all_names in (("problem", problems, PROBLEMS), ("method", methods, known)):
        for name in names:
            if name not in all_names:
                raise InputError(f"{what} {name!r}: {nearest(name, all_names)}")
            if list(names).count(name) > 1:
                raise InputError(f"{what} {name!r} is there twice: name each once")
    if len(set(epsilons)) < 2 or min(epsilons) < SMALLEST or max(epsilons) >= 0.5:
        between = f"{SMALLEST:g} and 0.5"
        raise InputError(f"ε {list(epsilons)}: a slope needs two different ones at least, between {between}")
    if runs < 2 or (kind == "table1" and tuning_runs < 1) or max_steps < 1 or workers < 1:
        raise InputError(
            f"{runs} runs, {tuning_runs} to tune by, {max_steps} steps, {workers} workers: there must be two runs, and "
            "one of everything else, at least"
        )


def _row(kind: str, problem: str, method: str, points: list[Point]) -> dict[str, Any]:
    epsilons = [point.asked.epsilon for point in points]
    found = slope(epsilons, [point.curve for point in points])
    row: dict[str, Any] = {"problem": problem, "method": method}
    if kind == "table1":
        about = METHODS[method]
        row |= {"name": about.name, "source": about.source, "individual_smooth": about.individual_smooth}
        row |= {"hessian_lipschitz": about.hessian_lipschitz, "data_dependent": about.data_dependent}
    else:
        row["name"] = PROVED[method].name
    row["proved_exponent"] = METHODS[method].exponent if kind == "table1" else PROVED[method].exponent
    row["slope"] = None if found is None else {"value": found.value, "low": found.low, "high": found.high}
    row["points"] = [_point(point) for point in points]
    return row


def _point(point: Point) -> dict[str, Any]:
    epsilon, curve = point.asked.epsilon, point.curve
    needed = float(curve.reached(epsilon)[0])
    return {
        "epsilon": epsilon,
        "evaluations": needed if math.isfinite(needed) else None,
        "interval": _interval(point) if math.isfinite(needed) else None,
        "settings": point.settings,
        "candidates": point.tried,
        "proved_evaluations": point.proved_evaluations,
    }


def _interval(point: Point) -> list[float]:
    """95 %, of a bootstrap over runs."""
    drawn = resampled(point.curve, point.asked.epsilon, np.random.default_rng(0))
    return [float(value) for value in np.quantile(drawn, [0.025, 0.975])]


def save(found: Report, folder: Path) -> Path:
    """Write the report as JSON."""
    path = folder / f"{found['kind']}.json"
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return path


def load(path: Path) -> Report:
    """Read what `save` wrote."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(damaged(path, error)) from None
    if not isinstance(found, dict) or found.get("kind") != path.stem:
        raise InputError(damaged(path, "it is of another kind"))
    return found


def damaged(path: Path, problem: Exception | str) -> str:
    """What is said of a file that somebody else has written to."""
    said = problem if isinstance(problem, str) else f"{type(problem).__name__}: {problem}"
    return f"{path} is not what `adamplus theory` wrote ({said}): measure again"
