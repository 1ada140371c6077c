"""The tables that the fused kernels read, and the launches over them, few whatever the number of tensors."""

import copy
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from typing import Any, NamedTuple, Self

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.linalg import vector_norm

from ..._ranks import ALONE, Joint, Share
from ..rounding import salt
from . import kernels as _kernels

# A worker is one program of a launch, of about eight blocks; at least and at most so many. Captured on an H200, 11 M
# parameters take 87 µs with 132 · 32 workers and 97 with 132 · 96; 124 M take 864 and 842 µs (829 with 132 · 256, which
# take more memory).
BLOCK, WARPS, WORKERS = 1024, 4, (132 * 32, 132 * 96)
# Beyond so many elements, the device begins with so many tensors, the largest, while the host looks at the others.
LARGE, HEAD = 1 << 25, 8
TYPES = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
SCOPES = ("global", "group", "tensor")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # kernels on CPU tensors, for tests
DIRECT = EARLY = triton.__version__.startswith("3.6.")  # where launching by hand and before the end was tried


class Facts(NamedTuple):
    """What of a group is in the tables; its other settings are numbers that kernels read."""

    record: Tensor
    scope: str
    coupled: bool
    stochastic: bool


class Row(NamedTuple):
    """A tensor with its state: a line of the table."""

    p: Tensor
    z: Tensor
    offset: Tensor
    step: Tensor
    gradient_dtype: torch.dtype
    aligned: bool
    group: int
    number: int
    share: Share


def row(
    p: Tensor, g: Tensor, z: Tensor, offset: Tensor, step: Tensor, group: int, number: int, share: Share = ALONE
) -> Row:
    """The line of parameter `number` of a group, whose gradients look like `g`."""
    return Row(p, z, offset, step, g.dtype, all(t.data_ptr() % 16 == 0 for t in (p, g, z)), group, number, share)


class Tables:
    """Where tensors and their state are, which workers take which of them, and which tensors share a norm."""

    def __init__(self, rows: Sequence[Row], groups: Sequence[Facts], device: torch.device) -> None:
        def kind(row: Row) -> tuple[Any, ...]:
            facts = groups[row.group]
            stochastic = facts.stochastic and row.p.dtype == torch.bfloat16
            return row.p.dtype, row.gradient_dtype, row.z.dtype, facts.coupled, stochastic, row.aligned

        def scope(row: Row) -> tuple[int, int, int]:
            return _scope(groups[row.group].scope, row.group, row.number)

        # Scopes are runs of rows, and kinds are runs within them; tensors that are scopes by themselves go by kind.
        # The largest kind and its largest tensors are first.
        sizes = Counter[Any]()
        for row in rows:
            sizes[kind(row)] += row.p.numel()
        self.order = sorted(
            range(len(rows)),
            key=lambda i: (scope(rows[i])[:2], -sizes[kind(rows[i])], str(kind(rows[i])), -rows[i].p.numel(), i),
        )
        rows = [rows[i] for i in self.order]
        self.kinds = [kind(row) for row in rows]
        blocks = [-(-row.p.numel() // BLOCK) for row in rows]
        each = min(WORKERS[1], max(WORKERS[0], sum(blocks) // 8)) / max(1, sum(blocks))
        workers = [max(1, min(count, round(count * each))) for count in blocks]
        first = [0, *accumulate(workers)]

        def launches(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int, Any]]:
            return [(first[begin], first[end] - first[begin], self.kinds[begin]) for begin, end in runs]

        runs = _runs(self.kinds)
        head = min(HEAD, runs[0][1]) if sum(sizes.values()) > LARGE else 0
        self.stages = [stage for stage in ((0, head), (head, len(rows))) if stage[0] < stage[1]]
        self.stage_launches = [
            launches((max(b, begin), min(e, end)) for b, e in runs if b < end and e > begin)
            for begin, end in self.stages
        ]
        self.launches = launches(runs)

        scopes = _runs(map(scope, rows))
        number = {scope(rows[begin]): i for i, (begin, _) in enumerate(scopes)}
        self.shared = [w for begin, end in scopes if scope(rows[begin])[0] == 0 for w in (first[begin], first[end])]
        self.singles = [
            (facts.record, g, [i for i, row in enumerate(rows) if row.group == g])
            for g, facts in enumerate(groups)
            if facts.scope == "tensor" and any(row.group == g for row in rows)
        ]
        lines = [
            (*(t.data_ptr() for t in (row.p, row.z, row.offset, row.step)), row.p.numel(), begin, count, row.group,
             salt(row.group, row.number, row.share.number))
            for row, begin, count in zip(rows, first, workers, strict=False)
        ]  # fmt: skip
        records = [(f.record.data_ptr(), number.get(_scope(f.scope, g, -1), -1)) for g, f in enumerate(groups)]
        self.kept: list[Tensor] = []
        self.table = self._upload(lines, torch.int64, device)
        self.at = [0] * len(rows)
        self.gradients = torch.zeros(len(rows), dtype=torch.int64, device=device)
        narrow = torch.int16 if len(rows) < 1 << 15 else torch.int32
        self.worker_rows = self._upload([i for i, n in enumerate(workers) for _ in range(n)], narrow, device)
        self.scopes = self._upload([(b, e, first[b], first[e]) for b, e in scopes], torch.int64, device)
        self.records = self._upload(records, torch.int64, device)
        self.settings = torch.empty(len(groups), 8, dtype=torch.float64, device=device)
        self.coefficients = torch.empty(len(rows), 4, dtype=torch.float32, device=device)
        self.partial = torch.empty(first[-1], dtype=torch.float64, device=device)
        self.scope_norms = torch.empty(len(scopes), dtype=torch.float64, device=device)
        shares = [row.share for row, count in zip(rows, workers, strict=True) for _ in range(count)]
        self.parts = {
            channel: self._upload([(s.channel == channel) / s.copies for s in shares], torch.float64, device)
            for channel in ({s.channel for s in shares} if any(s.channel >= 0 for s in shares) else ())
        }  # what counts of a worker's squares, by the sum over ranks that it goes to
        self.device_index = device.index
        # Kernels that follow others are on the device before these end, and wait there: saves 2 µs for each.
        self.early = EARLY and device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)
        self.direct: dict[int, list[tuple[Any, tuple[int, int, int], tuple[Any, ...]]]] = {}  # of each phase

    def twin(self) -> Self:
        """The same tables, with gradients' places and settings of their own."""
        twin = copy.copy(self)
        twin.gradients, twin.settings = torch.zeros_like(self.gradients), torch.empty_like(self.settings)
        twin.at, twin.kept, twin.direct = [0] * len(self.at), [], {}
        return twin

    def aim(self, begin: int, at: list[int]) -> bool:
        """Tell kernels where gradients are from row `begin` on, 0 for nowhere; False where they must be aligned."""
        end = begin + len(at)
        if at != self.at[begin:end]:
            if any(place % 16 and kind[-1] for place, kind in zip(at, self.kinds[begin:end], strict=True)):
                return False
            self.at[begin:end] = at
            self.bring(self.gradients[begin:end], at)
        return True

    def bring(self, table: Tensor, values: Sequence[Any]) -> None:
        """Copy numbers to the device, without waiting."""
        host = torch.tensor(values, dtype=table.dtype, device="cpu", pin_memory=table.is_cuda).view(table.shape)
        table.copy_(host, non_blocking=True)
        if table.is_cuda and torch.cuda.is_current_stream_capturing():  # pragma: no cover - CUDA, which CI has not
            self.kept.append(host)  # a captured copy reads it at every replay

    def norms(self, stage: int, scale: Tensor | None) -> None:
        """Σ z² of a stage's tensors; nothing else is written."""
        amp = scale is not None
        if not amp and self._again(stage):  # pragma: no cover - see _again
            return
        tables = (self.table, self.gradients, self.settings, self.worker_rows)
        launched = []
        for first, count, (p, g, z, coupled, _, aligned) in self.stage_launches[stage]:
            arguments = (*tables, first, scale if amp else self.partial, self.partial)
            options = (TYPES[p], TYPES[g], TYPES[z], amp, coupled, aligned, BLOCK, self.early)
            launched.append(_launch(_kernels.norms, count, WARPS, False, *arguments, *options))
        self._remember(None if amp else stage, launched)

    def move(self, scale: Tensor | None, found_inf: Tensor | None, joint: Joint | None) -> None:
        """Put the norms together, and move everything."""
        if joint is not None:
            self._sum_over(joint)
        phase = None if scale is not None or found_inf is not None else len(self.stages)
        if phase is None or not self._again(phase):  # pragma: no branch - see _again
            self._move(phase, scale, found_inf)
        for record, g, rows in self.singles:
            self._record_singles(record, g, rows, found_inf)

    def _move(self, phase: int | None, scale: Tensor | None, found_inf: Tensor | None) -> None:
        scale_at, inf_at = (self.partial if t is None else t for t in (scale, found_inf))
        launched = [
            _launch(
                _kernels.scalars, len(self.scopes), 8, self.early,
                self.table, self.gradients, self.settings, self.scopes, self.partial, inf_at, self.coefficients,
                self.scope_norms, self.records, len(self.records), found_inf is not None, 1024, self.early,
            )
        ]  # fmt: skip
        tables = (self.table, self.gradients, self.settings, self.worker_rows)
        for first, count, (p, g, z, coupled, stochastic, aligned) in self.launches:
            options = (scale is not None, found_inf is not None, coupled, stochastic, aligned, BLOCK, self.early)
            types = (TYPES[p], TYPES[g], TYPES[z])
            arguments = (*tables, first, scale_at, inf_at, self.coefficients, *types, *options)
            launched.append(_launch(_kernels.update, count, WARPS, self.early, *arguments))
        self._remember(phase, launched)

    def _remember(self, phase: int | None, launched: list[Any]) -> None:
        """Keep the launches of a phase for `_again`: all of them, or none."""
        if phase is not None and None not in launched:  # pragma: no cover - the interpreter has no launcher
            self.direct[phase] = launched

    def _again(self, phase: int) -> bool:
        """The launches of before, without Triton's look at each argument: 4 to 6 µs each, instead of about 30."""
        if (launches := self.direct.get(phase)) is None:
            return False
        stream = torch._C._cuda_getCurrentRawStream(self.device_index)  # pragma: no cover - as above
        for launch, grid, arguments in launches:  # pragma: no cover
            launch(*grid, stream, *arguments)
        return True  # pragma: no cover

    def _upload(self, values: list[Any], dtype: torch.dtype, device: torch.device) -> Tensor:
        table = torch.empty(torch.tensor(values, device="cpu").shape, dtype=dtype, device=device)
        self.bring(table, values)
        return table

    def _sum_over(self, joint: Joint) -> None:
        """Put the other ranks' squares to this one's."""
        if not self.shared:  # nothing of this rank's yet
            joint.sum({}, self.partial.new_zeros(()))
            return
        begin, end = self.shared
        own = self.partial[begin:end]
        squares = {channel: (own * part[begin:end]).sum() for channel, part in self.parts.items()} or {-1: own.sum()}
        own.copy_(joint.sum({(-1, -1): squares}, own[0])[-1, -1] / (end - begin))

    def _record_singles(self, record: Tensor, g: int, rows: list[int], found_inf: Tensor | None) -> None:
        """A group of which each tensor has its own norm: the norm over the group, and the largest η."""
        begin, end = rows[0], rows[-1] + 1
        if not any(self.at[begin:end]):
            return
        last = len(self.scope_norms) - (len(self.at) - end)  # single tensors are the last scopes, one a row
        norm = vector_norm(self.scope_norms[last - (end - begin) : last])
        eta = self.coefficients[begin:end, 2].amax() * self.settings[g, 1]
        new = torch.stack([norm, eta, record[2] + norm, record[3] + 1])
        record.copy_(new if found_inf is None else torch.where(found_inf == 0, new, record))


def _launch(kernel: Any, programs: int, warps: int, early: bool, *arguments: Any) -> Any:
    """Launch, and tell how to do it again, where that is known."""
    options = {"launch_pdl": True} if early else {}
    compiled = kernel[(programs,)](*arguments, num_warps=warps, **options)
    if compiled is None or not DIRECT:
        return None
    run = compiled.run  # pragma: no cover - the interpreter compiles nothing
    pdl = (run.launch_cooperative_grid, run.launch_pdl)  # pragma: no cover
    where = (*pdl, None, None, compiled.packed_metadata, None, None, None)  # pragma: no cover
    places = (a.data_ptr() if isinstance(a, Tensor) else a for a in arguments)  # pragma: no cover
    return run.launch, (programs, 1, 1), (compiled.function, *where, *places)  # pragma: no cover


def _scope(scope: str, g: int, i: int) -> tuple[int, int, int]:
    return SCOPES.index(scope), 0 if scope == "global" else g, i if scope == "tensor" else 0


def _runs(keys: Iterable[Any]) -> list[tuple[int, int]]:
    """[begin, end) of each run of equal keys."""
    lengths = [len(list(run)) for _, run in groupby(keys)]
    return [(end - length, end) for end, length in zip(accumulate(lengths), lengths, strict=True)]
