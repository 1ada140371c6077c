"""Whether an experiment has read the official data: told when it runs, and kept beside its runs."""

import json
from contextlib import suppress
from pathlib import Path

from .._errors import InputError
from .._progress import console, say
from .._store import Store, write
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


def note(name: str, folder: Path) -> None:
    """Tell, and keep beside the runs that are made of it; runs of other data are not to be mixed with them."""
    found = check(name)
    say(console(), f"{name}: the data is {found}")
    if (folder / FILE).exists() and kept(folder) != found and Store(folder).runs():
        raise InputError(f"the runs in {folder} were made of {kept(folder)}: pass another --out for other data")
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / FILE, {"data": found})


def kept(folder: Path) -> str:
    """What was kept last."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads((folder / FILE).read_text(encoding="utf-8"))["data"])
    return "not checked"
