"""Check whether an experiment reads the official data; the result is printed and stored beside its runs."""

import hashlib
from contextlib import suppress
from pathlib import Path

from .._present import console, say
from .._store import Store, read_json, write_json
from ..data import SETS, data_root, kaldi, verify
from ..errors import InputError

LARGE = 1 << 26
UNOFFICIAL = "not the official"
FILE = "data.json"
"""File of the result, in the folder of an experiment's runs."""


def check(name: str) -> dict[str, str]:
    """Compare digests. Returns a text, and a mark that differs between data sets that are not official."""
    found = verify(data_root(), [name])
    wrong = [row.path.name for row in found if row.status in ("missing", "wrong digest")]
    unknown = any(row.status == "unknown digest" for row in found)
    title = SETS[name].title
    text = f"{title}, whose digests are not known" if unknown else f"the official {title}, by its digests"
    facts = [(row.path.name, row.status, row.note, _mark(row.path)) for row in found]
    mark = hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
    return {"data": f"{UNOFFICIAL} {title} ({', '.join(wrong)})" if wrong else text, "mark": mark}


def _mark(path: Path) -> str:
    """Mark of a file's content: the digest of its bytes, or its size if it is large. A table adds its archives."""
    size = path.stat().st_size if path.is_file() else 0
    mark = str(size) if size > LARGE or not size else hashlib.sha256(path.read_bytes()).hexdigest()
    named = kaldi.archives(path) if path.suffix == ".scp" and size else []
    return " ".join([mark, *(str(archive.stat().st_size if archive.is_file() else 0) for archive in named)])


def note(name: str, folder: Path) -> None:
    """Print and store the result of the check. Raises InputError if the folder has runs of other data."""
    found = check(name)
    say(console(), f"{name}: the data is {found['data']}")
    before = _content(folder)
    key = "mark" if "mark" in before else "data"  # the words of the text may differ between versions
    if before.get(key, found[key]) != found[key] and Store(folder).runs():
        raise InputError(
            f"the runs in {folder} were made of other data ({stored_text(folder)}): "
            "pass another --out, or use the same data"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / FILE, found)


def stored_text(folder: Path) -> str:
    """The text that was stored last."""
    return _content(folder).get("data", "not checked")


def _content(folder: Path) -> dict[str, str]:
    with suppress(OSError, ValueError):
        return {str(key): str(value) for key, value in read_json(folder / FILE).items()}
    return {}
