"""The build hook compiles the C library if it can. Without a compiler, the package installs without it."""

import ctypes
import importlib.util
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(name="hook")
def _hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Application:
    """Stands in for hatchling's application, which prints warnings of hooks."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def display_warning(self, message: str) -> None:
        self.warnings.append(message)


def build(hook: ModuleType, root: Path) -> tuple[dict[str, Any], list[str], bool]:
    """Run the hook on a copy of the sources. Returns its build data, its warnings, and whether the library exists."""
    source = root / hook.SOURCE
    source.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / hook.SOURCE, source)
    app = Application()
    data: dict[str, Any] = {"artifacts": []}
    hook.NativeBuildHook(str(root), {}, None, None, str(root), "wheel", app).initialize("standard", data)
    return data, app.warnings, source.with_name("native.c.so").exists()


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_the_library_is_compiled_into_the_wheel(hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CC", raising=False)
    data, warnings, there = build(hook, tmp_path)
    assert there
    assert not warnings
    assert data["artifacts"] == ["/src/adamplus/optim/_execution/native.c.so"]
    assert data["tag"].startswith("py3-none-")
    assert data["pure_python"] is False
    library = ctypes.CDLL(str(tmp_path / f"{hook.SOURCE}.so"))
    assert all(hasattr(library, f"{name}_{dtype}") for name in ("norms", "update") for dtype in ("float32", "float64"))


@pytest.mark.parametrize(("compiler", "words"), [("no-such-compiler", "there is no C compiler"), ("false", "failed")])
def test_without_a_compiler_the_package_is_built_without_the_library(
    compiler: str, words: str, hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CC", compiler)
    stale = tmp_path / f"{hook.SOURCE}.so"
    stale.parent.mkdir(parents=True)
    stale.touch()
    data, warnings, there = build(hook, tmp_path)
    assert not there  # an old library is removed, because it is of another source
    assert data == {"artifacts": []}
    assert len(warnings) == 1
    assert words in warnings[0]
