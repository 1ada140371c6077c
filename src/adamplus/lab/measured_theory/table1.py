"""The measured Table 1: every method on every problem for every ε, in parts that survive if the command is killed."""

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from .._store import certificate, digest, read_json, write_json
from . import search
from .cases import MARGIN, PROBLEMS, SEED, TUNING_SEED, Case
from .measurement import in_processes
from .request import Table1Request
from .search import RESAMPLES

PARTS = ".table1-parts"
"""Folder of the parts, beside the tables. It can be removed once the tables are written."""


def measure_table1(request: Table1Request, folder: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """Measure the table and return the report. Parts that the folder has from a killed command are not measured again.

    Args:
        request: what to measure.
        folder: the folder of the tables.
        tell: is called with a line of text after each part.
    """
    cases = [
        Case(problem, method, epsilon, request.runs, request.tuning_runs)
        for variant in (False, True)
        for epsilon in sorted(request.epsilons)  # the smallest first, because it takes longest
        for problem in request.problems
        if bool(PROBLEMS[problem]) == variant and epsilon in request.epsilons_of(problem)
        for method in request.methods
    ]
    born = {"command": request.command, **certificate(torch.device("cpu")), "workers": request.workers}
    parts = folder / PARTS
    parts.mkdir(exist_ok=True)
    began, measured, before = time.perf_counter(), {}, 0.0
    for number, part in enumerate(in_processes(partial(measure_part, parts), cases, request.workers), start=1):
        case = part["case"]
        measured[case["problem"], case["method"], case["epsilon"]] = part
        before += part["seconds"] if part["resumed"] else 0.0
        tell(f"{number}/{len(cases)} {_line(part)}")
    born["seconds"] = time.perf_counter() - began + before / request.workers
    born["processor_seconds"] = sum(part["processor_seconds"] for part in measured.values())
    return {
        "kind": "table1",
        "certificate": born,
        "epsilons": request.epsilons,
        "runs": request.runs,
        "tuning_runs": request.tuning_runs,
        "margin": MARGIN,
        "seeds": {"measured": SEED, "tuning": TUNING_SEED},
        "resamples": RESAMPLES,
        "rows": [
            {
                "problem": problem,
                "method": method,
                "points": [
                    {"epsilon": epsilon, **measured[problem, method, epsilon]["measured"]}
                    for epsilon in request.epsilons_of(problem)
                ],
            }
            for problem in request.problems
            for method in request.methods
        ],
    }


def remove_parts(folder: Path) -> None:
    """Remove the parts of a table that is written."""
    shutil.rmtree(folder / PARTS)


def measure_part(parts: Path, case: Case) -> dict[str, Any]:
    """Measure a case and store it, or read what an earlier command stored of the same case and code."""
    path = parts / f"{case.problem}-{case.method}-{case.epsilon:g}.json"
    if (stored := _stored(path)) and stored["case"] == asdict(case) and stored["code"] == _code():
        return {**stored, "resumed": True}
    began, busy = time.perf_counter(), time.process_time()
    measured = search.measure(case)
    part = {
        "case": asdict(case),
        "code": _code(),
        "measured": measured,
        "seconds": time.perf_counter() - began,
        "processor_seconds": time.process_time() - busy,
    }
    write_json(path, part)
    return {**part, "resumed": False}


def _stored(path: Path) -> dict[str, Any] | None:
    """A stored part, unless there is none or it is damaged."""
    try:
        return read_json(path)
    except (FileNotFoundError, ValueError):
        return None


@cache
def _code() -> str:
    """Digest of the code that decides the numbers."""
    folder = Path(__file__).parent
    return " ".join(
        digest(folder / f"{name}.py")[:16]
        for name in ("cases", "search", "traces", "_methods/windows", "_methods/rules", "walks")
    )


def _line(part: dict[str, Any]) -> str:
    case, results = part["case"], part["measured"]["results"]

    def text(criterion: str) -> str:
        result = results[criterion]
        needed = None if result is None else result["evaluations"]
        return f"{criterion} {'not reached' if needed is None else format(needed, ',.0f')}"

    again = " (stored)" if part["resumed"] else ""
    judged = ", ".join(map(text, results))
    return f"{case['problem']}, {case['method']}, ε = {case['epsilon']:g}: {judged}; {part['seconds']:.0f} s{again}"
