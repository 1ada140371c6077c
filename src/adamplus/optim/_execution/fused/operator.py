"""Fused step as one torch operator, which a compiled step calls without a break in its graph."""

from typing import Any

import torch
from torch import Tensor

from ..._algorithm import scalar
from ..._state import count_skipped
from ..lists import Gathered
from .gradients import EMPTY, readable
from .plan import settings
from .tables import SCOPES, GroupTraits, Tables, row

# Tables of the latest callers, by everything that they depend on except the gradients' addresses. They hold no
# parameter.
_latest: dict[tuple[Any, ...], Tables] = {}
_captured: list[Tables] = []  # graphs may replay these at any time
CALLERS = 8


SCHEMA = (
    "(Tensor(a0!)[] params, Tensor[] gradients, Tensor(a2!)[] zs, Tensor(a3!)[] offsets, Tensor(a4!)[] steps, "
    "Tensor(a5!)[] records, Tensor numbers, SymInt[] places, SymInt[] traits, Tensor? scale, Tensor? found_inf, "
    "bool skips) -> ()"
)
"""What torch infers from the annotations below. torch 2.6 cannot infer it from `list[Tensor]`."""
WRITTEN = ("params", "zs", "offsets", "steps", "records")


@torch.library.custom_op("adamplus::fused_step", mutates_args=WRITTEN, schema=SCHEMA)
def fused_step(
    params: list[Tensor],
    gradients: list[Tensor],
    zs: list[Tensor],
    offsets: list[Tensor],
    steps: list[Tensor],
    records: list[Tensor],
    numbers: Tensor,
    places: list[int],
    traits: list[int],
    scale: Tensor | None,
    found_inf: Tensor | None,
    skips: bool,
) -> None:
    """Take a step. `places`: group and position of each parameter. `traits`: scope, coupling, noise of each group."""
    gradients = [_laid_out(g, p) for g, p in zip(gradients, params, strict=True)]
    tensors = (*params, *zs, *offsets, *steps, *records)
    looks = [(t.dtype, t.shape, t.stride()) for t in (*params, *gradients, *zs)]
    aligned = [t.data_ptr() % 16 for t in gradients]
    key = (*(t.data_ptr() for t in tensors), *looks, *aligned, *places, *traits)
    tables = _latest.pop(key, None)
    known = tables is not None
    if tables is None:
        columns = zip(params, gradients, zs, offsets, steps, places[::2], places[1::2], strict=True)
        each = zip(records, traits[::3], traits[1::3], traits[2::3], strict=True)
        groups = [
            GroupTraits(record, SCOPES[scope], bool(coupled), bool(noise)) for record, scope, coupled, noise in each
        ]
        tables = Tables([row(*column) for column in columns], groups, params[0].device)
    capturing = params[0].is_cuda and torch.cuda.is_current_stream_capturing()
    # Tables that are made in a capture are empty until it is replayed.
    if known or not capturing:  # pragma: no branch - CUDA, which CI has not
        _latest[key] = tables  # the last one is the latest
        while len(_latest) > CALLERS:
            del _latest[next(iter(_latest))]
    if capturing:  # pragma: no cover - CUDA, which CI has not
        _captured.extend((tables, tables.twin()))
        tables = _captured[-1]
    tables.settings.copy_(numbers)
    for number, (begin, end) in enumerate(tables.stages):
        tables.locate(begin, [gradients[i].data_ptr() or EMPTY for i in tables.order[begin:end]])
        tables.first(number, scale)
    if skips:
        found_inf, skipped = tables.skip(found_inf)
        count_skipped(records, skipped)
    tables.step_sizes(found_inf)
    tables.second(scale, found_inf)


def _laid_out(g: Tensor, p: Tensor) -> Tensor:
    return g if readable(g, p) else torch.empty_like(p, dtype=g.dtype).copy_(g)


class FusedOperator:
    """Takes a step by calling the operator."""

    def step(self, gathered: Gathered) -> None:
        """Take a step."""
        places: list[int] = []
        traits: list[int] = []
        values: list[Tensor] = []
        for i, group in enumerate(gathered.groups):
            record, own = group["record"], settings(group)
            numbers: tuple[Any, ...] = own._replace(lr=scalar(group, "lr"), beta=scalar(group, "beta"))
            kind: dict[str, Any] = {"dtype": record.dtype, "device": record.device}
            values += [n if isinstance(n, Tensor) else torch.full((), n, **kind) for n in numbers]
            places += [x for j, p in enumerate(group["params"]) if p.grad is not None for x in (i, j)]
            traits += [SCOPES.index(group["norm_scope"]), int(own.coupled != 0), int(group["stochastic_rounding"])]
        columns = [[tensor for own in gathered.columns for tensor in own[k]] for k in range(5)]
        records = [group["record"] for group in gathered.groups]
        table = torch.stack(values).view(len(gathered.groups), -1)
        skips = any(group["skip_nonfinite"] for group in gathered.groups)
        fused_step(*columns, records, table, places, traits, gathered.scale, gathered.found_inf, skips)
