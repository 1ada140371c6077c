"""Everything that is made of a comparison, in its folder."""

from pathlib import Path

from .._errors import InputError
from .._store import replace
from ._figures import figures
from ._formats import to_csv, to_latex, to_markdown
from ._page import page
from ._results import read
from ._tables import rows


def report(root: Path) -> Path:
    """Write `report.html`, `table.csv`, `table.md`, `table.tex` and `figures/` from the runs in a folder.

    Returns:
        The page's path.
    """
    results = read(root)
    tables = [rows(results, task) for task in results.tasks]
    table = [row for part in tables for row in part]
    contents = {
        "table.csv": to_csv(table),
        "table.md": to_markdown(table),
        "table.tex": to_latex(table),
        "report.html": page(results, tables),
    }
    try:
        for name, content in contents.items():
            replace(root / name, content.encode(errors="replace"))  # a file name may be no Unicode
        figures(results, tables, root / "figures")
    except OSError as error:
        raise InputError(
            f"the report cannot be written to {root} ({error.strerror or error}): make room there, or copy the folder"
        ) from error
    return root / "report.html"
