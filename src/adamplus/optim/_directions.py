"""Directions of SpectralPlus: √(d_out/d_in) U Vᵀ of every matrix in a tensor, or the sign of every entry.

A parameter is one matrix or several: `matrices` reads a tensor as batches of them, by the settings `stacked`,
`transposed` and `blocks` of its group. `_orthogonal.py` has U Vᵀ of a batch.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from ._orthogonal import computed_dtype, orthogonalize

GEOMETRIES = ("spectral", "sign")
SCALES = {"spectral": 1.0, "sign": 0.04}  # of a group whose scale is None
AT_ONCE = {"cpu": 2**20}  # elements of a batch: on a CPU they stay in the caches
AT_ONCE_ELSEWHERE = 2**26  # 128 MiB in bfloat16; a batch needs about six times its size while it is computed


def scale_of(group: dict[str, Any]) -> float:
    """Scale s of D."""
    return SCALES[group["geometry"]] if group["scale"] is None else group["scale"]


@torch.no_grad()
def directions(zs: Sequence[Tensor], group: dict[str, Any], into: list[Tensor] | None = None) -> list[Tensor]:
    """D(z) of each tensor: tensors of the same shapes, for the settings of a group.

    - "spectral": s √(d_out/d_in) U Vᵀ of each matrix, in `computed_dtype(z)`. Matrices of equal shape are computed
      together, in batches of bounded size. The same list of tensors has the same result, bit for bit; in
      another list a matrix may be in another batch, whose products may sum in another order.
    - "sign": s · sign(z), in the dtype of z.

    inf or NaN in z becomes NaN: `torch.sign` alone would hide it.

    Args:
        zs: tensors that `check_geometry` accepts.
        group: `geometry`, `scale`, `stacked`, `transposed` and `blocks`. A scale of None is 1, or 0.04 for signs.
        into: tensors for spectral directions, whose matrices are views. Default: new tensors.
    """
    scale = scale_of(group)
    zs = list(zs)
    if not zs:
        return []
    if group["geometry"] == "sign":
        signs = list(torch._foreach_sign(zs))
        torch._foreach_mul_(signs, scale)
        torch._foreach_add_(signs, zs, alpha=0)  # 0 · inf and 0 · NaN are NaN
        return signs

    layout = {name: group[name] for name in ("stacked", "transposed", "blocks")}
    zs = [z if is_viewable(z, group["stacked"]) else z.contiguous() for z in zs]
    results = [torch.empty_like(z, dtype=computed_dtype(z)) for z in zs] if into is None else into
    equal: dict[tuple[Any, ...], tuple[list[Tensor], list[Tensor]]] = {}
    for z, result in zip(zs, results, strict=True):
        for source, target in zip(matrices(z, **layout), matrices(result, **layout), strict=True):
            if source.numel() > 0:
                sources, targets = equal.setdefault((z.device, result.dtype, *source.shape[1:]), ([], []))
                at_once = max(1, _at_once(z) // source[0].numel())
                sources.extend(source.split(at_once))
                targets.extend(target.split(at_once))
    for (_, _, d_out, d_in), (sources, targets) in equal.items():
        at_once = max(1, _at_once(sources[0]) // (d_out * d_in))
        for batch in _batches([len(source) for source in sources], at_once):
            _write_spectral(sources[batch], targets[batch], scale * math.sqrt(d_out / d_in))
    return results


def _at_once(z: Tensor) -> int:
    return AT_ONCE.get(z.device.type, AT_ONCE_ELSEWHERE)


def _batches(counts: list[int], at_once: int) -> Iterable[slice]:
    """Consecutive slices of a list, such that the counts in each sum to at most `at_once`."""
    start = total = 0
    for i, count in enumerate(counts):
        if total + count > at_once:
            yield slice(start, i)
            start, total = i, 0
        total += count
    yield slice(start, len(counts))


def _write_spectral(sources: list[Tensor], targets: list[Tensor], scale: float) -> None:
    """Write scale · U Vᵀ of the sources, batches of equal matrices, into the targets."""
    sizes = [len(source) for source in sources]
    batch = torch.empty(sum(sizes), *sources[0].shape[1:], dtype=targets[0].dtype, device=sources[0].device)
    torch._foreach_copy_(list(batch.split(sizes)), sources)
    torch._foreach_copy_(targets, list(orthogonalize(batch, scale=scale, dtype=batch.dtype).split(sizes)))


def matrices(
    t: Tensor, *, stacked: bool = False, transposed: bool = False, blocks: int | tuple[int, ...] = 1
) -> list[Tensor]:
    """A tensor as batches of matrices [b, d_out, d_in]: one of all equal blocks, or one for each block.

    They are views of t, so that writing into them writes into t, if `is_viewable(t, stacked)`; else they are copies.
    The columns of a convolution's matrices, and the matrices of a stack with several dimensions, have the order of t's
    memory: U Vᵀ of a matrix with permuted columns is U Vᵀ with the same permutation.

    Args:
        t: a tensor of at least 2 dimensions. The first is d_out and all others together are d_in. With `transposed`, it
            is the other way round, as in the weight of a transposed convolution.
        stacked: all dimensions but the last two count matrices.
        transposed: matrices are stored as (d_in, d_out).
        blocks: the number of equal blocks that d_out consists of, or their sizes.
    """
    _check_shape(t.shape, stacked, transposed, blocks)
    order = _memory_order(t, _merged(t, stacked))
    batch = t.permute(*order, -2, -1).flatten(0, -3) if stacked else t.permute(0, *order).flatten(1)[None]
    batch = batch.mT if transposed else batch
    if isinstance(blocks, int) and len(batch) == 1:  # thousands, if each channel of a convolution is a block
        return [batch[0].unflatten(0, (blocks, batch.shape[1] // blocks))]
    return list(batch.split(_block_sizes(batch.shape[1], blocks), dim=1))


def is_viewable(t: Tensor, stacked: bool) -> bool:
    """Whether the matrices of t are views: any 2-D tensor, contiguous ones, convolution weights in channels_last."""
    order = [i for i in _memory_order(t, _merged(t, stacked)) if t.shape[i] != 1]
    return all(t.stride(i) == t.stride(j) * t.shape[j] != 0 for i, j in pairwise(order))


def _merged(t: Tensor, stacked: bool) -> range:
    """The dimensions that become one: those that count matrices, or those of d_in."""
    return range(t.dim() - 2) if stacked else range(1, t.dim())


def _memory_order(t: Tensor, dims: Iterable[int]) -> list[int]:
    return sorted(dims, key=t.stride, reverse=True)


def _block_sizes(d_out: int, blocks: int | tuple[int, ...]) -> list[int]:
    return [d_out // blocks] * blocks if isinstance(blocks, int) else list(blocks)


def check_geometry(settings: dict[str, Any], params: Iterable[Tensor]) -> None:
    """Raise for settings of a direction that a group may not have, and for parameters that they do not fit."""
    geometry, scale = settings["geometry"], settings["scale"]
    if geometry not in GEOMETRIES:
        raise ValueError(f"geometry must be one of {', '.join(map(repr, GEOMETRIES))}, got {geometry!r}")
    if scale is not None:
        if isinstance(scale, bool) or not isinstance(scale, Real):
            raise TypeError(f"scale must be a number or None, got {scale!r}")
        if not 0 < float(scale) < math.inf:
            raise ValueError(f"scale must be finite and greater than 0, got {scale}")
    for name in ("stacked", "transposed"):
        if not isinstance(settings[name], bool):
            raise TypeError(f"{name} must be True or False, got {settings[name]!r}")
    blocks = settings["blocks"]
    for size in blocks if isinstance(blocks, tuple) else (blocks,):
        if isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(f"blocks must be an int or a tuple of ints, got {blocks!r}")
        if size < 1:
            raise ValueError(f"blocks must be at least 1, got {blocks!r}")
    if blocks == ():
        raise ValueError("blocks must have at least one size, got ()")
    for p in params:
        if p.is_complex():
            raise TypeError(
                f"SpectralPlus has no direction for complex parameters, got {p.dtype}: use AdamPlus for them"
            )
        if geometry == "spectral":
            _check_shape(p.shape, settings["stacked"], settings["transposed"], blocks)


def _check_shape(shape: torch.Size, stacked: bool, transposed: bool, blocks: int | tuple[int, ...]) -> None:
    """Raise for a shape that cannot be read as matrices of these settings."""
    found = f"got shape {tuple(shape)}"
    if len(shape) < 2:
        raise ValueError(
            f"the spectral geometry needs matrices, {found}: use geometry='sign' for vectors; if it is a flattened "
            "shard of a matrix, as in FSDP1, shard by fully_shard instead"
        )
    if stacked and len(shape) < 3:
        raise ValueError(f"stacked=True needs at least 3 dimensions, {found}: use stacked=False for one matrix")
    if transposed and not stacked and len(shape) != 2 and blocks != 1:
        raise ValueError(
            f"transposed=True with blocks={blocks} needs a 2-D parameter, {found}: use stacked=True if its last two "
            "dimensions are matrices"
        )
    d_out = shape[-1 if transposed else -2] if stacked else math.prod(shape[1:]) if transposed else shape[0]
    if isinstance(blocks, int) and d_out % blocks != 0:
        raise ValueError(f"blocks={blocks} does not divide the output dimension {d_out}, {found}: pass their sizes")
    if isinstance(blocks, tuple) and sum(blocks) != d_out:
        raise ValueError(f"blocks={blocks} sum to {sum(blocks)}, not to the output dimension {d_out}, {found}")
