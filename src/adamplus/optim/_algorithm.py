"""One step of Algorithm 1 of Liu, Zhang, Orabona and Yang (2020), in two halves with ‖z‖ and η between them.

`_reference.py` has the algorithm as printed. Of its three sequences, two are stored here:

- ŵ, where gradients are taken: what the parameters hold while training;
- z, the moving average of gradients: the only buffer;
- w, the iterate in the theorems, which one evaluates, is recomputed: w = ŵ + c z.

ŵ is ℓ steps ahead of w: ŵ_{t+1} = w_{t+1} + ℓ (w_{t+1} − w_t). The *look-ahead* ℓ is 1/β − 1 in the paper. The *offset*
c = ℓ η is stored by the step that made it, so that a later lr, β or ℓ cannot falsify w.

A call of `step()` begins with the gradient at ŵ_t. It executes line 10 of the paper's loop (line 5 at first), and then
lines 7, 8 and 9 of the next iteration.

`ListExecution` is the arithmetic of both halves in list operations, which plain and foreach execution supply. The C
library fills the same two methods, each with one pass over memory. The Triton kernels repeat the whole step, η included
(`_execution/fused`), under the same names. Tests compare all of them with `_reference.py`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ._norm import not_finite, scalar_dtype, scope_norms
from ._ranks import Joint

Seeds = list[Tensor] | None
"""Seeds of stochastic rounding, one for each tensor."""


class Execution(ABC):
    """How the tensors of a part are executed."""

    @abstractmethod
    def first(self, x: "Part", group: dict[str, Any], lr: float | Tensor, beta: float | Tensor) -> Tensor:
        """Return ‖z_t‖ of each tensor. May write w_t and z_t already (lines 5 and 10); if not, `second` does."""

    @abstractmethod
    def second(self, x: "Part", rate: Tensor, offset: Tensor) -> None:
        """Write ŵ_{t+1} = w_t − rate z_t (lines 8 and 9), and store the offset that leads back to w_{t+1}."""


@dataclass
class Part:
    """Tensors of one group that `run` executes together.

    Executions in place overwrite ŵ with w in `first`, so w and ŵ are the same tensors.
    """

    w_hat: list[Tensor]
    g: list[Tensor]
    z: list[Tensor]
    offset: list[Tensor]
    step: list[Tensor]
    index: list[int]
    """Positions of the tensors among those of their group that have a gradient."""
    run: Execution
    copies: int = 1
    """Number of ranks that have these tensors, among those whose squares are summed."""
    seeds: Seeds = None
    w: list[Tensor] = field(default_factory=list)
    norms: Tensor = field(default_factory=Tensor)
    skip: Tensor | None = None
    """Flag: the step changes nothing if it is set. None if the step is sure to be taken."""
    direction: list[Tensor] = field(default_factory=list)
    """D(z) of the last step, if SpectralPlus keeps it. Empty otherwise."""
    cuts: list[Any] = field(default_factory=list)
    """How matrices of SpectralPlus are cut over ranks, or None for each tensor of which this rank has whole matrices.

    Empty if this is so for all."""
    written: bool = False
    """Whether the step has begun to write: an error after this leaves parameters that have half moved."""

    def take(self, rows: Sequence[int], run: Execution) -> "Part":
        """Part of these rows, executed by `run`."""
        columns = (self.w_hat, self.g, self.z, self.offset, self.step)
        taken = ([column[i] for i in rows] for column in columns)
        part = Part(*taken, index=[self.index[i] for i in rows], run=run, copies=self.copies)
        part.seeds = None if self.seeds is None else [self.seeds[i] for i in rows]
        part.direction = [self.direction[i] for i in rows if self.direction]
        part.cuts = [self.cuts[i] for i in rows if self.cuts]
        return part


@dataclass
class Group:
    """The parameters of one group that have a gradient, divided into parts. `numbers` are their positions in it."""

    settings: dict[str, Any]
    number: int
    numbers: list[int]
    parts: list[Part]


def adam_plus(
    groups: Sequence[Group], joint: Joint | None = None, skips: bool = False, on_host: bool = False
) -> Tensor | None:
    """Take one step of Algorithm 1 for all groups together. Line numbers are the paper's.

    If it `skips` steps whose ‖z‖ is not finite, return the flag of that, or None if the host knows that it is not set.
    """
    for group in groups:
        lr, beta = scalar(group.settings, "lr"), scalar(group.settings, "beta")
        for x in group.parts:
            x.norms = x.run.first(x, group.settings, lr, beta)
    norms, known = scope_norms(groups, joint)
    skip = not_finite(known) if skips else None
    if skip is not None and on_host:
        if skip.item():
            return skip
        skip = None
    for group, norm in zip(groups, norms, strict=True):
        lr, beta = scalar(group.settings, "lr"), scalar(group.settings, "beta")
        # line 7: η_t = α β^a / max(‖z_t‖^p, ε₀)
        eta = lr * beta ** group.settings["beta_power"] / _denominator(norm, group.settings)
        rate, offset = extrapolated(eta, beta, group.settings)
        for x in group.parts:
            x.skip = skip
            x.run.second(x, rate, offset)
        _record(group.settings, norm, eta, joint is None or bool(group.parts), skip)
    return skip


class ListExecution(Execution):
    """Both halves of a step in list operations, which a subclass supplies: lists in, lists out."""

    def first(self, x: Part, group: dict[str, Any], lr: float | Tensor, beta: float | Tensor) -> Tensor:
        """Write w_t and z_t, and return ‖z_t‖ of each tensor."""
        decay, is_decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        x.written = True
        g = self.gradients(x.g, x.w_hat, x.z, group["maximize"], 0.0 if is_decoupled else decay)
        # w_t = ŵ_t + c_{t−1} z_{t−1}: undo the last extrapolation
        x.w = self.add_scaled(x.w_hat, x.z, x.offset, +1, x.seeds)
        if is_decoupled and decay != 0:
            x.w = self.scale(x.w, 1 - lr * decay, x.seeds)
        # lines 5 and 10: z_t = (1 − β) z_{t−1} + β g_t, z_0 = g_0
        x.z = self.average(x.z, g, gradient_weights(x.step, beta, group["capturable"]))
        return self.norms(x.z)

    def second(self, x: Part, rate: Tensor, offset: Tensor) -> None:
        """Write ŵ_{t+1}, and store the offset."""
        # lines 8 and 9: w_{t+1} = w_t − η_t z_t, and ŵ_{t+1} = w_t − (1 + ℓ) η_t z_t, in the paper w_t − (η_t/β) z_t
        x.w_hat = self.add_scaled(x.w, x.z, per_tensor(rate, x), -1, x.seeds)
        x.offset = self.assign(x.offset, per_tensor(offset, x))
        self.count(x.step)

    @abstractmethod
    def parts(self, part: Part) -> list[Part]:
        """Divide a part into those that are executed together, and choose what executes them."""

    @abstractmethod
    def gradients(
        self, gs: list[Tensor], w_hats: list[Tensor], zs: list[Tensor], maximize: bool, weight_decay: float
    ) -> list[Tensor]:
        """±g + λ ŵ in z's precision. As in torch.optim, `maximize` turns g and not the decay."""

    @abstractmethod
    def add_scaled(
        self, xs: list[Tensor], ys: list[Tensor], scales: list[Tensor], sign: int, seeds: Seeds = None
    ) -> list[Tensor]:
        """Return x ± scale · y for each tensor."""

    @abstractmethod
    def scale(self, xs: list[Tensor], factor: float | Tensor, seeds: Seeds = None) -> list[Tensor]:
        """Return factor · x for each tensor."""

    @abstractmethod
    def average(self, zs: list[Tensor], gs: list[Tensor], weights: list[float | Tensor]) -> list[Tensor]:
        """Return (1 − weight) z + weight · g for each tensor."""

    @abstractmethod
    def assign(self, xs: list[Tensor], values: list[Tensor]) -> list[Tensor]:
        """Return the tensors with new values."""

    @abstractmethod
    def norms(self, zs: list[Tensor]) -> Tensor:
        """‖z‖ of each tensor."""

    @abstractmethod
    def count(self, steps: list[Tensor]) -> None:
        """Add one to each step count."""


def extrapolated(eta: Tensor, beta: float | Tensor, group: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The rate (1 + ℓ) η that leads from w_t to ŵ_{t+1}, and the offset ℓ η that leads from ŵ_{t+1} to w_{t+1}."""
    if group["lookahead"] is None:  # the paper's ℓ = 1/β − 1
        return eta / beta, eta * (1 / beta - 1)
    ahead = scalar(group, "lookahead")
    return eta * (1 + ahead), eta * ahead


def scalar(group: dict[str, Any], name: str) -> float | Tensor:
    """Setting of a group to compute with: a float, or a 0-dim tensor of float64 on the group's device."""
    value, like = group[name], group["record"]
    if isinstance(value, Tensor):
        return value.to(like).reshape(())
    if group["capturable"] or torch.compiler.is_compiling():  # a compiler would specialise on every value of a float
        return torch.ones((), dtype=like.dtype, device=like.device) * value
    return value


def gradient_weights(steps: list[Tensor], beta: float | Tensor, capturable: bool) -> list[float | Tensor]:
    """Weight of each gradient: β, but 1 at a parameter's first step, because z_0 = g_0 (line 5)."""
    if capturable or torch.compiler.is_compiling() or not all(step.is_cpu for step in steps):
        if not isinstance(beta, Tensor):  # of two numbers, torch.where would make a float32
            beta = torch.full((), beta, dtype=scalar_dtype(steps[0].device), device=steps[0].device)
        return [torch.where(step == 0, 1.0, beta) for step in steps]
    return [beta if step.item() else 1.0 for step in steps]  # the count is on the host then


def per_tensor(value: Tensor, part: Part) -> list[Tensor]:
    """The scalar that each tensor of a part gets, on its device and in its offset's precision."""
    # The bound keeps the scalar finite if ε₀ is tiny and z is 0: 0 · ∞ would be NaN.
    if value.ndim:
        rows = zip(part.index, part.offset, strict=True)
        return [value[i].clamp(max=torch.finfo(c.dtype).max).to(c) for i, c in rows]
    like = part.offset[0]
    return [value.clamp(max=torch.finfo(like.dtype).max).to(like)] * len(part.offset)


def _denominator(norm: Tensor, group: dict[str, Any]) -> Tensor:
    """max(‖z‖^p, ε₀). If both are 0, z is 0 and any finite η is right. If ‖z‖ is inf, η is NaN: 0 would hide it."""
    denominator = norm.pow(group["norm_power"]).clamp(min=group["eps"])
    denominator = denominator.masked_fill(denominator == math.inf, math.nan)
    return denominator if group["eps"] > 0 else denominator.masked_fill(denominator == 0, 1.0)


def _record(group: dict[str, Any], norm: Tensor, eta: Tensor, surely_steps: bool, skip: Tensor | None) -> None:
    """Update what `stats()` reads: ‖z‖, η, Σ‖z‖ and the number of steps, all on the device.

    A rank without gradients cannot know whether other ranks take a step. It counts one if the norm is not 0.
    """
    if norm.ndim:  # one η for each tensor: report the largest, and the norm over the group
        norm, eta = torch.linalg.vector_norm(norm), eta.amax()
    record = group["record"]
    steps = record[3] + (1 if surely_steps else norm != 0)
    new = torch.stack([norm, eta, record[2] + norm, steps, record[4]]).detach()
    record.copy_(new if skip is None else torch.where(skip.to(record.device), record, new))
