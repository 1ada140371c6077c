"""The fused kernels as a GPU has them: Triton compiles for one that is not there, and CI sees what no interpreter does.

That they compute the right thing is shown by the interpreter (test_fused.py) and on a GPU (tests/gpu).
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")


@pytest.mark.parametrize("capability", [90, *(pytest.param(older, marks=pytest.mark.slow) for older in (75, 80, 100))])
def test_kernels_spill_no_registers_and_use_accesses_of_16_bytes(capability: int, tmp_path: Path):
    """An H200 has capability 90. Spilled registers cost memory traffic, which limits the speed of a step."""
    worker = Path(__file__).parent / "workers" / "compile_kernels.py"
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, str(worker), str(capability)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    # Five kinds of tensors, with and without GradScaler; the kernel of step sizes knows only the latter. SpectralPlus
    # has two more kinds for signs, two for averages, and six moves of matrices.
    counts = {"first": 10, "step_sizes": 2, "second": 10 + 3, "average": 2, "move": 6}
    if capability >= 80:
        counts["product"] = 5
    assert dict(Counter(kernel["kernel"] for kernel in found)) == counts
    for kernel in found:
        # The sums of a product fill the registers of four warps. Eight spill nothing, and take up to a quarter longer.
        assert kernel["spilt"] == 0 or kernel["kernel"] == "product"
        if kernel["kernel"] not in ("step_sizes", "product"):
            assert (kernel["loads"], kernel["stores"]) == (wide(kernel) if kernel["ALIGNED"] else (0, 0))


def wide(kernel: dict[str, Any]) -> tuple[int, int]:
    """Loads and stores of 16 bytes that a whole block takes, of eight elements a thread; the last may be masked."""
    p, g, z = (2 if kernel[f"{name}_type"] == "fp32" else 1 for name in "pgz")
    if kernel["kernel"] == "first":
        return g + z + p * kernel["DECAY"], 0
    if kernel["kernel"] == "average":
        return g + z, z
    if kernel["kernel"] == "move":  # directions are bfloat16
        return p + 1 + kernel["UNDO"], p + kernel["KEPT"]
    return p + g + z, p + z
