"""One step of Adam⁺ (Algorithm 1 of Liu, Zhang, Orabona and Yang, 2020), written once for every way of executing it.

Three sequences, of which one lives in the parameters and none is stored twice:

- ŵ, where gradients are taken: what the parameters hold while training;
- w, the iterate that the theorems speak of and that one evaluates: w = ŵ + c z;
- z, the moving average of gradients: the only buffer.

The *offset* c = η (1/β − 1) is kept from the step that made it, so that a later lr or β cannot falsify w.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from ._norm import scope_norms
from ._ranks import ALONE, Joint, Share


@dataclass
class Part:
    """Tensors of one group that are executed together, by `run`; `index` is their place in the group's batch.

    Executed in place, w and ŵ are the same tensors: w is there from undoing the last extrapolation until the next one.
    """

    w_hat: list[Tensor]
    g: list[Tensor]
    z: list[Tensor]
    offset: list[Tensor]
    step: list[Tensor]
    index: list[int]
    run: "Execution"
    share: Share = ALONE
    seeds: list[Tensor] | None = None  # of stochastic rounding
    w: list[Tensor] = field(default_factory=list)
    norms: Tensor = field(default_factory=Tensor)

    def take(self, rows: Sequence[int], run: "Execution | None" = None) -> "Part":
        """Some of the tensors, as a part of their own; executed as this one is, or by `run`."""
        columns = (self.w_hat, self.g, self.z, self.offset, self.step)
        index = [self.index[i] for i in rows]
        taken = ([column[i] for i in rows] for column in columns)
        part = Part(*taken, index=index, run=run or self.run, share=self.share)
        part.seeds = None if self.seeds is None else [self.seeds[i] for i in rows]
        return part


@dataclass
class Batch:
    """The parameters of one group that have a gradient, cut into parts; their `numbers` are those in the group."""

    group: dict[str, Any]
    number: int
    numbers: list[int]
    parts: list[Part]


class Execution(Protocol):
    """The arithmetic that each way of executing a step supplies; lists in, lists out."""

    def gradients(
        self, gs: list[Tensor], w_hats: list[Tensor], zs: list[Tensor], maximize: bool, weight_decay: float
    ) -> list[Tensor]: ...
    def add_scaled(
        self, xs: list[Tensor], ys: list[Tensor], scales: list[Tensor], sign: int, seeds: Any
    ) -> list[Tensor]: ...
    def scale(self, xs: list[Tensor], factor: float | Tensor, seeds: Any) -> list[Tensor]: ...
    def average(self, zs: list[Tensor], gs: list[Tensor], betas: list[float | Tensor]) -> list[Tensor]: ...
    def assign(self, xs: list[Tensor], values: list[Tensor]) -> list[Tensor]: ...
    def norms(self, zs: list[Tensor]) -> Tensor: ...
    def count(self, steps: list[Tensor]) -> None: ...


def adam_plus(batches: Sequence[Batch], joint: Joint | None = None) -> None:
    """Take one step of Algorithm 1 for all batches together; line numbers are the paper's."""
    for batch in batches:
        group = batch.group
        lr, beta, weight_decay = scalar(group, "lr"), scalar(group, "beta"), group["weight_decay"]
        decoupled = group["decoupled_weight_decay"]
        for x in batch.parts:
            g = x.run.gradients(x.g, x.w_hat, x.z, group["maximize"], 0.0 if decoupled else weight_decay)
            # w_t = ŵ_t + c_{t−1} z_{t−1}: the last extrapolation, undone
            x.w = x.run.add_scaled(x.w_hat, x.z, x.offset, +1, x.seeds)
            if decoupled and weight_decay != 0:
                x.w = x.run.scale(x.w, 1 - lr * weight_decay, x.seeds)
            # lines 5 and 10: z_t = (1 − β) z_{t−1} + β g_t, z_0 = g_0
            x.z = x.run.average(x.z, g, _weights(x.step, beta, group["capturable"]))
            x.norms = x.run.norms(x.z)

    for batch, norm in zip(batches, scope_norms(batches, joint), strict=True):
        group = batch.group
        lr, beta = scalar(group, "lr"), scalar(group, "beta")
        # line 7: η_t = α β^a / max(‖z_t‖^p, ε₀)
        eta = lr * beta ** group["beta_power"] / _denominator(norm, group["norm_power"], group["eps"])
        rate, offset = eta / beta, eta * (1 / beta - 1)
        for x in batch.parts:
            # lines 8 and 9: ŵ_{t+1} = (1 − 1/β) w_t + (1/β) (w_t − η_t z_t) = w_t − (η_t/β) z_t
            x.w_hat = x.run.add_scaled(x.w, x.z, _per_tensor(rate, x), -1, x.seeds)
            x.offset = x.run.assign(x.offset, _per_tensor(offset, x))
            x.run.count(x.step)
        _record(group, norm, eta, sure=joint is None or bool(batch.parts))


def scalar(group: dict[str, Any], name: str) -> float | Tensor:
    """A setting to compute with: a float, or a 0-dim tensor of float64 on the group's device."""
    value, like = group[name], group["record"]
    if isinstance(value, Tensor):
        return value.to(like).reshape(())
    if group["capturable"] or torch.compiler.is_compiling():  # a compiler would specialise on every value of a float
        return torch.ones((), dtype=like.dtype, device=like.device) * value
    return value


def _weights(steps: list[Tensor], beta: float | Tensor, capturable: bool) -> list[float | Tensor]:
    """β, but 1 at a parameter's first step, where z_0 = g_0 (line 5)."""
    if capturable or torch.compiler.is_compiling() or not all(step.is_cpu for step in steps):
        return [torch.where(step == 0, 1.0, beta) for step in steps]
    return [beta if step.item() else 1.0 for step in steps]  # the count is on the host then


def _denominator(norm: Tensor, power: float, eps: float) -> Tensor:
    """max(‖z‖^p, ε₀); with ε₀ = 0 and z = 0 any finite η is right, since it multiplies zero."""
    denominator = norm.pow(power).clamp(min=eps)
    return denominator if eps > 0 else denominator.masked_fill(denominator == 0, 1.0)


def _per_tensor(value: Tensor, part: Part) -> list[Tensor]:
    """The scalar that each tensor of a part gets, on its device and in its offset's precision."""
    # Finite also where ε₀ is tiny and z is 0, for 0 · ∞ would be a NaN.
    if value.ndim:
        rows = zip(part.index, part.offset, strict=True)
        return [value[i].clamp(max=torch.finfo(c.dtype).max).to(c) for i, c in rows]
    like = part.offset[0]
    return [value.clamp(max=torch.finfo(like.dtype).max).to(like)] * len(part.offset)


def _record(group: dict[str, Any], norm: Tensor, eta: Tensor, sure: bool) -> None:
    """Keep what `stats()` tells on the device: ‖z‖, η, Σ‖z‖ and their number, with no wait for any of them.

    Without gradients of its own a rank is not `sure` that there is a step: by the norm there is, or nobody has any.
    """
    if norm.ndim:  # one η a tensor: the largest, and the norm over the group
        norm, eta = torch.linalg.vector_norm(norm), eta.amax()
    record = group["record"]
    record.copy_(torch.stack([norm, eta, record[2] + norm, record[3] + (1 if sure else norm > 0)]).detach())
