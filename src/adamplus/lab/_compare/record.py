"""The record of a comparison: comparison.json, which says what is compared and by which runs of the folder."""

import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .._store import COMPARISON, read_json, write_json
from .plan import Plan
from .reuse import Reuse


class Record:
    """comparison.json of one comparison: its folder may have runs of others."""

    def __init__(self, root: Path, planned: Plan, command: str, reuse: Reuse) -> None:
        request = planned.request
        searched = {each.label: {key: str(own) for key, own in each.ranges.items()} for each in planned.contenders}
        self.content: dict[str, Any] = {
            "command": command,
            "date": datetime.now(UTC).date().isoformat(),
            "tasks": list(planned.tasks),
            "labels": [each.label for each in planned.contenders],
            "seeds": list(range(1, request.seeds + 1)),
            "tune": request.tune,
            "search": searched if request.tune else {},
            "ranges": searched,
            "search_kind": request.search,
            "chosen": {},
            "engine": request.engine,
            "runs": [],
        }
        self.path, self.reuse = root / COMPARISON, reuse
        self.began, self.before = time.monotonic(), self._seconds_before()

    def write(self) -> None:
        """Replace the file, with the time until now: a kill loses no more time than that of the runs in progress."""
        seconds = round(self.before + time.monotonic() - self.began, 3)
        write_json(self.path, {**self.content, "kept_of": self.reuse.other_makers(), "wall_seconds": seconds})

    def _seconds_before(self) -> float:
        """The time that earlier calls of the same comparison have taken, killed or complete."""
        with suppress(OSError, ValueError, AttributeError, TypeError, KeyError):
            earlier = read_json(self.path)
            if earlier["command"] == self.content["command"]:
                return float(earlier["wall_seconds"])
        return 0.0
