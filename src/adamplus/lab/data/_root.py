"""Where data is kept: the folder that somebody names, or one of their own."""

import os
from pathlib import Path

VARIABLE = "ADAMPLUS_DATA"


def data_root(named: Path | str | None = None) -> Path:
    """The folder of all data sets: the one that is named, else $ADAMPLUS_DATA, else ~/.cache/adamplus."""
    return Path(named or os.environ.get(VARIABLE) or Path("~", ".cache", "adamplus")).expanduser()
