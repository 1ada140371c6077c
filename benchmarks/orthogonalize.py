"""Time of orthogonalizing the hidden matrices of GPTs, with cuBLAS alone and with the kernel for symmetric products.

`python benchmarks/orthogonalize.py` on a GPU prints milliseconds: medians of CUDA events over replays of a graph. For
each list of matrices it has the products X Xᵀ, A + A² and A X, and the whole of `orthogonalize`.
"""

import statistics
from collections.abc import Callable

import torch

from adamplus.optim import _directions, _orthogonal

# (count, d_out, d_in) of hidden matrices, with queries, keys and values apart
MODELS = {
    "GPT-2, 124 M": [(48, 768, 768), (12, 3072, 768), (12, 768, 3072)],
    "GPT, 1.3 B": [(96, 2048, 2048), (24, 8192, 2048), (24, 2048, 8192)],
}


def milliseconds(function: Callable[[], object], replays: int = 12) -> float:
    """Median time of a captured call."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):
            function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    graph.replay()
    times: list[float] = []
    for _ in range(replays):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def measure(count: int, rows: int, columns: int) -> dict[str, float]:
    """Milliseconds of one list of matrices: of the parts, for one batch, and of the whole."""
    batch = min(count, max(1, _directions.AT_ONCE_ELSEWHERE // (rows * columns)))
    x = torch.randn(batch, rows, columns, device="cuda", dtype=torch.bfloat16)
    gram = _orthogonal._gram(x) / max(rows, columns)
    parts: dict[str, Callable[[], object]] = {
        "X Xᵀ": lambda: _orthogonal._gram(x),
        "A + A²": lambda: _orthogonal._polynomial(gram, 1.0, 0.5, 0.5),
        "A X": lambda: _orthogonal._times(gram, x),
    }
    times = {name: milliseconds(part) for name, part in parts.items()}
    return times | {"whole": milliseconds(lambda: _orthogonal.orthogonalize(x)) * count / batch}


def main() -> None:
    """Print a table."""
    torch.manual_seed(0)
    kernel_from = _orthogonal.KERNEL_FROM
    for model, shapes in MODELS.items():
        for way, at_least in (("cuBLAS", 1 << 30), ("kernel", kernel_from)):
            _orthogonal.KERNEL_FROM = at_least
            total = 0.0
            for shape in shapes:
                times = measure(*shape)
                total += times["whole"]
                found = ", ".join(f"{name} {time:.3f}" for name, time in times.items())
                print(f"{model}, {way}, {' × '.join(map(str, shape))}: {found} ms", flush=True)
            print(f"{model}, {way}: {total:.2f} ms", flush=True)


if __name__ == "__main__":
    main()
