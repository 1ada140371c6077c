"""Examples in docstrings, README and docs run, and figures in pages are the stored ones."""

import csv
import doctest
import importlib
import json
import pkgutil
import re
import runpy
from pathlib import Path

import pytest
import torch

import adamplus
from adamplus.lab.bench.report import load
from adamplus.lab.bench.table import markdown

ROOT = Path(__file__).parent.parent
MODULES = sorted(m.name for m in pkgutil.walk_packages(adamplus.__path__, "adamplus."))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((ROOT / "results").rglob("*.md"))


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    names = {"adamplus": adamplus, "torch": torch}
    assert doctest.testmod(module, extraglobs=names, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The blocks of a page run in their order and share one namespace."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for i, code in enumerate(blocks(page)):
        exec(compile(code, f"{page.name}, block {i}", "exec"), names)


def test_the_readme_shows_a_training_loop():
    code = "\n".join(blocks(ROOT / "README.md"))
    assert "follow(model)" in code
    assert "optimizer.step()" in code


@pytest.mark.parametrize("name", [name for name in adamplus.__all__ if callable(getattr(adamplus, name))])
def test_every_public_name_has_a_summary_and_an_example(name: str):
    documentation = getattr(adamplus, name).__doc__
    assert documentation
    assert len(documentation.splitlines()[0]) <= 140
    assert ">>>" in documentation or issubclass(getattr(adamplus, name), tuple)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_wrapped_line_looks_like_a_numbered_list(page: Path):
    """Markdown makes a list of a line that begins with a number and a full stop."""
    items = [int(number) for number in re.findall(r"^ *(\d+)[.)] ", page.read_text(), flags=re.MULTILINE)]
    assert all(number in (1, before + 1) for before, number in zip([0, *items], items, strict=False))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_inside_the_repository_exist(page: Path):
    for target, place in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
        if "://" not in target:
            there = page.parent / target if target else page
            assert there.exists(), target
            if place:
                assert place in places(there), f"{target}#{place}"


def places(page: Path) -> set[str]:
    """Anchors of a page: its headings, as GitHub spells them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["h200", "h200-two", "cpu", "cpu-16"])
def test_figures_of_the_results_page_are_the_stored_ones(name: str):
    page = (ROOT / "results/step/README.md").read_text()
    assert markdown(load(ROOT / f"results/step/{name}.json")).strip() in page


def test_figures_of_the_readme_are_the_stored_ones():
    page = (ROOT / "README.md").read_text()
    for model in load(ROOT / "results/step/h200.json").models:
        rows = {row.optimizer: row for row in model.rows}
        plus, adam = rows["Adam⁺ fused"], rows["Adam fused"]
        assert plus.captured_ms is not None
        assert adam.captured_ms is not None
        eager = f"| {plus.eager_ms:.3g} | {adam.eager_ms:.3g} | **{plus.eager_over_adam:.2f}** "
        captured = f"| {plus.captured_ms:.3g} | {adam.captured_ms:.3g} | **{plus.captured_over_adam:.2f}** "
        assert eager + captured + f"| {plus.captured_ms / model.floor_ms:.2f} |" in page


def test_the_tables_of_the_norms_cost_are_those_of_their_script():
    page = (ROOT / "docs/distributed.md").read_text()
    script = runpy.run_path(str(ROOT / "docs/tables/norm_cost.py"))
    assert script["tables"]() in page
    assert script["rewritten"](page) == page


def test_the_cost_of_an_exchange_is_what_its_script_computes():
    page = (ROOT / "docs/distributed.md").read_text()
    script = runpy.run_path(str(ROOT / "docs/tables/exchange_cost.py"))
    assert script["table"]() in page
    assert script["rewritten"](page) == page


def test_figures_of_single_studies_are_the_stored_ones():
    page = (ROOT / "results" / "step" / "README.md").read_text()
    fsdp = json.loads((ROOT / "results" / "step" / "h200-fsdp.json").read_text())
    for way, form in (("in_training", "| {plain:.3f} | {FSDP2:.3f} | {ratio:.3f} |"),
                      ("with_waits", "| {plain:.2f} | {FSDP2:.2f} | {ratio:.2f} |")):  # fmt: skip
        assert form.format(**fsdp[way]) in page
    (alone,) = load(ROOT / "results" / "step" / "h200-resnet18.json").models
    adam_plus, adam = alone.rows
    assert f"**{adam_plus.eager_over_adam:.2f}** ({adam_plus.eager_ms:.3f} and {adam.eager_ms:.3f} ms" in page


def test_figures_of_the_lab_are_the_stored_ones():
    page = (ROOT / "results" / "lab" / "README.md").read_text()
    assert (ROOT / "results" / "lab" / "demo" / "table.md").read_text().strip() in page
    measured = json.loads((ROOT / "results" / "lab" / "h200-throughput.json").read_text())["optimizers"]
    labels = {"msgd": "momentum SGD", "adam": "Adam", "adagrad": "AdaGrad (its step cannot be captured)"}
    rows = [(label, "{training:.3f}", measured[name]) for name, label in labels.items()]
    for label, training, found in [*rows, ("Adam⁺", "**{training:.3f}**", measured["adam-plus"])]:
        assert f"| {label} | {training} | {{with_evaluation:.3f}} |".format(**found) in page
        if "bare_graph" in found:
            assert "| {bare_graph:.3f} | {loop_over_bare:.3f} |\n".format(**found) in page


def test_the_readme_has_the_results_of_the_demo():
    page = (ROOT / "README.md").read_text()
    with (ROOT / "results" / "lab" / "demo" / "table.csv").open() as file:
        rows = {(row["task"], row["optimizer"]): row for row in csv.DictReader(file)}
    for label in {label for _, label in rows}:
        found = [rows[task, label] for task in ("digits", "pydoc", "tones")]
        digits, pydoc, tones = ((float(row["mean"]), float(row["standard_error"])) for row in found)
        cells = f"{100 * digits[0]:.1f} ± {100 * digits[1]:.1f} | {pydoc[0]:.1f} ± {pydoc[1]:.1f} | "
        assert f"| {label} | {cells}{100 * tones[0]:.1f} ± {100 * tones[1]:.1f} |" in page


def test_the_map_of_the_code_is_up_to_date():
    page = ROOT / "CONTRIBUTING.md"
    written = runpy.run_path(str(ROOT / "docs" / "tables" / "map.py"))["page_with_map"]
    assert page.read_text() == written(page.read_text()), "run python docs/tables/map.py"
