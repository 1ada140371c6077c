"""Fused execution: a step in three launches, whatever the number of tensors; the host reads nothing back.

A *plan* holds the tables that the kernels read: where tensors are, which workers take which of them, which tensors
share a norm. It is made anew when parameters or state are other ones; gradients may move from step to step.
"""

import operator
import os
from collections.abc import Iterable
from itertools import accumulate, groupby
from typing import Any

import torch
import torch.distributed as dist
import triton
import triton.language as tl
from torch import Tensor
from torch.linalg import vector_norm

from . import _kernels
from ._settings import check_floats

# A worker is one program of a launch. The fastest of seven choices on an H200, captured, at 124 M and 1.3 B parameters.
BLOCK, WARPS, WORKERS = 1024, 4, 132 * 32
TYPES = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
SCOPES = ("global", "group", "tensor")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # kernels on CPU tensors, for tests
DIRECT = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 6)  # where launching by hand was tried
SETTINGS = ("lr", "beta", "beta_power", "norm_power", "eps")

Groups = list[dict[str, Any]]
State = dict[Tensor, dict[str, Tensor]]


class Row:
    """One tensor that has a gradient: its line in the table, and what decides where that line stands."""

    def __init__(self, g: int, i: int, group: dict[str, Any], p: Any, state: dict[str, Tensor]) -> None:
        z = state["z"]
        self.p, self.group, self.scope = p, g, _scope(group, g, i)
        self.pointers = [t.data_ptr() for t in (p, z, state["offset"], state["step"])]
        aligned = all(t.data_ptr() % 16 == 0 for t in (p, p.grad, z))
        self.kind = (p.dtype, p.grad.dtype, z.dtype, aligned, _coupled(group) != 0)


class Plan:
    """The tables for the parameters of an optimizer that have gradients, on their device."""

    def __init__(self, groups: Groups, state: State) -> None:
        _prepare(groups, state)
        self.held, self.traits = _held(groups, state), _traits(groups)
        self.params = [p for group in groups for p in group["params"]]
        self.at = [p.data_ptr() for p in self.params]
        self.missing = [p.grad is None for p in self.params]
        gradients = [p.grad for p in self.params if p.grad is not None]
        self.looks = [(g.dtype, g.stride()) for g in gradients]
        self.gradients_at = [g.data_ptr() for g in gradients]
        self.kept: list[Tensor] = []
        self.values: list[float] = []
        self.launched: list[tuple[Any, tuple[Any, ...]]] = []
        self.direct: list[tuple[Any, tuple[Any, ...]]] = []
        rows = [
            Row(g, i, group, p, state[p])
            for g, group in enumerate(groups)
            for i, p in enumerate(group["params"])
            if p.grad is not None
        ]
        places = {id(row.p): i for i, row in enumerate(rows)}
        # Scopes are runs of rows, and kinds are runs within them; tensors that are scopes by themselves go by kind.
        rows.sort(key=lambda row: (row.scope[:2], str(row.kind), row.scope))
        self.order = [places[id(row.p)] for row in rows]
        blocks = [-(-row.p.numel() // BLOCK) for row in rows]
        each = WORKERS / max(1, sum(blocks))
        workers = [max(1, min(count, round(count * each))) for count in blocks]
        first = [0, *accumulate(workers)]
        self.launches = [
            (first[begin], first[end] - first[begin], rows[begin].kind) for begin, end in _runs(r.kind for r in rows)
        ]
        runs = _runs(row.scope for row in rows)
        number = {rows[begin].scope: i for i, (begin, _) in enumerate(runs)}
        self.shared = [w for begin, end in runs if rows[begin].scope[0] == 0 for w in (first[begin], first[end])]
        self.singles = [
            (group["record"], g, [i for i, row in enumerate(rows) if row.group == g])
            for g, group in enumerate(groups)
            if group["norm_scope"] == "tensor" and any(row.group == g for row in rows)
        ]
        lines = [
            (*row.pointers, row.p.numel(), begin, count, row.group)
            for row, begin, count in zip(rows, first, workers, strict=False)
        ]
        records = [(group["record"].data_ptr(), number.get(_scope(group, g, -1), -1)) for g, group in enumerate(groups)]
        device = groups[0]["record"].device
        self.table = self._upload(lines, torch.int64, device)
        self.gradient_table = self._upload([self.gradients_at[i] for i in self.order], torch.int64, device)
        rows_of_workers = [i for i, count in enumerate(workers) for _ in range(count)]
        self.worker_rows = self._upload(rows_of_workers, torch.int32, device)
        self.scopes = self._upload([(b, e, first[b], first[e]) for b, e in runs], torch.int64, device)
        self.records = self._upload(records, torch.int64, device)
        self.settings = torch.empty(len(groups), 8, dtype=torch.float64, device=device)
        self.coefficients = torch.empty(len(rows), 4, dtype=torch.float32, device=device)
        self.partial = torch.empty(first[-1], dtype=torch.float64, device=device)
        self.scope_norms = torch.empty(len(runs), dtype=torch.float64, device=device)

    def fits(self, groups: Groups, state: State) -> bool:
        """Whether the tables still tell the truth; where only gradients have moved, they do again after this."""
        held = _held(groups, state)
        if len(held) != len(self.held) or not all(map(operator.is_, held, self.held)):
            return False
        if _traits(groups) != self.traits or [p.data_ptr() for p in self.params] != self.at:
            return False
        gradients = [p.grad for p in self.params]
        if [g is None for g in gradients] != self.missing:
            return False
        gradients = [g for g in gradients if g is not None]
        try:
            looks = [(g.dtype, g.stride()) for g in gradients]
            at = [g.data_ptr() for g in gradients]
        except RuntimeError:  # of sparse ones
            return False
        if looks != self.looks:
            return False
        if at != self.gradients_at:
            if [pointer % 16 for pointer in at] != [pointer % 16 for pointer in self.gradients_at]:
                return False
            self.gradients_at = at
            self._bring(self.gradient_table, [at[i] for i in self.order])
        return True

    def _upload(self, values: list[Any], dtype: torch.dtype, device: torch.device) -> Tensor:
        table = torch.empty(torch.tensor(values).shape, dtype=dtype, device=device)
        self._bring(table, values)
        return table

    def _bring(self, table: Tensor, values: list[Any]) -> None:
        host = torch.tensor(values, dtype=table.dtype, pin_memory=table.is_cuda).view(table.shape)
        table.copy_(host, non_blocking=True)
        if table.is_cuda and torch.cuda.is_current_stream_capturing():  # pragma: no cover - CUDA, which CI has not
            self.kept.append(host)  # a captured copy reads it at every replay

    def configure(self, groups: Groups) -> None:
        """Bring the groups' settings to the device, where they have changed."""
        values, tensors = [], []
        for i, group in enumerate(groups):
            for j, name in enumerate(SETTINGS):
                value = group[name]
                if isinstance(value, Tensor):
                    tensors.append((i, j, value))
                    value = 0.0
                values.append(value)
            decoupled = group["weight_decay"] if group["decoupled_weight_decay"] else 0.0
            values += [_coupled(group), decoupled, -1.0 if group["maximize"] else 1.0]
        if values != self.values:
            for group in groups:
                check_floats(group)
            self._bring(self.settings, values)
            self.values = values
        for i, j, value in tensors:
            self.settings[i, j].copy_(value.reshape(()), non_blocking=True)

    def run(self, groups: Groups, scale: Tensor | None, found_inf: Tensor | None, process_group: Any) -> None:
        """Take one step: norms, scalars, update."""
        self.configure(groups)
        if self.direct and scale is None and found_inf is None:  # pragma: no cover - the interpreter has no launcher
            for launch, arguments in self.direct:
                launch(*arguments)
            return
        alone = process_group is None and not self.singles
        has_scale, has_found_inf = scale is not None, found_inf is not None
        scale = self.partial if scale is None else scale
        found_inf = self.partial if found_inf is None else found_inf
        tables = (self.table, self.gradient_table, self.settings, self.worker_rows)
        for first, count, (p, g, z, aligned, decay) in self.launches:
            types = (TYPES[p], TYPES[g], TYPES[z])
            options = (has_scale, decay, aligned, BLOCK)
            self._launch(_kernels.norms, count, WARPS, *tables, first, scale, self.partial, *types, *options)
        if process_group is not None:
            self._sum_over(process_group)
        self._launch(
            _kernels.scalars, len(self.scopes), 8, self.table, self.settings, self.scopes, self.partial, found_inf,
            self.coefficients, self.scope_norms, self.records, len(self.records), has_found_inf, 1024,
        )  # fmt: skip
        for first, count, (p, g, z, aligned, decay) in self.launches:
            types = (TYPES[p], TYPES[g], TYPES[z])
            options = (has_scale, has_found_inf, decay, aligned, BLOCK)
            amp = (scale, found_inf, self.coefficients)
            self._launch(_kernels.update, count, WARPS, *tables, first, *amp, *types, *options)
        for record, g, rows in self.singles:
            self._record_singles(record, g, rows, found_inf if has_found_inf else None)
        if DIRECT and alone and not has_scale and not has_found_inf:
            # The same launches from now on, without Triton's look at each argument: 9 µs instead of 30 on an H200.
            self.direct = self.launched
        self.launched = []

    def _launch(self, kernel: Any, programs: int, warps: int, *arguments: Any) -> None:
        compiled = kernel[(programs,)](*arguments, num_warps=warps)
        if compiled is not None:  # pragma: no cover - the interpreter compiles nothing
            self.launched.append((compiled[(programs, 1, 1)], arguments))

    def _sum_over(self, process_group: Any) -> None:
        """Put the other ranks' squares to this one's; a rank without gradients gives zero."""
        begin, end = self.shared
        square = self.partial[begin:end].sum()
        dist.all_reduce(square, group=process_group)
        self.partial[begin:end] = square / (end - begin)

    def _record_singles(self, record: Tensor, g: int, rows: list[int], found_inf: Tensor | None) -> None:
        """A group of which each tensor has its own norm: the norm over the group, and the largest η."""
        begin, end = rows[0], rows[-1] + 1
        last = len(self.scope_norms) - (len(self.order) - end)  # single tensors are the last scopes, one a row
        norm = vector_norm(self.scope_norms[last - (end - begin) : last])
        eta = self.coefficients[begin:end, 2].amax() * self.settings[g, 1]
        new = torch.stack([norm, eta, record[2] + norm])
        record.copy_(new if found_inf is None else torch.where(found_inf == 0, new, record))


def refusal(groups: Groups) -> str | None:
    """Why the kernels cannot step these parameters, if they cannot."""
    for g, group in enumerate(groups):
        for i, p in enumerate(group["params"]):
            what = f"parameter {i} of group {g} is "
            if type(p) not in (Tensor, torch.nn.Parameter):
                return what + f"a {type(p).__name__}"
            if p.dtype not in TYPES:
                return what + f"{p.dtype}, and the kernels take float32, bfloat16 and float16"
            if not (p.is_cuda or INTERPRETED):
                return what + f"on {p.device}, and the kernels run on CUDA"
            if not _dense(p):
                return what + "a view with gaps"
    if len({p.device for group in groups for p in group["params"]}) > 1:
        return "the parameters are on several devices"
    return None


def _dense(p: Tensor) -> bool:
    """Whether p fills a stretch of memory, in whatever order."""
    expected = 1
    for stride, size in sorted(zip(p.stride(), p.shape, strict=True)):
        if size > 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _prepare(groups: Groups, state: State) -> None:
    """Bring to the device, and into the parameter's layout, what is not."""
    for p in (p for group in groups for p in group["params"] if p.grad is not None):
        own = state[p]
        own["step"] = own["step"].to(p.device)
        if own["z"].stride() != p.stride():
            own["z"] = torch.empty_like(p, dtype=own["z"].dtype).copy_(own["z"])
        if p.grad.stride() != p.stride():
            p.grad = torch.empty_like(p, dtype=p.grad.dtype).copy_(p.grad)


def _traits(groups: Groups) -> list[Any]:
    """What of the settings is in the tables."""
    return [(len(g["params"]), g["norm_scope"], _coupled(g) != 0, g["fused"], g["foreach"]) for g in groups]


def _held(groups: Groups, state: State) -> list[Any]:
    """The objects whose places are in the tables; that the plan holds them keeps their places theirs."""
    own = list(state.values())
    return [*(g["params"] for g in groups), *(g["record"] for g in groups), *own, *[s.get("z") for s in own]]


def _scope(group: dict[str, Any], g: int, i: int) -> tuple[int, int, int]:
    scope = group["norm_scope"]
    return SCOPES.index(scope), 0 if scope == "global" else g, i if scope == "tensor" else 0


def _coupled(group: dict[str, Any]) -> float:
    return 0.0 if group["decoupled_weight_decay"] else group["weight_decay"]


def _runs(keys: Iterable[Any]) -> list[tuple[int, int]]:
    """[begin, end) of each run of equal keys."""
    lengths = [len(list(run)) for _, run in groupby(keys)]
    return [(end - length, end) for end, length in zip(accumulate(lengths), lengths, strict=True)]
