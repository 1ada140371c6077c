"""Fused execution: the plan of an eager step, checked against what the optimizer holds before anything is written.

The plan has the tables that the kernels read. It is made anew when parameters or state are other ones; gradients may
come, go and move from step to step.
"""

import copy
import operator
from collections.abc import Iterable
from contextlib import nullcontext
from itertools import chain
from typing import Any, Self

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from ..._ranks import ALONE, PLAIN, Joint, Share, is_split, local, local_gradient
from ..._settings import check_plain
from ..._state import scalar_dtype, suit, together
from . import tables as _tables
from .gradients import NO_OVERRIDES, POINTER, SAME_PLACES, Gradients
from .tables import TYPES, Facts, Row, Tables, row

SETTINGS = ("lr", "beta", "beta_power", "norm_power", "eps")
LOCAL = operator.attrgetter("_local_tensor")
NUMBERS = operator.itemgetter(*SETTINGS, "weight_decay", "decoupled_weight_decay", "maximize")
PARAMS, RECORD = operator.itemgetter("params"), operator.itemgetter("record")

Groups = list[dict[str, Any]]
State = dict[Tensor, dict[str, Tensor]]


class Placed:
    """Tensors that the tables point at, and where they were then. That they are held keeps the places their own."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self.tensors = list(tensors)
        self.at, self.numbers = list(map(POINTER, self.tensors)), list(range(len(self.tensors)))

    def stay(self) -> bool:
        """Whether they are there still: `.data` can be given another place."""
        return SAME_PLACES(self.tensors, self.at, self.numbers)


class Plan:
    """Tables for the parameters of an optimizer that have state."""

    def __init__(self, groups: Groups, state: State, joint: Joint | None = None) -> None:
        device = next(p.device for group in groups for p in group["params"])
        _prepare(groups, state, device)
        self.joint, self.traits, self.held = joint, _traits(groups), list(_held(groups, state))
        places = [(g, i, p) for g, group in enumerate(groups) for i, p in enumerate(group["params"]) if state.get(p)]
        shares = [ALONE if joint is None else joint.shares[g][i] for g, i, _ in places]
        rows = [_row(g, i, p, state[p], share) for (g, i, p), share in zip(places, shares, strict=True)]
        self.tables = Tables(rows, [facts(group) for group in groups], device)
        self.params = [places[i][-1] for i in self.tables.order]
        # Of DTensors, kernels have the local tensors.
        self.split = [t for _, _, p in places for t in (p, state[p]["z"]) if is_split(t)]
        self.locals = list(map(local, self.split))
        ps, zs = ([getattr(rows[i], name) for i in self.tables.order] for name in ("p", "z"))
        dtypes = [kind[1] for kind in self.tables.kinds]
        self.inputs = [Placed([*ps[b:e], *zs[b:e]]) for b, e in self.tables.stages]
        # Who gives other places to scalars gives them to all: a look at some of them is enough.
        self.scalars = Placed([rows[0].offset, rows[0].step, rows[-1].offset, rows[-1].step, groups[0]["record"]])
        self.gradients = [Gradients(self.params[b:e], ps[b:e], dtypes[b:e]) for b, e in self.tables.stages]
        self.stateless = [p for group in groups for p in group["params"] if not state.get(p)]
        self.numbers: list[Any] = []
        self.tensors: list[tuple[int, int, Tensor]] = []

    def twin(self) -> Self:
        """A plan for a graph that is being captured: replays need gradients' places and settings of their own."""
        twin = copy.copy(self)
        twin.tables, twin.numbers = self.tables.twin(), []
        twin.gradients = [Gradients(g.params, g.locals, g.dtypes) for g in self.gradients]
        return twin

    def step(self, groups: Groups, state: State, scale: Tensor | None, found_inf: Tensor | None) -> bool:
        """Take a step, if the tables still tell the truth; say whether they do."""
        if _traits(groups) != self.traits or not self.scalars.stay():
            return False
        with self._on_device():
            self.configure(groups)
            # Norms only read, so the device begins with those of the largest tensors while the host looks at the
            # others, and is busy with these while the host looks whether all that it holds is still the optimizer's.
            seen: list[Any] = []
            for number, (begin, _) in enumerate(self.tables.stages):
                if not self.inputs[number].stay():
                    return False
                places, gradients = self.gradients[number].look()
                if places is None or not self.tables.aim(begin, places):
                    return False
                seen.append(gradients)
                self.tables.norms(number, scale)
            if not (any(self.tables.at) and self._holds(groups, state)):
                return False
            self.tables.move(scale, found_inf, self.joint)
        moved = zip(self.params, self.tables.at, strict=True) if 0 in self.tables.at else ()
        with NO_OVERRIDES():
            increment_version([p for p, place in moved if place] or self.params)
        return True

    def _holds(self, groups: Groups, state: State) -> bool:
        """Whether the tables are of these parameters and this state."""
        now = list(_held(groups, state))
        return (
            len(now) == len(self.held)
            and all(map(operator.is_, now, self.held))
            and all(map(operator.is_, map(LOCAL, self.split), self.locals))
            and all(p.grad is None for p in self.stateless)
        )

    def _on_device(self) -> Any:
        """Triton launches on the current device, which need not be the tensors' own."""
        index = self.tables.device_index
        if index is None or torch._C._cuda_getDevice() == index:
            return nullcontext()
        return torch.cuda.device(index)  # pragma: no cover - a second GPU, which CI has not

    def configure(self, groups: Groups) -> None:
        """Bring the groups' settings to the device, where they have changed."""
        numbers = list(chain.from_iterable(map(NUMBERS, groups)))
        if not self.numbers or not all(map(operator.is_, numbers, self.numbers)):
            self._configure(groups)
            self.numbers = numbers
        for i, j, value in self.tensors:  # whose values may have changed in any case
            self.tables.settings[i, j].copy_(value.detach().reshape(()), non_blocking=True)

    def _configure(self, groups: Groups) -> None:
        values: list[float] = []
        self.tensors = []
        for i, group in enumerate(groups):
            check_plain(group)
            for j, value in enumerate(settings(group)):
                if isinstance(value, Tensor):
                    self.tensors.append((i, j, value))
                values.append(0.0 if isinstance(value, Tensor) else value)
        self.tables.bring(self.tables.settings, values)


def settings(group: dict[str, Any]) -> list[Any]:
    """A line of the table of settings: numbers, of which lr and β may be tensors."""
    coupled = _coupled(group)
    sign = -1.0 if group["maximize"] else 1.0
    return [*(group[name] for name in SETTINGS), coupled, group["weight_decay"] - coupled, sign]


def refusal(groups: Groups, state: State) -> str | None:
    """Why the kernels cannot step these parameters, if they cannot."""
    for g, group in enumerate(groups):
        if (dtype := group["state_dtype"]) is not None and dtype not in TYPES:
            return f"group {g} has state_dtype={dtype}, and the kernels take float32, bfloat16 and float16"
        for i, p in enumerate(group["params"]):
            what = f"parameter {i} of group {g} is "
            if (own := state.get(p)) and own["z"].dtype not in TYPES:
                return f"z of parameter {i} of group {g} is {own['z'].dtype}"
            if own and own["offset"].dtype != torch.float32 and not group["fused"]:  # asked for, it is made one
                return f"offset of parameter {i} of group {g} is {own['offset'].dtype}"
            if p.grad is not None and p.grad.dtype not in TYPES and p.dtype in TYPES:
                return f"the gradient of parameter {i} of group {g} is {p.grad.dtype}"
            if is_split(p) and group["norm_scope"] != "global":
                return what + f"a DTensor, and norm_scope is {group['norm_scope']!r}"
            p = local(p)
            if type(p) not in PLAIN:
                return what + f"a {type(p).__name__}"
            if p.dtype not in TYPES:
                return what + f"{p.dtype}, and the kernels take float32, bfloat16 and float16"
            if not (p.is_cuda or _tables.INTERPRETED):
                return what + f"on {p.device}, and the kernels run on CUDA"
            if not _dense(p):
                return what + "a view with gaps"
    if len({p.device for group in groups for p in group["params"]}) > 1:
        return "the parameters are on several devices"
    return None


def facts(group: dict[str, Any]) -> Facts:
    """What of a group is in the tables."""
    return Facts(group["record"], group["norm_scope"], _coupled(group) != 0, group["stochastic_rounding"])


def _row(g: int, i: int, p: Tensor, state: dict[str, Tensor], share: Share) -> Row:
    own = local(p)
    gradient = own if p.grad is None else local_gradient(p.grad, p)
    return row(own, gradient, local(state["z"]), state["offset"], state["step"], g, i, share)


def _dense(p: Tensor) -> bool:
    """Whether p fills a stretch of memory, in whatever order."""
    if p.is_contiguous():  # most are, and a compiler cannot sort sizes that it does not know
        return True
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(p.stride(), p.shape, strict=True) if size > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _prepare(groups: Groups, state: State, device: torch.device) -> None:
    """Bring state to the parameters' device and into their layout, where it is not."""
    params = [p for group in groups for p in group["params"] if state.get(p)]
    elsewhere = [p for p in params if state[p]["step"].device != p.device]
    homes = [(p.device, torch.float32) for p in elsewhere]
    for p, step in zip(elsewhere, together([state[p]["step"] for p in elsewhere], homes), strict=True):
        state[p]["step"] = step  # pragma: no cover - of another device, which CI has not
    for p in params:
        suit(p, state[p])
    for group in groups:
        group["record"] = group["record"].to(device, scalar_dtype(device))


def _traits(groups: Groups) -> list[Any]:
    """What of the settings is in the tables, or decides how a step is executed."""
    return [
        (len(g["params"]), g["norm_scope"], _coupled(g) != 0, g["stochastic_rounding"], g["fused"], g["foreach"])
        for g in groups
    ]


def _held(groups: Groups, state: State) -> Iterable[Any]:
    """The objects that the tables were made from."""
    parameters, states = chain.from_iterable(map(PARAMS, groups)), chain.from_iterable(map(dict.values, state.values()))
    return chain(map(RECORD, groups), parameters, states)


def _coupled(group: dict[str, Any]) -> float:
    return 0.0 if group["decoupled_weight_decay"] else group["weight_decay"]
