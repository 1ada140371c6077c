"""`adamplus bench scale`: how the time of a step grows with the number of parameters and of tensors."""

from pathlib import Path

import torch

from ..device import choose, room
from .contestants import CONTESTANTS
from .figure import BY_PARAMETERS, BY_TENSORS, check_drawable
from .report import InputError, Report, check_writable
from .run import run
from .shapes import equal_tensors, gpt_blocks
from .show import show

COUNTS = [10**6, 3 * 10**6, 10**7, 3 * 10**7, 10**8, 3 * 10**8, 10**9, 3 * 10**9, 10**10]
TENSORS = [10, 30, 100, 300, 1_000, 3_000, 10_000]
TOTAL = 10**7
"""Parameters of the lists that differ in their number of tensors."""
LARGEST = {"cuda": COUNTS[-1], "cpu": 10**8}
RIVALS = ("adam-fused", "sgd-fused")


def scale(
    *,
    max_parameters: int | None = None,
    max_tensors: int = TENSORS[-1],
    device: str | None = None,
    rounds: int = 10,
    json: Path | None = None,
    figure: Path | None = None,
) -> Report:
    """Measure Adam⁺, Adam and momentum SGD on growing lists; print the table, write JSON and figure if asked for.

    Args:
        max_parameters: the longest list; by itself 10 billion on CUDA and 100 million on a CPU, or what fits.
        max_tensors: the most tensors, of equal size, that 10 million parameters are cut into.
        device: "cpu", "cuda" or "cuda:1"; by itself CUDA, where there is one.
        rounds: how many times each step is timed.
        json: the file to write numbers to.
        figure: the file to draw into; its ending says the format.
    """
    where = choose(device)
    most = LARGEST[where.type] if max_parameters is None else max_parameters
    if most < COUNTS[0] or max_tensors < TENSORS[0]:
        raise InputError(
            f"lists grow from {COUNTS[0]:,} parameters and {TENSORS[0]} tensors: give --max-parameters and "
            f"--max-tensors at least that, not {most:,} and {max_tensors:,}"
        )
    check_writable(figure)
    check_drawable(figure)
    # Parameters, gradients and one buffer of Adam⁺: on CUDA, who needs more is left out of the largest lists.
    fitting = min(most, room(where) // (4 * (3 if where.type == "cuda" else 5)))
    lists = [(BY_PARAMETERS, gpt_blocks(count)) for count in COUNTS if count <= fitting]
    total = min(TOTAL, most)
    lists += [(BY_TENSORS, equal_tensors(total, tensors)) for tensors in TENSORS if tensors <= max_tensors]
    keys = ("adamplus-fused" if where.type == "cuda" else "adamplus-foreach", *RIVALS)
    chosen = ["--max-parameters", str(most), "--max-tensors", str(max_tensors)]
    report = run("scale", lists, [CONTESTANTS[key] for key in keys], where, torch.float32, rounds, chosen, json)
    show(report, figure=figure)
    return report
