"""Runs of a small comparison, trained by an engine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adamplus.lab._compare.plan import plan
from adamplus.lab._compare.request import Request
from adamplus.lab._compare.search import Choice, middle
from adamplus.lab._store.spec import Spec
from adamplus.lab._store.store import Store
from adamplus.lab.engines import EndedRun

DIES_ONCE = """flag = Path(__file__ + ".died")
        if epoch == 2 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)"""


def planned(task: str, *labels: str, seeds: int = 2) -> list[Spec]:
    """The final runs of a comparison without a search."""
    found = plan(Request([task], labels, seeds=seeds, device="cpu"))
    return [spec for one in found.contenders for spec in found.finals(task, one, Choice(middle(one.ranges), [], 0))]


def execute(start: Any, specs: Sequence[Spec], root: Path, workers: int | None = None) -> list[EndedRun]:
    """Train runs with an engine, and return them as they ended."""
    ended: list[EndedRun] = []
    with Store(root).lock(), start(root, workers) as run:
        run(specs, ended.append)
    return ended
