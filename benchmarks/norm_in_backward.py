"""Does it pay to gather ‖z‖ while the backward pass runs, so that the step itself is one pass of 20 bytes a parameter?

Hooks on accumulated gradients launch the norm of each tensor on the spot, when its gradient may still be in the cache,
on the stream of the backward pass or on one beside it; the step then only puts them together and updates. Whole
training steps are compared, captured in CUDA graphs (so that the hooks' launches cost the host nothing), and the host's
time in an eager backward pass is reported beside them.
"""

import statistics
import time
from typing import Any

import torch
import triton
import triton.language as tl
from models import GPT
from torch import Tensor, nn

from adamplus import AdamPlus
from adamplus.lab.models import ResNet18
from adamplus.optim._execution.fused.columns import TensorColumns

BLOCK = 1024


@triton.jit
def tensor_norm(g, z, size, beta, partial, first, BLOCK: tl.constexpr):  # noqa: N803
    """Σ ((1 − β) z + β g)² of each program's share."""
    start, stride = tl.program_id(0) * BLOCK, tl.num_programs(0) * BLOCK
    total = tl.zeros([BLOCK], tl.float64)
    b = tl.load(beta).to(tl.float32)
    while start + BLOCK <= size:
        at = start + tl.arange(0, BLOCK)
        zs = tl.load(z + at)
        zs += b * (tl.load(g + at) - zs)
        total += zs.to(tl.float64) * zs.to(tl.float64)
        start += stride
    if start < size:
        at = start + tl.arange(0, BLOCK)
        zs = tl.load(z + at, mask=at < size, other=0.0)
        zs += b * (tl.load(g + at, mask=at < size, other=0.0) - zs)
        total += zs.to(tl.float64) * zs.to(tl.float64)
    tl.store(partial + first + tl.program_id(0), tl.sum(total))


def hook_norms(optimizer: AdamPlus, beta: Tensor, side: torch.cuda.Stream | None) -> list[Any]:
    """Let each parameter's gradient be normed when it is there; what the plan's own norms would have written."""
    tables = optimizer._plan.tables
    lines = tables.table.tolist()
    hooks = []
    for p, line in zip(optimizer._plan.params, lines, strict=True):
        row = TensorColumns(*line)
        first, workers = row.first_worker, row.workers

        def gather(p: Tensor, first: int = first, workers: int = workers) -> None:
            z = optimizer.state[p]["z"]
            if side is not None:
                side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                tensor_norm[(workers,)](p.grad, z, p.numel(), beta, tables.partial, first, BLOCK)

        hooks.append(p.register_post_accumulate_grad_hook(gather))
    return hooks


WAYS = ("no step", "norm in the step", "in backward, same stream", "in backward, beside it")


def measure(way: str, model: nn.Module, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Milliseconds of a captured training step, and of the host in an eager backward pass."""
    beta = torch.tensor(0.1, device="cuda")
    optimizer = AdamPlus(model.parameters(), lr=torch.tensor(1e-3, device="cuda"), beta=beta, fused=True)
    side = torch.cuda.Stream() if way.endswith("beside it") else None

    def backward() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            out = model(x)
            loss = nn.functional.cross_entropy(out.view(-1, out.shape[-1]), y.view(-1))
        loss.backward()

    def step() -> None:
        backward()
        if way == "norm in the step":
            optimizer.step()
        elif way != "no step":
            if side is not None:
                torch.cuda.current_stream().wait_stream(side)
            plan = optimizer._plan
            for gradients, (begin, _) in zip(plan.gradients, plan.tables.stages, strict=True):
                places, _held = gradients.look()
                assert places is not None
                assert plan.tables.locate(begin, places)
            plan.tables.step_sizes(None)
            plan.tables.second(None, None)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(stream)
    if way.startswith("in backward"):
        hook_norms(optimizer, beta, side)
    host = []
    for _ in range(12):
        torch.cuda.synchronize()
        start = time.perf_counter()
        backward()
        host.append(1e3 * (time.perf_counter() - start))
    torch.cuda.synchronize()
    optimizer.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.replay()
    times = []
    for _ in range(15):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(10):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 10)
    return statistics.median(times), statistics.median(host)


def main() -> None:
    """Print one table a model."""
    print(
        f"torch {torch.__version__}, triton {triton.__version__}, {torch.cuda.get_device_name()}; autocast to bfloat16"
    )
    images, labels = torch.randn(128, 3, 32, 32, device="cuda"), torch.randint(0, 10, (128,), device="cuda")
    tokens = torch.randint(0, 50257, (16, 1025), device="cuda")
    cases = [
        ("ResNet18, 128 images", ResNet18, images, labels),
        ("GPT-2 124 M, 1 × 1,024 tokens", GPT, tokens[:1, :-1], tokens[:1, 1:].contiguous()),
        ("GPT-2 124 M, 16 × 1,024 tokens", GPT, tokens[:, :-1], tokens[:, 1:].contiguous()),
    ]
    for name, build, x, y in cases:
        print(f"\n{name}\n{'':28}{'training step, ms':>20}{'host, backward, ms':>20}")
        for way in WAYS:
            torch.manual_seed(0)
            step, host = measure(way, build().cuda(), x, y)
            torch.cuda.empty_cache()
            print(f"{way:28}{step:20.3f}{host:20.2f}", flush=True)


if __name__ == "__main__":
    main()
