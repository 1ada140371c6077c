"""benchmarks/jax_step.py runs, on a CPU at a tiny size, and its account of memory is right."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "jax_step.py"


@pytest.mark.slow
def test_the_benchmark_measures_all_contenders(tmp_path: Path):
    command = [
        sys.executable,
        str(SCRIPT),
        "--model=tiny",
        "--rounds=2",
        "--steps=2",
        f"--out={tmp_path / 'step.json'}",
    ]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "step.json").read_text())
    rows = report["contenders"]
    assert list(rows) == ["optax.adam", "jax adam_plus", "jax spectral_plus", "torch AdamPlus"]
    assert all(row["ms"] > 0 for row in rows.values())
    assert rows["optax.adam"]["over_optax_adam"] == 1
    # float32 parameters, gradients, and two buffers of Adam, or one of Adam⁺ and a temporary one: XLA keeps z_{t−1}
    # until ‖z_t‖ is known
    size = 4 * report["parameters"]
    for name in ("optax.adam", "jax adam_plus"):
        assert 4 * size <= rows[name]["peak_bytes"] <= 4.1 * size
