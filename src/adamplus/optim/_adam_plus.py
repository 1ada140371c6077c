"""`AdamPlus`: the torch.optim.Optimizer around the algorithm."""

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.optim.optimizer import ParamsT

from . import _foreign, _settings
from ._checkpoint import is_called_by
from ._execution import Gathered, capturing, choose, refuse_fused, refuse_step
from ._never_at_w import Watch
from ._optimizer import ExtrapolatingOptimizer
from ._ranks import Joint, refuse_process_group


class AdamPlus(ExtrapolatingOptimizer):
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
        lr: α, a float or a 0-dim tensor. Put a tensor on the parameters' device, or every step copies it there. Search
            from 0.1 to 10. The paper has 0.1 (`adamplus.PAPER`). `adamplus.lr_from_sgd` starts from a rate of SGD.
        beta: β in (0, 1], the weight of the new gradient; a float or a 0-dim tensor. 1 is SGD with an adaptive step.
        beta_power: a, the power of β in the step size.
        norm_power: p in [0, 1], the power of ‖z‖ that divides the step.
        eps: ε₀, the smallest value that the step is divided by.
        lookahead: ℓ, how many steps ahead of w gradients are taken. 0 takes them at w. Default: the paper's 1/β − 1.
        weight_decay: λ. The gradient becomes g + λ ŵ.
        decoupled_weight_decay: shrink w to (1 − lr·λ) w before the step, instead of adding λ ŵ to the gradient. For
            AdamW's decay, pass its lr·λ divided by this lr, which is much larger. Above lr·λ = 0.01 a warning is given.
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
        >>> optimizer = adamplus.AdamPlus(model.parameters(), lr=1.0, beta=0.1)
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

    @_foreign.explained
    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
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
        self._training, self._torn, self._captured, self._watch = True, False, [], Watch()
        super().__init__(params, defaults)

    NAME: ClassVar[str] = "Adam⁺"
    METHOD: ClassVar[tuple[str, ...]] = ("norm_power", "beta_power")
    _ranks: Joint | None = None
    """The ranks that share the parameters, over which norms are summed."""

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether the step itself unscales and skips inf, as GradScaler asks: fused kernels do, without a host sync."""
        return all(group["fused"] for group in self.param_groups)

    def _check(self, settings: dict[str, Any]) -> None:
        _settings.check(settings)

    def _check_group(self, settings: dict[str, Any], given: dict[str, Any]) -> None:
        super()._check_group(settings, given)
        for name in ("differentiable", "skip_nonfinite"):
            if settings[name] != self.defaults[name]:
                raise ValueError(f"{name} is one for all groups: pass it to the optimizer")
        if "process_group" in given:
            raise ValueError("process_group is one for all groups: pass it to the optimizer")
        if self.process_group is not None and settings["norm_scope"] != "global":
            raise ValueError('process_group joins shares of one global vector: it needs norm_scope="global"')
        _settings.warn_of_decay(settings)

    def _check_parameters(self, group: dict[str, Any]) -> None:
        refuse_fused(self.param_groups, self.state)
        super()._check_parameters(group)
        self._ranks = None

    def _after_failure(self, error: Exception) -> None:
        self._torn = self._torn or (self._plan is not None and self._plan.torn)
        super()._after_failure(error)

    def _step(self, compiling: bool) -> None:
        plan = None if compiling else self._plan
        if plan is not None and plan.take(self.param_groups, self.state, *self._amp(), captured=self._captured):
            return
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
        columns = [self._columns(group, compiling) for group in self.param_groups]
        return Gathered(self.param_groups, columns, self.state, self._ranks, *self._amp(), captured)

    def _is_shared(self) -> bool:
        return self.process_group is not None or super()._is_shared()

    def _find_other_ranks(self, compiling: bool = False) -> None:
        """Find the ranks over which norms are summed. Called where torch.compile does not trace."""
        if self._ranks is not None and self._ranks.is_for(self.param_groups, self.process_group):
            return
        self._ranks = None
        if self._is_shared():
            self._ranks = Joint(self.param_groups, self.process_group)
            self._ranks.look(self.param_groups, self.process_group, silently=compiling or capturing())
            if self._ranks.layout is None:
                self._ranks = None

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
        directions: list[Tensor],
        compiling: bool,
    ) -> None:
        if group is self.param_groups[0]:
            self._find_other_ranks(compiling)
        super()._init_group(group, params, grads, zs, offsets, steps, directions, compiling)

    def __getstate__(self) -> dict[str, Any]:
        # A copy without the process group would divide by the wrong norm; with it, pickle raises.
        return {**super().__getstate__(), "process_group": self.process_group}
