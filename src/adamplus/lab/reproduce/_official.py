"""Whether an experiment has read the official data: told when it runs, and kept beside its runs."""

import json
from contextlib import suppress
from pathlib import Path

from .._store import write
from ..data import SETS, data_root, verify

FILE = "data.json"
"""In the folder of an experiment's runs."""


def check(name: str, folder: Path) -> str:
    """Compare digests, and keep what came out; in words."""
    found = verify(data_root(), [name])
    wrong = [row.path.name for row in found if row.status in ("missing", "wrong digest")]
    unknown = any(row.status == "unknown digest" for row in found)
    title = SETS[name].title
    if wrong:
        said = f"not the official {title} ({', '.join(wrong)})"
    else:
        said = f"{title}, whose digests nobody knows" if unknown else f"the official {title}, by its digests"
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / FILE, {"data": said})
    return said


def kept(folder: Path) -> str:
    """What was kept last."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads((folder / FILE).read_text(encoding="utf-8"))["data"])
    return "not checked"
