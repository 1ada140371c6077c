"""Everything that is made of a comparison, in its folder."""

from pathlib import Path

from .._store import replace
from ..errors import InputError
from .figures import figures
from .formats import to_csv, to_latex, to_markdown
from .page import page
from .results import read
from .rows import rows


def report(root: Path) -> Path:
    """Write `report.html`, `table.csv`, `table.md`, `table.tex` and `figures/` from the runs in a folder.

    Returns:
        The page's path.
    """
    results = read(root)
    tables = [rows(results, task) for task in results.tasks]
    table = [row for part in tables for row in part]
    written = {"table.csv": to_csv(table), "table.md": to_markdown(table), "table.tex": to_latex(table)}
    lacking = []
    try:
        for name, content in written.items():
            _write(root / name, content)
        # each of the two needs a library of its own: what can be made is, before anything is said of the other
        for make in (
            lambda: figures(results, tables, root / "figures"),
            lambda: _write(root / "report.html", page(results, tables)),
        ):
            try:
                make()
            except InputError as error:
                lacking.append(str(error))
    except OSError as error:
        raise InputError(
            f"the report cannot be written to {root} ({error.strerror or error}): make room there, or copy the folder"
        ) from error
    if lacking:
        raise InputError(f"{'; '.join(lacking)}. Everything else of the report is in {root}")
    return root / "report.html"


def _write(path: Path, content: str) -> None:
    replace(path, content.encode(errors="replace"))  # a file name may be no Unicode
