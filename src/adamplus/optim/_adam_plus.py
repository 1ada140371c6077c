"""`AdamPlus`, the torch.optim.Optimizer: settings, state and checkpoints around the algorithm."""

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, cast, overload

import torch
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT, _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from . import _settings
from ._algorithm import Batch, adam_plus
from ._execution.choice import call_fused, choose, fused_plan, refuse_fused
from ._execution.parts import parts
from ._execution.passes import Passes
from ._modes import TwoPoints, real, unreal
from ._ranks import ALONE, Joint, is_split, refuse_foreign_group
from ._state import (
    EXECUTION,
    asked_by_checkpoint,
    complete,
    dtypes_by_name,
    new_record,
    new_states,
    refuse_dtype,
    refuse_foreign,
    refuse_other_data,
    restore_state,
    separate,
    suit,
)


class Stats(NamedTuple):
    """What `AdamPlus.stats()` tells of the last step."""

    step: int
    """How many steps were taken; a parameter may have missed some, for want of a gradient."""
    norm: float
    """‖z‖, the norm that divided the step."""
    eta: float
    """η, the step size."""
    norm_sum: float
    """Σ‖z‖ over all steps, the sum that Theorem 1 speaks of."""


class AdamPlus(TwoPoints):
    r"""Adam⁺: the average of gradients at extrapolated points, over the root of its norm; one buffer of state.

    .. math::
        z_t &= (1-\beta) z_{t-1} + \beta g_t(\hat w_t), \qquad z_0 = g_0(w_0) \\
        \eta_t &= \alpha\beta^a / \max(\|z_t\|^p, \epsilon_0) \\
        w_{t+1} &= w_t - \eta_t z_t \\
        \hat w_{t+1} &= (1 - 1/\beta) w_t + (1/\beta) w_{t+1}

    While training, the parameters hold ŵ. Evaluate and ship w: `eval()` puts it there, `train()` puts ŵ back,
    and after `follow(model)` the model's own `train()` and `eval()` do both.

    Args:
        params: parameters, named parameters or parameter groups, as in torch.optim. Groups may differ in everything
            below down to `maximize`, and in `norm_scope`, `state_dtype` and `stochastic_rounding`.
        lr: α, a float or a 0-dim tensor; a tensor belongs on the parameters' device, or each step fetches it.
        beta: β in (0, 1], the weight of the new gradient; a float or a 0-dim tensor. 1 is SGD with an adaptive step.
        beta_power: a.
        norm_power: p in [0, 1].
        eps: ε₀, the least that the step is divided by.
        weight_decay: λ; the gradient becomes g + λ ŵ.
        decoupled_weight_decay: w ← (1 − lr·λ) w before the step, instead of λ ŵ in the gradient.
        maximize: ascend.
        foreach: many tensors a call (True) or one (False); by default foreach, where the tensors are plain ones.
        fused: Triton kernels (True), or not (False); by default on CUDA, where they can step all of the parameters.
        capturable: keep the step count on the parameter's device too, so that a step can be captured in a graph.
        differentiable: let autograd run through the step.
        norm_scope: ‖z‖ over all "global" groups together (the paper), over each "group", or over each "tensor".
        process_group: the ranks that together have one replica of the model, where each rank's optimizer has a share of
            it; not needed for DTensors on meshes of all ranks, nor under DDP.
        state_dtype: z's dtype; by default the parameter's, float32 for 16-bit ones.
        stochastic_rounding: round bfloat16 parameters up or down at random, as often as they are near, so that steps
            smaller than their rounding are not lost; the same step rounds in the same way whenever it is taken.

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
    ) -> None:
        defaults: dict[str, Any] = {
            "lr": lr,
            "beta": beta,
            "beta_power": beta_power,
            "norm_power": norm_power,
            "eps": eps,
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
        }
        self._check(defaults)
        refuse_foreign_group(process_group)
        self.process_group: ProcessGroup | None = process_group
        self._training, self._torn = True, False  # a compiled step would be compiled again for attributes that come
        super().__init__(params, defaults)

    _plan: Any = None  # of fused execution: tables on the device, made when first needed
    _joint: Joint | None = None  # the ranks that have parts of the parameters

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """GradScaler asks: fused kernels unscale, and skip a step with inf, without the host's knowing."""
        return all(group["fused"] for group in self.param_groups)

    def _check(self, settings: dict[str, Any]) -> None:
        """Raise what is wrong with a group's settings, given or loaded."""
        _settings.check(settings)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group in the mode that the others are in; its settings default to the optimizer's."""
        if isinstance(param_group, dict):
            param_group = dict(param_group)  # what is added to it here must not reach another optimizer
            settings = {**self.defaults, **param_group}
            self._check(settings)
            if settings["differentiable"] != self.defaults["differentiable"]:
                raise ValueError("differentiable holds for all groups: pass it to the optimizer")
            if "process_group" in param_group:
                raise ValueError("process_group holds for all groups: pass it to the optimizer")
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
                        f"parameter {i} is a conjugate that torch has not written to memory, and a step would write "
                        "into a copy: pass nn.Parameter(p.detach().resolve_conj())"
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
        """Take one step from the gradients at ŵ, and leave the parameters at the next ŵ.

        Args:
            closure: re-evaluates the model and returns the loss.

        Returns:
            The closure's loss, if there is a closure.
        """
        # Where hooks or profilers look on, torch's own way of telling them; where nobody does, its time is saved.
        # (What overrides step() and calls this one has been wrapped by torch already.)
        if type(self).step is AdamPlus.step and (torch.compiler.is_compiling() or _observed(self)):
            return _observed_step(self) if closure is None else _observed_step(self, closure)
        return self._take(closure)

    def _take(self, closure: Callable[[], float] | None = None) -> float | None:
        compiling = torch.compiler.is_compiling()
        if not compiling and not self.state and asked_by_checkpoint():
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
            # A plan launches kernels, of which autograd knows nothing.
            if self._plan is None or not self._run_plan():
                self._step(compiling)
        except Exception:
            self._tell_other_ranks()
            raise
        except BaseException:  # Ctrl-C, which may come between two tensors
            self._torn = True
            raise
        return loss

    def _step(self, compiling: bool) -> None:
        self._refuse_what_cannot_be_stepped()
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            rows: list[list[list[Tensor]]] = []
            for group in self.param_groups:
                params, grads, zs, offsets, steps = [], [], [], [], []
                self._init_group(group, params, grads, zs, offsets, steps, compiling)
                rows.append([params, grads, zs, offsets, steps])
            run = choose(self.param_groups, self.state, self.defaults["differentiable"], self._joint)
            if run is None and compiling:
                call_fused(self.param_groups, rows, *self._amp())
            elif run is None:
                with torch.inference_mode(False):  # as in _make_states
                    self._plan = fused_plan(self.param_groups, self.state, self._joint)
                if not self._run_plan():
                    raise RuntimeError("a gradient is not as its parameter: give it the same shape and device")
                if _capturing():  # its tables are empty until the graph is replayed, so no eager step may use them
                    vars(self)["_captured"].append(self._plan)
                    self._plan = None
            else:
                # torch 2.11 cannot compile what writes an attribute. (Dynamo traces without running.)
                if not compiling:  # pragma: no branch
                    self._plan = None
                self._run(run, rows)

    def _run(self, run: Any, rows: list[list[list[Tensor]]]) -> None:
        if self._amp()[1] is not None and any(columns[0] for columns in rows):
            raise RuntimeError("GradScaler leaves unscaling to fused kernels, and this step has none: leave fused=None")
        batches: list[Batch] = []
        for i, (group, columns) in enumerate(zip(self.param_groups, rows, strict=True)):
            numbers = [j for j, p in enumerate(group["params"]) if p.grad is not None]
            # Without gradients, it still has the norm of the others.
            if numbers or group["norm_scope"] == "global" or (self._joint and group["norm_scope"] == "group"):
                shares = [ALONE] * len(numbers) if self._joint is None else [self._joint.shares[i][j] for j in numbers]
                batches.append(Batch(group, i, numbers, parts(run, group, i, numbers, shares, *columns)))
        if any(not isinstance(part.run, Passes) for batch in batches for part in batch.parts):  # which have looked
            for params, _, zs, _, _ in rows:
                for p, z in zip(params, zs, strict=True):
                    refuse_other_data(p, z)
        if any(batch.parts for batch in batches) or self._joint is not None:
            try:
                adam_plus(batches, self._joint)
            except Exception:
                runs = [part.run for batch in batches for part in batch.parts]
                self._torn = any(not isinstance(run, Passes) or run.begun for run in runs)
                raise
        if self.defaults["differentiable"]:
            self._keep_history(batches)

    def _is_shared(self) -> bool:
        return self.process_group is not None or any(is_split(p) for g in self.param_groups for p in g["params"])

    def _find_other_ranks(self) -> None:
        """Find out over which ranks norms are summed; called where a compiler does not look."""
        if self._joint is not None and self._joint.is_for(self.param_groups, self.process_group):
            return
        self._joint = None
        if self._is_shared():
            self._joint = Joint(self.param_groups, self.process_group)
            self._joint.look(self.param_groups, self.process_group)
            if not self._joint.channels:
                self._joint = None

    def _tell_other_ranks(self) -> None:
        """Say that this rank cannot step, unless it has said so: other ranks wait for its part of the norm."""
        with suppress(RuntimeError):  # the error that is to be told says more
            self._find_other_ranks()
        with suppress(RuntimeError):
            if self._joint is not None:
                self._joint.tell(not self.training)

    def _amp(self) -> tuple[Tensor | None, Tensor | None]:
        """What GradScaler hands over around its step, to an optimizer that unscales by itself."""
        return getattr(self, "grad_scale", None), getattr(self, "found_inf", None)

    def _run_plan(self) -> bool:
        """Take a step by the plan, and say whether it still held."""
        plan = self._plan
        if _capturing():
            plan = plan.twin()
            vars(self).setdefault("_captured", []).append(plan)  # its tables must outlive the graph
        return plan.step(self.param_groups, self.state, *self._amp())

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
        """Gather what has a gradient, with its state; torch.compile runs this by its name, outside of the graph."""
        if group is self.param_groups[0]:
            self._find_other_ranks()
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
        with torch.inference_mode(False):  # or nobody could write to it outside of that mode
            for p, state in zip(new, new_states(new, group), strict=True):
                self.state[p] = state

    def _refuse_wrong_mode(self) -> None:
        self._refuse_torn_state()
        if not self.training:
            raise RuntimeError(
                "step() in eval mode: the parameters are at w, and gradients belong to ŵ. "
                "Call optimizer.train() before the forward pass (model.train(), if the optimizer follows the model)"
            )
        self._refuse_overwritten_mode()

    def _refuse_what_cannot_be_stepped(self) -> None:
        """Raise before anything changes."""
        differentiable = self.defaults["differentiable"]
        refuse_fused(self.param_groups, self.state)
        for i, group in enumerate(self.param_groups):
            _settings.check_execution(group)
            # A compiler would specialise on every value. (Dynamo traces without running: coverage sees one branch.)
            if not torch.compiler.is_compiling():  # pragma: no branch
                _settings.check_plain(group)
            for j, p in enumerate(group["params"]):
                if differentiable and is_split(p):
                    raise RuntimeError(f"parameter {j} of group {i} is a DTensor, and differentiable=True takes none")
                if differentiable and p.grad is not None and p.is_leaf and p.requires_grad:
                    raise RuntimeError(
                        f"parameter {j} of group {i} is a leaf that requires a gradient, and "
                        "differentiable=True writes into it: give the optimizer p.clone()"
                    )
                if (g := p.grad) is not None and g.layout != torch.strided:
                    raise RuntimeError(
                        f"parameter {j} of group {i} has a sparse gradient, and ‖z‖ is over dense ones: "
                        "use sparse=False in the layer that makes it, or p.grad = p.grad.to_dense()"
                    )
            if not group["capturable"] and not group["fused"] and _capturing():
                raise RuntimeError("a graph is being captured, and the step count is on the host: pass capturable=True")

    def _keep_history(self, batches: list[Batch]) -> None:
        """Write out-of-place results back, so that autograd reaches through parameters and state."""
        for batch in batches:
            params = [p for p in batch.group["params"] if p.grad is not None]
            for part in batch.parts:
                for w_hat, z, offset, i in zip(part.w_hat, part.z, part.offset, part.index, strict=True):
                    p = params[i]
                    real(p).copy_(w_hat)
                    self.state[p]["z"] = unreal(z, p)
                    self.state[p]["offset"] = offset

    def stats(self, group: int = 0) -> Stats:
        """Tell where the run stands; the first word between host and device since the last call.

        Args:
            group: whose η, ‖z‖, Σ‖z‖ and steps. With `norm_scope="global"` all groups have the same ‖z‖; with "tensor",
                η is the largest of the group's and ‖z‖ is over the group.

        Example:
            >>> w = torch.nn.Parameter(torch.tensor([4.0, 0.0]))
            >>> optimizer = adamplus.AdamPlus([w], lr=0.1, beta=0.5)
            >>> w.grad = torch.tensor([4.0, 0.0])
            >>> optimizer.step()
            >>> optimizer.stats()                  # η = 0.1 · 0.5 / √4
            Stats(step=1, norm=4.0, eta=0.025, norm_sum=4.0)
        """
        norm, eta, norm_sum, step = self.param_groups[group]["record"].tolist()
        return Stats(int(step), norm, eta, norm_sum)

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict()` takes: z, offset and step of each parameter, settings, mode and sums of norms."""
        self._refuse_torn_state()
        self._refuse_overwritten_mode()
        state_dict = super().state_dict()
        return {**state_dict, "param_groups": dtypes_by_name(state_dict["param_groups"])}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict()` gave, mode included: load the model that was saved beside it, too.

        State is copied and keeps its dtype. How steps are executed (foreach, capturable, …) stays this optimizer's own.

        Through torch.distributed.checkpoint, parameters may be regrouped: their state goes by name. With
        `flatten_optimizer_state_dict=True` each group takes the settings, ‖z‖, η and Σ‖z‖ that were saved for its first
        parameter. Without, a saved group cannot serve several: the last of them takes it, and the others keep their own
        settings. The mode is one for all groups; with `norm_scope="global"`, ‖z‖ and Σ‖z‖ are, too.
        """
        own = [{name: group[name] for name in EXECUTION} for group in self.param_groups]
        powers = [(group["norm_power"], group["beta_power"]) for group in self.param_groups]
        saved: dict[str, Any] = {}

        def check(_: Any, candidate: dict[str, Any]) -> dict[str, Any]:
            candidate = complete(self, candidate)
            refuse_foreign(self, candidate, self._check)
            saved.update(candidate)
            return candidate

        def restore(_: Any) -> None:
            self._torn, self._training = False, self.param_groups[0]["training"]
            for group, execution in zip(self.param_groups, own, strict=True):
                group.update(execution)
            with torch.inference_mode(False):  # as in _make_states
                restore_state(self, saved)

        hooks = (
            self.register_load_state_dict_pre_hook(check),  # last, so that it sees what the user's own hooks made
            self.register_load_state_dict_post_hook(restore, prepend=True),
        )
        try:
            super().load_state_dict(state_dict)
        finally:
            for hook in hooks:
                hook.remove()
        self._warn_of_another_mode()
        loaded = [(group["norm_power"], group["beta_power"]) for group in self.param_groups]
        if loaded != powers:
            warnings.warn(
                f"a state_dict of another method was loaded: its powers (of the norm, of β) are {loaded}, and this "
                f"{type(self).__name__} had {powers}. It goes on with the loaded ones",
                stacklevel=2,
            )

    def __getstate__(self) -> dict[str, Any]:
        # Without its process group a copy would divide by the wrong norm; with it, pickle says that it cannot.
        own = {"process_group": self.process_group, "_torn": self._torn, "_training": self._training}
        return {**super().__getstate__(), **own}


def _observed(optimizer: Optimizer) -> bool:
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _global_optimizer_pre_hooks
        or _global_optimizer_post_hooks
        or torch.autograd._profiler_enabled()
    )


_observed_step: Any = Optimizer.profile_hook_step(AdamPlus._take)
cast("Any", AdamPlus.step).hooked = True  # or torch would make every step an observed one


def _capturing() -> bool:
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
