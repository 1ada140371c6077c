"""The optimizer of a run, with settings that a schedule changes from epoch to epoch or from step to step."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from adamplus import AdamPlus

from .. import optimizers
from .._store import Spec
from ..errors import InputError, nearest
from .evaluation import has_two_points


class ScheduledOptimizer:
    """The optimizer of a specification, and its schedule.

    captured: build it so that its step can be captured in a CUDA graph, if it can be. The attribute says whether it is.
    """

    def __init__(self, spec: Spec, model: nn.Module, captured: bool) -> None:
        contender, _ = optimizers.find(spec.optimizer)
        self.device = torch.device(spec.device)
        settings = {**contender.settings, **spec.settings}
        # With dampening, the first step differs from one that starts with a buffer of zeros, as a graph does.
        self.captured = captured and contender.captured is not None and not settings.get("dampening")
        settings |= (contender.captured or {}) if self.captured else {}
        self.optimizer = contender.make(model, **settings)
        if has_two_points(self.optimizer):
            cast("Any", self.optimizer).train()
        self.initial_groups = [dict(group) for group in self.optimizer.param_groups]
        self.changed: set[str] = set()
        self.tensors = contender.tensors if self.captured else ()
        self._make_tensors()

    def _make_tensors(self) -> None:
        """Turn settings into tensors, which a graph reads again at each replay."""
        for group in self.optimizer.param_groups:
            group.update({name: torch.tensor(float(group[name]), device=self.device) for name in self.tensors})

    def set(self, factors: dict[str, float]) -> dict[str, float]:
        """Multiply the initial settings by factors; a setting that is not named gets its initial value again.

        Returns the learning rate and all settings that the schedule has ever changed.
        """
        for name in factors.keys() - self.changed:
            self._check(name)
        self.changed |= factors.keys()
        for group, start in zip(self.optimizer.param_groups, self.initial_groups, strict=True):
            for name in self.changed & start.keys():  # a task may change β, which only some optimizers have
                value = float(start[name]) * factors.get(name, 1.0)
                if isinstance(group[name], Tensor):
                    group[name].fill_(value)
                else:
                    group[name] = value
        # Computed again, because reading a group's tensor would wait for the device.
        names = [name for name in ("lr", *sorted(self.changed - {"lr"})) if name in self.initial_groups[0]]
        return {name: float(self.initial_groups[0][name]) * factors.get(name, 1.0) for name in names}

    def _check(self, name: str) -> None:
        known = {key for contender in optimizers.CONTENDERS.values() for key in contender.names()}
        if name not in known and name not in self.initial_groups[0]:
            raise InputError(f"the schedule changes {name!r}, which no optimizer has: {nearest(name, sorted(known))}")
        if self.captured and name in self.initial_groups[0] and name not in self.tensors:
            raise InputError(
                f"the schedule changes {name!r}, which a captured step cannot follow: set capture = False in the task"
            )

    def stats(self) -> dict[str, float]:
        """‖z‖, η and Σ‖z‖ of optimizers of the Adam⁺ family, without Σ‖z‖ of SpectralPlus, else nothing."""
        if not hasattr(self.optimizer, "stats"):
            return {}
        stats = cast("Any", self.optimizer).stats()
        known = {"norm": stats.norm, "eta": stats.eta}
        return known | ({"norm_sum": stats.norm_sum} if isinstance(self.optimizer, AdamPlus) else {})

    def state(self) -> dict[str, Any]:
        """The optimizer's state_dict, and which settings the schedule has changed: these must be reset later."""
        return {"optimizer": self.optimizer.state_dict(), "changed": sorted(self.changed)}

    def load(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.changed = set(state["changed"])
        self._make_tensors()
