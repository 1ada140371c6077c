"""State of torch's optimizers as state of the transformations, and back, without a change of any number."""

from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np

from ._geometry import Geometry, Sign, Spectral, fingerprints, matrices
from ._routing import Routing, geometries, path_of
from ._state import AdamPlusState, SpectralPlusState, Tree

Arrays = dict[Any, np.ndarray]


def from_torch(
    state_dict: dict[str, Any], convert: Callable[[Arrays], Tree], geometry: Routing | None = None
) -> AdamPlusState | SpectralPlusState:
    """State of a transformation from the `state_dict()` of `AdamPlus`, `NAdamPlus`, `NIGT` or `SpectralPlus`.

    The optimizer has to be in train mode when it is saved, so that its model's parameters are ŵ, as in JAX.

    Args:
        state_dict: the optimizer's.
        convert: the function that makes the tree of parameters from the arrays of a model. It may rename, transpose,
            reshape and stack arrays, and is called with z of each parameter in place of the parameter. Arrays have
            the parameters' names if the optimizer has them (it was built from `model.named_parameters()`), else their
            numbers.
        geometry: the argument of the same name that `spectral_plus` has, if it has one. It must have the same matrices
            as the torch optimizer.

    Returns:
        A state of numpy arrays.

    Example:
        >>> layer = torch.nn.Linear(3, 2)
        >>> optimizer = adamplus.AdamPlus(layer.named_parameters())
        >>> layer(torch.ones(3)).sum().backward()
        >>> optimizer.step()
        >>> def convert(arrays):
        ...     return {"kernel": arrays["weight"].T, "bias": arrays["bias"]}
        >>> params = convert({name: p.detach().numpy() for name, p in layer.named_parameters()})
        >>> state = adamplus.jax.from_torch(optimizer.state_dict(), convert)
        >>> jax.tree.map(np.shape, (params, state.z))
        ({'bias': (2,), 'kernel': (3, 2)}, {'bias': (2,), 'kernel': (3, 2)})
    """
    groups = _groups(state_dict)
    if not all(group["training"] for group in groups):
        raise ValueError("the state_dict was saved in eval mode, and JAX trains at ŵ: call optimizer.train() before")
    spectral = ["geometry" in group for group in groups]
    names = _names(groups)
    states = state_dict["state"]
    if missing := [names[i] for i in names if not states.get(i)]:
        raise ValueError(f"parameter {missing[0]!r} has no state: it was frozen, or has taken no step. Leave it out")
    if kept := [names[i] for i in names if "direction" in states[i]]:
        raise ValueError(
            f"parameter {kept[0]!r} has a direction that keep_direction=True rounded to bfloat16, which JAX has not: "
            "train with keep_direction=False, or call optimizer.eval() and start a new state in JAX from w"
        )
    counts = {names[i]: int(states[i]["step"]) for i in names}
    if len(set(counts.values())) > 1:
        raise ValueError(f"parameters have taken different numbers of steps, and JAX counts them once: {counts}")
    zs = {names[i]: _numpy(states[i]["z"]) for i in names}
    z = convert(zs)
    offset = _offsets({names[i]: _numpy(states[i]["offset"]) for i in names}, zs, convert)
    step = np.asarray(next(iter(counts.values())), np.int32)
    if not any(spectral):
        return AdamPlusState(step, z, offset)
    kinds = geometries(z, geometry)
    _check_matrices(groups, zs, convert, kinds)
    return SpectralPlusState(step, z, offset, fingerprints(kinds))


def to_torch(
    state: AdamPlusState | SpectralPlusState, convert: Callable[[Tree], Arrays], like: dict[str, Any]
) -> dict[str, Any]:
    """A `state_dict` that torch's optimizer of the same model can load, from the state of a transformation.

    Args:
        state: the state of one member of the family: what `init` or `update` returned, not that of a chain.
        convert: the inverse of the function of `from_torch`: arrays by the parameters' names (or numbers) from a tree.
        like: `state_dict()` of the torch optimizer that will load it, whose settings are kept.

    Returns:
        `like` with z, offset and step of each parameter, in train mode. Load ŵ, the parameters of JAX, into the model.

    Example:
        >>> layer = torch.nn.Linear(3, 2)
        >>> optimizer = adamplus.AdamPlus(layer.named_parameters())
        >>> params = {"kernel": np.ones((3, 2), "float32"), "bias": np.ones(2, "float32")}
        >>> state = adamplus.jax.adam_plus(0.1).init(params)
        >>> def convert(tree):
        ...     return {"weight": tree["kernel"].T, "bias": tree["bias"]}
        >>> optimizer.load_state_dict(adamplus.jax.to_torch(state, convert, optimizer.state_dict()))
        >>> optimizer.state[layer.weight]["z"].shape
        torch.Size([2, 3])
    """
    import torch

    def tensor(x: np.ndarray) -> torch.Tensor:
        if x.dtype == ml_dtypes.bfloat16:  # numpy has no such dtype, and torch reads only numpy's
            return torch.from_numpy(x.view(np.int16).copy("C")).view(torch.bfloat16)
        return torch.from_numpy(x.copy("C"))  # a transposed z would make each step of torch slower

    like_groups = _groups(like)
    if any(group.get("keep_direction") and group["geometry"] == "spectral" for group in like_groups):
        raise ValueError(
            "the torch optimizer has keep_direction=True, and JAX keeps no directions: make it without keep_direction"
        )
    leaves, treedef = jax.tree.flatten(state.z)
    zs = {name: np.asarray(z) for name, z in convert(treedef.unflatten(map(np.asarray, leaves))).items()}
    spread = [np.broadcast_to(c, z.shape) for c, z in zip(np.asarray(state.offset), leaves, strict=True)]
    offsets = convert(treedef.unflatten(spread))
    count = float(state.step)
    names = _names(like_groups)
    if set(names.values()) != set(zs):
        different = sorted(map(str, set(names.values()) ^ set(zs)))
        raise ValueError(f"the optimizer and the converted tree have different parameters: {', '.join(different)}")
    states = {}
    for i, name in names.items():
        z = tensor(zs[name])
        dtype = torch.float64 if z.dtype in (torch.float64, torch.complex128) else torch.float32
        offset = torch.tensor(_only(offsets[name], name), dtype=dtype)
        states[i] = {"z": z, "offset": offset, "step": torch.tensor(count)}
    groups = []
    for group in like_groups:
        record = group["record"].clone()
        record[3] = count
        new = {**group, "training": True, "record": record}
        if "extrapolated" in group:  # whether torch undoes offsets, which are of the settings that JAX had
            is_ahead = any(bool(states[i]["offset"] != 0) for i in group["params"])
            new["extrapolated"] = group["extrapolated"] or is_ahead
        groups.append(new)
    return {**like, "state": states, "param_groups": groups}


def _groups(state_dict: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameter groups of a member of the family. Raise for those of another optimizer."""
    groups = state_dict["param_groups"]
    if not all({"training", "record"} <= group.keys() for group in groups):
        raise ValueError(
            "the state_dict is of another optimizer: pass one of AdamPlus, NAdamPlus, NIGT or SpectralPlus"
        )
    return groups


def _check_matrices(
    groups: list[dict[str, Any]], zs: Arrays, convert: Callable[[Arrays], Tree], kinds: list[Geometry]
) -> None:
    """Raise if a leaf has other matrices than its parameters have in torch.

    `convert` is called with arrays of the numbers of matrices: all entries of a matrix of JAX must have one number, and
    the matrix of this number must have the same shape. Entries with sign steps have the number −1.
    """
    shapes: list[tuple[int, ...]] = []
    numbers = {name: np.full(z.shape, -1, np.int32) for name, z in zs.items()}
    names = _names(groups)
    for group in groups:
        for name in [names[i] for i in group["params"]] if group["geometry"] == "spectral" else []:
            indices = np.arange(zs[name].size).reshape(zs[name].shape)
            for matrix in _each_matrix(indices, _as_in_torch(group, indices.ndim)):
                np.put(numbers[name], matrix, len(shapes))
                shapes.append(matrix.shape)
    with_paths, _ = jax.tree_util.tree_flatten_with_path(convert(numbers))
    for (path, leaf), kind in zip(with_paths, kinds, strict=True):
        leaf = np.asarray(leaf)
        for matrix in [leaf] if isinstance(kind, Sign) else _each_matrix(leaf, kind):
            found = np.unique(matrix)
            own = [] if isinstance(kind, Sign) else [matrix.shape]
            theirs = [shapes[i] for i in found if i >= 0]
            if matrix.size and (theirs != own or len(found) > 1):
                sizes = sorted({f"{d_out} × {d_in}" for d_out, d_in in theirs})
                found_there = f"matrices of {', '.join(sizes)} (d_out × d_in)" if sizes else "sign steps"
                raise ValueError(
                    f"the geometry of {path_of(path) or 'the parameter'} is {kind}, but the torch optimizer has "
                    f"{found_there}: pass a geometry with the same matrices"
                )


def _each_matrix(x: np.ndarray, geometry: Spectral) -> list[np.ndarray]:
    return [matrix for block in matrices(x, geometry)[1] for matrix in block]


def _as_in_torch(group: dict[str, Any], ndim: int) -> Spectral:
    """The geometry of a parameter with spectral steps, by the settings of its group in torch."""
    if group["stacked"]:
        output = ndim - 1 if group["transposed"] else ndim - 2
        return Spectral(output=output, batch=tuple(range(ndim - 2)), blocks=group["blocks"])
    return Spectral(output=tuple(range(1, ndim)) if group["transposed"] else 0, blocks=group["blocks"])


def _names(groups: list[dict[str, Any]]) -> dict[Any, Any]:
    """Names of parameters by their keys in a state_dict, or these keys if the optimizer does not know the names."""
    lists = [(group["params"], group.get("param_names", group["params"])) for group in groups]
    return {i: name for keys, names in lists for i, name in zip(keys, names, strict=True)}


def _offsets(offsets: Arrays, zs: Arrays, convert: Callable[[Arrays], Tree]) -> np.ndarray:
    """Offset of each leaf of the converted tree: `convert` is called with arrays that are full of them."""
    tree = convert({name: np.broadcast_to(c, zs[name].shape) for name, c in offsets.items()})
    with_paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    found = [_only(leaf, jax.tree_util.keystr(path)) for path, leaf in with_paths]
    return np.array(found, np.result_type(np.float32, *(c.dtype for c in offsets.values())))


def _only(x: Any, name: str) -> Any:
    """The one value of an array, or 0 of an empty one."""
    x = np.asarray(x)
    if x.size == 0:
        return x.dtype.type(0)
    if (x != x.flat[0]).any():
        raise ValueError(f"{name} would be one leaf of parameters with different offsets: convert them to several")
    return x.flat[0]


def _numpy(x: Any) -> np.ndarray:
    """A copy of a tensor or of an array: the optimizer goes on writing into its own."""
    if str(x.dtype) == "torch.bfloat16":
        import torch

        return x.detach().cpu().view(torch.int16).numpy().view(ml_dtypes.bfloat16).copy()
    return np.array(x.detach().cpu().numpy() if hasattr(x, "detach") else x)
