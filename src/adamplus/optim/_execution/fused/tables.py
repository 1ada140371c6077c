"""Tables that the fused kernels read, and the launches over them: few, however many tensors there are."""

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

from ..._layout import ALONE, GLOBAL, Share
from ..._ranks import Joint
from ..rounding import salt
from . import kernels, matrix_kernels
from .columns import CoefficientColumns, GroupColumns, Record, RecordColumns, ScopeColumns, TensorColumns

# A worker is one program of a launch and takes about eight blocks. WORKERS are the least and the most of them.
# Captured on an H200, 11 M parameters take 87 µs with 132 · 32 workers and 97 with 132 · 96; 124 M take 864 and 842 µs
# (829 with 132 · 256, which take more memory).
BLOCK, WARPS, WORKERS = 1024, 4, (132 * 32, 132 * 96)
# Above LARGE elements, the device begins with the HEAD largest tensors while the host checks the others.
LARGE, HEAD = 1 << 25, 8
TYPES = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
SCOPES = ("global", "group", "tensor")
RATE = CoefficientColumns._fields.index("rate")
BETA, LOOKAHEAD = (GroupColumns._fields.index(name) for name in ("beta", "lookahead"))
NORM_SUM, STEPS, SKIPPED = (Record._fields.index(name) for name in ("norm_sum", "steps", "skipped"))
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # kernels on CPU tensors, for tests
DIRECT = EARLY = triton.__version__.startswith("3.6.")  # the version in which both ways of launching were tested


class GroupTraits(NamedTuple):
    """What the tables depend on in a group. Its other settings are numbers that the kernels read."""

    record: Tensor
    scope: str
    is_coupled: bool
    is_stochastic: bool
    geometry: str = ""
    """Geometry of a group of SpectralPlus, or nothing for Adam⁺."""


class Kind(NamedTuple):
    """What the kernels are compiled for. One launch covers all tensors of one kind."""

    p: torch.dtype
    gradient: torch.dtype
    z: torch.dtype
    is_coupled: bool
    geometry: str
    is_stochastic: bool
    is_aligned: bool
    is_kept: bool
    part: int


class Matrices(NamedTuple):
    """The matrices of a part: rows of the table, their workers, and how many elements their directions take."""

    group: int
    rows: range
    first_worker: int
    workers: int
    kind: Kind
    size: int
    at: list[int]
    """Where the direction of each row begins."""


class TensorRow(NamedTuple):
    """A tensor with its state, for one row of the table."""

    p: Tensor
    z: Tensor
    offset: Tensor
    step: Tensor
    gradient_dtype: torch.dtype
    aligned: bool
    group: int
    number: int
    share: Share
    kept: Tensor | None = None
    """D(z) of a matrix of SpectralPlus, if it is kept."""
    part: int = 0
    """Number of the matrices whose directions are computed together, or 0."""


def row(
    p: Tensor, g: Tensor, z: Tensor, offset: Tensor, step: Tensor, group: int, number: int, share: Share = ALONE
) -> TensorRow:
    """Row of parameter `number` of a group, whose gradients have the dtype and alignment of `g`."""
    return TensorRow(p, z, offset, step, g.dtype, all(t.data_ptr() % 16 == 0 for t in (p, g, z)), group, number, share)


class Tables:
    """Addresses of tensors and state, the workers that take them, the scopes that share a norm, and both passes.

    `first`, `step_sizes` and `second` launch the kernels of these names, each over all tensors.
    """

    def __init__(self, rows: Sequence[TensorRow], groups: Sequence[GroupTraits], device: torch.device) -> None:
        def kind(row: TensorRow) -> Kind:
            group = groups[row.group]
            is_stochastic = group.is_stochastic and row.p.dtype == torch.bfloat16
            traits = (group.is_coupled, group.geometry, is_stochastic, row.aligned, row.kept is not None, row.part)
            return Kind(row.p.dtype, row.gradient_dtype, row.z.dtype, *traits)

        def scope(row: TensorRow) -> tuple[int, int, int]:
            return _scope(groups[row.group].scope, row.group, row.number)

        # Scopes are runs of rows, and kinds are runs within them. Tensors that are a scope each are sorted by kind.
        # The largest kind and its largest tensors are first.
        sizes = Counter[Kind]()
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

        def launches(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int, Kind]]:
            return [(first[begin], first[end] - first[begin], self.kinds[begin]) for begin, end in runs]

        runs = _runs(self.kinds)
        head = min(HEAD, runs[0][1]) if sum(sizes.values()) > LARGE else 0
        self.stages = [stage for stage in ((0, head), (head, len(rows))) if stage[0] < stage[1]]
        self.stage_launches = [
            launches((max(b, begin), min(e, end)) for b, e in runs if b < end and e > begin)
            for begin, end in self.stages
        ]
        self.launches = launches(run for run in runs if not self.kinds[run[0]].part)
        self.parts = [
            _matrices(range(begin, end), rows, first[begin], first[end] - first[begin], self.kinds[begin])
            for begin, end in runs
            if self.kinds[begin].part
        ]
        directions = {i: at for part in self.parts for i, at in zip(part.rows, part.at, strict=True)}

        scopes = _runs(map(scope, rows))
        number = {scope(rows[begin]): i for i, (begin, _) in enumerate(scopes)}
        self.shared = [w for begin, end in scopes if scope(rows[begin])[0] == 0 for w in (first[begin], first[end])]
        self.singles = [
            (group.record, g, [i for i, row in enumerate(rows) if row.group == g])
            for g, group in enumerate(groups)
            if group.scope == "tensor" and any(row.group == g for row in rows)
        ]
        lines = [
            TensorColumns(
                p=row.p.data_ptr(),
                z=row.z.data_ptr(),
                offset=row.offset.data_ptr(),
                step=row.step.data_ptr(),
                size=row.p.numel(),
                first_worker=begin,
                workers=count,
                group=row.group,
                salt=salt(row.group, row.number, row.share.number),
                direction=directions.get(i, 0),
                kept=0 if row.kept is None else row.kept.data_ptr(),
            )
            for i, (row, begin, count) in enumerate(zip(rows, first, workers, strict=False))
        ]
        records = [
            RecordColumns(group.record.data_ptr(), number.get(_scope(group.scope, g, -1), -1))
            for g, group in enumerate(groups)
        ]
        self.kept: list[Tensor] = []
        self.table = self._table(lines, torch.int64, device)
        self.at = [0] * len(rows)
        self.gradients = torch.zeros(len(rows), dtype=torch.int64, device=device)
        narrow = torch.int16 if len(rows) < 1 << 15 else torch.int32
        self.worker_rows = self._table([i for i, n in enumerate(workers) for _ in range(n)], narrow, device)
        self.scopes = self._table([ScopeColumns(b, e, first[b], first[e]) for b, e in scopes], torch.int64, device)
        self.records = self._table(records, torch.int64, device)
        self.settings = torch.empty(len(groups), len(GroupColumns._fields), dtype=torch.float64, device=device)
        self.coefficients = torch.empty(len(rows), len(CoefficientColumns._fields), dtype=torch.float32, device=device)
        self.partial = torch.zeros(first[-1], dtype=torch.float64, device=device)
        self.scope_norms = torch.empty(len(scopes), dtype=torch.float64, device=device)
        copies = [row.share.copies for row, count in zip(rows, workers, strict=True) for _ in range(count)]
        # What counts of each worker's squares, where several ranks have the same part of the model.
        has_copies = any(count > 1 for count in copies)
        self.fractions = self._table([1 / n for n in copies], torch.float64, device) if has_copies else None
        self.device_index = device.index
        # A kernel that follows another one is launched before that ends, and waits on the device: saves 2 µs each.
        self.early = EARLY and device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)
        self.direct: dict[str, list[tuple[Any, tuple[int, int, int], tuple[Any, ...]]]] = {}  # launches of each phase

    def twin(self) -> Self:
        """Copy of the tables with its own addresses of gradients and its own settings."""
        twin = copy.copy(self)
        twin.gradients, twin.settings = torch.zeros_like(self.gradients), torch.empty_like(self.settings)
        twin.at, twin.kept, twin.direct = [0] * len(self.at), [], {}
        return twin

    def locate(self, begin: int, at: list[int]) -> bool:
        """Tell the kernels where the gradients from row `begin` on are. Return False if one is no longer aligned."""
        end = begin + len(at)
        if at != self.at[begin:end]:
            if any(place % 16 and kind.is_aligned for place, kind in zip(at, self.kinds[begin:end], strict=True)):
                return False
            self.at[begin:end] = at
            self.upload(self.gradients[begin:end], at)
        return True

    def upload(self, table: Tensor, values: Sequence[Any]) -> None:
        """Copy numbers to the device without waiting for it."""
        host = torch.tensor(values, dtype=table.dtype, device="cpu", pin_memory=table.is_cuda).view(table.shape)
        table.copy_(host, non_blocking=True)
        if table.is_cuda and torch.cuda.is_current_stream_capturing():  # pragma: no cover - CUDA, which CI has not
            self.kept.append(host)  # a captured copy reads it at every replay

    def first(self, stage: int, scale: Tensor | None) -> None:
        """First pass over the tensors of a stage: Σ z_t² of each worker. Nothing else is written."""
        phase = None if scale is not None else f"first {stage}"
        if self._repeat(phase):  # pragma: no cover - see _repeat
            return
        tables = (self.table, self.gradients, self.settings, self.worker_rows)
        scale_at = self.partial if scale is None else scale
        launched = []
        for first, count, kind in self.stage_launches[stage]:
            types = _types(kind)
            options = (scale is not None, kind.is_coupled, kind.is_aligned, BLOCK, self.early)
            arguments = (*tables, first, scale_at, self.partial, *types, *options)
            launched.append(_launch(kernels.first, count, WARPS, False, *arguments))
        self._remember(phase, launched)

    def skip(self, found_inf: Tensor | None) -> tuple[Tensor, Tensor]:
        """Two flags after the first pass: of a step that must not happen, and of one that only its norm forbids.

        A worker's squares are not finite if its gradients are not. GradScaler's own skipped steps count as its own.
        """
        skipped = self.partial.sum().isfinite().logical_not()
        if found_inf is None:
            return skipped.float(), skipped
        return torch.maximum(skipped.float(), found_inf), skipped & (found_inf == 0)

    def step_sizes(self, found_inf: Tensor | None) -> None:
        """‖z‖ and η of each scope, in one kernel; offsets, step counts and records are updated."""
        phase = None if found_inf is not None else "step sizes"
        if self._repeat(phase):  # pragma: no cover - see _repeat
            return
        inf_at = self.partial if found_inf is None else found_inf
        launched = _launch(
            kernels.step_sizes, len(self.scopes), 8, self.early,
            self.table, self.gradients, self.settings, self.scopes, self.partial, inf_at, self.coefficients,
            self.scope_norms, self.records, len(self.records), found_inf is not None, 1024, self.early,
        )  # fmt: skip
        self._remember(phase, [launched])

    def second(self, scale: Tensor | None, found_inf: Tensor | None) -> None:
        """Second pass: move ŵ and z."""
        phase = None if scale is not None or found_inf is not None else "second"
        if not self._repeat(phase):  # pragma: no branch - see _repeat
            self._launch_second(phase, scale, found_inf)
        for record, g, rows in self.singles:
            self._record_singles(record, g, rows, found_inf)

    def _launch_second(self, phase: str | None, scale: Tensor | None, found_inf: Tensor | None) -> None:
        scale_at, inf_at = (self.partial if t is None else t for t in (scale, found_inf))
        tables = (self.table, self.gradients, self.settings, self.worker_rows)
        launched = []
        for first, count, kind in self.launches:
            types = _types(kind)
            options = (
                scale is not None, found_inf is not None, kind.is_coupled, kind.geometry == "sign", kind.is_stochastic,
                kind.is_aligned, BLOCK, self.early,
            )  # fmt: skip
            arguments = (*tables, first, scale_at, inf_at, self.coefficients, *types, *options)
            launched.append(_launch(kernels.second, count, WARPS, self.early, *arguments))
        self._remember(phase, launched)

    def average(self, number: int) -> None:
        """Average the gradients of a part of the matrices."""
        part, phase = self.parts[number], f"average {number}"
        if self._repeat(phase):  # pragma: no cover - see _repeat
            return
        tables = (self.table, self.gradients, self.settings, self.worker_rows, part.first_worker, self.coefficients)
        arguments = (*tables, *_types(part.kind), part.kind.is_aligned, BLOCK)
        self._remember(phase, [_launch(matrix_kernels.average, part.workers, WARPS, False, *arguments)])

    def move(self, number: int, old: Tensor | None, new: Tensor, undoes: bool) -> None:
        """Move a part of the matrices by `new` directions, after undoing the last extrapolation by the old ones.

        The old directions may be None if they are kept, or if there is nothing to undo.
        """
        part = self.parts[number]
        tables = (self.table, self.gradients, self.worker_rows, part.first_worker, self.coefficients)
        kind = part.kind
        options = (undoes, kind.is_kept, kind.is_stochastic, kind.is_aligned, BLOCK)
        arguments = (*tables, new if old is None else old, new, *_types(kind), *options)
        _launch(matrix_kernels.move, part.workers, WARPS, False, *arguments)

    def _remember(self, phase: str | None, launched: list[Any]) -> None:
        """Keep the launches of a phase for `_repeat`, if all of them can be repeated."""
        if phase is not None and launched and None not in launched:  # pragma: no cover - not interpreted
            self.direct[phase] = launched

    def _repeat(self, phase: str | None) -> bool:
        """Repeat the launches of a phase, if they are known: 4 to 6 µs each, instead of 30 through Triton's checks."""
        if phase is None or (launches := self.direct.get(phase)) is None:
            return False
        stream = torch._C._cuda_getCurrentRawStream(self.device_index)  # pragma: no cover - needs a GPU
        for launch, grid, arguments in launches:  # pragma: no cover
            launch(*grid, stream, *arguments)
        return True  # pragma: no cover

    def _table(self, values: list[Any], dtype: torch.dtype, device: torch.device) -> Tensor:
        table = torch.empty(torch.tensor(values, device="cpu").shape, dtype=dtype, device=device)
        self.upload(table, values)
        return table

    def sum_over(self, joint: Joint) -> None:
        """Add the other ranks' squares to this one's."""
        if not self.shared:  # this rank has had no gradient yet
            joint.sum({}, self.partial.new_zeros(()))
            return
        begin, end = self.shared
        own = self.partial[begin:end]
        square = (own if self.fractions is None else own * self.fractions[begin:end]).sum()
        # Spread evenly, because the kernel `step_sizes` adds these numbers up again.
        own.copy_(joint.sum({GLOBAL: square}, own[0])[GLOBAL] / (end - begin))

    def _record_singles(self, record: Tensor, g: int, rows: list[int], found_inf: Tensor | None) -> None:
        """Record of a group whose tensors have a norm each: the norm over the group, and the largest η."""
        begin, end = rows[0], rows[-1] + 1
        if not any(self.at[begin:end]):
            return
        last = len(self.scope_norms) - (len(self.at) - end)  # these scopes are the last, one for each row
        norm = vector_norm(self.scope_norms[last - (end - begin) : last])
        rate, beta, ahead = (
            self.coefficients[begin:end, RATE].amax(),
            self.settings[g, BETA],
            self.settings[g, LOOKAHEAD],
        )
        eta = torch.where(ahead < 0, rate * beta, rate / (1 + ahead))
        new = torch.stack([norm, eta, record[NORM_SUM] + norm, record[STEPS] + 1, record[SKIPPED]])
        record.copy_(new if found_inf is None else torch.where(found_inf == 0, new, record))


def _matrices(at: range, rows: Sequence[TensorRow], first: int, count: int, kind: Kind) -> Matrices:
    # Directions begin at multiples of 16 elements, so that loads are 16 bytes wide.
    *begins, size = accumulate((-(-rows[i].p.numel() // 16) * 16 for i in at), initial=0)
    return Matrices(rows[at[0]].group, at, first, count, kind, size, begins)


def _types(kind: Kind) -> tuple[Any, Any, Any]:
    return TYPES[kind.p], TYPES[kind.gradient], TYPES[kind.z]


def _launch(kernel: Any, programs: int, warps: int, early: bool, *arguments: Any) -> Any:
    """Launch a kernel, and return how to repeat that, or None if it is not known."""
    options = {"launch_pdl": True} if early else {}
    compiled = kernel[(programs,)](*arguments, num_warps=warps, **options)
    if compiled is None or not DIRECT:
        return None
    run = compiled.run  # pragma: no cover - needs a GPU
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
