"""Which geometry each leaf of `spectral_plus` has: the default, by its path and its shape, or a choice of the user."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from ..optim import POLAR_EXPRESS
from ._geometry import Geometry, Sign, Spectral, axes_from_0, block_sizes

Routing: TypeAlias = Callable[[str, Any], Geometry | str] | Any
"""A function of a leaf's path ("layers/0/kernel") and of the leaf, or a tree like the parameters or a prefix of it."""

VECTORS = re.compile(r"^(bias|scale|b|\w*_bias)$")
TOKENS = re.compile(  # whole words: "text_embedder" and "decomposition" are no embeddings
    r"(?<![a-z])(embed|embeds|embeddings?|positions?|positional)(?![a-z])|^(pos|wte|wpe|(\w*_)?tokens?)$", re.IGNORECASE
)
HEADS = re.compile(r"^(lm_head|head|heads|classifier|logits\w*|unembed\w*|readout)$", re.IGNORECASE)
ATTENTION = ("query", "key", "value", "out")


def default_geometry(path: str, leaf: Any) -> Geometry:
    """The geometry of a leaf of Flax, Haiku or Equinox, by its path and its shape.

    =======================================================  ==========  ==========================================
    leaf                                                     geometry    matrices
    =======================================================  ==========  ==========================================
    vectors, scalars, `bias`, `scale`                        sign
    embeddings, positions, tokens, by a word of the name     sign
    output heads named `head`, `lm_head`, `classifier`, …    sign
    2 axes                                                   spectral    d_out is the last axis
    2 axes and more, named `weight` (Equinox)                spectral    d_out is the first axis
    `query`, `key`, `value` of Flax's attention              spectral    d_out is the last two axes
    `out` of Flax's attention                                spectral    d_out is the last axis
    `kernel` of 4 or 5 axes (convolutions)                   spectral    d_out is the last axis, the rest is d_in
    =======================================================  ==========  ==========================================

    These names are those of the leaf, such as `pos_embedding`, or of its module, as in `lm_head/kernel`. No other part
    of the path counts: `classifier/Dense_0/kernel` is a hidden layer.

    An error is raised for all other leaves: stacked layers (`nn.scan`) cannot be told from one-dimensional
    convolutions, nor depthwise convolutions from those of one channel. Output heads of other names and packed matrices
    need a geometry of their own, too. A function of yours can choose for some leaves, and call this one for the rest.

    Args:
        path: path of the leaf, such as "layers/0/kernel".
        leaf: an array, of which only the shape is read.

    Example:
        >>> adamplus.jax.default_geometry("layers/0/kernel", jnp.zeros((64, 128)))
        Spectral(scale=1.0, output=-1, batch=(), blocks=1, dtype=None)
        >>> adamplus.jax.default_geometry("lm_head/kernel", jnp.zeros((64, 1000)))
        Sign(scale=0.04)
    """
    *parents, name = path.split("/")
    parent = parents[-1] if parents else ""
    is_vector = sum(size != 1 for size in leaf.shape) <= 1 or VECTORS.search(name)
    if is_vector or any(TOKENS.search(part) or HEADS.search(part) for part in (parent, name)):
        return Sign()
    if name == "weight":
        return Spectral(output=0)
    if leaf.ndim == 2:
        return Spectral()
    if leaf.ndim == 3 and parent in ATTENTION:
        return Spectral() if parent == "out" else Spectral(output=(-2, -1))
    if leaf.ndim in (4, 5) and name in ("kernel", "w") and parent not in ATTENTION and leaf.shape[-2] > 1:
        return Spectral()
    raise ValueError(
        f"no rule says which matrices {path or 'the parameter'} of shape {tuple(leaf.shape)} has: pass a geometry that "
        "returns Spectral(output=…, batch=…) or Sign() for it"
    )


def geometries(tree: Any, routing: Routing | None) -> list[Geometry]:
    """The geometry of each leaf. Raise for one that does not fit its leaf."""
    routing = default_geometry if routing is None else routing
    with_paths, treedef = jax.tree_util.tree_flatten_with_path(tree)
    if not with_paths:  # optax.tree.map_params passes a tree of no leaves
        return []
    if callable(routing):
        chosen = [routing(path_of(path), leaf) for path, leaf in with_paths]
    else:
        spread = jax.tree.map(lambda one, part: jax.tree.map(lambda _: one, part), routing, tree, is_leaf=_is_geometry)
        chosen = treedef.flatten_up_to(spread)
    pairs = zip(with_paths, chosen, strict=True)
    return [_checked(one, leaf, path_of(path)) for (path, leaf), one in pairs]


def path_of(path: tuple[Any, ...]) -> str:
    """Path of a leaf as text: "layers/0/kernel". The last part of Flax NNX, ".value", is left out."""
    if len(path) > 1 and isinstance(path[-1], jax.tree_util.GetAttrKey) and path[-1].name == "value":
        path = path[:-1]
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _is_geometry(x: Any) -> bool:
    return isinstance(x, Spectral | Sign | str)


def _checked(geometry: Any, leaf: Any, path: str) -> Geometry:
    """A geometry with axes from 0, or an error that names the leaf."""
    found = f"for {path or 'the parameter'} of shape {tuple(leaf.shape)}"
    geometry = {"spectral": Spectral(), "sign": Sign()}.get(geometry, geometry) if _is_geometry(geometry) else geometry
    if not isinstance(geometry, Spectral | Sign):
        raise TypeError(f"geometry must be Spectral(…), Sign(…), 'spectral' or 'sign', got {geometry!r} {found}")
    if not 0 < geometry.scale < math.inf:
        raise ValueError(f"scale must be finite and greater than 0, got {geometry.scale} {found}")
    if jnp.iscomplexobj(leaf):
        raise TypeError(f"spectral_plus has no direction for complex parameters, got {leaf.dtype} {found}")
    if isinstance(geometry, Sign):
        return geometry
    output, batch = axes_from_0(geometry.output, leaf.ndim, found), axes_from_0(geometry.batch, leaf.ndim, found)
    if leaf.ndim - len(batch) < 2 or not output or set(output) & set(batch) or len(output) + len(batch) == leaf.ndim:
        raise ValueError(
            f"the spectral geometry needs matrices, got output={geometry.output} and batch={geometry.batch} {found}: "
            "use Sign() for vectors"
        )
    d_out = math.prod(leaf.shape[i] for i in output)
    sizes = block_sizes(geometry.blocks, d_out)
    if sum(sizes) != d_out:
        raise ValueError(
            f"blocks={geometry.blocks} do not divide the output dimension {d_out} {found}: pass their sizes"
        )
    if geometry.dtype not in (None, *POLAR_EXPRESS):
        raise ValueError(f"dtype must be one of {', '.join(POLAR_EXPRESS)} or None, got {geometry.dtype!r} {found}")
    return replace(geometry, output=output, batch=batch, blocks=sizes)
