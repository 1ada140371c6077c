"""Examples in docstrings, README and docs run, and figures in pages are the stored ones."""

import doctest
import importlib
import json
import os
import pkgutil
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.core import TyperGroup
from typer.main import get_command

import adamplus
from adamplus.cli import app
from adamplus.lab.bench.report import load
from adamplus.lab.bench.table import markdown

ROOT = Path(__file__).parent.parent
MODULES = sorted(m.name for m in pkgutil.walk_packages(adamplus.__path__, "adamplus."))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((ROOT / "results").rglob("*.md"))


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    names = {"adamplus": adamplus, "torch": torch}
    assert doctest.testmod(module, extraglobs=names, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The blocks of a page run in their order and share one namespace."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for i, code in enumerate(blocks(page)):
        exec(compile(code, f"{page.name}, block {i}", "exec"), names)


def test_the_readme_is_short_and_its_training_loop_learns(capsys: pytest.CaptureFixture[str]):
    page = (ROOT / "README.md").read_text()
    assert len(page.split()) <= 1000
    (code,) = blocks(ROOT / "README.md")
    exec(code, {})
    accuracy = float(capsys.readouterr().out.split()[-1])
    printed = re.search(r"# (0\.\d\d)$", code, flags=re.MULTILINE)
    assert printed
    assert accuracy == pytest.approx(float(printed[1]), abs=0.02)  # other processors round otherwise


def commands(page: Path) -> list[list[str]]:
    """The words of the shell commands of a page, in fenced and in indented blocks."""
    text = re.sub(r" *\\\n *", " ", page.read_text())
    lines = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)).splitlines()
    lines += re.findall(r"^    (adamplus .*)$", text, flags=re.MULTILINE)
    return [words for line in lines if "…" not in line and (words := shlex.split(line, comments=True))]


@pytest.mark.parametrize("page", [page for page in PAGES if "results" not in page.parts], ids=name_of)
def test_commands_have_the_options_that_they_are_shown_with(page: Path):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for words in commands(page):
        if words[0] == "make":
            assert words[1] in targets, words
        elif words[0] == "adamplus":
            group: Any = get_command(app)
            arguments, context = words[1:], None
            while isinstance(group, TyperGroup):
                context = group.make_context("adamplus", arguments, parent=context)
                _, group, arguments = group.resolve_command(context, context._protected_args + context.args)
            group.make_context("adamplus", arguments, parent=context)  # raises for what it does not know


def test_blocks_that_are_not_run_are_python():
    """Blocks that need a GPU or a package that is not installed are marked `py`, and are compiled only."""
    for page in PAGES:
        for code in re.findall(r"^```py\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL):
            compile(code, name_of(page), "exec")


@pytest.mark.parametrize("name", [name for name in adamplus.__all__ if callable(getattr(adamplus, name))])
def test_every_public_name_has_a_summary_and_an_example(name: str):
    documentation = getattr(adamplus, name).__doc__
    assert documentation
    assert len(documentation.splitlines()[0]) <= 140
    assert ">>>" in documentation or issubclass(getattr(adamplus, name), tuple)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_wrapped_line_looks_like_a_numbered_list(page: Path):
    """Markdown makes a list of a line that begins with a number and a full stop."""
    items = [int(number) for number in re.findall(r"^ *(\d+)[.)] ", page.read_text(), flags=re.MULTILINE)]
    assert all(number in (1, before + 1) for before, number in zip([0, *items], items, strict=False))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_pictures_inside_the_repository_exist(page: Path):
    for target, place in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
        if "://" not in target:
            there = page.parent / target if target else page
            assert there.exists(), target
            if place:
                assert place in places(there), f"{target}#{place}"


def places(page: Path) -> set[str]:
    """Anchors of a page: its headings, as GitHub spells them, and the names that the API reference documents there."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    names = set(re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE))
    return names | {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["h200", "h200-two", "cpu", "cpu-16"])
def test_figures_of_the_results_page_are_the_stored_ones(name: str):
    page = (ROOT / "results/step/README.md").read_text()
    assert markdown(load(ROOT / f"results/step/{name}.json")).strip() in page


def test_figures_of_the_readme_are_the_stored_ones():
    page = (ROOT / "README.md").read_text()
    for model in load(ROOT / "results/step/h200.json").models:
        rows = {row.optimizer: row for row in model.rows}
        plus, adam = rows["Adam⁺ fused"], rows["Adam fused"]
        if model.model == "gpt2-124m":
            assert f"({rows['momentum SGD fused'].captured_ms:.2f} ms for GPT-2)" in page
        if model.model == "many-small":
            continue
        assert plus.captured_ms is not None
        assert adam.captured_ms is not None
        eager = f"| {plus.eager_ms:.3g} | {adam.eager_ms:.3g} | **{plus.eager_over_adam:.2f}** "
        captured = f"| {plus.captured_ms:.3g} | {adam.captured_ms:.3g} | **{plus.captured_over_adam:.2f}** |"
        assert eager + captured in page


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
    labels = {"msgd": "momentum SGD", "adam": "Adam", "adagrad": "AdaGrad"}
    rows = [(label, "{training:.3f}", measured[name]) for name, label in labels.items()]
    for label, training, found in [*rows, ("Adam⁺", "**{training:.3f}**", measured["adam-plus"])]:
        assert f"| {label} | {training} | {{with_evaluation:.3f}} |".format(**found) in page
        if "bare_graph" in found:
            assert "| {bare_graph:.3f} | {loop_over_bare:.3f} |\n".format(**found) in page


def test_the_map_of_the_code_is_up_to_date():
    page = ROOT / "CONTRIBUTING.md"
    written = runpy.run_path(str(ROOT / "docs" / "tables" / "map.py"))["page_with_map"]
    assert page.read_text() == written(page.read_text()), "run python docs/tables/map.py"


@pytest.mark.parametrize(
    "module", ["adamplus", "adamplus.theory", "adamplus.theory.problems", "adamplus.rivals", "adamplus.lab"]
)
def test_the_api_reference_has_every_public_name(module: str):
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    public = {f"{module}.{name}" for name in importlib.import_module(module).__all__ if name != "problems"}
    assert public <= set(re.findall(r"^::: (\S+)$", pages, flags=re.MULTILINE))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation site, built with broken links and anchors, and links to excluded files, as errors."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "excluded from the built site" not in done.stderr, done.stderr  # mkdocs only informs of such links
    return folder


def test_the_site_loads_nothing_from_another_server(site: Path):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        text = page.read_text()
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]* src=\"([^\"]*)\"", text)
        loaded += re.findall(r"<link[^>]* rel=\"(?:stylesheet|icon|preconnect|preload)\"[^>]*>", text)
        assert not [target for target in loaded if "//" in target], page.name
    for style in (site / "assets").rglob("*.css"):
        assert not re.search(r"url\([\"']?https?:|@import", style.read_text()), style.name


def test_the_site_has_every_page_and_can_be_searched(site: Path):
    index = (site / "search" / "search_index.js").read_text()  # a script, so that it loads without a server
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / name).exists()
        assert f'"{name}' in index
    assert "results/reproduction/claims.html" in index
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert not [
        page for page in (ROOT / "docs").rglob("*.md") if page.relative_to(ROOT / "docs").as_posix() not in navigation
    ]


def test_the_reference_shows_formulas_tables_and_examples(site: Path):
    reference = (site / "api" / "index.html").read_text()
    assert ".. math::" not in reference
    assert "====" not in reference
    assert reference.count("<math ") >= 5
    assert reference.count('<span class="gp">') >= 30
    assert re.search(r"<td>output head</td>\s*<td>sign</td>", reference)
