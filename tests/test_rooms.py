"""Rooms have doors: a folder's `__init__` is all that other folders import, and imports point one way (DESIGN, §3)."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import adamplus

SOURCE = Path(adamplus.__file__).parent
ORDER = (
    ("optim",),
    ("theory", "rivals"),
    ("",),  # adamplus itself, which re-exports these
    ("integrations", "jax", "lab.errors"),
    ("lab.device",),
    ("lab._store",),
    ("lab._present",),
    ("lab.data",),
    ("lab.models",),
    ("lab.tasks", "lab.optimizers"),
    ("lab._run",),
    ("lab.engines",),
    ("lab.report",),
    ("lab._compare",),
    ("lab.reproduce", "lab.bench", "lab.measured_theory"),
    ("lab", "lab.commands"),
    ("cli",),
)
"""A room imports from the rooms of the lines above its own, and from no others."""
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.name == "cli.py")


def module_of(path: Path) -> str:
    """The name of a file's module below the package: `lab._run.learner`."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """The room of a module: the first folder, or the second one inside of the lab."""
    return ".".join(module.split(".")[: 2 if module.startswith("lab.") else 1])


def is_package(module: str) -> bool:
    return SOURCE.joinpath(*module.split("."), "__init__.py").is_file()


def is_module(module: str) -> bool:
    return is_package(module) or SOURCE.joinpath(*module.split(".")).with_suffix(".py").is_file()


def imports(path: Path) -> Iterator[tuple[int, str, str]]:
    """What a file imports from this package: line, module and name."""
    here = module_of(path).split(".")
    package = here if path.name == "__init__.py" else here[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            first, _, rest = (node.module or "").partition(".")
            if node.level:
                parts = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            elif first == "adamplus":
                parts = rest.split(".")
            else:
                continue
            yield from ((node.lineno, ".".join(filter(None, parts)), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            names = (alias.name.partition(".") for alias in node.names)
            yield from ((node.lineno, rest, "") for first, _, rest in names if first == "adamplus")


def problem(here: str, module: str, name: str) -> str | None:
    """What is wrong with an import, if anything."""
    room, whole = room_of(here), f"{module}.{name}".strip(".")
    target = whole if is_module(whole) else module
    if room_of(target) == room and room != "lab":
        return None
    if LEVEL[room_of(target)] >= LEVEL[room]:
        return f"{room} may not import from {room_of(target)}: arrows point the other way"
    if target in LEVEL and target not in ("", "lab") and target == whole:
        return None  # a room, imported as a whole
    if not (is_package(module) or module in LEVEL):
        return f"{module} is inside of the room {room_of(module)}: import {name} from its door"
    public = getattr(importlib.import_module(f"adamplus.{module}".rstrip(".")), "__all__", None)
    if public is not None and name not in (*public, "__version__"):
        return f"{name} is not in the __all__ of {module or 'adamplus'}"
    return None


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_other_rooms_are_entered_by_their_doors(path: Path):
    found = [(line, problem(module_of(path), module, name)) for line, module, name in imports(path)]
    assert [f"line {line}: {what}" for line, what in found if what] == []


def test_every_folder_is_in_the_order():
    folders = {path.parent for path in SOURCE.rglob("*.py")} - {SOURCE}
    assert {room_of(module_of(folder / "__init__.py")) for folder in folders} | {"cli"} <= set(LEVEL)
    assert {room for room in LEVEL if room not in ("", "lab") and not is_module(room)} == set()


@pytest.mark.parametrize(
    ("here", "module", "name", "why"),
    [
        ("lab.report.page", "lab._store.store", "Run", "inside of the room lab._store"),
        ("lab.report.page", "lab._store", "secret", "not in the __all__"),
        ("optim._state", "theory", "Settings", "the other way"),
        ("lab._store.spec", "lab.report", "report", "the other way"),
        ("lab.data.data_set", "lab", "compare", "the other way"),
        ("optim._state", "jax", "adam_plus", "the other way"),
        ("integrations.lightning", "optim._norm", "combine", "inside of the room optim"),
    ],
)
def test_imports_that_break_the_rules_are_found(here: str, module: str, name: str, why: str):
    assert why in (problem(here, module, name) or "")
