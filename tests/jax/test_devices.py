"""Sharded runs on eight devices are the run on one, and nothing gathers z. A process of its own has the devices."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

WORKER = Path(__file__).parent / "workers" / "eight_devices.py"
MEMBERS = ("adam_plus", "spectral_plus")
LAYOUTS = ("data parallel", "fully sharded", "tensor parallel", "explicit axes")
SECONDS = 240


@cache
def results() -> dict[str, str]:
    """What the worker prints: a line for each claim, and whether it holds."""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, WORKER], env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("member", MEMBERS)
def test_a_sharded_run_is_the_run_on_one_device(member: str, layout: str):
    assert float(results()[f"{member}, {layout}, error"]) <= 1e-12  # float64: sums over shards have another order


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("member", MEMBERS)
def test_the_second_sharded_step_is_not_compiled_again(member: str, layout: str):
    assert results()[f"{member}, {layout}, compilations"] == "1"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("member", MEMBERS)
def test_the_state_is_sharded_as_the_parameters_are(member: str, layout: str):
    assert results()[f"{member}, {layout}, shardings"] == "equal"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_global_norm_sends_scalars_and_gathers_nothing(layout: str):
    sent = results()[f"adam_plus, {layout}, collectives"]
    assert sent == ("none" if layout == "data parallel" else "all-reduce of f64[]")


def test_matrices_that_are_sharded_along_their_longer_side_are_not_gathered():
    """X Xᵀ is a sum over shards, and the polynomial of it multiplies each shard."""
    assert "all-gather" not in results()["spectral_plus, longer side, collectives"]
    assert "all-reduce of f64[8,8]" in results()["spectral_plus, longer side, collectives"]


def test_the_check_of_collectives_can_fail():
    assert "all-gather" in results()["a gather, collectives"]
