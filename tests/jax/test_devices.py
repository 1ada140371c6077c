"""Sharded runs on eight devices are the run on one, and nothing gathers z. A process of its own has the devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).parent / "workers" / "eight_devices.py"
MEMBERS = ("adam_plus", "spectral_plus")
LAYOUTS = ("data parallel", "fully sharded", "tensor parallel", "explicit axes")
QUICK = ("adam_plus, fully sharded", "adam_plus, explicit axes", "spectral_plus, tensor parallel")
SECONDS = 500


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_sharded_runs_are_the_run_on_one_device_and_gather_nothing(quick: bool):
    """All claims are one test, because workers of xdist would each start the process."""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, str(WORKER), *(["--quick"] if quick else [])],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    found = dict(line.split(": ", 1) for line in done.stdout.splitlines())

    runs = [f"{member}, {layout}" for member in MEMBERS for layout in LAYOUTS]
    for run in [run for run in runs if run in QUICK] if quick else runs:
        assert float(found[f"{run}, error"]) <= 1e-12, run  # float64: sums over shards have another order
        assert found[f"{run}, compilations"] == "1", run
        assert found[f"{run}, shardings"] == "equal", run
    # the norm over all shards sends two scalars: the largest entry, and the sum of squares
    for layout in LAYOUTS:
        if not quick or f"adam_plus, {layout}" in QUICK:
            sent = "none" if layout == "data parallel" else "all-reduce of f64[]"
            assert found[f"adam_plus, {layout}, collectives"] == sent
    # of a matrix that is sharded along its longer side, X Xᵀ is a sum over shards, and its polynomial multiplies each
    assert "all-reduce of f64[8,8]" in found["spectral_plus, longer side, collectives"]
    assert "all-gather" not in found["spectral_plus, longer side, collectives"]
    assert "all-gather" in found["a gather, collectives"], "this check of collectives cannot fail"
