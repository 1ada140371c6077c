"""`SpectralPlus`: Adam⁺'s extrapolated average with steps of steepest descent in a norm per layer."""

import math
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from . import _foreign, _settings
from ._agreement import JointError
from ._algorithm import Group, Part, scalar
from ._checkpoint import UNCHANGED
from ._cuts import Cut
from ._directions import GEOMETRIES, check_geometry
from ._execution import (
    PLAIN,
    Gathered,
    new_plan,
    refuse_capture,
    refuse_fused,
    refuse_gradient,
    spectral_parts,
    wants_foreach,
    wants_fused,
    whole,
)
from ._layout import alone, is_sharded, is_split, local
from ._never_at_w import Watch
from ._optimizer import ExtrapolatingOptimizer, Stats
from ._spectral import known_direction, spectral_plus
from ._spectral_ranks import MatrixRanks
from ._state import refuse_other_data

Geometry: TypeAlias = Literal["spectral", "sign"]
LAYOUT = ("geometry", "stacked", "transposed", "blocks", "keep_direction")
"""Settings that D(z) depends on, except for its scale. They may not change once a group has taken a step."""


class SpectralPlus(ExtrapolatingOptimizer):
    r"""SpectralPlus averages gradients taken ahead of w and takes steps of steepest descent in a norm per layer.

    It keeps one state buffer, z, for each parameter, as Adam⁺ does. Hidden matrices take spectral steps, and everything
    else (embeddings, output heads, vectors) sign steps. `spectral_groups(model)` makes the groups.

    .. math::
        z_t &= (1-\beta) z_{t-1} + \beta g_t(\hat w_t), \qquad z_0 = g_0(w_0) \\
        w_{t+1} &= (1 - \text{lr} \lambda) w_t - \text{lr} D(z_t) \\
        \hat w_{t+1} &= w_{t+1} - \ell \, \text{lr} D(z_t)

    ==============  =====================================================  =======================================
    geometry        D(z)                                                   for
    ==============  =====================================================  =======================================
    ``"spectral"``  s √(d_out/d_in) U Vᵀ, where z = U Σ Vᵀ                 hidden matrices, convolutions
    ``"sign"``      s sign(z)                                              embeddings, output head, vectors
    ==============  =====================================================  =======================================

    While training, the parameters hold ŵ, where gradients are taken. Evaluate and ship w: `eval()` puts it into the
    parameters, and `train()` puts ŵ back. After `follow(model)`, the model's own `train()` and `eval()` do both.

    On several processes, matrices that are sharded (`fully_shard`, tensor parallel) are divided among the ranks, which
    compute their directions and exchange shards. All ranks call `step()`, `eval()` and `train()` together.

    Args:
        params: parameters or parameter groups, as `spectral_groups(model)` returns them. Groups may differ in all
            settings but those that say how steps are executed.
        lr: the size of a step, a float or a 0-dim tensor. Put a tensor on the parameters' device, or every step copies
            it there.
        beta: β in (0, 1], the weight of the new gradient; a float or a 0-dim tensor.
        lookahead: ℓ, how many steps ahead of w gradients are taken. 0 takes them at w. None is Adam⁺'s 1/β − 1.
        weight_decay: λ. Each step shrinks w to (1 − lr·λ) w. Since steps have one length, this keeps the spectral norm
            of a matrix at about s √(d_out/d_in) / λ or below.
        geometry: the norm of the group's parameters, "spectral" or "sign".
        scale: s. Default: 1 for "spectral" and 0.04 for "sign".
        stacked: whether a parameter is a stack of matrices: all dimensions but the last two number them.
        transposed: whether a matrix is stored as (d_in, d_out), as in transformers' Conv1D. Default: (d_out, d_in).
            Without `stacked`, all dimensions of a parameter after the first are one.
        blocks: number or sizes of the matrices that d_out consists of: 3 for packed queries, keys and values.
        keep_direction: keep D(z) of matrices in bfloat16 from step to step, 2 bytes per parameter, instead of computing
            it from z twice.
        maximize: maximize the objective instead of minimizing it.
        foreach: process many tensors per call (True) or one (False). Default: True, unless a parameter is a tensor
            subclass.
        fused: use Triton kernels. Default: True for the groups of a geometry if all of them are on CUDA and the kernels
            support them.
        capturable: keep the step count on the parameter's device, so that a CUDA graph can capture the step.
        state_dtype: dtype of z. Default: the parameter's, or float32 for 16-bit parameters.
        stochastic_rounding: round bfloat16 parameters up or down at random, with probability proportional to
            proximity, so that steps smaller than their rounding are not lost. Repeating a step repeats its rounding.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        >>> optimizer = adamplus.SpectralPlus(adamplus.spectral_groups(model), lr=0.02)
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
        Pethick, Xie, Antonakopoulos, Zhu, Silveti-Falls and Cevher, *Training Deep Learning Models with
        Norm-Constrained LMOs* (Scion), 2025, whose directions these are.

        Jordan et al., *Muon: An optimizer for hidden layers in neural networks*, 2024.

        Cutkosky and Mehta, *Momentum Improves Normalized SGD*, 2020, and Liu, Zhang, Orabona and Yang, *Adam⁺*, 2020,
        for gradients ahead of w.
    """

    NAME: ClassVar[str] = "SpectralPlus"
    METHOD: ClassVar[tuple[str, ...]] = LAYOUT
    _planned: tuple[list[int], list[dict[str, Any]]]
    """The groups when `_plan` was made, by their ids, and those that it steps."""
    _ranks: MatrixRanks | None = None
    """The ranks that have parts of this rank's matrices, or None if it has all of each matrix."""

    @_foreign.explained
    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.02,
        beta: float | Tensor = 0.05,
        *,
        lookahead: float | None = 1.0,
        weight_decay: float = 0.1,
        geometry: Geometry = "spectral",
        scale: float | None = None,
        stacked: bool = False,
        transposed: bool = False,
        blocks: int | tuple[int, ...] = 1,
        keep_direction: bool = False,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        state_dtype: torch.dtype | None = None,
        stochastic_rounding: bool = False,
    ) -> None:
        defaults: dict[str, Any] = {
            "lr": lr,
            "beta": beta,
            "lookahead": lookahead,
            "weight_decay": weight_decay,
            "geometry": geometry,
            "scale": scale,
            "stacked": stacked,
            "transposed": transposed,
            "blocks": blocks,
            "keep_direction": keep_direction,
            "maximize": maximize,
            "foreach": foreach,
            "fused": fused,
            "capturable": capturable,
            "state_dtype": state_dtype,
            "stochastic_rounding": stochastic_rounding,
        }
        self._check(defaults)
        # A new attribute would make torch.compile compile a step again, so all of them are set here.
        self._training, self._torn, self._captured, self._watch = True, False, [], Watch()
        super().__init__(params, defaults)

    def _check(self, settings: dict[str, Any]) -> None:
        _settings.check(settings)
        check_geometry(settings, [])

    def _check_saved(self, settings: dict[str, Any]) -> None:
        super()._check_saved(settings)
        saved, extrapolated = settings.get("layout"), settings.get("extrapolated")
        if repr(saved) != repr(now := _layout(settings)) or not isinstance(extrapolated, bool):
            raise ValueError(
                f"a group with {', '.join(LAYOUT)} = {now} must have the layout {now}, got {saved!r}, and extrapolated "
                f"True or False, got {extrapolated!r}. {UNCHANGED}"
            )

    def _check_parameters(self, group: dict[str, Any]) -> None:
        super()._check_parameters(group)
        check_geometry(group, group["params"])
        refuse_fused([other for other in self.param_groups if other["geometry"] == group["geometry"]], self.state)
        # From the first step ahead of w, each step has to undo the last one, and eval() leads back to w.
        group["layout"], group["extrapolated"] = _layout(group), group["lookahead"] != 0

    def names_of_state(self, group: dict[str, Any]) -> tuple[str, ...]:
        """Names of what the state of a parameter of this group consists of."""
        return (*super().names_of_state(group), *(("direction",) if _keeps(group) else ()))

    def _make_states(self, group: dict[str, Any]) -> None:
        super()._make_states(group)
        for p in group["params"] if _keeps(group) else ():
            if (state := self.state.get(p)) and "direction" not in state:
                state["direction"] = torch.zeros_like(p, dtype=torch.bfloat16)

    def _find_other_ranks(self) -> None:
        if self._ranks is not None:
            if self._ranks.is_for(self.param_groups):
                return
            self._ranks = None  # only if it is another: torch 2.6 cannot compile what writes an attribute
        if self._is_shared():
            ranks = MatrixRanks(self.param_groups)
            self._ranks = ranks if ranks.cuts else None

    def _step(self, compiling: bool) -> None:
        for i, group in enumerate(self.param_groups):
            if group["geometry"] == "spectral" and any(map(is_sharded, group["params"])):
                # Without fullgraph=True, the compiler leaves this step to Python then.
                if torch.compiler.is_compiling():  # pragma: no cover - dynamo traces without running
                    raise RuntimeError(f"group {i} has matrices that are DTensors, whose steps cannot be compiled")
                _without_compiler()(self)
                return
        self._step_groups(compiling)

    def _step_groups(self, compiling: bool = False) -> None:
        for i, group in enumerate(self.param_groups):
            self._refuse_group(i, group)
        self._find_other_ranks()
        with torch.no_grad():
            if not self._attempt(compiling):
                self._attempt(compiling)  # without the plan that did not fit

    def _attempt(self, compiling: bool) -> bool:
        """Take a step, and return True. If the plan of the last step does not fit, only drop it and return False."""
        fused = [] if compiling else self._fused_groups()
        parts = [
            (group, [] if any(group is other for other in fused) else self._parts(i, group, compiling))
            for i, group in enumerate(self.param_groups)
        ]
        if self._ranks is not None:
            self._ranks.agree("step", self.param_groups, [p.grad is not None for p in self._ranks.cuts])
        for group in self.param_groups:
            if group["lookahead"] != 0 and not group["extrapolated"]:
                group["extrapolated"] = True
        begun = False
        try:
            if fused and not self._step_fused(fused):
                return False
            begun = bool(fused)
            for group, some in parts:
                for part in some:
                    spectral_plus(part, group)
                if some:
                    _count(group)
        except Exception:
            self._torn = self._torn or begun or any(part.written for _, some in parts for part in some)
            raise
        return True

    def _fused_groups(self) -> list[dict[str, Any]]:
        """The groups that Triton kernels step: all signs or none, and all matrices or none."""
        ids = list(map(id, self.param_groups))
        if self._plan is not None and ids == self._planned[0]:
            return self._planned[1]
        self._plan = None
        fused: list[dict[str, Any]] = []
        for geometry in GEOMETRIES:
            groups = [group for group in self.param_groups if group["geometry"] == geometry]
            is_cut = geometry == "spectral" and self._ranks is not None
            refuse_fused([] if is_cut else groups, self.state)
            for group in groups:
                self._make_states(group)
            if groups and not is_cut and wants_fused(groups, self.state):
                fused += groups
        self._planned = ids, fused
        return fused

    def _step_fused(self, groups: list[dict[str, Any]]) -> bool:
        """Step groups by Triton kernels. If the plan of the last step does not fit, only return False."""
        plan, self._plan = self._plan, None
        gathered = Gathered(groups, [], self.state, None, None, None, self._captured)
        try:
            if plan is not None and plan.take(groups, self.state, None, None, captured=self._captured):
                self._plan = plan
            elif plan is not None and self._ranks is None:
                return False
            else:  # ranks that have agreed cannot begin again
                for group in groups:  # a parameter may have its first gradient
                    self._make_states(group)
                self._plan = new_plan(gathered)
        except Exception:
            self._torn = gathered.torn or (plan is not None and plan.torn)
            raise
        return True

    def _refuse_group(self, i: int, group: dict[str, Any]) -> None:
        """Raise for settings and gradients that no step can take, before anything changes."""
        if not torch.compiler.is_compiling():  # pragma: no branch - dynamo traces without running
            _settings.check_plain(group)
            check_geometry(group, [])
        if (now := _layout(group)) != group["layout"]:
            raise ValueError(
                f"group {i} was added with {', '.join(LAYOUT)} = {group['layout']} and now has {now}: w cannot be "
                "recovered by other directions. Set them back, or start a new optimizer from w"
            )
        for j, p in enumerate(group["params"]):
            refuse_gradient(p, i, j)
        refuse_capture(group)

    def _parts(self, number: int, group: dict[str, Any], compiling: bool) -> list[Part]:
        """The tensors of a group that have a gradient, divided into those that are stepped together."""
        columns = self._columns(group, compiling)
        if not columns.params:
            return []
        numbers = [j for j, p in enumerate(group["params"]) if p.grad is not None]
        for p, z in zip(columns.params, columns.zs, strict=True):
            refuse_other_data(p, z)
        part = whole(Group(group, number, numbers, []), list(map(alone, columns.params)), columns, PLAIN)
        part.cuts = self._cuts_of(columns.params)
        return spectral_parts(part, wants_foreach(self.param_groups))

    def _cuts_of(self, params: list[Tensor]) -> list[Cut | None]:
        """How each parameter's matrices are cut over ranks, or an empty list if this rank has all of each matrix."""
        return [] if self._ranks is None else [self._ranks.cuts.get(p) for p in params]

    def _before_switch(self) -> None:
        self._before_step()

    def _after_failed_switch(self, error: Exception) -> None:
        if isinstance(error, JointError):
            return
        with suppress(RuntimeError):  # the error that is raised already says more
            self._find_other_ranks()
        if self._exchanged_in_switch():
            self._decline(in_eval_mode=False)

    def _exchanged_in_switch(self) -> list[Tensor]:
        """Parameters whose shards ranks exchange in a switch. Without any, each rank switches alone."""
        cuts = {} if self._ranks is None else self._ranks.cuts
        groups = [group for group in self.param_groups if group["extrapolated"] and not _keeps(group)]
        return [p for group in groups for p in group["params"] if p in cuts]

    def _displacements(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Each parameter with its offset c and the direction d in w = ŵ + c d."""
        self._find_other_ranks()
        if self._ranks is not None and (params := self._exchanged_in_switch()):
            call = "eval" if self.training else "train"
            self._ranks.agree(call, self.param_groups, [bool(self.state.get(p)) for p in params])
        return self._known_directions()

    def _known_directions(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for group in self.param_groups:
            states = [(p, state) for p in group["params"] if (state := self.state.get(p))]
            if not states or not group["extrapolated"]:
                continue
            params = [p for p, _ in states]
            w_hat, z = [local(p.detach()) for p in params], [local(state["z"]) for _, state in states]
            offsets, steps = ([state[name] for _, state in states] for name in ("offset", "step"))
            kept = [local(state["direction"]) for _, state in states if "direction" in state]
            part = Part(w_hat, z, z, offsets, steps, list(range(len(z))), PLAIN, direction=kept)
            part.cuts = self._cuts_of(params)
            for some in spectral_parts(part, wants_foreach(self.param_groups)):
                yield from zip(some.w_hat, some.offset, known_direction(some, group), strict=True)

    def stats(self, group: int = 0) -> Stats:
        """Return ‖z‖, the learning rate and the number of steps. On an accelerator, this waits for the device.

        No step computes ‖z‖, so `norm_sum` is NaN, and `norm` is that of the present z of the group. It is NaN if other
        ranks have parts of z: this method sends no messages.

        Args:
            group: index of the group to report.
        """
        settings = self.param_groups[group]
        zs = [state["z"] for p in settings["params"] if (state := self.state.get(p))]
        if any(map(is_split, zs)):
            norm = math.nan
        else:
            norms = [torch.linalg.vector_norm(local(z).double()) for z in zs]
            norm = torch.linalg.vector_norm(torch.stack(norms)) if norms else 0.0
        _, eta, _, step, skipped = settings["record"].tolist()
        return Stats(int(step), float(norm), eta, math.nan, int(skipped))


@cache
def _without_compiler() -> Any:
    """A step of which torch.compile compiles nothing. (Its import takes a second, so it waits for a DTensor.)"""
    return torch.compiler.disable(SpectralPlus._step_groups)


def _layout(group: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(group[name] for name in LAYOUT)


def _keeps(group: dict[str, Any]) -> bool:
    """Whether directions are kept: signs never are, because they are read off z."""
    return group["keep_direction"] and group["geometry"] == "spectral"


def _count(group: dict[str, Any]) -> None:
    """Update what `stats()` reads, on the device: lr and the number of steps."""
    record = group["record"]
    record[1].fill_(scalar(group, "lr"))  # copying a number from the host would wait for the device
    record[3].add_(1)
