"""The table of a benchmark, for a terminal or as Markdown."""

from rich.table import Table

from .._present import DASH, count, decimal, markdown_table, terminal_table, versions
from .report import BenchReport, ModelCosts, StepCost

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
"""Columns that a narrow window does without, in the order in which they are left out."""


def table(report: BenchReport, width: int) -> Table:
    """The table for a window of this width; Markdown has all columns."""
    return terminal_table(
        COLUMNS,
        [lines(model) for model in report.models],
        width,
        left=COLUMNS[:2],
        dispensable=DISPENSABLE,
        heading=lambda name: name.replace(", ", ",\n").replace(" / ", "\n/ "),
        title=f"adamplus bench {report.kind}: {report.certificate['hardware']}",
    )


def markdown(report: BenchReport) -> str:
    """The table and its notes as Markdown."""
    rows = [line for model in report.models for line in lines(model)]
    items = "\n".join(f"- {note}" for note in notes(report))
    return f"{markdown_table(COLUMNS, rows, left=COLUMNS[:2])}\n\n{items}\n"


def lines(model: ModelCosts) -> list[list[str]]:
    """The cells of one model's lines; the first column describes the model, from the top down."""
    about = [
        model.model,
        f"{model.tensors:,} tensors",
        f"{count(model.parameters)} parameters",
        f"floor {decimal(model.floor_ms)} ms",
    ]
    last = len(model.rows) - 1
    about = [*about[:last], ", ".join(about[last:]), *[""] * last]
    return [[first, *cells(row, model)] for first, row in zip(about, model.rows, strict=False)]


def cells(row: StepCost, model: ModelCosts) -> list[str]:
    """The cells of one optimizer, in the order of `COLUMNS`."""
    return [
        row.optimizer,
        decimal(row.eager_ms),
        decimal(row.captured_ms),
        f"{row.state_bytes / model.parameters:.2f}",
        f"{row.extra_bytes / 2**20:,.1f}",
        decimal(row.gb_per_s),
        DASH if row.copy_share is None else f"{100 * row.copy_share:.{0 if row.copy_share >= 0.1 else 1}f} %",
        decimal(row.over_floor),
        *(DASH if ratio is None else f"{ratio:.2f}" for ratio in (row.eager_over_adam, row.captured_over_adam)),
    ]


def notes(report: BenchReport) -> list[str]:
    """Where the numbers come from, and what the columns mean."""
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
    rows = [row for model in report.models for row in model.rows]
    if any(row.copy_share is not None and row.copy_share > 1 for row in rows):
        found.append("More than 100 %: a copy also fetches the memory that it overwrites, or tensors stay in a cache.")
    noisy = sum(row.eager_quartiles_ms[1] - row.eager_quartiles_ms[0] > row.eager_ms / 2 for row in rows)
    if noisy:
        found.append(
            f"Noisy: the quartiles of {noisy} of {len(rows)} eager times are further apart than half of the median. "
            "Measure where nothing else runs, or with fewer threads (OMP_NUM_THREADS=1)."
        )
    return found + reasons(report)


def reasons(report: BenchReport) -> list[str]:
    """Why an optimizer or a captured time is missing, and of which lists or optimizers if not of all."""
    absent: dict[str, list[str]] = {}
    eager_only: dict[str, list[str]] = {}
    for model in report.models:
        for name, why in model.absent.items():
            absent.setdefault(f"{name} did not take part: {why}", []).append(model.model)
        for row in model.rows:
            if row.not_captured is not None:
                eager_only.setdefault(f"Not captured: {row.not_captured}", []).append(row.optimizer)
    rows = sum(len(model.rows) for model in report.models)
    return [
        f"{why}." if len(where) == everywhere else f"{why} ({', '.join(dict.fromkeys(where))})."
        for found, everywhere in ((absent, len(report.models)), (eager_only, rows))
        for why, where in found.items()
    ]
