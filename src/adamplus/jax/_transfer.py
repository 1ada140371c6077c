"""State of torch's optimizers as state of the transformations, and back, without a change of any number."""

from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np

from ._geometry import fingerprints
from ._routing import Routing, geometries
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
        geometry: the argument of the same name that `spectral_plus` has, if it has one.

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
    groups = state_dict["param_groups"]
    if not all(group["training"] for group in groups):
        raise ValueError("the state_dict was saved in eval mode, and JAX trains at ŵ: call optimizer.train() before")
    spectral = ["geometry" in group for group in groups]
    names = _names(groups)
    states = state_dict["state"]
    if missing := [names[i] for i in names if not states.get(i)]:
        raise ValueError(f"parameter {missing[0]!r} has no state: it was frozen, or has taken no step. Leave it out")
    counts = {names[i]: int(states[i]["step"]) for i in names}
    if len(set(counts.values())) > 1:
        raise ValueError(f"parameters have taken different numbers of steps, and JAX counts them once: {counts}")
    zs = {names[i]: _numpy(states[i]["z"]) for i in names}
    z = convert(zs)
    offset = _offsets({names[i]: _numpy(states[i]["offset"]) for i in names}, zs, convert)
    step = np.asarray(next(iter(counts.values())), np.int32)
    if not any(spectral):
        return AdamPlusState(step, z, offset)
    return SpectralPlusState(step, z, offset, fingerprints(geometries(z, geometry)))


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
            return torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16)
        return torch.from_numpy(np.array(x))

    leaves, treedef = jax.tree.flatten(state.z)
    zs = {name: np.asarray(z) for name, z in convert(treedef.unflatten(map(np.asarray, leaves))).items()}
    spread = [np.broadcast_to(c, z.shape) for c, z in zip(np.asarray(state.offset), leaves, strict=True)]
    offsets = convert(treedef.unflatten(spread))
    count = float(state.step)
    names = _names(like["param_groups"])
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
    for group in like["param_groups"]:
        record = group["record"].clone()
        record[3] = count
        groups.append({**group, "training": True, "record": record})
    return {**like, "state": states, "param_groups": groups}


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
    """The one value of an array."""
    x = np.asarray(x)
    if (x != x.flat[0]).any():
        raise ValueError(f"{name} would be one leaf of parameters with different offsets: convert them to several")
    return x.flat[0]


def _numpy(x: Any) -> np.ndarray:
    """A copy of a tensor or of an array: the optimizer goes on writing into its own."""
    if str(x.dtype) == "torch.bfloat16":
        import torch

        return x.detach().cpu().view(torch.int16).numpy().view(ml_dtypes.bfloat16).copy()
    return np.array(x.detach().cpu().numpy() if hasattr(x, "detach") else x)
