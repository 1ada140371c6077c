"""The reference of SpectralPlus against arithmetic done by hand."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from adamplus import SpectralPlus, SpectralPlusReference
from adamplus.optim._directions import directions

SETTINGS: dict[str, Any] = {"lr": 0.5, "beta": 0.25, "weight_decay": 0.0}


def matrix(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def step(optimizer: SpectralPlusReference, g: Tensor) -> tuple[Tensor, Tensor]:
    """w and ŵ after a step with this gradient."""
    (p,) = optimizer.param_groups[0]["params"]
    p.grad = g.clone()
    optimizer.step()
    return optimizer.state[p]["w"].clone(), p.detach().clone()


def one(z: Tensor, **settings: Any) -> Tensor:
    """D(z): what one step from zero subtracts from w."""
    w, _ = step(SpectralPlusReference([torch.zeros_like(z)], **{**SETTINGS, "lr": 1.0, **settings}), z)
    return -w


def close(found: Tensor, expected: Tensor) -> bool:
    return torch.allclose(found, expected, rtol=0, atol=1e-14)  # some roundings of numbers around 1


def test_two_steps_of_a_diagonal_matrix_match_arithmetic_by_hand():
    optimizer = SpectralPlusReference([torch.nn.Parameter(matrix([4.0, 0.0], [0.0, -2.0]))], **SETTINGS)
    w, w_hat = step(optimizer, matrix([3.0, 0.0], [0.0, -0.1]))  # U Vᵀ = diag(1, −1)
    assert close(w, matrix([3.5, 0.0], [0.0, -1.5]))
    assert close(w_hat, matrix([3.0, 0.0], [0.0, -1.0]))
    w, w_hat = step(optimizer, matrix([-11.0, 0.0], [0.0, 0.1]))  # z = diag(−0.5, −0.05): U Vᵀ = −I
    assert close(w, matrix([4.0, 0.0], [0.0, -1.0]))
    assert close(w_hat, matrix([4.5, 0.0], [0.0, -0.5]))


def test_directions_of_small_matrices_match_arithmetic_by_hand():
    # [[1, −1], [1, 1]] is √2 times a rotation. [[3, 4], [0, 5]] is [[2, 1], [−1, 2]]/√5 · [[6, 3], [3, 14]]/√5.
    assert close(one(matrix([1.0, -1.0], [1.0, 1.0])), matrix([1.0, -1.0], [1.0, 1.0]) / math.sqrt(2))
    assert close(one(matrix([3.0, 4.0], [0.0, 5.0])), matrix([2.0, 1.0], [-1.0, 2.0]) / math.sqrt(5))
    assert close(one(matrix([3.0, 4.0])), math.sqrt(1 / 2) * matrix([0.6, 0.8]))
    assert close(one(matrix([3.0], [4.0])), math.sqrt(2) * matrix([0.6], [0.8]))


def test_matrices_without_full_rank_have_the_directions_of_what_they_span():
    assert close(one(matrix([6.0, 8.0], [0.0, 0.0])), matrix([0.6, 0.8], [0.0, 0.0]))
    assert close(one(matrix([1.0, 1.0], [1.0, 1.0])), matrix([0.5, 0.5], [0.5, 0.5]))
    assert close(one(torch.zeros(2, 3, dtype=torch.float64)), torch.zeros(2, 3, dtype=torch.float64))
    ones = torch.ones(2, 2) / 3
    assert torch.allclose(one(ones), torch.full((2, 2), 0.5), rtol=0, atol=1e-6)  # float32 has another threshold


def test_signs_match_arithmetic_by_hand():
    z = torch.tensor([5.0, -1e-9, 0.0])
    assert torch.equal(one(z, geometry="sign"), torch.tensor([0.04, -0.04, 0.0]))
    assert torch.equal(one(z, geometry="sign", scale=0.5), torch.tensor([0.5, -0.5, 0.0]))
    w = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = SpectralPlusReference([w], geometry="sign", scale=1.0, lookahead=2.0, **SETTINGS)
    assert [t.item() for t in step(optimizer, torch.tensor([8.0], dtype=torch.float64))] == [0.5, -0.5]
    # z = 0.75 · 8 − 0.25 · 32 = −2
    assert [t.item() for t in step(optimizer, torch.tensor([-32.0], dtype=torch.float64))] == [1.0, 2.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_directions_with_numbers_that_are_not_finite_are_nan(bad: float):
    assert one(matrix([bad, 0.0], [0.0, 1.0])).isnan().all()
    assert one(torch.tensor([bad, 1.0]), geometry="sign").isnan().tolist() == [True, False]


def test_a_tensor_is_read_as_matrices():
    z = random(4, 6)
    assert close(one(z, transposed=True), one(z.T).T)
    assert close(one(z, blocks=2), torch.cat([one(z[:2]), one(z[2:])]))
    assert close(one(z, blocks=(1, 3)), torch.cat([one(z[:1]), one(z[1:])]))
    assert close(one(z, blocks=(2, 4), transposed=True), torch.cat([one(z[:, :2].T), one(z[:, 2:].T)]).T)
    convolution = random(3, 2, 2, 2)
    assert close(one(convolution), one(convolution.reshape(3, 8)).reshape(3, 2, 2, 2))
    experts = random(2, 3, 4)
    assert close(one(experts, stacked=True), torch.stack([one(expert) for expert in experts]))
    assert close(one(experts.reshape(2, 1, 3, 4), stacked=True), one(experts, stacked=True).reshape(2, 1, 3, 4))
    expected = torch.stack([one(expert, transposed=True, blocks=2) for expert in experts])
    assert close(one(experts, stacked=True, transposed=True, blocks=2), expected)


@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ((5, 8), {}),
        ((8, 5), {"scale": 0.2}),
        ((6, 4), {"blocks": 3}),
        ((4, 6), {"blocks": (4, 2), "transposed": True}),
        ((2, 3, 4), {"stacked": True}),
        ((2, 2, 3, 4), {"stacked": True, "transposed": True, "blocks": 2}),
        ((4, 2, 3, 3), {}),
        ((7,), {"geometry": "sign"}),
    ],
)
def test_the_optimizers_directions_are_those_of_the_reference(shape: tuple[int, ...], settings: dict[str, Any]):
    group = {"geometry": "spectral", "scale": None, "stacked": False, "transposed": False, "blocks": 1, **settings}
    z = random(*shape, seed=3)
    # Singular values above 1.4e-6 ‖z‖ become 1 to within 1e-13, and these matrices are well conditioned.
    assert (directions([z], group)[0] - one(z, **settings)).abs().max() < 1e-11


@pytest.mark.parametrize("kind", [SpectralPlus, SpectralPlusReference])
@pytest.mark.parametrize(
    ("shape", "settings"),
    [((0, 3), {}), ((3, 0), {}), ((3, 0), {"transposed": True}), ((0, 4, 3), {"stacked": True}), ((2, 0, 3), {})],
)
def test_matrices_without_elements_take_steps(
    kind: type[SpectralPlus | SpectralPlusReference], shape: tuple[int, ...], settings: dict[str, Any]
):
    """Experts and shards may have none."""
    p = torch.nn.Parameter(torch.ones(shape))
    optimizer = kind([p], **settings)
    for _ in range(2):
        p.grad = torch.ones(shape)
        optimizer.step()
    optimizer.eval()
    assert p.shape == optimizer.state[p]["z"].shape == shape


def test_weight_decay_shrinks_w_and_is_not_extrapolated():
    w_0 = matrix([2.0, 0.0], [0.0, 2.0])
    optimizer = SpectralPlusReference([w_0.clone()], lr=0.5, weight_decay=0.2, lookahead=3.0)
    w, w_hat = step(optimizer, torch.eye(2, dtype=torch.float64))  # w = (1 − 0.1) · 2 − 0.5; ŵ = w − 1.5
    assert close(w, 1.3 * torch.eye(2, dtype=torch.float64))
    assert close(w_hat, -0.2 * torch.eye(2, dtype=torch.float64))


def test_maximizing_is_minimizing_the_negative():
    gradients = [random(3, 4, seed=seed) for seed in range(3)]
    down, up = (SpectralPlusReference([torch.ones(3, 4).double()], maximize=up) for up in (False, True))
    for g in gradients:
        for a, b in zip(step(down, g), step(up, -g), strict=True):
            assert torch.equal(a, b)


def test_without_lookahead_gradients_are_taken_at_w():
    optimizer = SpectralPlusReference([random(3, 4)], lookahead=0)
    for seed in range(3):
        w, w_hat = step(optimizer, random(3, 4, seed=seed))
        assert torch.equal(w, w_hat)


@pytest.mark.parametrize("beta", [0.25, 1.0])
def test_with_the_lookahead_of_adam_plus_w_is_a_moving_average_of_the_points_of_the_gradients(beta: float):
    optimizer = SpectralPlusReference([random(3, 4)], beta=beta, lookahead=None, weight_decay=0.0)
    before = random(3, 4)
    for seed in range(4):
        w, w_hat = step(optimizer, random(3, 4, seed=seed))
        assert close(w, (1 - beta) * before + beta * w_hat)
        before = w


def test_the_offset_of_a_step_is_lookahead_times_its_displacement():
    optimizer = SpectralPlusReference([random(3, 4)], weight_decay=0.0, lookahead=0.7)
    before = random(3, 4)
    for seed, lr in enumerate((0.1, 0.4, 0.0, 0.2)):
        optimizer.param_groups[0]["lr"] = lr
        w, w_hat = step(optimizer, random(3, 4, seed=seed))
        assert close(w_hat - w, 0.7 * (w - before))
        before = w


def test_a_step_has_the_same_size_for_any_scale_of_the_gradient():
    z = random(3, 5)
    assert close(one(z * 1e-200), one(z))
    assert close(one(z * 1e200), one(z))
    assert torch.linalg.matrix_norm(one(z), 2).item() == pytest.approx(math.sqrt(3 / 5), rel=1e-14)


def test_groups_have_their_own_settings_and_a_parameter_without_gradient_stays():
    p, q, still = (torch.nn.Parameter(torch.zeros(2, 2)) for _ in range(3))
    groups = [{"params": [p, still]}, {"params": [q], "geometry": "sign", "lr": torch.tensor(1.0), "lookahead": 0}]
    optimizer = SpectralPlusReference(groups, lr=0.5, lookahead=0)
    p.grad = q.grad = 9 * torch.eye(2)
    optimizer.step()
    assert torch.allclose(p, -0.5 * torch.eye(2))
    assert torch.allclose(q, -0.04 * torch.eye(2))
    assert torch.equal(still, torch.zeros(2, 2))
    assert list(optimizer.state) == [p, q]


def test_modes_put_w_or_w_hat_into_the_parameters_and_steps_need_train_mode():
    w = torch.nn.Parameter(torch.ones(2, 2))
    optimizer = SpectralPlusReference([w])
    after, ahead = step(optimizer, torch.eye(2))
    optimizer.eval()
    assert torch.equal(w, after)
    with pytest.raises(RuntimeError, match=r"step\(\) in eval mode.*Call train\(\)"):
        optimizer.step()
    assert not copy.deepcopy(optimizer).training
    optimizer.train()
    assert torch.equal(w, ahead)


def test_a_closure_is_evaluated_with_gradients():
    w = torch.nn.Parameter(torch.ones(2, 2))
    optimizer = SpectralPlusReference([w])

    def closure() -> float:
        optimizer.zero_grad()
        loss = w.square().sum()
        loss.backward()
        return loss.item()

    assert optimizer.step(closure) == 4.0
    assert w.sum() < 4


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"lr": -1.0}, ValueError),
        ({"beta": 0.0}, ValueError),
        ({"lookahead": -0.5}, ValueError),
        ({"weight_decay": math.nan}, ValueError),
        ({"geometry": "l2"}, ValueError),
        ({"scale": 0.0}, ValueError),
        ({"blocks": 2.0}, TypeError),
        ({"stacked": True}, ValueError),
    ],
)
def test_settings_and_parameters_that_do_not_fit_are_refused(settings: dict[str, Any], error: type[Exception]):
    with pytest.raises(error, match=f"^{next(iter(settings))}(=True needs| must be)"):
        SpectralPlusReference([torch.zeros(2, 2)], **settings)
    optimizer = SpectralPlusReference([torch.zeros(2, 2)])
    with pytest.raises(error):
        optimizer.add_param_group({"params": [torch.zeros(2, 2)], **settings})
    with pytest.raises(ValueError, match="needs matrices"):
        optimizer.add_param_group({"params": [torch.zeros(2)]})
    assert len(optimizer.param_groups) == 1
