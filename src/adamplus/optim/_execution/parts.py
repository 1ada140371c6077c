"""A group's tensors as the parts that are executed together."""

from itertools import chain
from typing import Any

import torch
from torch import Tensor

from .._algorithm import Part
from .._modes import real
from .._ranks import ALONE, PLAIN, Share, local, local_gradient
from .rounding import salt, seeds


def parts(
    run: Any, group: dict[str, Any], i: int, numbers: list[int], shares: list[Share], *columns: list[Tensor]
) -> list[Part]:
    """The tensors of group i that have these numbers, as parts of which each belongs to one sum over ranks."""
    params, grads, zs, offsets, steps = columns
    if _ordinary(params, grads, zs):
        w_hat, g, z = params, grads, zs
    else:
        w_hat, z = ([real(local(t)) for t in tensors] for tensors in (params, zs))
        g = [real(local_gradient(g, p)) for g, p in zip(grads, params, strict=True)]
    part = Part(w_hat, g, z, offsets, steps, list(range(len(zs))), run)
    if group["stochastic_rounding"]:
        part.seeds = seeds([salt(i, j, own.number) for j, own in zip(numbers, shares, strict=True)], steps)
    alike: dict[tuple[int, int], list[int]] = {}
    for row, own in enumerate(shares):
        alike.setdefault((own.channel, own.copies), []).append(row)
    if len(alike) <= 1:
        part.share = shares[0] if shares else ALONE
        return run.split(part)
    found: list[Part] = []
    for (channel, copies), chosen in alike.items():
        some = part.take(chosen)
        some.share = Share(channel, copies)
        found += run.split(some)
    return found


def _ordinary(*columns: list[Tensor]) -> bool:
    """Whether these can be computed with as they are: `local` and `real` take longer to find that out of each."""
    if torch.compiler.is_compiling():  # pragma: no cover - dynamo traces without running
        return False
    tensors = list(chain.from_iterable(columns))
    real = all(map(Tensor.dim, tensors)) and not any(map(Tensor.is_complex, tensors))
    return real and {*map(type, tensors)} <= {*PLAIN}
