"""State goes from torch to JAX and back without a change of any bit, and training continues as it would have."""

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
import torch
from torch import nn

import adamplus
from adamplus.jax import Sign, Spectral, adam_plus, eval_params, from_torch, nigt, spectral_plus, to_torch


def model(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).to(dtype)


def convert(arrays: dict[Any, Any]) -> dict[str, Any]:
    layers = [("hidden", "0"), ("head", "2")]
    return {new: {"kernel": arrays[f"{i}.weight"].T, "bias": arrays[f"{i}.bias"]} for new, i in layers}


def back(tree: Any) -> dict[str, Any]:
    layers = [("hidden", "0"), ("head", "2")]
    return {f"{i}.{name}": x for new, i in layers for name, x in
            (("weight", tree[new]["kernel"].T), ("bias", tree[new]["bias"]))}  # fmt: skip


def arrays(net: nn.Module) -> dict[str, np.ndarray]:
    return {name: p.detach().numpy().copy() for name, p in net.named_parameters()}


def gradients(net: nn.Module, t: int) -> None:
    for i, p in enumerate(net.parameters()):
        p.grad = torch.from_numpy(np.random.default_rng([t, i]).standard_normal(p.shape)).to(p.dtype)


def train(net: nn.Module, optimizer: Any, steps: range) -> None:
    for t in steps:
        gradients(net, t)
        optimizer.step()


def assert_bits(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_bits(a[key], b[key])
    elif isinstance(a, list):
        for x, y in zip(a, b, strict=True):
            assert_bits(x, y)
    elif isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    else:
        assert a == b


def spectral_geometry(path: str, leaf: Any) -> Any:
    return Spectral() if path == "hidden/kernel" else Sign()


FAMILY: dict[str, tuple[Callable[[nn.Module], Any], Any, Any]] = {
    "adam_plus": (lambda net: adamplus.AdamPlus(net.named_parameters(), lr=0.05, beta=0.2), adam_plus(0.05, 0.2), None),
    "nigt": (lambda net: adamplus.NIGT(net.named_parameters(), lr=0.05), nigt(0.05), None),
    "spectral_plus": (
        lambda net: adamplus.SpectralPlus(adamplus.spectral_groups(net), lr=0.02),
        spectral_plus(0.02, geometry=spectral_geometry),
        spectral_geometry,
    ),
}
each = pytest.mark.parametrize(("make", "optimizer", "geometry"), FAMILY.values(), ids=FAMILY)


@each
def test_a_round_trip_changes_no_bit(make: Any, optimizer: Any, geometry: Any):
    net = model()
    source = make(net)
    train(net, source, range(5))
    saved = source.state_dict()
    state = from_torch(saved, convert, geometry)
    assert all(type(x) is np.ndarray for x in jax.tree.leaves(state))
    assert_bits(to_torch(state, back, saved), saved)
    on_device = jax.tree.map(jnp.asarray, state)  # and through the types of JAX
    assert_bits(to_torch(on_device, back, saved), saved)


@each
def test_torch_and_jax_continue_alike(make: Any, optimizer: Any, geometry: Any):
    net = model()
    source = make(net)
    train(net, source, range(5))
    params: Any = jax.tree.map(jnp.asarray, convert(arrays(net)))
    state: Any = from_torch(source.state_dict(), convert, geometry)
    update = jax.jit(optimizer.update)
    for t in range(5, 10):
        gradients(net, t)
        grads = convert({name: p.grad.numpy() for name, p in net.named_parameters() if p.grad is not None})
        source.step()
        updates, state = update(grads, state, params)
        params = optax.apply_updates(params, updates)
    for found, mode in ((params, source.train), (eval_params(state, params, geometry), source.eval)):
        mode()
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), found, convert(arrays(net)))

    other = model()
    target = make(other)
    with torch.no_grad():
        for name, p in other.named_parameters():
            p.copy_(torch.from_numpy(np.array(back(params)[name])))
    target.load_state_dict(to_torch(state, back, target.state_dict()))
    target.eval()
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5),
        eval_params(state, params, geometry),
        convert(arrays(other)),
    )
    assert target.stats().step == 10


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_float64_and_bfloat16_are_exact(dtype: torch.dtype):
    """numpy has no bfloat16, and JAX usually no float64, but the state is of numpy arrays."""
    net = model(dtype)
    source = adamplus.AdamPlus(net.named_parameters(), state_dtype=dtype)
    train(net, source, range(3))
    state = from_torch(source.state_dict(), convert)
    assert isinstance(state.z["head"]["bias"], np.ndarray)
    assert state.z["head"]["bias"].dtype == (ml_dtypes.bfloat16 if dtype == torch.bfloat16 else np.float64)
    assert_bits(to_torch(state, back, source.state_dict()), source.state_dict())


def test_offsets_of_groups_may_differ():
    net = model()
    weights, biases = [net[0].weight, net[2].weight], [net[0].bias, net[2].bias]
    source = adamplus.AdamPlus([{"params": weights, "lr": 0.1}, {"params": biases, "lr": 0.3}])
    train(net, source, range(3))
    number = {0: "0.weight", 1: "2.weight", 2: "0.bias", 3: "2.bias"}  # without names, keys are numbers
    state = from_torch(source.state_dict(), lambda found: convert({number[i]: x for i, x in found.items()}))
    assert len(set(np.asarray(state.offset).tolist())) == 2
    inverse = {name: i for i, name in number.items()}
    returned = to_torch(state, lambda tree: {inverse[name]: x for name, x in back(tree).items()}, source.state_dict())
    assert_bits(returned, source.state_dict())
    with pytest.raises(ValueError, match="one leaf of parameters with different offsets"):
        from_torch(source.state_dict(), lambda found: np.concatenate([x.ravel() for x in found.values()]))


def test_a_state_in_eval_mode_is_refused():
    net = model()
    source = adamplus.AdamPlus(net.named_parameters())
    train(net, source, range(1))
    source.eval()
    with pytest.raises(ValueError, match=r"call optimizer.train\(\) before"):
        from_torch(source.state_dict(), convert)


def test_a_parameter_without_state_is_refused():
    net = model()
    source = adamplus.AdamPlus(net.named_parameters())
    gradients(net, 0)
    next(p for name, p in net.named_parameters() if name == "0.bias").grad = None
    source.step()
    with pytest.raises(ValueError, match=r"parameter '0.bias' has no state"):
        from_torch(source.state_dict(), convert)
    gradients(net, 1)
    source.step()
    with pytest.raises(ValueError, match="different numbers of steps"):
        from_torch(source.state_dict(), convert)


def test_a_tree_with_other_parameters_is_refused():
    net = model()
    state: Any = adam_plus(0.1).init(convert(arrays(net)))
    like = adamplus.AdamPlus(net.named_parameters()).state_dict()
    with pytest.raises(ValueError, match=r"different parameters: 0.bias, 9.bias"):
        to_torch(state, lambda tree: {name.replace("0.bias", "9.bias"): x for name, x in back(tree).items()}, like)


def of_spectral_plus(**settings: Any) -> tuple[nn.Module, Any]:
    net = model()
    optimizer = adamplus.SpectralPlus(adamplus.spectral_groups(net), lr=0.02, **settings)
    return net, optimizer


def test_an_offset_of_jax_is_undone_by_an_optimizer_without_look_ahead():
    net, target = of_spectral_plus(lookahead=0.0)
    params: Any = jax.tree.map(jnp.asarray, convert(arrays(net)))
    optimizer = spectral_plus(0.02, lookahead=1.0, geometry=spectral_geometry)
    updates, state = optimizer.update(params, optimizer.init(params), params)
    params = optax.apply_updates(params, updates)
    with torch.no_grad():
        for name, p in net.named_parameters():
            p.copy_(torch.from_numpy(np.array(back(params)[name])))
    target.load_state_dict(to_torch(cast(Any, state), back, target.state_dict()))
    target.eval()
    w = eval_params(state, params, spectral_geometry)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-6), convert(arrays(net)), w)

    at_w: Any = spectral_plus(0.02, lookahead=0.0, geometry=spectral_geometry).init(params)
    returned = to_torch(at_w, back, of_spectral_plus(lookahead=0.0)[1].state_dict())
    assert [group["extrapolated"] for group in returned["param_groups"]] == [False, False]


def test_tensors_for_torch_have_its_order_in_memory():
    for dtype in (torch.float32, torch.bfloat16):
        net = model(dtype)
        source = adamplus.AdamPlus(net.named_parameters(), state_dtype=dtype)
        train(net, source, range(1))
        state = jax.tree.map(jnp.asarray, from_torch(source.state_dict(), convert))  # arrays of JAX have C order
        found = to_torch(state, back, source.state_dict())["state"]
        assert all(state["z"].is_contiguous() for state in found.values())


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        (Sign(), r"the geometry of hidden/kernel is Sign.*has matrices of 8 × 3 \(d_out × d_in\)"),
        (Spectral(blocks=2), "hidden/kernel is Spectral.*has matrices of 8 × 3"),
        (Spectral(output=0), "hidden/kernel is Spectral.*has matrices of 8 × 3"),
    ],
)
def test_a_geometry_with_other_matrices_than_in_torch_is_refused(hidden: Any, message: str):
    net, source = of_spectral_plus()
    train(net, source, range(1))
    with pytest.raises(ValueError, match=message):
        from_torch(source.state_dict(), convert, lambda path, leaf: hidden if path == "hidden/kernel" else Sign())
    with pytest.raises(ValueError, match=r"the geometry of head/kernel is Spectral.*has sign steps"):
        from_torch(source.state_dict(), convert, lambda path, leaf: Spectral() if leaf.ndim == 2 else Sign())


@pytest.mark.parametrize(
    ("shape", "settings", "to_leaf", "geometry"),
    [
        ((12, 4), {"blocks": 3}, lambda x: x.T, Spectral(blocks=(4, 4, 4))),
        pytest.param(
            (12, 4), {"blocks": 3}, lambda x: x.reshape(3, 4, 4), Spectral(output=1, batch=0), marks=pytest.mark.slow
        ),
        pytest.param(
            (4, 9), {"blocks": (4, 5), "transposed": True}, lambda x: x, Spectral(blocks=(4, 5)), marks=pytest.mark.slow
        ),
        pytest.param((8, 3, 2, 2), {}, lambda x: x.transpose(2, 3, 1, 0), Spectral(), marks=pytest.mark.slow),
        pytest.param(
            (3, 8, 2, 2), {"transposed": True}, lambda x: x, Spectral(output=(1, 2, 3)), marks=pytest.mark.slow
        ),
        pytest.param((2, 4, 6), {"stacked": True}, lambda x: x, Spectral(output=1, batch=0), marks=pytest.mark.slow),
        pytest.param(
            (2, 4, 6), {"stacked": True, "transposed": True}, lambda x: x, Spectral(batch=0), marks=pytest.mark.slow
        ),
        pytest.param((5, 0), {}, lambda x: x, Spectral(output=0), marks=pytest.mark.slow),
    ],
)
def test_equal_matrices_are_accepted_however_they_are_stored(
    shape: tuple[int, ...], settings: dict[str, Any], to_leaf: Any, geometry: Spectral
):
    p = torch.nn.Parameter(torch.zeros(shape))
    source = adamplus.SpectralPlus([p], lookahead=1.0, **settings)
    p.grad = torch.from_numpy(np.random.default_rng(0).standard_normal(shape)).float()
    source.step()
    state = from_torch(source.state_dict(), lambda found: to_leaf(found[0]), geometry)
    w = eval_params(state, to_leaf(p.detach().numpy().copy()), geometry)
    source.eval()
    np.testing.assert_allclose(w, to_leaf(p.detach().numpy()), atol=1e-5)


def test_rounded_directions_are_refused():
    net, source = of_spectral_plus(keep_direction=True)
    train(net, source, range(1))
    with pytest.raises(ValueError, match=r"parameter '0.weight' has a direction that keep_direction=True rounded"):
        from_torch(source.state_dict(), convert, spectral_geometry)
    state: Any = spectral_plus(0.1, geometry=spectral_geometry).init(convert(arrays(net)))
    with pytest.raises(ValueError, match="the torch optimizer has keep_direction=True"):
        to_torch(state, back, source.state_dict())


def test_a_state_of_another_optimizer_is_refused():
    net = model()
    other = torch.optim.SGD(net.parameters(), lr=0.1).state_dict()
    state: Any = adam_plus(0.1).init(convert(arrays(net)))
    with pytest.raises(ValueError, match="the state_dict is of another optimizer"):
        from_torch(other, convert)
    with pytest.raises(ValueError, match="the state_dict is of another optimizer"):
        to_torch(state, back, other)
