"""The page of a comparison: one HTML file that contains all it needs."""

from importlib.resources import files
from string import Template

from .._present import Markup, embedded, join, listed, tag
from ..errors import InputError
from .answers import untuned
from .charts import charts
from .results import Results
from .rows import ContenderRow
from .sections import answers, contents, method, names, notes, rerun, result_table, run_table


def page(results: Results, tables: list[list[ContenderRow]]) -> str:
    """The HTML of the page."""
    here = files("adamplus.lab.report")
    parts = {name: (here / f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")}
    titles = listed([task.title for task in results.tasks])
    shown = [result_table(results, i, table) for i, table in enumerate(tables)]
    return Template(parts["html"]).substitute(
        title=join(f"Optimizers compared on {titles}"),
        answers=answers(results, tables),
        contents=contents(results),
        names=names(results),
        method=method(results),
        tables=join(*shown),
        notes=notes(),
        runs=run_table(results),
        warnings=_warnings(results),
        rerun=rerun(results),
        style=Markup(parts["css"]),
        data=embedded(charts(results, tables)),
        plotly=_plotly(),
        script=Markup(parts["js"]),
    )


def _plotly() -> str:
    """The source of Plotly: the page must work without a network."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise InputError(
            f"the page needs {error.name}, which is not installed: in your clone, run pip install -e '.[lab]'"
        ) from None
    return get_plotlyjs()


def _warnings(results: Results) -> Markup:
    """Warnings about runs that are missing or unreadable."""
    warnings = [text] if (text := untuned(results.untuned)) else []
    there = {task.name for task in results.tasks}
    if missing := [name for name in results.comparison.get("tasks", []) if name not in there]:
        warnings.append(f"There are no runs of {listed(missing)} yet.")
    if text := _waiting(results):
        warnings.append(text)
    if count := len(results.unreadable):
        folders = f"{count} run folder{'s' if count > 1 else ''}"
        warnings.append(f"{folders} could not be read; the table of runs has the reasons.")
    return join(*(tag("p", text, class_="warning") for text in warnings))


def _waiting(results: Results) -> str:
    """A sentence about the runs that the comparison names and that do not exist."""
    planned = len(results.comparison.get("runs", []))
    early = sum(run.failure is not None for run in results.missing)
    waiting = len(results.missing) - early
    counts = [f"{waiting} {'have' if waiting > 1 else 'has'} not begun"] if waiting else []
    counts += [f"{early} failed before {'they' if early > 1 else 'it'} began"] if early else []
    return (
        f"Of the {planned} runs of this comparison, {listed(counts)}. The same command trains the missing runs."
        if counts
        else ""
    )
