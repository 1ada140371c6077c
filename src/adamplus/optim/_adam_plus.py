"""`AdamPlus`: the torch.optim.Optimizer around the algorithm."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, cast, overload

import torch
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT, _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from . import _settings
from ._checkpoint import dtypes_by_name, is_called_by, is_called_by_checkpoint, loading
from ._execution import Columns, Gathered, capturing, choose, refuse_fused, refuse_step
from ._layout import ORDINARY, is_sharded
from ._modes import Switchable
from ._ranks import Joint, JointError, refuse_process_group
from ._state import new_record, new_states, refuse_dtype, separate, suit


class Stats(NamedTuple):
    """What `AdamPlus.stats()` returns: the norm, the step size and the numbers of steps."""

    step: int
    """Number of steps taken. A parameter misses those for which it has no gradient."""
    norm: float
    """‖z‖ at the last step."""
    eta: float
    """η, the size of the last step."""
    norm_sum: float
    """Σ‖z‖ over all steps, the sum in Theorem 1."""
    skipped: int = 0
    """Number of steps that `skip_nonfinite=True` skipped. They count in nothing else."""


class AdamPlus(Switchable):
    r"""Adam⁺ averages gradients taken at extrapolated points and divides by the root of the average's norm.

    It keeps one state buffer, z, for each parameter.

    .. math::
        z_t &= (1-\beta) z_{t-1} + \beta g_t(\hat w_t), \qquad z_0 = g_0(w_0) \\
        \eta_t &= \alpha\beta^a / \max(\|z_t\|^p, \epsilon_0) \\
        w_{t+1} &= w_t - \eta_t z_t \\
        \hat w_{t+1} &= w_{t+1} + \ell (w_{t+1} - w_t), \qquad \ell = 1/\beta - 1

    While training, the parameters hold ŵ, where gradients are taken. Evaluate and ship w: `eval()` puts it into the
    parameters, and `train()` puts ŵ back. After `follow(model)`, the model's own `train()` and `eval()` do both.

    Args:
        params: parameters, named parameters or parameter groups, as in torch.optim. Groups may differ in `lr` to
            `maximize`, `norm_scope`, `state_dtype` and `stochastic_rounding`.
        lr: α, a float or a 0-dim tensor. Put a tensor on the parameters' device, or every step copies it there.
        beta: β in (0, 1], the weight of the new gradient; a float or a 0-dim tensor. 1 is SGD with an adaptive step.
        beta_power: a, the power of β in the step size.
        norm_power: p in [0, 1], the power of ‖z‖ that divides the step.
        eps: ε₀, the smallest value that the step is divided by.
        lookahead: ℓ, how many steps ahead of w gradients are taken. 0 takes them at w. Default: the paper's 1/β − 1.
        weight_decay: λ. The gradient becomes g + λ ŵ.
        decoupled_weight_decay: shrink w to (1 − lr·λ) w before the step, instead of adding λ ŵ to the gradient.
        maximize: maximize the objective instead of minimizing it.
        foreach: process many tensors per call (True) or one (False). Default: True, unless a parameter is a tensor
            subclass.
        fused: use the Triton kernels. Default: True if all parameters are on CUDA and the kernels support them.
        capturable: keep the step count on the parameter's device, so that a CUDA graph can capture the step.
        differentiable: let autograd run through the step.
        norm_scope: the vector whose norm divides the step: all "global" groups together (the paper), each "group",
            or each "tensor".
        process_group: ranks that together hold one replica of the model, if each rank's optimizer has a share of the
            parameters (as in ZeRO). Not needed under DDP, FSDP2 and tensor parallelism, alone or together.
        state_dtype: dtype of z. Default: the parameter's, or float32 for 16-bit parameters.
        stochastic_rounding: round bfloat16 parameters up or down at random, with probability proportional to
            proximity, so that steps smaller than their rounding are not lost. Repeating a step repeats its rounding.
        skip_nonfinite: skip a step if any gradient contains inf or NaN: it changes nothing, in no group and on no
            rank, and is counted in `stats().skipped`. On an accelerator, the host does not wait to know. Default: the
            step makes η NaN, and with it every parameter in the norm's scope.

    Example:
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = adamplus.AdamPlus(model.parameters(), lr=0.1, beta=0.1)
        >>> optimizer.follow(model)
        >>> x, y = torch.randn(64, 3), torch.randn(64, 1)
        >>> for _ in range(3):
        ...     optimizer.zero_grad()
        ...     torch.nn.functional.mse_loss(model(x), y).backward()
        ...     optimizer.step()
        >>> validation = model.eval()(x)          # at w
        >>> optimizer.stats().step
        3

    References:
        Liu, Zhang, Orabona and Yang, *Adam⁺: A Stochastic Method with Adaptive Variance Reduction*, 2020.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.1,
        beta: float | Tensor = 0.1,
        *,
        beta_power: float = 1.0,
        norm_power: float = 0.5,
        eps: float = 1e-8,
        lookahead: float | None = None,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        norm_scope: _settings.NormScope = "global",
        process_group: ProcessGroup | None = None,
        state_dtype: torch.dtype | None = None,
        stochastic_rounding: bool = False,
        skip_nonfinite: bool = False,
    ) -> None:
        defaults: dict[str, Any] = {
            "lr": lr,
            "beta": beta,
            "beta_power": beta_power,
            "norm_power": norm_power,
            "eps": eps,
            "lookahead": lookahead,
            "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "fused": fused,
            "capturable": capturable,
            "differentiable": differentiable,
            "norm_scope": norm_scope,
            "state_dtype": state_dtype,
            "stochastic_rounding": stochastic_rounding,
            "skip_nonfinite": skip_nonfinite,
        }
        self._check(defaults)
        refuse_process_group(process_group)
        if process_group is None and is_called_by("_init_local_optimizer"):
            raise RuntimeError(
                "ZeroRedundancyOptimizer gives each rank some of the parameters, and ‖z‖ is over all of them: pass "
                "optimizer_class=functools.partial(AdamPlus, process_group=torch.distributed.group.WORLD)"
            )
        self.process_group: ProcessGroup | None = process_group
        # A new attribute would make torch.compile compile a step again, so all of them are set here.
        self._training, self._torn, self._captured = True, False, []
        super().__init__(params, defaults)

    _plan: Any = None
    """Plan of the next fused step."""
    _captured: list[Any]
    """Plans that CUDA graphs replay."""
    _joint: Joint | None = None
    """The ranks that share the parameters."""

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether the step itself unscales and skips inf, as GradScaler asks: fused kernels do, without a host sync."""
        return all(group["fused"] for group in self.param_groups)

    def _check(self, settings: dict[str, Any]) -> None:
        """Raise for settings that a group may not have, given or loaded."""
        _settings.check(settings)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group in the current mode. Settings that it lacks are the optimizer's defaults."""
        if isinstance(param_group, dict):
            param_group = dict(param_group)  # the caller's dictionary may go to another optimizer, too
            settings = {**self.defaults, **param_group}
            self._check(settings)
            for name in ("differentiable", "skip_nonfinite"):
                if settings[name] != self.defaults[name]:
                    raise ValueError(f"{name} is one for all groups: pass it to the optimizer")
            if "process_group" in param_group:
                raise ValueError("process_group is one for all groups: pass it to the optimizer")
            if self.process_group is not None and settings["norm_scope"] != "global":
                raise ValueError('process_group joins shares of one global vector: it needs norm_scope="global"')
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            refuse_fused(self.param_groups, self.state)
            for i, p in enumerate(group["params"]):
                if p.requires_grad:
                    refuse_dtype(p, group)
                if p.is_conj():
                    raise ValueError(
                        f"parameter {i} is a lazy conjugate, and a step would write into a copy of it: "
                        "pass nn.Parameter(p.detach().resolve_conj())"
                    )
        except (RuntimeError, TypeError, ValueError):
            self.param_groups.pop()
            raise
        self._joint = None
        group["training"] = self._training
        with torch.inference_mode(False):  # as in _make_states
            group["record"] = new_record(group)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Take one step. Gradients are those at ŵ, and the parameters hold the next ŵ afterwards.

        Args:
            closure: re-evaluates the model and returns the loss.

        Returns:
            The closure's loss, or None without a closure.
        """
        # Use torch's `profile_hook_step` wrapper only if a hook or the profiler is active: it costs time in every step.
        # (torch has already wrapped a subclass that overrides step() and calls this one.)
        if type(self).step is AdamPlus.step and (torch.compiler.is_compiling() or _observed(self)):
            return _observed_step(self) if closure is None else _observed_step(self, closure)
        return self._take(closure)

    def _take(self, closure: Callable[[], float] | None = None) -> float | None:
        compiling = torch.compiler.is_compiling()
        if not compiling and not self.state and is_called_by_checkpoint():
            for group in self.param_groups:
                self._make_states(group)
            return None
        loss = None
        if closure is not None:
            if not self._is_shared():  # or other ranks would wait, in their closures, for this one
                self._refuse_wrong_mode()
            with torch.enable_grad():
                loss = closure()
        if compiling:
            self._refuse_wrong_mode()
            self._step(compiling)
            return loss
        if self._joint is not None:
            self._joint.summed = False
        try:
            self._refuse_wrong_mode()
            if self._plan is None or not self._plan.take(
                self.param_groups, self.state, *self._amp(), captured=self._captured
            ):
                self._step(compiling)
        except Exception as error:
            self._torn = self._torn or (self._plan is not None and self._plan.torn)
            if not isinstance(error, JointError):
                self._warn_other_ranks()
            raise
        except BaseException:  # Ctrl-C may come between two tensors
            self._torn = True
            raise
        return loss

    def _step(self, compiling: bool) -> None:
        differentiable = self.defaults["differentiable"]
        refuse_step(self.param_groups, self.state, differentiable)
        with torch.set_grad_enabled(differentiable):
            gathered = self._gather(compiling)
            stepper = choose(gathered, differentiable)
            # torch 2.11 cannot compile what writes an attribute. (Dynamo traces without running.)
            if compiling:  # pragma: no cover
                stepper.step(gathered)
                return
            self._plan = None  # what it holds need not live through this step
            try:
                self._plan = stepper.step(gathered)
            except Exception:
                self._torn = self._torn or gathered.torn
                raise

    def _gather(self, compiling: bool) -> Gathered:
        """Gather what has a gradient, with its state."""
        # torch.compile would compile the step again whenever the list of captured plans grows.
        captured = [] if compiling else self._captured
        columns: list[Columns] = []
        for group in self.param_groups:
            own = Columns([], [], [], [], [])
            self._init_group(group, *own, compiling)
            columns.append(own)
        return Gathered(self.param_groups, columns, self.state, self._joint, *self._amp(), captured)

    def _is_shared(self) -> bool:
        """Whether other ranks have a part of the parameters."""
        params = (p for group in self.param_groups for p in group["params"])
        return self.process_group is not None or any(type(p) not in ORDINARY and is_sharded(p) for p in params)

    def _find_other_ranks(self, compiling: bool = False) -> None:
        """Find the ranks over which norms are summed. Called where torch.compile does not trace."""
        if self._joint is not None and self._joint.is_for(self.param_groups, self.process_group):
            return
        self._joint = None
        if self._is_shared():
            self._joint = Joint(self.param_groups, self.process_group)
            self._joint.look(self.param_groups, self.process_group, silently=compiling or capturing())
            if self._joint.layout is None:
                self._joint = None

    def _warn_other_ranks(self) -> None:
        """Let other ranks know that this one cannot step, unless they do: they wait for its part of the norm."""
        with suppress(RuntimeError):  # the error that is raised already says more
            self._find_other_ranks()
        with suppress(RuntimeError):
            if self._joint is not None:
                self._joint.decline(not self.training)

    def _amp(self) -> tuple[Tensor | None, Tensor | None]:
        """Scale and inf flag that GradScaler sets around its step, for an optimizer that unscales itself."""
        return getattr(self, "grad_scale", None), getattr(self, "found_inf", None)

    def _init_group(
        self,
        group: dict[str, Any],
        params: list[Tensor],
        grads: list[Tensor],
        zs: list[Tensor],
        offsets: list[Tensor],
        steps: list[Tensor],
        compiling: bool,
    ) -> None:
        """Gather what has a gradient, with its state. torch.compile runs this method, by name, outside of the graph."""
        if group is self.param_groups[0]:
            self._find_other_ranks(compiling)
        self._make_states(group)
        fused = group["fused"]
        for p in group["params"]:
            if (g := p.grad) is None:
                continue
            state = self.state[p]
            if fused:
                suit(p, state)
            if compiling and separate(state):
                self._plan = None
            params.append(p)
            grads.append(g)
            zs.append(state["z"])
            offsets.append(state["offset"])
            steps.append(state["step"])

    def _make_states(self, group: dict[str, Any]) -> None:
        new = [p for p in group["params"] if not self.state.get(p) and p.grad is not None]
        if not new:
            return
        with torch.inference_mode(False):  # or it could not be written to outside of that mode
            for p, state in zip(new, new_states(new, group), strict=True):
                self.state[p] = state

    def _refuse_wrong_mode(self) -> None:
        if self._torn:  # both conditions are repeated here to save two calls in every step
            self._refuse_torn_state()
        if not self._training:
            raise RuntimeError(
                "step() in eval mode: the parameters are at w, and gradients belong to ŵ. "
                "Call optimizer.train() before the forward pass (model.train(), if the optimizer follows the model)"
            )
        if any(group["training"] != self._training for group in self.param_groups):
            self._refuse_overwritten_mode()

    def stats(self, group: int = 0) -> Stats:
        """Return the norm, the step size and the numbers of steps. On an accelerator, this waits for the device.

        Args:
            group: index of the group to report. With `norm_scope="global"`, all groups have the same ‖z‖. With
                "tensor", η is the largest in the group, and ‖z‖ is over the group.

        Example:
            >>> w = torch.nn.Parameter(torch.tensor([4.0, 0.0]))
            >>> optimizer = adamplus.AdamPlus([w], lr=0.1, beta=0.5)
            >>> w.grad = torch.tensor([4.0, 0.0])
            >>> optimizer.step()
            >>> optimizer.stats()                  # η = 0.1 · 0.5 / √4
            Stats(step=1, norm=4.0, eta=0.025, norm_sum=4.0, skipped=0)
        """
        norm, eta, norm_sum, step, skipped = self.param_groups[group]["record"].tolist()
        return Stats(int(step), norm, eta, norm_sum, int(skipped))

    def state_dict(self) -> dict[str, Any]:
        """Return z, offset and step of each parameter, the groups' settings, the mode and the sums of norms."""
        self._refuse_torn_state()
        self._refuse_overwritten_mode()
        state_dict = super().state_dict()
        return {**state_dict, "param_groups": dtypes_by_name(state_dict["param_groups"])}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict()` returned, mode included. Load the model that was saved with it, too.

        State is copied and keeps its dtype. How steps are executed (foreach, capturable, …) stays this optimizer's own.

        torch.distributed.checkpoint may regroup parameters, because it stores their state by name. With
        `flatten_optimizer_state_dict=True`, each group takes the settings, ‖z‖, η and Σ‖z‖ that were saved for its
        first parameter. Without it, a saved group that became several goes to the last of them, and the others keep
        their own settings. The mode is one for all groups, and with `norm_scope="global"` so are ‖z‖ and Σ‖z‖.
        """
        with loading(self, self._check):
            super().load_state_dict(state_dict)
            self._warn_of_another_mode()

    def __getstate__(self) -> dict[str, Any]:
        # A copy without the process group would divide by the wrong norm; with it, pickle raises.
        own = {"process_group": self.process_group, "_torn": self._torn, "_training": self._training, "_captured": []}
        return {**super().__getstate__(), **own}


def _observed(optimizer: Optimizer) -> bool:
    """Whether a hook or the profiler watches this optimizer's steps."""
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _global_optimizer_pre_hooks
        or _global_optimizer_post_hooks
        or torch.autograd._profiler_enabled()
    )


_observed_step: Any = Optimizer.profile_hook_step(AdamPlus._take)
cast("Any", AdamPlus.step).hooked = True  # or torch would wrap every step
