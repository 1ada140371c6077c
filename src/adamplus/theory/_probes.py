"""Probes that measure the theorems' quantities without changing the training: errors of z and g, Σ‖z‖, and w_τ."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from adamplus.optim import AdamPlus


class Errors(NamedTuple):
    """One measurement of `VarianceProbe`, taken before a step.

    Example:
        >>> adamplus.theory.Errors(step=0, z_error=1.0, g_error=2.0, gradient=3.0).g_error
        2.0
    """

    step: int
    """t, the number of steps taken before."""
    z_error: float
    """‖z_t − ∇F(w_t)‖, whose square Lemma 1 bounds."""
    g_error: float
    """‖g_t − ∇F(ŵ_t)‖, the noise of the gradient that the step uses."""
    gradient: float
    """‖∇F(w_t)‖, which the theorems bound."""


class VarianceProbe:
    r"""Probe of ‖z_t − ∇F(w_t)‖, ‖g_t − ∇F(ŵ_t)‖ and ‖∇F(w_t)‖ during real training.

    A measurement calls `gradient` twice, at ŵ and at w. It does not change the run: parameters, gradients, buffers
    (BatchNorm statistics), the modes of modules and torch's random state are restored bit for bit.

    Args:
        model: the model.
        optimizer: its optimizer.
        gradient: function that writes ∇F at the current parameters into their `.grad`, which is None when it is
            called. It runs the forward and backward passes of the mean loss over all data, or over a large batch.
        every: measure before each step whose number is a multiple of this. 0: only when `measure()` is called.

    Example:
        >>> model = torch.nn.Linear(3, 1)
        >>> x, y = torch.randn(64, 3), torch.randn(64, 1)
        >>> def gradient(rows=slice(None)):
        ...     torch.nn.functional.mse_loss(model(x[rows]), y[rows]).backward()
        >>> optimizer = adamplus.AdamPlus(model.parameters())
        >>> probe = adamplus.theory.VarianceProbe(model, optimizer, gradient, every=10)
        >>> for step in range(30):
        ...     optimizer.zero_grad()
        ...     gradient(torch.randint(64, (4,)))
        ...     optimizer.step()
        >>> [errors.step for errors in probe.history]
        [0, 10, 20]
    """

    def __init__(self, model: nn.Module, optimizer: AdamPlus, gradient: Callable[[], object], every: int = 100) -> None:
        if not isinstance(optimizer, AdamPlus):
            raise TypeError(
                f"VarianceProbe measures the z of AdamPlus, NAdamPlus and NIGT, not {type(optimizer).__name__}"
            )
        if every < 0:
            raise ValueError(f"every must be at least 1, or 0 to measure only by measure(), got {every}")
        self.model: nn.Module = model
        self.optimizer: AdamPlus = optimizer
        self.gradient: Callable[[], object] = gradient
        self.every: int = every
        self.history: list[Errors] = []
        self._measuring = False
        self._hook = optimizer.register_step_pre_hook(self._before_step)

    def remove(self) -> None:
        """Stop measuring before steps. `measure()` still works."""
        self._hook.remove()

    def measure(self) -> Errors:
        """Measure now, with the gradients g_t in the parameters' `.grad`, and add the result to `history`."""
        moved = [(p, group) for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not moved:
            raise RuntimeError("no parameter has a gradient: call measure() between backward() and step()")
        given = [p.grad for p, _ in moved]
        g = [_gradient(p, group) for p, group in moved]
        z_t = [_next_z(p, group, self.optimizer.state.get(p)) for p, group in moved]
        try:
            with undisturbed(self.model, self.optimizer):
                at_w_hat = self._true_gradient(moved)
                with self.optimizer.averaged():
                    at_w = self._true_gradient(moved)
        finally:
            for (p, _), own in zip(moved, given, strict=True):
                p.grad = own
        errors = Errors(_steps(self.optimizer), _distance(z_t, at_w), _distance(g, at_w_hat), _distance(at_w, None))
        self.history.append(errors)
        return errors

    def _true_gradient(self, moved: Sequence[tuple[Tensor, dict[str, Any]]]) -> list[Tensor]:
        for p, _ in moved:
            p.grad = None
        with torch.enable_grad(), _staying(self.optimizer):
            self.gradient()
        if any(p.grad is None for p, _ in moved):
            raise RuntimeError("gradient() left a parameter without a gradient, but the training batch gave it one")
        return [_gradient(p, group) for p, group in moved]

    def _before_step(self, *_: Any) -> None:
        if self.every and not self._measuring and _steps(self.optimizer) % self.every == 0:
            self._measuring = True
            try:
                self.measure()
            finally:
                self._measuring = False


class GrowthProbe:
    r"""Probe of the growth of Σ‖z‖, which determines the rate of Theorem 1, with a fit of its exponent.

    Args:
        optimizer: an `AdamPlus`, `NAdamPlus` or `NIGT`.
        every: steps between two readings. Each reading waits for the device.

    Example:
        >>> w = torch.nn.Parameter(torch.ones(2))
        >>> optimizer = adamplus.AdamPlus([w])
        >>> growth = adamplus.theory.GrowthProbe(optimizer)
        >>> for _ in range(64):
        ...     w.grad = torch.ones(2)              # never falls, so the sum grows with t
        ...     optimizer.step()
        >>> round(growth.exponent(), 3)
        1.0
    """

    def __init__(self, optimizer: AdamPlus, every: int = 1) -> None:
        if every < 1:
            raise ValueError(f"every must be at least 1, got {every}")
        self.optimizer: AdamPlus = optimizer
        self.every: int = every
        self.steps: list[int] = []
        self.sums: list[float] = []
        self._hook = optimizer.register_step_post_hook(self._after_step)

    def remove(self) -> None:
        """Stop recording. The readings so far are kept."""
        self._hook.remove()

    def exponent(self, last: float = 0.5) -> float:
        """Return the exponent s with which Σ‖z‖ grows as t^s, over the last part of the record.

        Args:
            last: the part of the record that is used, as a fraction.
        """
        begin = round(len(self.steps) * (1 - last))
        return growth_exponent(self.steps[begin:], self.sums[begin:])

    def _after_step(self, *_: Any) -> None:
        if _steps(self.optimizer) % self.every == 0:
            stats = self.optimizer.stats()
            self.steps.append(stats.step)
            self.sums.append(stats.norm_sum)


def growth_exponent(steps: Sequence[float], sums: Sequence[float]) -> float:
    """Return the slope of log Σ‖z‖ against log t, by least squares.

    Args:
        steps: t of every reading.
        sums: Σ‖z‖ of every reading.

    Example:
        >>> round(adamplus.theory.growth_exponent([1, 10, 100], [3.0, 3 * 10**0.5, 30.0]), 6)
        0.5
    """
    if len(steps) != len(sums) or len(set(steps)) < 2 or min(steps) <= 0 or min(sums) <= 0:
        raise ValueError(
            "an exponent needs at least two positive sums, at different positive steps, "
            f"got {len(sums)} sums at {len(steps)} steps"
        )
    x, y = ([math.log(value) for value in values] for values in (steps, sums))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - mean_x) ** 2 for a in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread


class RandomIterate:
    r"""Copy of w_τ, with τ uniform over the steps so far: the point that Theorem 3 is about.

    Only one copy is kept, whatever T. After step t, w_t replaces the copy with probability 1/t (reservoir sampling),
    which happens about log T times in a run.

    Args:
        optimizer: an `AdamPlus`, `NAdamPlus` or `NIGT`.
        seed: seed of τ.

    Example:
        >>> w = torch.nn.Parameter(torch.ones(2))
        >>> optimizer = adamplus.AdamPlus([w])
        >>> kept = adamplus.theory.RandomIterate(optimizer, seed=0)
        >>> for _ in range(100):
        ...     w.grad = w.detach().clone()
        ...     optimizer.step()
        >>> 1 <= kept.tau <= 100
        True
        >>> with kept.there():
        ...     at_tau = w.detach().clone()         # w_τ is in the parameters
    """

    def __init__(self, optimizer: AdamPlus, seed: int = 0) -> None:
        self.optimizer: AdamPlus = optimizer
        self.tau: int = 0
        self.seen: int = 0
        self.w: list[Tensor] = []
        self._random = torch.Generator().manual_seed(seed)
        self._hook = optimizer.register_step_post_hook(self._after_step)

    def remove(self) -> None:
        """Stop replacing the copy. The present copy is kept."""
        self._hook.remove()

    @contextmanager
    def there(self) -> Iterator[None]:
        """Put w_τ into the parameters inside the block, and restore them bit for bit after it."""
        if not self.w:
            raise RuntimeError("no step was taken, so there is no w_τ yet: call there() after step()")
        params = [p for group in self.optimizer.param_groups for p in group["params"]]
        before = [p.detach().clone() for p in params]
        _put(params, self.w)
        try:
            yield
        finally:
            _put(params, before)

    def state_dict(self) -> dict[str, Any]:
        """Return the copy, τ and the random state, for `load_state_dict()`."""
        return {"w": self.w, "tau": self.tau, "seen": self.seen, "random": self._random.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict()` returned."""
        self.w, self.tau, self.seen = list(state["w"]), state["tau"], state["seen"]
        self._random.set_state(state["random"])

    def _after_step(self, *_: Any) -> None:
        self.seen += 1
        if float(torch.rand((), generator=self._random, dtype=torch.float64)) * self.seen < 1:
            params = [p for group in self.optimizer.param_groups for p in group["params"]]
            before = [p.detach().clone() for p in params]
            with self.optimizer.averaged():
                self.w = [p.detach().clone() for p in params]
            _put(params, before)
            self.tau = self.seen


@contextmanager
def undisturbed(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Restore parameters, buffers, module modes and random state, bit for bit, when the block ends.

    Example:
        >>> w = torch.nn.Linear(1, 1)
        >>> with adamplus.theory.undisturbed(w, adamplus.AdamPlus(w.parameters())):
        ...     _ = torch.nn.init.zeros_(w.weight)
        >>> bool(w.weight == 0)
        False
    """
    params = [p for group in optimizer.param_groups for p in group["params"]]
    held = [*params, *model.buffers()]
    before = [tensor.detach().clone() for tensor in held]
    modes = [(module, module.training) for module in model.modules()]
    devices = sorted({p.device.index or 0 for p in params if p.is_cuda})
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            _put(held, before)
            for module, mode in modes:
                module.training = mode


@contextmanager
def _staying(optimizer: AdamPlus) -> Iterator[None]:
    """Ignore calls of the optimizer's `train()`, which model.train() and model.eval() make if it follows the model."""
    mode_before = optimizer._model_mode
    vars(optimizer)["train"] = lambda mode=True: optimizer
    try:
        yield
    finally:
        del vars(optimizer)["train"]
        optimizer._model_mode = mode_before


@torch.no_grad()
def _put(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for tensor, value in zip(tensors, values, strict=True):
        tensor.copy_(value)


@torch.no_grad()
def _gradient(p: Tensor, group: dict[str, Any]) -> Tensor:
    """The gradient that a step averages: ±g + λ p, because F contains λ‖p‖²/2 if weight decay is coupled."""
    assert p.grad is not None
    decay = 0.0 if group["decoupled_weight_decay"] else group["weight_decay"]
    return (-p.grad if group["maximize"] else p.grad) + decay * p


@torch.no_grad()
def _next_z(p: Tensor, group: dict[str, Any], state: dict[str, Tensor] | None) -> Tensor:
    """The z_t that the next step would compute from the present gradient."""
    g = _gradient(p, group)
    return torch.lerp(state["z"].to(g.dtype), g, float(group["beta"])) if state and state["step"] else g


def _distance(a: Sequence[Tensor], b: Sequence[Tensor] | None) -> float:
    """‖a − b‖ over all tensors together, or ‖a‖ if b is None, in float64."""
    parts = [x.double() if b is None else x.double() - b[i].double() for i, x in enumerate(a)]
    return math.sqrt(sum(float(part.abs().square().sum()) for part in parts))


def _steps(optimizer: AdamPlus) -> int:
    return max((int(state["step"]) for state in optimizer.state.values() if state), default=0)
