"""Measured rates under the settings of theorems: evaluations until E‖∇F‖ ≤ ε for several ε, and their report."""

import math
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .._store import certificate
from .measurement import SEED, Case, Measurement, in_processes, measure
from .request import RateRequest
from .theorems import PROVED
from .walks import Curve

RESAMPLES = 1000


def measure_rates(request: RateRequest, tell: Callable[[str], None]) -> dict[str, Any]:
    """Measure every method on every problem for every ε, and return the report.

    Args:
        request: what to measure.
        tell: is called with a line of text after each measurement.
    """
    epsilons, problems, methods = request.epsilons, request.problems, request.methods
    born = {"command": request.command, **certificate(torch.device("cpu")), "workers": request.workers}
    cases = [
        Case(problem, method, epsilon, request.runs, request.max_steps)
        for epsilon in sorted(epsilons)  # the smallest first, because it takes longest
        for problem in problems
        for method in methods
    ]
    began, busy = time.perf_counter(), _processor_seconds()
    measured: dict[tuple[str, str], list[Measurement]] = {}
    for number, measurement in enumerate(in_processes(measure, cases, request.workers), start=1):
        tell(f"{number}/{len(cases)} {_line(measurement)}")
        measured.setdefault((measurement.case.problem, measurement.case.method), []).insert(0, measurement)
    born |= {"seconds": time.perf_counter() - began, "processor_seconds": _processor_seconds() - busy}
    return {
        "kind": "rate",
        "certificate": born,
        "epsilons": sorted(epsilons, reverse=True),
        "runs": request.runs,
        "max_steps": request.max_steps,
        "seeds": {"told": SEED},
        "resamples": RESAMPLES,
        "rows": [_row(problem, method, measured[problem, method]) for problem in problems for method in methods],
    }


def _line(measurement: Measurement) -> str:
    case, needed = measurement.case, measurement.curve.reached(measurement.case.epsilon)[0]
    result = f"{needed:,.0f} evaluations; {measurement.settings}" if math.isfinite(needed) else "not reached"
    return f"{case.problem}, {case.method}, ε = {case.epsilon:g}: {result}"


def _processor_seconds() -> float:
    """CPU time of this process and of its finished children, which other load on the machine does not lengthen."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _row(problem: str, method: str, measured: list[Measurement]) -> dict[str, Any]:
    return {
        "problem": problem,
        "method": method,
        "name": PROVED[method].name,
        "proved_exponent": PROVED[method].exponent,
        "points": [_point(measurement) for measurement in measured],
    }


def _point(measurement: Measurement) -> dict[str, Any]:
    epsilon, curve = measurement.case.epsilon, measurement.curve
    needed = float(curve.reached(epsilon)[0])
    return {
        "epsilon": epsilon,
        "evaluations": needed if math.isfinite(needed) else None,
        "interval": _interval(measurement) if math.isfinite(needed) else None,
        "settings": measurement.settings,
        "proved_evaluations": measurement.proved_evaluations,
    }


def _interval(measurement: Measurement) -> list[float]:
    """95 % interval of the evaluations, by a bootstrap over runs."""
    drawn = resampled(measurement.curve, measurement.case.epsilon, np.random.default_rng(0))
    return [float(value) for value in np.quantile(drawn, [0.025, 0.975])]


def resampled(curve: Curve, epsilon: float, random: np.random.Generator) -> np.ndarray:
    """Evaluations until ε for runs drawn with replacement, `RESAMPLES` times.

    If the drawn runs do not reach ε before the end of the curve, the evaluations at its end stand in for the result.
    They are a lower bound of what these runs would need.
    """
    runs = curve.norms.shape[1]
    weights = random.multinomial(runs, np.full(runs, 1 / runs), RESAMPLES) / runs
    evaluations = curve.reached(epsilon, weights)
    return np.where(np.isfinite(evaluations), evaluations, curve.evaluations[-1])
