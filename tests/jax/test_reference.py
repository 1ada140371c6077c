"""The members in float64 against torch's references, step by step the same algorithm."""

from collections.abc import Iterable
from typing import Any

import pytest
from jax_cases import EUCLIDEAN, error, jax_run, noises, start, torch_run

from adamplus import SpectralPlusReference
from adamplus.jax import Sign, Spectral, spectral_plus

TOLERANCE = 1e-12  # relative; a step rounds ŵ and z by 1e-16 each, and the problem forgets errors
SHAPES: dict[str, tuple[int, ...]] = {
    "matrix": (4, 3),
    "vector": (5,),
    "scalar": (),
    "empty": (0, 2),
    "stack": (2, 2, 3),
}
SILENT = (3, 4, 50, 51, 52)


def lr(step: Any) -> Any:
    return 0.3 / (1 + 0.01 * step)


def beta(step: Any) -> Any:
    return 0.1 + 0.05 * (step % 4)


CASES: dict[str, dict[str, Any]] = {
    "constant": {},
    "schedules": {"schedules": True},
    "coupled decay": {"weight_decay": 0.3},
    "decoupled decay": {"weight_decay": 0.3, "decoupled_weight_decay": True},
    "masked coupled decay": {"weight_decay": 0.3, "mask": True},
    "masked decoupled decay": {"weight_decay": 0.3, "decoupled_weight_decay": True, "mask": True},
    "at w": {"lookahead": 0.0},
    "far ahead": {"lookahead": 20.0, "schedules": True},
    "large eps": {"eps": 3.0},
    "all at once": {
        "lookahead": 2.5,
        "weight_decay": 0.3,
        "decoupled_weight_decay": True,
        "mask": True,
        "schedules": True,
    },
    "all but a look-ahead": {"weight_decay": 0.3, "mask": True, "schedules": True},
}


def compare(member: str, steps: int, schedules: bool = False, mask: bool = False, **options: Any) -> float:
    factory, powers = EUCLIDEAN[member]
    params = start(SHAPES)
    noise = noises(params, steps, silent=SILENT)
    rates: list[Any] = [lr, beta] if schedules else [0.2, 0.1]
    if member == "nigt":
        rates[1] = (lambda step: 1 - beta(step)) if schedules else 0.9
    decays = {name: name != "vector" for name in SHAPES}
    found = jax_run(factory(*rates, **options, **({"mask": decays} if mask else {})), params, noise)

    own = {**powers, **options}
    groups = [
        ([name for name in SHAPES if decays[name]], own),
        (["vector"], {**own, **({"weight_decay": 0.0} if mask else {})}),
    ]
    right = torch_run(
        params,
        noise,
        groups,
        lambda t: {"lr": lr(t), "beta": beta(t)} if schedules else {"lr": 0.2, "beta": 0.1},
    )
    return error(found, right)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("member", EUCLIDEAN)
def test_a_thousand_steps_match_the_reference(member: str):
    assert compare(member, steps=1000, **CASES["all at once"]) <= TOLERANCE


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("case", CASES)
def test_a_hundred_steps_match_the_reference_whatever_the_options(case: str):
    assert compare("adam_plus", steps=100, **CASES[case]) <= TOLERANCE


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("member", EUCLIDEAN)
@pytest.mark.parametrize("case", CASES)
def test_a_thousand_steps_match_the_reference_whatever_the_options(member: str, case: str):
    assert compare(member, steps=1000, **CASES[case]) <= TOLERANCE


MATRICES: dict[str, tuple[int, ...]] = {
    "wide": (3, 8),
    "tall": (6, 4),
    "packed": (4, 12),
    "sizes": (5, 9),
    "stack": (2, 4, 6),
}
MATRICES |= {"heads": (6, 2, 4), "torch": (4, 6), "row": (1, 5), "vector": (5,), "embedding": (7, 3)}
GEOMETRY = {
    "wide": Spectral(),
    "tall": Spectral(scale=0.5),
    "packed": Spectral(blocks=3),
    "sizes": Spectral(blocks=(4, 3, 2)),
    "stack": Spectral(batch=0),
    "heads": Spectral(output=(1, 2)),
    "torch": Spectral(output=0),
    "row": Spectral(),
    "vector": Sign(),
    "embedding": Sign(scale=0.1),
}
SETTINGS: dict[str, dict[str, Any]] = {  # the same for torch, whose matrices are (d_out, d_in) if not transposed
    "wide": {"transposed": True},
    "tall": {"transposed": True, "scale": 0.5},
    "packed": {"transposed": True, "blocks": 3},
    "sizes": {"transposed": True, "blocks": (4, 3, 2)},
    "stack": {"transposed": True, "stacked": True},
    "heads": {"transposed": True},
    "torch": {},
    "row": {"transposed": True},
    "vector": {"geometry": "sign"},
    "embedding": {"geometry": "sign", "scale": 0.1},
}
SPECTRAL_TOLERANCE = 1e-8
"""Relative. Polar Express in float64 differs from the SVD by up to 2e-9 for σ from 1.4e-6 ‖z‖ on."""

SPECTRAL_CASES: dict[str, dict[str, Any]] = {
    "constant": {},
    "schedules": {"schedules": True},
    "no decay": {"weight_decay": 0.0},
    "all decay": {"mask": True},
    "the paper's look-ahead": {"lookahead": None, "schedules": True},
    "at w": {"lookahead": 0.0},
    "all at once": {"lookahead": 2.5, "weight_decay": 0.3, "schedules": True},
}


def compare_spectral(
    steps: int, names: Iterable[str], schedules: bool = False, mask: bool = False, **options: Any
) -> float:
    params = start({name: MATRICES[name] for name in names})
    geometry = {name: GEOMETRY[name] for name in names}
    noise = noises(params, steps)
    rates = [lr, beta] if schedules else [0.02, 0.05]
    optimizer = spectral_plus(*rates, geometry=geometry, **options, **({"mask": lambda tree: True} if mask else {}))

    plain = {name for name in names if SETTINGS[name].get("geometry") == "sign" and not mask}
    flat = {"heads": (6, 8)}  # torch's d_out is one dimension of two
    right = torch_run(
        {name: p.reshape(flat.get(name, p.shape)) for name, p in params.items()},
        {name: n.reshape(steps, *flat.get(name, n.shape[1:])) for name, n in noise.items()},
        [([name], {**options, **SETTINGS[name], **({"weight_decay": 0.0} if name in plain else {})}) for name in names],
        lambda t: {"lr": lr(t), "beta": beta(t)} if schedules else {"lr": 0.02, "beta": 0.05},
        SpectralPlusReference,
    )
    found = jax_run(optimizer, params, noise, geometry)
    return error(found, right)


@pytest.mark.usefixtures("x64")
def test_spectral_plus_matches_the_svd_reference_for_all_layouts():
    assert compare_spectral(steps=60, names=MATRICES, **SPECTRAL_CASES["all at once"]) <= SPECTRAL_TOLERANCE


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("case", [case for case in SPECTRAL_CASES if case != "all at once"])
def test_spectral_plus_matches_the_svd_reference_whatever_the_options(case: str):
    assert compare_spectral(steps=60, names=("tall", "vector"), **SPECTRAL_CASES[case]) <= SPECTRAL_TOLERANCE


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("case", SPECTRAL_CASES)
def test_a_thousand_steps_of_spectral_plus_match_the_svd_reference(case: str):
    assert compare_spectral(steps=1000, names=MATRICES, **SPECTRAL_CASES[case]) <= SPECTRAL_TOLERANCE
