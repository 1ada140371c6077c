"""Compute the tables of docs/distributed.md, what ‖z‖ costs beside the gradients, and write them into the page.

The formulas are explained there, under "What the norm of Adam⁺ costs".
"""

import math
import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "distributed.md"
GPUS, PARAMETERS = (8, 64, 1024), (1e9, 7e9, 70e9, 100e9)
NODE = 8  # GPUs that NVLink joins
MESSAGE = 32  # bytes, four float64: the sum of squares, ranks in eval mode, ranks that have failed, layout

MICROSECOND, GB = 1e-6, 1e9
LAUNCH = 40 * MICROSECOND  # of the message, and of the small kernels around it
# Latencies of NCCL's own cost model (src/graph/tuning.cc), protocol LL: of the call, of a hop over NVLink (1.8 times
# that where there are several nodes), of a hop between nodes.
TREE = (4.4 * MICROSECOND, 0.52 * MICROSECOND, 5.0 * MICROSECOND)
RING = (3.6 * MICROSECOND, 0.47 * MICROSECOND, 2.7 * MICROSECOND)
INSIDE, BETWEEN = 450 * GB, 400 * GB  # per second and direction: NVLink 4 of a GPU; eight 400 Gbit/s adapters of a node
MEMORY = 3350 * GB  # per second: HBM3 of an H100


def tree_time(gpus: int) -> float:
    """Seconds of the message through a chain in each node and a binary tree of nodes, up and down again."""
    call, inside, between = TREE
    return LAUNCH + call + 2 * (NODE - 1) * _inside(inside, gpus) + 2 * math.log2(gpus // NODE) * between


def ring_time(gpus: int) -> float:
    """Seconds of it twice round all GPUs."""
    call, inside, between = RING
    nodes = gpus // NODE
    return LAUNCH + call + 2 * (gpus - nodes) * _inside(inside, gpus) + 2 * (nodes - 1) * between


def _inside(hop: float, gpus: int) -> float:
    return hop * (1.8 if gpus > NODE else 1.0)


def norm_time(gpus: int) -> float:
    """Seconds of it as NCCL would send it: in the faster way."""
    return min(tree_time(gpus), ring_time(gpus))


def gradient_bytes(gpus: int, parameters: float) -> float:
    """What each GPU sends in the reduce-scatter of bfloat16 gradients."""
    return 2 * parameters * (gpus - 1) / gpus


def gradient_time(gpus: int, parameters: float) -> float:
    """Seconds of it, at the full speed of the links and without latency: what is most in its favour."""
    return gradient_bytes(gpus, parameters) / (INSIDE if gpus <= NODE else BETWEEN)


def pass_time(gpus: int, parameters: float) -> float:
    """Seconds in which a GPU reads z and g of its shard, 8 bytes a parameter, to sum the squares."""
    return 8 * parameters / gpus / MEMORY


def tables() -> str:
    """The norm by the number of GPUs; then beside the gradients, by the number of parameters, too."""
    lines = ["| GPUs | bytes | tree | ring | the faster |", "|---|---|---|---|---|"]
    for gpus in GPUS:
        times = (time(gpus) / MICROSECOND for time in (tree_time, ring_time, norm_time))
        lines.append(f"| {gpus:,} | {MESSAGE} | {' | '.join(f'{time:,.0f} µs' for time in times)} |")
    lines += [
        "",
        "| GPUs | parameters | gradients: each GPU sends | in | norm: message | share | pass over z and g | share |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for gpus in GPUS:
        for parameters in PARAMETERS:
            gradients, norm = gradient_time(gpus, parameters), norm_time(gpus)
            sent, local = gradient_bytes(gpus, parameters), pass_time(gpus, parameters)
            columns = (
                f"{gpus:,}",
                f"{parameters / 1e9:.0f} B",
                f"{sent / GB:,.2f} GB",
                f"{gradients * 1e3:,.1f} ms",
                f"{norm / MICROSECOND:.0f} µs",
                f"{norm / gradients:.3%}",
                f"{local / MICROSECOND:,.0f} µs",
                f"{local / gradients:.2%}",
            )
            lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines)


def rewritten(page: str) -> str:
    """The page, with these tables between its markers."""
    return re.sub(
        r"(<!-- docs/tables/norm_cost.py -->\n).*(\n<!-- end -->)",
        lambda found: found[1] + tables() + found[2],
        page,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
