"""`ExtrapolatingOptimizer`: what `AdamPlus` and `SpectralPlus` share around the arithmetic of a step."""

from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from inspect import signature
from typing import Any, ClassVar, NamedTuple, cast, overload

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from . import _foreign
from ._agreement import Agreement, JointError
from ._checkpoint import dtypes_by_name, is_called_by_checkpoint, loading
from ._execution import Columns
from ._layout import ORDINARY, is_sharded
from ._modes import Switchable
from ._never_at_w import ENOUGH
from ._state import new_record, new_states, refuse_dtype, separate, suit

INTERNAL = ("params", "param_names", "record", "training", "layout", "extrapolated")
"""Entries of a group that are not settings."""


class Stats(NamedTuple):
    """What `stats()` returns: the norm, the step size and the numbers of steps."""

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


class ExtrapolatingOptimizer(Switchable):
    """An optimizer that averages gradients taken ahead of w. A subclass takes the step itself, in `_step`."""

    _plan: Any = None
    """Plan of the next fused step."""
    _captured: list[Any]
    """Plans that CUDA graphs replay."""
    _ranks: Any = None
    """The ranks that take each step together with this one: an `Agreement`, or None if there are no others."""

    NAME: ClassVar[str]
    """Name of the method."""
    METHOD: ClassVar[tuple[str, ...]]
    """Settings of a group that decide which method steps it."""

    @abstractmethod
    def _check(self, settings: dict[str, Any]) -> None:
        """Raise for settings that a group may not have, given or loaded."""

    def _check_group(self, settings: dict[str, Any], given: dict[str, Any]) -> None:
        """Raise for a new group that has these settings, of which these were given and the others are defaults."""
        _foreign.refuse(type(self).__name__, given.keys() - signature(type(self)).parameters)
        self._check(settings)

    def _check_saved(self, settings: dict[str, Any]) -> None:
        """Raise for the settings of a saved group that no step could continue with."""
        self._check(settings)

    def _check_parameters(self, group: dict[str, Any]) -> None:
        """Raise if a new group has parameters that no step can move."""
        for i, p in enumerate(group["params"]):
            if p.requires_grad:
                refuse_dtype(p, group)
            if p.is_conj():
                raise ValueError(
                    f"parameter {i} is a lazy conjugate, and a step would write into a copy of it: "
                    "pass nn.Parameter(p.detach().resolve_conj())"
                )

    def names_of_state(self, group: dict[str, Any]) -> tuple[str, ...]:
        """Names of what the state of a parameter of this group consists of."""
        return ("z", "offset", "step")

    @abstractmethod
    def _step(self, compiling: bool) -> None:
        """Take a step with the gradients that the parameters have."""

    @abstractmethod
    def _find_other_ranks(self) -> None:
        """Set `_ranks` to those of the present parameters."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group in the current mode. Settings that it lacks are the optimizer's defaults."""
        if isinstance(param_group, dict):
            param_group = dict(param_group)  # the caller's dictionary may go to another optimizer, too
            self._check_group({**self.defaults, **param_group}, param_group)
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            self._check_parameters(group)
        except (RuntimeError, TypeError, ValueError):
            self.param_groups.pop()
            raise
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
        if type(self).step is ExtrapolatingOptimizer.step and (torch.compiler.is_compiling() or _observed(self)):
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
        self._before_step()
        try:
            self._refuse_wrong_mode()
            self._step(compiling)
        except Exception as error:
            self._after_failure(error)
            raise
        except BaseException:  # Ctrl-C may come between two tensors
            self._torn = True
            raise
        self._watch.steps += 1
        if self._watch.steps == ENOUGH and any(map(_looks_ahead, self.param_groups)):
            self._watch.report(type(self).__name__)
        return loss

    def _is_shared(self) -> bool:
        """Whether other ranks have a part of the parameters."""
        params = (p for group in self.param_groups for p in group["params"])
        return any(type(p) not in ORDINARY and is_sharded(p) for p in params)

    def _before_step(self) -> None:
        """Prepare for a call that may fail: other ranks have no message of this one yet."""
        if self._ranks is not None:
            self._ranks.summed = False

    def _after_failure(self, error: Exception) -> None:
        """Note that a step has failed."""
        if not isinstance(error, JointError):
            self._decline(in_eval_mode=not self.training)

    def _decline(self, in_eval_mode: bool) -> None:
        """Let other ranks know that this one cannot take part, unless they do: they wait for its message."""
        with suppress(RuntimeError):  # the error that is raised already says more
            self._find_other_ranks()
        with suppress(RuntimeError):
            ranks: Agreement | None = self._ranks
            if ranks is not None:
                ranks.decline(in_eval_mode)

    def _columns(self, group: dict[str, Any], compiling: bool) -> Columns:
        """The parameters of a group that have a gradient, with their state."""
        columns = Columns([], [], [], [], [], [])
        self._init_group(group, *columns, compiling)
        return columns

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
        """Gather what has a gradient, with its state. torch.compile runs this method, by name, outside of the graph."""
        self._make_states(group)
        if compiling:
            self._read_steps()
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
            if "direction" in state:
                directions.append(state["direction"])

    def _make_states(self, group: dict[str, Any]) -> None:
        new = [p for p in group["params"] if not self.state.get(p) and p.grad is not None]
        if not new:
            return
        if group["capturable"]:
            self._read_steps()
        with torch.inference_mode(False):  # or it could not be written to outside of that mode
            for p, state in zip(new, new_states(new, group), strict=True):
                self.state[p] = state

    def _read_steps(self) -> None:
        """Let the watch read the number of steps from the device, because Python may not see all of them."""
        if any(map(_looks_ahead, self.param_groups)):
            self._watch.read_records(type(self).__name__, self.param_groups)

    def _restart_watch(self) -> None:
        """Let the watch count from here on: the records have steps that another optimizer took."""
        if any(map(_looks_ahead, self.param_groups)):
            self._watch.restart(type(self).__name__, self.param_groups)

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
        with loading(self, self._check_saved):
            super().load_state_dict(state_dict)
            self._warn_of_another_mode()
        self._restart_watch()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_watch" in state:  # a copy, or out of a pickle; load_state_dict() calls this method, too
            self._restart_watch()

    def __getstate__(self) -> dict[str, Any]:
        return {
            **super().__getstate__(),
            "_torn": self._torn,
            "_training": self._training,
            "_captured": [],
            "_watch": self._watch,
        }

    def __repr__(self) -> str:
        """The mode and the settings of each group. In ASCII, which every console can print."""
        lines = [f"{type(self).__name__} (", f"mode: {'train' if self.training else 'eval'}"]
        for i, group in enumerate(self.param_groups):
            count = len(group["params"])
            lines += [f"Parameter Group {i}", f"    params: {count} tensor{'s' * (count != 1)}"]
            lines += [f"    {name}: {value}" for name, value in group.items() if name not in INTERNAL]
        return "\n".join([*lines, ")"])


def _looks_ahead(group: dict[str, Any]) -> bool:
    """Whether a group takes gradients ahead of w, so that w and ŵ differ."""
    is_sgd = not isinstance(group["beta"], Tensor) and group["beta"] == 1
    return not is_sgd if group["lookahead"] is None else group["lookahead"] != 0


def _observed(optimizer: Optimizer) -> bool:
    """Whether a hook or the profiler watches this optimizer's steps."""
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _global_optimizer_pre_hooks
        or _global_optimizer_post_hooks
        or torch.autograd._profiler_enabled()
    )


_observed_step: Any = Optimizer.profile_hook_step(ExtrapolatingOptimizer._take)
cast("Any", ExtrapolatingOptimizer.step).hooked = True  # or torch would wrap every step
