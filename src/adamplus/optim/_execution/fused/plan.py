"""Plan of a fused step: the tables, and the checks that they still fit what the optimizer holds.

A plan is made anew if parameters or state are other tensors. Gradients may come, go and move from step to step.
"""

import copy
import operator
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from itertools import chain
from typing import Any, Self

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from ... import _settings
from ..._directions import is_viewable, scale_of
from ..._layout import ORDINARY, Share, alone, is_sharded, local, local_gradient
from ..._orthogonal import computed_dtype
from ..._ranks import Joint
from ..._spectral import unscaled
from ..._state import count_skipped, scalar_dtype, suit, together
from .. import lists
from ..choice import capturing
from ..spectral import PART
from . import tables
from .columns import GroupColumns
from .gradients import NO_OVERRIDES, POINTER, SAME_PLACES, Gradients
from .tables import TYPES, GroupTraits, Matrices, Tables, TensorRow, row

LOCAL = operator.attrgetter("_local_tensor")
NUMBERS = operator.itemgetter(
    "lr", "beta", "beta_power", "norm_power", "eps", "lookahead", "weight_decay", "decoupled_weight_decay", "maximize"
)
SPECTRAL_NUMBERS = operator.itemgetter("lr", "beta", "lookahead", "weight_decay", "maximize", "scale")
PARAMS, RECORD, SKIPS = map(operator.itemgetter, ("params", "record", "skip_nonfinite"))


class Placed:
    """Tensors that the tables point at, with their addresses. Holding them keeps the addresses theirs."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self.tensors = list(tensors)
        self.at, self.numbers = list(map(POINTER, self.tensors)), list(range(len(self.tensors)))

    def stay(self) -> bool:
        """Whether they are still there: `.data` can be set to other memory."""
        return SAME_PLACES(self.tensors, self.at, self.numbers)


class Plan:
    """Tables for the parameters of an optimizer that have state, and the steps that they take."""

    def __init__(self, groups: lists.Groups, state: lists.State, joint: Joint | None = None) -> None:
        device = next(p.device for group in groups for p in group["params"])
        _prepare(groups, state, device)
        # Steps of SpectralPlus have no norm, and so no first pass.
        self.is_spectral = all(map(geometry, groups))
        self.joint, self.traits, self.held = joint, _traits(groups), list(_held(groups, state))
        places = [(g, i, p) for g, group in enumerate(groups) for i, p in enumerate(group["params"]) if state.get(p)]
        shares = [alone(p) if joint is None else joint.share(g, i) for g, i, p in places]
        rows = [_row(g, i, p, state[p], share) for (g, i, p), share in zip(places, shares, strict=True)]
        rows = _in_parts(rows, groups)
        self.tables = Tables(rows, [traits_of(group) for group in groups], device)
        self.params = [places[i][-1] for i in self.tables.order]
        # The kernels step the local tensors of DTensors.
        self.split = [t for _, _, p in places for t in (p, state[p]["z"]) if is_sharded(t)]
        self.locals = list(map(local, self.split))
        ps, zs = ([getattr(rows[i], name) for i in self.tables.order] for name in ("p", "z"))
        dtypes = [kind.gradient for kind in self.tables.kinds]
        self.zs = zs
        kept = [rows[i].kept for i in self.tables.order]
        self.inputs = [
            Placed([*ps[b:e], *zs[b:e], *(t for t in kept[b:e] if t is not None)]) for b, e in self.tables.stages
        ]
        # Scalars are only ever reallocated all at once, so checking the first and the last is enough.
        self.scalars = Placed([rows[0].offset, rows[0].step, rows[-1].offset, rows[-1].step, groups[0]["record"]])
        self.gradients = [Gradients(self.params[b:e], ps[b:e], dtypes[b:e]) for b, e in self.tables.stages]
        self.stateless = [p for group in groups for p in group["params"] if not state.get(p)]
        self.numbers: list[Any] = []
        self.tensors: list[tuple[int, int, Tensor]] = []
        self.torn = False
        """Whether a step failed after it had begun to write."""

    def twin(self) -> Self:
        """Plan for a graph that is being captured: replays need their own addresses of gradients and settings."""
        twin = copy.copy(self)
        twin.tables, twin.numbers = self.tables.twin(), []
        twin.gradients = [Gradients(g.params, g.locals, g.dtypes) for g in self.gradients]
        return twin

    def take(
        self,
        groups: lists.Groups,
        state: lists.State,
        scale: Tensor | None,
        found_inf: Tensor | None,
        captured: list[Any],
    ) -> bool:
        """Take a step, and return whether the plan still held. A graph that is being captured gets its own plan."""
        plan = self
        if capturing():
            plan = self.twin()
            captured.append(plan)  # its tables must outlive the graph
        try:
            return plan.step(groups, state, scale, found_inf)
        finally:
            self.torn = plan.torn

    def step(self, groups: lists.Groups, state: lists.State, scale: Tensor | None, found_inf: Tensor | None) -> bool:
        """Take a step if the tables still fit, and return whether they do. Otherwise no parameter or state changes."""
        if _traits(groups) != self.traits or not self.scalars.stay():
            return False
        with self._on_device():
            self.configure(groups)
            # The first pass only reads, so the device begins with the largest tensors while the host checks the
            # others, and is busy with these while the host checks that the plan is still the optimizer's.
            seen: list[Any] = []
            for number, (begin, _) in enumerate(self.tables.stages):
                if not self.inputs[number].stay():
                    return False
                places, gradients = self.gradients[number].look()
                if places is None or not self.tables.locate(begin, places):
                    return False
                seen.append(gradients)
                if not self.is_spectral:
                    self.tables.first(number, scale)
            if not (any(self.tables.at) and self._holds(groups, state)):
                return False
            if self.joint is not None:
                self.tables.sum_over(self.joint)
            if not self.is_spectral and any(map(SKIPS, groups)):
                found_inf, skipped = self.tables.skip(found_inf)
                count_skipped(map(RECORD, groups), skipped)
            self.torn = True  # until both kernels are launched: the first of them writes offsets, the second ŵ
            self.tables.step_sizes(found_inf)
            self.tables.second(scale, found_inf)
            for number in range(len(self.tables.parts)):
                self._step_matrices(number, groups)
            self.torn = False
        moved = zip(self.params, self.tables.at, strict=True) if 0 in self.tables.at else ()
        with NO_OVERRIDES():
            increment_version([p for p, place in moved if place] or self.params)
        return True

    def _step_matrices(self, number: int, groups: lists.Groups) -> None:
        """Step a part of the matrices of SpectralPlus."""
        part = self.tables.parts[number]
        if not any(self.tables.at[i] for i in part.rows):
            return
        zs = [self.zs[i] for i in part.rows]
        group = groups[part.group]
        undoes = group["extrapolated"]
        old = _directions(zs, part, group) if undoes and not part.kind.is_kept else None
        self.tables.average(number)
        self.tables.move(number, old, _directions(zs, part, group), undoes)

    def _holds(self, groups: lists.Groups, state: lists.State) -> bool:
        """Whether the tables are of these parameters and this state."""
        now = list(_held(groups, state))
        return (
            len(now) == len(self.held)
            and all(map(operator.is_, now, self.held))
            and all(map(operator.is_, map(LOCAL, self.split), self.locals))
            and all(p.grad is None for p in self.stateless)
        )

    def _on_device(self) -> Any:
        """Context in which the tensors' device is the current one, on which Triton launches."""
        index = self.tables.device_index
        if index is None or torch._C._cuda_getDevice() == index:
            return nullcontext()
        return torch.cuda.device(index)  # pragma: no cover - a second GPU, which CI has not

    def configure(self, groups: lists.Groups) -> None:
        """Copy the groups' settings to the device, if they have changed."""
        numbers = list(chain.from_iterable(map(SPECTRAL_NUMBERS if self.is_spectral else NUMBERS, groups)))
        if not self.numbers or not all(map(operator.is_, numbers, self.numbers)):
            self._configure(groups)
            self.numbers = numbers
        for i, j, value in self.tensors:  # their values may have changed
            self.tables.settings[i, j].copy_(value.detach().reshape(()), non_blocking=True)

    def _configure(self, groups: lists.Groups) -> None:
        values: list[float] = []
        self.tensors = []
        for i, group in enumerate(groups):
            _settings.check_plain(group)
            for j, value in enumerate(settings(group)):
                if isinstance(value, Tensor):
                    self.tensors.append((i, j, value))
                values.append(0.0 if isinstance(value, Tensor) else value)
        self.tables.upload(self.tables.settings, values)


class Fused:
    """Takes a step by a new plan, and returns the plan for the next step."""

    def step(self, gathered: lists.Gathered) -> Plan | None:
        """Take a step."""
        with torch.inference_mode(False):  # or the tables could not be written to outside of that mode
            plan = Plan(gathered.groups, gathered.state, gathered.joint)
        try:
            fits = plan.take(gathered.groups, gathered.state, gathered.scale, gathered.found_inf, gathered.captured)
        finally:
            gathered.torn = plan.torn
        if not fits:
            raise RuntimeError("a gradient does not match its parameter: give it the same shape and device")
        if capturing():  # its tables are empty until the graph is replayed, so no eager step may use them
            gathered.captured.append(plan)
            return None
        return plan


def settings(group: dict[str, Any]) -> GroupColumns:
    """Row of the table of settings. lr and β may be tensors."""
    coupled = _coupled(group)
    if geometry(group):  # η = lr, whatever the norm is, and D has a scale
        powers = {"beta_power": 0.0, "norm_power": 0.0, "eps": 0.0, "scale": scale_of(group)}
    else:
        powers = {
            "beta_power": group["beta_power"],
            "norm_power": group["norm_power"],
            "eps": group["eps"],
            "scale": 1.0,
        }
    return GroupColumns(
        lr=group["lr"],
        beta=group["beta"],
        lookahead=-1.0 if group["lookahead"] is None else group["lookahead"],
        coupled=coupled,
        decoupled=group["weight_decay"] - coupled,
        sign=-1.0 if group["maximize"] else 1.0,
        **powers,
    )


def refusal(groups: lists.Groups, state: lists.State) -> str | None:
    """Why the kernels cannot step these parameters, or None if they can."""
    for g, group in enumerate(groups):
        if (dtype := group["state_dtype"]) is not None and dtype not in TYPES:
            return f"group {g} has state_dtype={dtype}, and the kernels take float32, bfloat16 and float16"
        for i, p in enumerate(group["params"]):
            what = f"parameter {i} of group {g} is "
            if (own := state.get(p)) and own["z"].dtype not in TYPES:
                return f"z of parameter {i} of group {g} is {own['z'].dtype}"
            if own and own["offset"].dtype != torch.float32 and not group["fused"]:  # fused=True converts it
                return f"offset of parameter {i} of group {g} is {own['offset'].dtype}"
            if p.grad is not None and p.grad.dtype not in TYPES and p.dtype in TYPES:
                return f"the gradient of parameter {i} of group {g} is {p.grad.dtype}"
            if is_sharded(p) and group.get("norm_scope", "global") != "global":
                return what + f"a DTensor, and norm_scope is {group['norm_scope']!r}"
            p = local(p)
            if type(p) not in ORDINARY:
                return what + f"a {type(p).__name__}"
            if p.dtype not in TYPES:
                return what + f"{p.dtype}, and the kernels take float32, bfloat16 and float16"
            if not (p.is_cuda or tables.INTERPRETED):
                return what + f"on {p.device}, and the kernels run on CUDA"
            if not _dense(p):
                return what + "a view with gaps"
            if geometry(group) == "spectral" and not is_viewable(p, group["stacked"]):
                return what + "a tensor whose matrices are no views of it"
    if len({p.device for group in groups for p in group["params"]}) > 1:
        return "the parameters are on several devices"
    return None


def traits_of(group: dict[str, Any]) -> GroupTraits:
    """What the tables depend on in a group."""
    own = (_coupled(group) != 0, group["stochastic_rounding"], geometry(group))
    return GroupTraits(group["record"], _scope(group), *own)


def geometry(group: dict[str, Any]) -> str:
    """Geometry of a group of SpectralPlus, or nothing for Adam⁺."""
    return group.get("geometry", "")


def _in_parts(rows: list[TensorRow], groups: lists.Groups) -> list[TensorRow]:
    """Rows with the numbers of their parts: matrices of one group, shape and set of dtypes, of bounded size."""
    parts: dict[Any, int] = {}
    sizes: Counter[Any] = Counter()
    numbered: list[TensorRow] = []
    for own in rows:
        number = 0
        if geometry(groups[own.group]) == "spectral":
            alike = (own.group, own.p.shape, own.p.stride(), own.p.dtype, own.gradient_dtype, own.z.dtype, own.aligned)
            number = parts.setdefault((alike, sizes[alike] // PART), len(parts) + 1)
            sizes[alike] += own.p.numel()
        numbered.append(own._replace(part=number))
    return numbered


def _directions(zs: list[Tensor], part: Matrices, group: dict[str, Any]) -> Tensor:
    """D(z)/s of a part, one after the other in a buffer, each in the memory layout of its z."""
    buffer = torch.empty(part.size, dtype=computed_dtype(zs[0]), device=zs[0].device)
    unscaled(zs, [], group, [buffer.as_strided(z.shape, z.stride(), at) for z, at in zip(zs, part.at, strict=True)])
    return buffer


def _row(g: int, i: int, p: Tensor, state: dict[str, Tensor], share: Share) -> TensorRow:
    own = local(p)
    gradient = own if p.grad is None else local_gradient(p.grad, p)
    found = row(own, gradient, local(state["z"]), state["offset"], state["step"], g, i, share)
    if "direction" not in state:
        return found
    kept = local(state["direction"])
    return found._replace(kept=kept, aligned=found.aligned and kept.data_ptr() % 16 == 0)


def _dense(p: Tensor) -> bool:
    """Whether p fills a stretch of memory without gaps, in any order."""
    if p.is_contiguous():  # most are, and a compiler cannot sort sizes that it does not know
        return True
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(p.stride(), p.shape, strict=True) if size > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _prepare(groups: lists.Groups, state: lists.State, device: torch.device) -> None:
    """Move state to the parameters' device and into their layout, if it is elsewhere."""
    params = [p for group in groups for p in group["params"] if state.get(p)]
    elsewhere = [p for p in params if state[p]["step"].device != p.device]
    homes = [(p.device, torch.float32) for p in elsewhere]
    for p, step in zip(elsewhere, together([state[p]["step"] for p in elsewhere], homes), strict=True):
        state[p]["step"] = step  # pragma: no cover - CI has one device
    for p in params:
        suit(p, state[p])
    for group in groups:
        group["record"] = group["record"].to(device, scalar_dtype(device))


def _traits(groups: lists.Groups) -> list[Any]:
    """Settings that are in the tables, or decide how a step is executed."""
    return [
        (len(g["params"]), _scope(g), _coupled(g) != 0, g["stochastic_rounding"], g["fused"], g["foreach"])
        for g in groups
    ]


def _held(groups: lists.Groups, state: lists.State) -> Iterable[Any]:
    """Objects that the tables were made from."""
    parameters, states = chain.from_iterable(map(PARAMS, groups)), chain.from_iterable(map(dict.values, state.values()))
    return chain(map(RECORD, groups), parameters, states)


def _scope(group: dict[str, Any]) -> str:
    """What shares a norm. Groups of SpectralPlus have none, and a record of their own."""
    return "group" if geometry(group) else group["norm_scope"]


def _coupled(group: dict[str, Any]) -> float:
    return 0.0 if group.get("decoupled_weight_decay", True) else group["weight_decay"]
