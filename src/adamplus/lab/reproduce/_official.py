"""Whether an experiment has read the official data: told when it runs, and kept beside its runs."""

import json
from contextlib import suppress
from pathlib import Path

from .._store import write
from ..data import SETS, data_root, verify

FILE = "data.json"
"""In the folder of an experiment's runs."""


def check(name: str) -> str:
    """Compare digests; what came out, in words."""
    found = verify(data_root(), [name])
    wrong = [row.path.name for row in found if row.status in ("missing", "wrong digest")]
    unknown = any(row.status == "unknown digest" for row in found)
    title = SETS[name].title
    if wrong:
        return f"not the official {title} ({', '.join(wrong)})"
    return f"{title}, whose digests nobody knows" if unknown else f"the official {title}, by its digests"


def keep(folder: Path, said: str) -> None:
    """Beside the runs that were made of it."""
    write(folder / FILE, {"data": said})


def kept(folder: Path) -> str:
    """What was kept last."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads((folder / FILE).read_text(encoding="utf-8"))["data"])
    return "not checked"
