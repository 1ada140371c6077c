"""The table of a report, for a terminal or as Markdown."""

from rich.table import Table

from .._present import DASH, count, decimal, markdown_table, terminal_table, versions
from .report import Measured, Report, Row

COLUMNS = (
    "model",
    "optimizer",
    "eager, ms",
    "captured, ms",
    "state, B/param",
    "extra, MiB",
    "GB/s",
    "of a copy",
    "× floor",
    "eager / Adam",
    "captured / Adam",
)
DISPENSABLE = ("× floor", "extra, MiB", "GB/s", "captured / Adam", "captured, ms", "of a copy")
"""Columns that a narrow window does without, the first first."""


def table(report: Report, width: int) -> Table:
    """As many columns as say something and as there is room for; Markdown has all of them."""
    return terminal_table(
        COLUMNS,
        [lines(measured) for measured in report.models],
        width,
        left=COLUMNS[:2],
        dispensable=DISPENSABLE,
        heading=lambda name: name.replace(", ", ",\n").replace(" / ", "\n/ "),
        title=f"adamplus bench {report.kind}: {report.certificate['hardware']}",
    )


def markdown(report: Report) -> str:
    """The same table and notes as Markdown."""
    rows = [line for measured in report.models for line in lines(measured)]
    told = "\n".join(f"- {note}" for note in notes(report))
    return f"{markdown_table(COLUMNS, rows, left=COLUMNS[:2])}\n\n{told}\n"


def lines(measured: Measured) -> list[list[str]]:
    """The cells of one model's rows; what the model is stands in the first column, from the top down."""
    about = [
        measured.model,
        f"{measured.tensors:,} tensors",
        f"{count(measured.parameters)} parameters",
        f"floor {decimal(measured.floor_ms)} ms",
    ]
    last = len(measured.rows) - 1
    about = [*about[:last], ", ".join(about[last:]), *[""] * last]
    return [[first, *cells(row, measured)] for first, row in zip(about, measured.rows, strict=False)]


def cells(row: Row, measured: Measured) -> list[str]:
    """What the table says of one optimizer, in the order of `COLUMNS`."""
    return [
        row.optimizer,
        decimal(row.eager_ms),
        decimal(row.captured_ms),
        f"{row.state_bytes / measured.parameters:.2f}",
        f"{row.extra_bytes / 2**20:,.1f}",
        decimal(row.gb_per_s),
        DASH if row.copy_share is None else f"{100 * row.copy_share:.{0 if row.copy_share >= 0.1 else 1}f} %",
        decimal(row.over_floor),
        *(DASH if ratio is None else f"{ratio:.2f}" for ratio in (row.eager_over_adam, row.captured_over_adam)),
    ]


def notes(report: Report) -> list[str]:
    """What a reader of the table must know."""
    born = report.certificate
    others = {name: text for name, text in born.items() if name not in ("command", "hardware", "date")}
    found = [
        f"`{born['command']}` on {born['hardware']}, {born['date']}; {versions(others)}.",
        "Medians; eager steps are timed in turn, on new gradients, host included. State is what the optimizer keeps; "
        "extra is the peak of its steps above parameters, gradients and state.",
        f"A copy moves {report.copy_gb_per_s:,.1f} GB/s here, read and written. GB/s are what a step must move "
        "over the faster of both times; the floor is the time of what Adam⁺ must move at the speed of the copy. "
        "Ratios are to torch's fused Adam.",
    ]
    rows = [row for measured in report.models for row in measured.rows]
    if any(row.copy_share is not None and row.copy_share > 1 for row in rows):
        found.append("More than 100 %: a copy also fetches the memory that it overwrites, or tensors stay in a cache.")
    noisy = sum(row.eager_quartiles_ms[1] - row.eager_quartiles_ms[0] > row.eager_ms / 2 for row in rows)
    if noisy:
        found.append(
            f"Noisy: the quartiles of {noisy} of {len(rows)} eager times are further apart than half of the median. "
            "Measure where nothing else runs, or with fewer threads (OMP_NUM_THREADS=1)."
        )
    return found + reasons(report)


def reasons(report: Report) -> list[str]:
    """Why something is not in the table, and where that holds if not everywhere."""
    absent: dict[str, list[str]] = {}
    eager_only: dict[str, list[str]] = {}
    for measured in report.models:
        for name, why in measured.absent.items():
            absent.setdefault(f"{name} did not take part: {why}", []).append(measured.model)
        for row in measured.rows:
            if row.not_captured is not None:
                eager_only.setdefault(f"Not captured: {row.not_captured}", []).append(row.optimizer)
    rows = sum(len(measured.rows) for measured in report.models)
    return [
        f"{why}." if len(where) == everywhere else f"{why} ({', '.join(dict.fromkeys(where))})."
        for found, everywhere in ((absent, len(report.models)), (eager_only, rows))
        for why, where in found.items()
    ]
