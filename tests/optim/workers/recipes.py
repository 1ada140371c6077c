"""Worker of several ranks: recipes around a step, compared with one process that trains on whole batches.

Float32 throughout: parts of a batch, and shards of a gradient, are added in another order, a few units in the last bit.
"""

import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from adamplus import AdamPlus

STEPS, MICRO_BATCHES, TOLERANCE = 6, 4, 1e-6
INF_AT = (0, 3)  # the very first step, before there is any state, and one in the middle
WRAPS = ("plain", "ddp", "fully_shard")
Recipe = Callable[["Run", Tensor, int], Any]


class Layers(nn.Sequential):
    """Linear layers; their activations may be computed again in the backward pass, by the model or by wrappers."""

    def __init__(self, again: str | None = None) -> None:
        torch.manual_seed(0)
        layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)]
        super().__init__(*(map(checkpoint_wrapper, layers) if again == "wrappers" else layers))
        self.again = again

    def forward(self, input: Any) -> Any:
        for layer in self:
            input = checkpoint(layer, input, use_reentrant=False) if self.again == "model" else layer(input)
        return input


class Run:
    """A model that is wrapped for several processes, or not, with an optimizer that follows it."""

    def __init__(self, wrap: str, again: str | None = None, scaler: type = torch.amp.GradScaler) -> None:
        self.model: Any = Layers(again)
        self.wrap, self.share = wrap, slice(None) if wrap == "plain" else slice(dist.get_rank(), None, world())
        if wrap == "ddp":
            self.model = DistributedDataParallel(self.model)
        if wrap == "fully_shard":
            mesh = init_device_mesh("cpu", (world(),))
            for layer in (*self.model, self.model):
                fully_shard(layer, mesh=mesh)
        self.optimizer = AdamPlus(self.model.parameters(), weight_decay=0.01)
        self.optimizer.follow(self.model)
        self.scaler = scaler("cpu", init_scale=1024.0, growth_interval=2)

    def train(self, recipe: Recipe) -> list[Any]:
        """Take all steps, and return the recipe's result of each."""
        results = []
        for step in range(STEPS):
            x = torch.randn(16 * world(), 4, generator=torch.Generator().manual_seed(step))[self.share]
            self.optimizer.zero_grad()
            results.append(recipe(self, x, step))
        return results

    def loss(self, x: Tensor) -> Tensor:
        return (self.model(x) - x.sin()).square().mean()

    def w(self) -> list[Tensor]:
        self.model.eval()
        return [whole(p).clone() for p in self.model.parameters()]


def world() -> int:
    return dist.get_world_size()


def whole(tensor: Any) -> Tensor:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor.detach()


def plain(run: Run, x: Tensor, step: int) -> None:
    run.loss(x).backward()
    run.optimizer.step()


def accumulated(run: Run, x: Tensor, step: int, *, sync: bool) -> None:
    """Gradients of several parts of a batch, all at the same ŵ; reduced over ranks at each part, or at the last."""
    parts = x.chunk(MICRO_BATCHES)
    for i, part in enumerate(parts):
        now = sync or i == len(parts) - 1
        if run.wrap == "fully_shard":
            run.model.set_requires_gradient_sync(now)
        with run.model.no_sync() if run.wrap == "ddp" and not now else nullcontext():
            (run.loss(part) / len(parts)).backward()
    run.optimizer.step()


def clipped(run: Run, x: Tensor, step: int) -> float:
    run.loss(x).backward()
    norm = nn.utils.clip_grad_norm_(run.model.parameters(), 0.05)
    run.optimizer.step()
    return whole(norm).item()


def scaled(run: Run, x: Tensor, step: int, *, clip: bool) -> float:
    """Scaled gradients, of which one rank's share has an inf now and then: no rank may take that step."""
    scaler = run.scaler
    spoilt = step in INF_AT and (run.wrap == "plain" or dist.get_rank() == world() - 1)
    # DDP's gradients are whole on every rank: an inf reaches all of them when they are reduced, or none.
    loss = run.loss(x) * (torch.inf if spoilt and run.wrap == "ddp" else 1)
    scaler.scale(loss).backward()
    if spoilt and run.wrap != "ddp":
        grad = next(run.model.parameters()).grad
        (grad.to_local() if run.wrap == "fully_shard" else grad)[0] = torch.inf
    if clip:
        scaler.unscale_(run.optimizer)
        nn.utils.clip_grad_norm_(run.model.parameters(), 0.05)
    before = [p.detach().clone() for p in run.model.parameters()]
    scaler.step(run.optimizer)
    scaler.update()
    moved = any(not torch.equal(whole(p), whole(q)) for p, q in zip(run.model.parameters(), before, strict=True))
    assert moved == (step not in INF_AT)
    return scaler.get_scale()


def compare(recipe: Recipe, wrap: str, expected: Recipe | None = None, **options: Any) -> None:
    run, alone = Run(wrap, **options), Run("plain")
    results, expected_results = run.train(recipe), alone.train(expected or recipe)
    for a, b in zip(results, expected_results, strict=True):
        assert a == b or abs(a / b - 1) <= TOLERANCE, f"{recipe} under {wrap}: {a}, not {b}"
    for a, b in zip(run.w(), alone.w(), strict=True):
        error = (a - b).abs().max() / b.abs().max()
        assert error <= TOLERANCE, f"{recipe} under {wrap} is off by {error}"
    assert run.optimizer.stats().step == alone.optimizer.stats().step


def shares_with_a_scaler(fused: bool) -> None:
    """Each rank has its own parameters. ShardedGradScaler makes ranks agree; a plain scaler lets some step alone."""
    torch.manual_seed(0)
    everything = [nn.Parameter(torch.randn(5)) for _ in range(2 * world())]
    mine = [nn.Parameter(p.detach().clone()) for p in everything[dist.get_rank() :: world()]]
    whole_run = AdamPlus(everything)
    share = AdamPlus(mine, process_group=dist.group.WORLD, fused=fused or None)
    scaler = ShardedGradScaler("cpu", init_scale=8.0)
    for step in range(STEPS):
        for params, scale in ((everything, 1.0), (mine, scaler.scale(torch.ones(())).item())):
            for p in params:
                p.grad = p.detach().sin() * scale
        if step in INF_AT:
            if dist.get_rank() == 0:
                mine[0].grad = torch.full((5,), torch.inf)
        else:
            whole_run.step()
        scaler.unscale_(share)  # fused kernels would unscale in the step, but ranks agree only here
        scaler.step(share)
        scaler.update()
    for p, q in zip(everything[dist.get_rank() :: world()], mine, strict=True):
        torch.testing.assert_close(q, p, rtol=TOLERANCE, atol=TOLERANCE)
    assert share.stats().step == STEPS - len(INF_AT)


def main() -> None:
    dist.init_process_group("gloo")
    for wrap in WRAPS:
        for sync in (True, False):
            compare(partial(accumulated, sync=sync), wrap, expected=plain)
        compare(clipped, wrap)
        for again in ("model", "wrappers"):
            compare(plain, wrap, again=again)
        for scaler in (torch.amp.GradScaler, ShardedGradScaler):
            for clip in (False, True):
                compare(partial(scaled, clip=clip), wrap, scaler=scaler)
    shares_with_a_scaler(fused=False)
    shares_with_a_scaler(fused=True)
    dist.barrier()
    os._exit(0)  # gloo's threads may abort the interpreter on its way out, after everything was shown


if __name__ == "__main__":
    main()
