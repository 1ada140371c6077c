"""Parts of a group of SpectralPlus: which tensors are stepped together, and by which list operations."""

from .._algorithm import Part
from .foreach import FOREACH
from .plain import PLAIN

# Elements of a part: four matrices of 8192 × 2048. There are temporaries for its directions, and for matrices of
# one shape as a batch. On a CPU, z is still in the cache when its direction is computed.
PART, CPU_PART = 1 << 26, 1 << 20


def spectral_parts(part: Part, foreach: bool) -> list[Part]:
    """Divide a part into those of one device, set of dtypes and shape, of bounded size.

    Matrices that are cut over ranks have any shapes, and are together, however many there are: their shards may differ
    from rank to rank, and the parts that exchange shards may not.
    """
    run = FOREACH if foreach else PLAIN
    rows: dict[tuple[object, ...], list[int]] = {}
    sizes: dict[tuple[object, ...], int] = {}
    for i, (w_hat, g, z) in enumerate(zip(part.w_hat, part.g, part.z, strict=True)):
        kind = (w_hat.device, w_hat.dtype, g.dtype, z.dtype)
        if part.cuts and part.cuts[i] is not None:
            rows.setdefault((True, *kind), []).append(i)
            continue
        kind = (*kind, *(z.shape if z.ndim > 1 else ()))
        begin = sizes.get(kind, 0)
        rows.setdefault((False, begin // (CPU_PART if z.is_cpu else PART), *kind), []).append(i)
        sizes[kind] = begin + z.numel()
    parts = [part.take(chosen, run) for chosen in rows.values()]
    for (is_cut, *_), some in zip(rows, parts, strict=True):
        some.cuts = some.cuts if is_cut else []
    return parts
