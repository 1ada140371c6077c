"""Measurement of a method on a problem for one ε: settings are tuned on some runs and measured on others."""

import math
import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from threading import current_thread, main_thread

import numpy as np
import torch

from adamplus.theory.problems import DoubleWell, Problem, Valley

from ..errors import InputError, nearest
from .methods import METHODS, Candidate
from .theorems import PROVED
from .walks import Curve, Limits, walk

PROBLEMS = {"double-well": "the double well", "valley": "the valley"}
TUNING_SEED, SEED = 1, 2
"""Seeds of the tuning runs and of the measured runs, which therefore differ."""
BEYOND = 1.5
"""Factor by which a measured walk continues beyond ε, for the bootstrap."""
MARGIN = 0.9
"""Settings are tuned to this part of ε: a few runs may reach ε itself by chance."""


@dataclass(frozen=True)
class Case:
    """One method on one problem for one ε, and how it is measured."""

    problem: str
    method: str
    tuned: bool
    """Choose settings among candidates. If False, take those of a theorem."""
    epsilon: float
    runs: int
    tuning_runs: int
    max_steps: int


@dataclass
class Measurement:
    """Result of a case."""

    case: Case
    settings: str
    """Chosen settings as text; empty if no candidate reached ε."""
    tried: int
    proved_evaluations: int | None
    curve: Curve


def problem_of(name: str, epsilon: float) -> Problem:
    """Problem of a name and an ε. The valley is a different problem for every ε."""
    if name not in PROBLEMS:
        raise InputError(f"unknown problem {name!r}: {nearest(name, PROBLEMS)}")
    return Valley(epsilon) if name == "valley" else DoubleWell()


def measure(case: Case) -> Measurement:
    """Choose settings if the case is tuned, and walk with other random numbers."""
    problem = problem_of(case.problem, case.epsilon)
    proved, tried = None, 1
    if case.tuned:
        candidate, best, tried = _choose(case, problem)
    else:
        start = problem.start(case.runs, torch.Generator().manual_seed(SEED))
        candidate, proved = PROVED[case.method].make(problem, case.epsilon, problem.gap(start))
        best = math.inf
    if candidate is None:
        return Measurement(case, "", tried, proved, Curve(np.zeros(0), np.zeros((0, case.runs))))
    limits = Limits(2 * case.max_steps, 4 * best, BEYOND)  # generous: other random numbers must not make it miss ε
    curve = walk(candidate.begin, problem, case.epsilon, case.runs, SEED, limits)
    return Measurement(case, candidate.settings, tried, proved, curve)


def _choose(case: Case, problem: Problem) -> tuple[Candidate | None, float, int]:
    """Find the candidate with the fewest evaluations, and stop each one that takes more than the best so far."""
    chosen, best, tried = None, math.inf, 0
    for candidate in METHODS[case.method].candidates(problem, case.epsilon):
        limits = Limits(case.max_steps, best)
        curve = walk(candidate.begin, problem, MARGIN * case.epsilon, case.tuning_runs, TUNING_SEED, limits)
        needed = curve.reached(MARGIN * case.epsilon)[0]
        if needed < best:
            chosen, best = candidate, float(needed)
        tried += 1
    return chosen, best, tried


def measure_all(cases: Iterable[Case], workers: int) -> Iterator[Measurement]:
    """Measure cases in this number of processes of one thread each, and yield the results in order."""
    if workers == 1:
        yield from map(measure, cases)
        return
    # spawned, because forked copies of torch's threads may deadlock
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_one_thread)
    before = active_children()
    try:
        with _uninterrupted():
            measured = [pool.submit(measure, case) for case in cases]
        for measurement in measured:  # pool.map would cancel the others, which fails in a broken pool
            yield measurement.result()
    except BrokenProcessPool:
        raise InputError(
            "a worker process was killed, possibly for lack of memory: pass fewer --workers or a larger ε"
        ) from None
    except BaseException:  # for example Ctrl-C, which the processes ignore
        for process in active_children():
            if process not in before:
                process.terminate()
        pool.shutdown(wait=False)
        raise
    pool.shutdown()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let processes that start in this block ignore Ctrl-C, so that this process handles it."""
    if current_thread() is not main_thread():  # only the main thread may set signal handlers
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _one_thread() -> None:
    torch.set_num_threads(1)
