"""The source distribution builds a wheel, and the wheel works in an environment that has nothing but torch."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent


def call(*command: object, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    words = list(map(str, command))
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_the_wheel_of_the_source_distribution_works(tmp_path: Path):
    call(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path, cwd=ROOT)
    (archive,) = tmp_path.glob("adamplus_optimizer-*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("adamplus_optimizer-*/")
    assert not (source / "src/adamplus/optim/_execution/native.c.so").exists()
    call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=source)
    (wheel,) = tmp_path.glob("*.whl")

    clean = tmp_path / "clean"
    venv.create(clean, with_pip=False)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", clean / "bin" / "python")
    call(*pip, "install", "--no-index", "--no-deps", wheel, cwd=tmp_path)
    (packages,) = clean.glob("lib/python*/site-packages")
    # torch takes gigabytes, so that of this environment is used. Files in such a folder install nothing else.
    (packages / "torch.pth").write_text(f"{Path(torch.__file__).parent.parent}\n")
    printed = call(clean / "bin" / "python", ROOT / "tests" / "smoke.py", cwd=tmp_path)
    assert str(packages) in printed
    assert "with the C library" in printed
