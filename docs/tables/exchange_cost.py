"""Compute the table of docs/distributed.md, what an exchange of SpectralPlus costs, and write it into the page.

Matrices are divided among GPUs by the optimizer's own plan. The rates are explained on the page.
"""

import math
import re
from collections import Counter
from pathlib import Path

from adamplus.optim._exchange import Unit, owners_of, units_of

PAGE = Path(__file__).parents[1] / "distributed.md"
GPUS, NODE = (8, 64, 1024), 8  # NODE: GPUs that NVLink joins
MODELS = {"124 M": (12, 768), "1.3 B": (24, 2048), "6.4 B": (32, 4096)}  # blocks and width of a GPT

BYTES, MB = 2, 1e6  # of an element in bfloat16, both ways
OPERATIONS = 10  # of U Vᵀ in bfloat16, for each m² (2 n + m): five steps (src/adamplus/optim/_orthogonal.py)
RATE = 790e12  # operations per second: bfloat16 matrix products of an H200
INSIDE, BETWEEN = 450e9, 50e9  # bytes per second, direction and GPU: NVLink 4; one 400 Gbit/s adapter for each GPU


def groups(blocks: int, width: int) -> list[list[tuple[tuple[int, int], int]]]:
    """Shapes and numbers of blocks in the two param groups of a GPT: packed queries, keys and values; all others."""
    others = [(width, width), (4 * width, width), (width, 4 * width)]
    return [[((3 * width, width), 3)] * blocks, [(shape, 1) for shape in others] * blocks]


def load_of(units: list[Unit], gpus: int) -> tuple[int, int]:
    """Largest number of elements, and of m² (2 n + m), that one GPU has."""
    elements: Counter[tuple[int, ...]] = Counter()
    costs: Counter[tuple[int, ...]] = Counter()
    for unit, owner in zip(units, owners_of(units, (gpus,)), strict=True):
        elements[owner] += math.prod(unit.shape)
        costs[owner] += unit.cost
    return max(elements.values()), max(costs.values())


def row(model: str, gpus: int) -> str:
    """A line of the table. Groups are computed one after the other, so their largest loads add up."""
    parameters = elements = most = cost = 0
    for matrices in groups(*MODELS[model]):
        units = [u for i, (shape, n) in enumerate(matrices) for u in units_of(i, shape, (False, False, n), gpus)]
        units.sort(key=lambda unit: -unit.cost)
        own, largest = load_of(units, gpus)
        elements, most = elements + own, most + largest
        parameters += sum(math.prod(shape) for shape, _ in matrices)
        cost += sum(unit.cost for unit in units)
    link = INSIDE if gpus <= NODE else BETWEEN
    share = (gpus - 1) / gpus
    # The busiest GPU sends its shards of all matrices, and back the shards of those that it computes.
    sent = BYTES * share * (parameters / gpus + elements)
    gathered = BYTES * share * parameters
    # A ring over nodes uses all adapters of a node at once.
    ring = INSIDE if gpus <= NODE else NODE * BETWEEN
    columns = (
        f"{gpus:,}",
        model,
        f"{BYTES * share * 2 * parameters / gpus / MB:,.1f} MB",
        f"{sent / MB:,.1f} MB",
        f"{sent / link * 1e3:.2f} ms",
        f"{OPERATIONS * most / 1e12:,.2f} T",
        f"{OPERATIONS * most / RATE * 1e3:,.2f} ms",
        f"{gathered / MB:,.0f} MB",
        f"{gathered / ring * 1e3:,.2f} ms",
        f"{OPERATIONS * cost / 1e12:,.2f} T",
        f"{OPERATIONS * cost / RATE * 1e3:,.2f} ms",
    )
    return f"| {' | '.join(columns)} |"


def table() -> str:
    """Bytes and operations of the exchange, and beside them those of gathering all matrices on every GPU."""
    titles = (
        "GPUs", "matrices", "sends, on average", "at most", "in", "computes at most", "in",
        "all-gather: receives", "in", "computes", "in",
    )  # fmt: skip
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    return "\n".join(lines + [row(model, gpus) for gpus in GPUS for model in MODELS])


def rewritten(page: str) -> str:
    """The page, with this table between its markers."""
    return re.sub(
        r"(<!-- docs/tables/exchange_cost.py -->\n).*(\n<!-- end of the exchange -->)",
        lambda found: found[1] + table() + found[2],
        page,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
