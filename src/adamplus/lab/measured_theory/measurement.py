"""One measured point: a method on a problem for one ε, tuned on some runs and told of others."""

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
"""Of the random numbers of all runs of a point; those that settings are chosen by are others than those told of."""
BEYOND = 1.5
MARGIN = 0.9
"""Settings are chosen by who first has so much of ε: of a few runs, who has ε itself may have it by chance."""


@dataclass(frozen=True)
class Case:
    """What is to be measured."""

    problem: str
    method: str
    tuned: bool
    """Settings are chosen among candidates; otherwise those of a theorem are taken."""
    epsilon: float
    runs: int
    tuning_runs: int
    max_steps: int


@dataclass
class Measurement:
    """What was measured."""

    case: Case
    settings: str
    """Chosen, in words; empty where no candidate got there."""
    tried: int
    proved_evaluations: int | None
    curve: Curve


def problem_of(name: str, epsilon: float) -> Problem:
    """A problem by its name; the valley is another one for every ε."""
    if name not in PROBLEMS:
        raise InputError(f"problem {name!r}: {nearest(name, PROBLEMS)}")
    return Valley(epsilon) if name == "valley" else DoubleWell()


def measure(case: Case) -> Measurement:
    """Choose settings, if they are to be chosen, and walk with fresh random numbers."""
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
    limits = Limits(2 * case.max_steps, 4 * best, BEYOND)  # chance must not make it miss what it had just reached
    curve = walk(candidate.begin, problem, case.epsilon, case.runs, SEED, limits)
    return Measurement(case, candidate.settings, tried, proved, curve)


def _choose(case: Case, problem: Problem) -> tuple[Candidate | None, float, int]:
    """The candidate that gets there with the fewest evaluations; who takes more than the best so far is given up."""
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
    """Measure in so many processes of one thread each; points come in the order in which they were asked for."""
    if workers == 1:
        yield from map(measure, cases)
        return
    # spawned: a forked copy of torch's threads may wait for ever
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_one_thread)
    before = active_children()
    try:
        with _uninterrupted():
            measured = [pool.submit(measure, case) for case in cases]
        for measurement in measured:  # pool.map would cancel the others, which a pool that breaks does not expect
            yield measurement.result()
    except BrokenProcessPool:
        raise InputError(
            "a process was killed, for want of memory perhaps: pass fewer --workers, or a larger ε"
        ) from None
    except BaseException:  # such as Ctrl-C, of which the processes have not heard
        for process in active_children():
            if process not in before:
                process.terminate()
        pool.shutdown(wait=False)
        raise
    pool.shutdown()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that are started in here leave Ctrl-C to this one."""
    if current_thread() is not main_thread():  # which cannot say so
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _one_thread() -> None:
    torch.set_num_threads(1)
