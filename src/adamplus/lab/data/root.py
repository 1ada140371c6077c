"""Where data is kept: the folder that somebody names, or one of their own."""

import os
from pathlib import Path

from ..errors import InputError

VARIABLE = "ADAMPLUS_DATA"


def data_root(named: Path | str | None = None) -> Path:
    """The folder of all data sets: the one that is named, else $ADAMPLUS_DATA, else ~/.cache/adamplus."""
    root = Path(named or os.environ.get(VARIABLE) or Path("~", ".cache", "adamplus")).expanduser()
    if root.exists() and not root.is_dir():
        raise InputError(f"{root} is no folder, and data sets are in one: name it by --data or ${VARIABLE}")
    return root
