"""Measurement of a method with the settings of a theorem on a problem for one ε, and cases in several processes."""

import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from threading import current_thread, main_thread
from typing import TypeVar

import torch

from adamplus.theory.problems import DoubleWell, Problem, Valley

from ..errors import InputError, nearest
from .theorems import PROVED
from .walks import Curve, Limits, walk

PROBLEMS = {"double-well": "the double well", "valley": "the valley"}
SEED = 2
"""Seed of the runs."""
BEYOND = 1.5
"""Factor by which a walk continues beyond ε, for the bootstrap."""
OneCase = TypeVar("OneCase")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Case:
    """One method on one problem for one ε, and how it is measured."""

    problem: str
    method: str
    epsilon: float
    runs: int
    max_steps: int


@dataclass
class Measurement:
    """Result of a case."""

    case: Case
    settings: str
    proved_evaluations: int | None
    curve: Curve


def problem_of(name: str, epsilon: float) -> Problem:
    """Problem of a name and an ε. The valley is a different problem for every ε."""
    if name not in PROBLEMS:
        raise InputError(f"unknown problem {name!r}: {nearest(name, PROBLEMS)}")
    return Valley(epsilon) if name == "valley" else DoubleWell()


def measure(case: Case) -> Measurement:
    """Walk with the settings of the method's theorem."""
    problem = problem_of(case.problem, case.epsilon)
    start = problem.start(case.runs, torch.Generator().manual_seed(SEED))
    candidate, proved = PROVED[case.method].make(problem, case.epsilon, problem.gap(start))
    curve = walk(candidate.begin, problem, case.epsilon, case.runs, SEED, Limits(2 * case.max_steps, beyond=BEYOND))
    return Measurement(case, candidate.settings, proved, curve)


def in_processes(measure: Callable[[OneCase], Result], cases: Iterable[OneCase], workers: int) -> Iterator[Result]:
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
