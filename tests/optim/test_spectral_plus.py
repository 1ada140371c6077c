"""SpectralPlus: what its steps cost, keep, refuse and repeat. test_spectral_walk.py compares it with the reference."""

import copy
from typing import Any

import numpy
import pytest
import torch
from cases import NoHostRead, batch, difference, give, params, small_model, thinned, through_a_file, train, values
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from adamplus import AdamPlus, SpectralPlus, SpectralPlusReference
from adamplus.optim import _spectral
from adamplus.optim._execution.fused import tables

EXECUTIONS: dict[str, dict[str, Any]] = {
    "foreach": {},
    "plain": {"foreach": False},
    "capturable": {"capturable": True},
    "fused": {"fused": True},
}
KEPT: dict[str, dict[str, Any]] = {"kept": {}, "kept, fused": {"fused": True}}
WAYS = EXECUTIONS | KEPT


def groups(model: nn.Module) -> list[dict[str, Any]]:
    matrices = [p for p in model.parameters() if p.ndim == 2]
    vectors = [p for p in model.parameters() if p.ndim != 2]
    return [{"params": matrices}, {"params": vectors, "geometry": "sign", "weight_decay": 0.0}]


def made(model: nn.Module, way: str = "foreach", **settings: Any) -> SpectralPlus:
    return SpectralPlus(groups(model), keep_direction=way in KEPT, **WAYS[way], **settings)


def test_one_step_matches_arithmetic_by_hand():
    matrix, vector = nn.Parameter(torch.eye(2, dtype=torch.float64)), nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = SpectralPlus(
        [{"params": [matrix]}, {"params": [vector], "geometry": "sign"}], lr=0.5, weight_decay=0.2, lookahead=2.0
    )
    matrix.grad = torch.tensor([[0.0, -3.0], [5.0, 0.0]], dtype=torch.float64)  # U Vᵀ = [[0, −1], [1, 0]]
    vector.grad = torch.tensor([2.0, 0.0, -0.1], dtype=torch.float64)
    optimizer.step()  # decay leaves 1 − 0.5 · 0.2 = 0.9; ŵ is three steps of 0.5 away, and w one
    assert torch.allclose(matrix, torch.tensor([[0.9, 1.5], [-1.5, 0.9]], dtype=torch.float64), atol=1e-12, rtol=0)
    assert vector.tolist() == pytest.approx([0.9 - 0.06, 0.9, 0.9 + 0.06], rel=1e-14)  # 3 · 0.5 · 0.04
    optimizer.eval()
    assert torch.allclose(matrix, torch.tensor([[0.9, 0.5], [-0.5, 0.9]], dtype=torch.float64), atol=1e-12, rtol=0)
    assert vector.tolist() == pytest.approx([0.9 - 0.02, 0.9, 0.9 + 0.02], rel=1e-14)


@pytest.mark.parametrize("way", ["plain", "capturable", "fused"])
def test_every_execution_takes_the_same_steps(way: str):
    model, twin = small_model(), small_model()
    optimizer, other = made(model), made(twin, way)
    train(model, optimizer, range(20))
    train(twin, other, range(20))
    # the executions order products and sums otherwise: a rounding of a float32 each step
    assert difference(values(other), values(optimizer)) <= 2e-5
    assert other.stats(1)[:3] == pytest.approx(optimizer.stats(1)[:3], rel=1e-4)


def test_a_kept_direction_takes_the_same_steps_up_to_bfloat16():
    model, twin = small_model(), small_model()
    optimizer, kept = made(model), made(twin, "kept")
    train(model, optimizer, range(5))
    train(twin, kept, range(5))
    # 5 steps of at most 0.02 · √8, each rounded to 8 bits
    assert 0 < difference(values(kept), values(optimizer)) <= 5 * 0.06 * 2**-8 / 0.1


@pytest.mark.parametrize("way", WAYS)
def test_switching_there_and_back_returns_to_the_same_point(way: str):
    model = small_model()
    optimizer = made(model, way)
    train(model, optimizer, range(3))
    w_hat = values(optimizer)
    with optimizer.averaged():
        assert difference(values(optimizer), w_hat) > 1e-3
    # ŵ + c d − c d, in float32
    assert difference(values(optimizer), w_hat) <= 2e-7


@pytest.mark.parametrize("way", WAYS)
def test_without_look_ahead_the_parameters_are_at_w(way: str):
    model = small_model()
    optimizer = made(model, way, lookahead=0.0)
    train(model, optimizer, range(3))
    w_hat = values(optimizer)
    optimizer.eval()
    assert all(torch.equal(a, b) for a, b in zip(values(optimizer), w_hat, strict=True))


@pytest.mark.parametrize("fused", [None, True])
@pytest.mark.parametrize(
    ("settings", "calls"),
    [({}, 2), ({"lookahead": None}, 2), ({"lookahead": 0.0}, 1), ({"keep_direction": True}, 1)],
)
def test_a_step_orthogonalizes_twice_only_if_it_has_to(
    settings: dict[str, Any], calls: int, fused: bool | None, monkeypatch: pytest.MonkeyPatch
):
    p = nn.Parameter(torch.randn(4, 3))
    optimizer = SpectralPlus([p], fused=fused, **settings)
    seen: list[int] = []
    directions = _spectral.directions
    monkeypatch.setattr(_spectral, "directions", lambda *args: (seen.append(1), directions(*args))[1])
    for _ in range(2):
        give(optimizer, [torch.randn(4, 3)])
        seen.clear()
        optimizer.step()
    assert len(seen) == calls


def test_a_look_ahead_that_ends_is_still_undone():
    p, q = (nn.Parameter(torch.ones(2, 5, dtype=torch.float64)) for _ in range(2))
    ending, undone = SpectralPlus([p], lookahead=1.0), SpectralPlus([q], lookahead=1.0)
    for optimizer in (ending, undone):
        torch.manual_seed(0)
        give(optimizer, [torch.randn(2, 5)])
        optimizer.step()
    ending.param_groups[0]["lookahead"] = 0.0
    for optimizer in (ending, undone):
        torch.manual_seed(1)
        give(optimizer, [torch.randn(2, 5)])
        optimizer.step()
    undone.eval()
    assert difference(values(ending), values(undone)) <= 1e-12


def test_a_look_ahead_that_begins_late_is_undone_from_then_on():
    p, q = (nn.Parameter(torch.ones(2, 5, dtype=torch.float64)) for _ in range(2))
    late, reference = SpectralPlus([p], lookahead=0.0), SpectralPlusReference([q], lookahead=0.0)
    for i in range(3):
        for optimizer in (late, reference):
            torch.manual_seed(i)
            give(optimizer, [torch.randn(2, 5)])
            optimizer.step()
            optimizer.param_groups[0]["lookahead"] = 1.0 if i == 0 else 0.0
    assert difference([p.detach()], [q.detach()]) <= 1e-12


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_a_scale_that_changes_does_not_falsify_w(scale: float):
    p = nn.Parameter(torch.zeros(2, 5, dtype=torch.float64))
    optimizer = SpectralPlus([p], lr=0.1, weight_decay=0.0, scale=scale)
    give(optimizer, [torch.randn(2, 5)])
    optimizer.step()
    w = p.detach() / 2  # one step from 0, and one step ahead
    optimizer.param_groups[0]["scale"] = 7.0
    optimizer.eval()
    assert difference([p.detach()], [w]) <= 1e-12


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_run_resumes_bit_for_bit(way: str, mode: str):
    model, again = small_model(), small_model(seed=1)
    optimizer = made(model, way)
    train(model, optimizer, range(3))
    optimizer.train(mode == "train")
    saved = through_a_file({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    optimizer.train()
    train(model, optimizer, range(3, 6))
    resumed = made(again, way)
    again.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["optimizer"])
    assert resumed.training == (mode == "train")
    resumed.train()
    train(again, resumed, range(3, 6))
    if mode == "train":
        assert all(torch.equal(a, b) for a, b in zip(values(optimizer), values(resumed), strict=True))
    else:  # the run that was not resumed went through w and back as well
        assert difference(values(resumed), values(optimizer)) <= 1e-6
    assert str(resumed.stats()) == str(optimizer.stats()) or mode == "eval"


@pytest.mark.parametrize(
    ("way", "extra"), [("foreach", 0), ("plain", 0), ("capturable", 0), ("fused", 0), ("kept", 2), ("kept, fused", 2)]
)
def test_state_is_4_bytes_a_float32_parameter_and_2_for_a_kept_direction(way: str, extra: int):
    model = nn.Sequential(nn.Linear(300, 200), nn.Linear(200, 10))
    optimizer = made(model, way)
    model(torch.randn(4, 300)).sum().backward()
    optimizer.step()
    tensors = [v for state in optimizer.state.values() for v in state.values()]
    size = sum(p.numel() * (4 + extra * (p.ndim == 2)) for p in model.parameters())
    assert sum(t.untyped_storage().nbytes() for t in tensors) <= size + 64 * len(optimizer.state)


@pytest.mark.parametrize("keep", [False, True])
def test_a_capturable_step_does_not_wait_for_the_device(keep: bool):
    model = small_model()
    optimizer = SpectralPlus(groups(model), capturable=True, keep_direction=keep)
    train(model, optimizer, range(1))
    with NoHostRead():
        optimizer.step()


@pytest.mark.parametrize(("kind", "keep"), thinned(["tensor", "float"], [False, True]))
def test_a_compiled_step_is_the_same_step(kind: str, keep: bool):
    torch._dynamo.reset()
    lr = 0.02 if kind == "float" else torch.tensor(0.02)
    model, twin = small_model(), small_model()
    optimizer, compiled = (SpectralPlus(groups(m), lr=lr, keep_direction=keep) for m in (model, twin))
    counter = CompileCounterWithBackend("aot_eager")
    step = torch.compile(compiled.step, backend=counter, fullgraph=True)
    for i in range(6):
        x, y = batch(i)
        for m, take in ((model, optimizer.step), (twin, step)):
            m.zero_grad()
            nn.functional.mse_loss(m(x), y).backward()
            take()
        for o in (optimizer, compiled):
            for group in o.param_groups:
                if kind == "tensor":
                    group["lr"].mul_(0.97)
                else:
                    group["lr"] *= 0.97
    assert counter.frame_count == (1 if kind == "tensor" else 2)
    # scalars are computed in float64 tensors there: a rounding of a float32 each step, and of a kept bfloat16 at times
    assert difference(values(compiled), values(optimizer)) <= (2e-3 if keep else 2e-6)
    compiled.eval()
    optimizer.eval()
    assert difference(values(compiled), values(optimizer)) <= (2e-3 if keep else 2e-6)
    assert compiled.stats().step == 6


@pytest.mark.parametrize("way", ["foreach", "plain", "fused", *KEPT])
@pytest.mark.parametrize("stochastic", [False, True])
def test_bfloat16_parameters_follow_float32_ones(way: str, stochastic: bool):
    """Steps are a hundredth of a rounding: without noise they are lost, and with it they are right on average."""
    torch.manual_seed(0)
    ps = [nn.Parameter(torch.ones(shape, dtype=torch.bfloat16)) for shape in ((64, 48), (1024,))]
    optimizer = SpectralPlus(
        [{"params": ps[:1], "scale": 2.0}, {"params": ps[1:], "geometry": "sign"}],
        lr=1e-3,
        weight_decay=0.0,
        lookahead=0.0,
        stochastic_rounding=stochastic,
        keep_direction=way in KEPT,
        **WAYS[way],
    )
    matrix, vector = torch.linalg.qr(torch.randn(64, 48))[0], torch.ones(1024)
    for _ in range(12):
        give(optimizer, [matrix, vector])
        optimizer.step()
    if not stochastic:
        assert all(torch.equal(p, torch.ones_like(p)) for p in ps)
        return
    moved = [1 - p.detach().float() for p in ps]
    assert moved[1].mean().item() == pytest.approx(12 * 1e-3 * 0.04, rel=0.3)
    along = (moved[0] * matrix).sum() / 48  # ⟨U Vᵀ, U Vᵀ⟩ = 48
    assert along.item() == pytest.approx(12 * 1e-3 * 2.0 * (64 / 48) ** 0.5, rel=0.1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_state_dtype_is_the_dtype_of_z(dtype: torch.dtype):
    model = small_model()
    optimizer = made(model, state_dtype=dtype)
    train(model, optimizer, range(3))
    assert {state["z"].dtype for state in optimizer.state.values()} == {dtype}
    assert all(p.isfinite().all() for p in params(optimizer))


def test_a_fused_step_leaves_matrices_without_a_gradient_alone():
    ps = [nn.Parameter(torch.randn(4, 3)) for _ in range(3)]
    optimizer = SpectralPlus(ps, fused=True)
    give(optimizer, [torch.randn(4, 3) for _ in ps])
    optimizer.step()
    before = values(optimizer)
    give(optimizer, [None, torch.randn(4, 3), None])
    optimizer.step()
    assert [torch.equal(a, b) for a, b in zip(values(optimizer), before, strict=True)] == [True, False, True]
    optimizer.add_param_group({"params": [nn.Parameter(torch.randn(3, 5))]})
    give(optimizer, [None, None, None, torch.randn(3, 5)])
    optimizer.step()
    assert [optimizer.stats(i).step for i in (0, 1)] == [2, 1]


@pytest.mark.parametrize("way", WAYS)
def test_parameters_without_a_gradient_are_not_touched(way: str):
    model = small_model()
    optimizer = made(model, way)
    before, first = values(optimizer), params(optimizer)[0]
    first.grad = torch.ones_like(first)
    optimizer.step()
    same = [torch.equal(a, b) for a, b in zip(values(optimizer), before, strict=True)]
    assert same == [p is not first for p in params(optimizer)]
    assert list(optimizer.state) == [first]
    assert [optimizer.stats(i).step for i in (0, 1)] == [1, 0]


def test_a_step_that_grad_scaler_skips_changes_nothing():
    model = small_model()
    optimizer = made(model)
    train(model, optimizer, range(2))
    before, state = values(optimizer), copy.deepcopy(optimizer.state_dict())
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    x, _ = batch(3)
    optimizer.zero_grad()
    scaler.scale(model(x).sum() * torch.inf).backward()
    scaler.step(optimizer)
    scaler.update()
    assert all(torch.equal(a, b) for a, b in zip(values(optimizer), before, strict=True))
    assert str(optimizer.state_dict()) == str(state)


def test_a_zero_gradient_gives_no_nan_and_only_decays():
    model = small_model()
    optimizer = made(model, lr=0.1)
    before = values(optimizer)
    give(optimizer, [torch.zeros_like(p) for p in params(optimizer)])
    optimizer.step()
    kept = [1 - 0.1 * 0.1 if p.ndim == 2 else 1.0 for p in before]
    assert difference(values(optimizer), [k * p for k, p in zip(kept, before, strict=True)]) <= 1e-7


@pytest.mark.parametrize("way", WAYS)
def test_a_gradient_that_is_not_finite_shows_in_its_own_parameter_alone(way: str):
    model = small_model()
    optimizer = made(model, way)
    train(model, optimizer, range(1))
    for bad, which in ((torch.nan, 0), (torch.inf, 3)):
        give(optimizer, [torch.randn_like(p) for p in params(optimizer)])
        params(optimizer)[which].grad.view(-1)[0] = bad  # pyright: ignore[reportOptionalMemberAccess]
        with numpy.errstate(all="ignore"):  # Triton's interpreter computes in NumPy, which warns
            optimizer.step()
        assert params(optimizer)[which].isnan().any()
        assert all(p.isfinite().all() for i, p in enumerate(params(optimizer)) if i not in (0, which))


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"lr": -0.1}, ValueError, "lr must be finite and at least 0, got -0.1"),
    ({"lr": 10**400}, ValueError, "lr must be finite, got an integer that no float can hold"),
    ({"beta": 0.0}, ValueError, r"beta must be in \(0, 1\], got 0.0"),
    ({"lookahead": -1.0}, ValueError, "lookahead must be finite and at least 0, or None, got -1.0"),
    ({"weight_decay": -1.0}, ValueError, "weight_decay must be finite and at least 0, got -1.0"),
    ({"geometry": "euclid"}, ValueError, "geometry must be one of 'spectral', 'sign', got 'euclid'"),
    ({"scale": 0.0}, ValueError, "scale must be finite and greater than 0, got 0.0"),
    ({"blocks": 3}, ValueError, "blocks=3 does not divide the output dimension 4"),
    ({"keep_direction": 1}, TypeError, "keep_direction must be True or False, got 1"),
    ({"maximize": "no"}, TypeError, "maximize must be True or False, got 'no'"),
    ({"capturable": None}, TypeError, "capturable must be True or False, got None"),
    ({"state_dtype": torch.int8}, TypeError, "state_dtype must be one of torch.float64, .* got torch.int8"),
    ({"fused": True, "foreach": True}, RuntimeError, "`fused` and `foreach` cannot be `True` together"),
]


@pytest.mark.parametrize(("settings", "kind", "words"), BAD)
def test_a_bad_setting_is_named(settings: dict[str, Any], kind: type[Exception], words: str):
    with pytest.raises(kind, match=words):
        SpectralPlus([nn.Parameter(torch.ones(4, 3))], **settings)
    optimizer = SpectralPlus([nn.Parameter(torch.ones(4, 3))])
    with pytest.raises(kind, match=words):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(4, 3))], **settings})
    assert len(optimizer.param_groups) == 1


def test_a_vector_has_no_spectral_direction():
    with pytest.raises(
        ValueError, match=r"the spectral geometry needs matrices, got shape \(3,\): use geometry='sign'"
    ):
        SpectralPlus([nn.Parameter(torch.ones(3))])


def test_a_geometry_that_changes_is_refused_before_anything_moves():
    p = nn.Parameter(torch.ones(4, 3))
    optimizer = SpectralPlus([p])
    give(optimizer, [torch.ones(4, 3)])
    optimizer.step()
    before = values(optimizer)
    optimizer.param_groups[0]["geometry"] = "sign"
    with pytest.raises(ValueError, match=r"group 0 was added with geometry, .* w cannot be recovered"):
        optimizer.step()
    assert torch.equal(p, before[0])
    optimizer.param_groups[0]["geometry"] = "spectral"
    optimizer.step()


def test_a_setting_that_became_bad_is_refused_before_anything_moves():
    p = nn.Parameter(torch.ones(4, 3))
    optimizer = SpectralPlus([p])
    give(optimizer, [torch.ones(4, 3)])
    optimizer.param_groups[0]["scale"] = "large"
    with pytest.raises(TypeError, match="scale must be a number or None, got 'large'"):
        optimizer.step()
    assert not optimizer.state


def test_fused_is_refused_if_matrices_are_no_views():
    p = nn.Parameter(torch.ones(3, 4, 2, 2).transpose(0, 1).contiguous().transpose(0, 1))
    with pytest.raises(RuntimeError, match="parameter 0 of group 0 is a tensor whose matrices are no views of it"):
        SpectralPlus([p], fused=True)


def test_fused_is_refused_where_the_kernel_cannot_step_signs():
    p = nn.Parameter(torch.ones(3, dtype=torch.float64))
    with pytest.raises(RuntimeError, match=r"fused=True: parameter 0 of group 0 is torch.float64"):
        SpectralPlus([p], geometry="sign", fused=True)


def test_a_step_that_breaks_off_is_not_continued(monkeypatch: pytest.MonkeyPatch):
    model = small_model()
    optimizer = made(model)
    train(model, optimizer, range(1))

    def fail(*_: Any) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(_spectral, "directions", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            optimizer.step()
    with pytest.raises(RuntimeError, match="the last step or switch broke off"):
        optimizer.step()


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_a_fused_step_of_signs_that_breaks_off_is_not_continued(
    first: bool, begun: bool, monkeypatch: pytest.MonkeyPatch
):
    p = nn.Parameter(torch.ones(5))
    optimizer = SpectralPlus([p], geometry="sign", fused=True)
    give(optimizer, [torch.ones(5)])
    if not first:
        optimizer.step()

    def fail(*_: Any) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(tables.Tables, "second" if begun else "locate", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            optimizer.step()
    if begun:
        with pytest.raises(RuntimeError, match="the last step or switch broke off"):
            optimizer.step()
    else:
        optimizer.step()
        assert optimizer.stats().step == 2 - first


@pytest.mark.parametrize("fused", [None, True])
def test_matrices_that_break_off_after_signs_have_moved_are_torn(fused: bool | None, monkeypatch: pytest.MonkeyPatch):
    model = small_model()
    matrices, vectors = groups(model)
    optimizer = SpectralPlus([{**matrices, "fused": fused}, {**vectors, "fused": True}])
    train(model, optimizer, range(1))

    def fail(*_: Any) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(_spectral, "directions", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            optimizer.step()
    with pytest.raises(RuntimeError, match="the last step or switch broke off"):
        optimizer.step()


def test_fused_steps_of_misaligned_tensors_and_kept_directions_are_the_same_steps():
    w = torch.randn(2, 5, 3)
    ps = [nn.Parameter(torch.randn(61)[1:].view(2, 5, 6)[..., :3].contiguous().copy_(w)), nn.Parameter(w.clone())]
    odd = nn.Parameter(torch.empty(31)[1:].view(2, 5, 3).copy_(w))
    optimizers = [
        SpectralPlus([p], stacked=True, keep_direction=True, fused=f)
        for p, f in zip([odd, *ps], (True, True, None), strict=True)
    ]
    for i in range(3):
        torch.manual_seed(i)
        g = torch.randn(2, 5, 3)
        for optimizer in optimizers:
            give(optimizer, [g])
            optimizer.step()
            if i == 0 and optimizer is optimizers[1]:
                state = optimizer.state[params(optimizer)[0]]
                state["direction"] = torch.empty(31, dtype=torch.bfloat16)[1:].view(2, 5, 3).copy_(state["direction"])
    assert difference(values(optimizers[0]), values(optimizers[2])) <= 1e-4
    assert difference(values(optimizers[1]), values(optimizers[2])) <= 1e-4


def test_another_optimizers_checkpoint_is_refused_and_another_geometry_is_warned_of():
    model = small_model()
    spectral, euclidean = made(model), AdamPlus(groups_of_adam(model))
    with pytest.raises(ValueError, match="not SpectralPlus's: its group 0 has no geometry, stacked"):
        spectral.load_state_dict(euclidean.state_dict())
    with pytest.raises(ValueError, match="not Adam⁺'s: its group 0 has no norm_power"):
        euclidean.load_state_dict(spectral.state_dict())
    signs = SpectralPlus([{"params": group["params"], "geometry": "sign"} for group in groups(model)])
    with pytest.warns(
        UserWarning, match=r"another method was loaded: its geometry, .* \[\('spectral', .* had \[\('sign'"
    ):
        signs.load_state_dict(spectral.state_dict())


@pytest.mark.parametrize("change", [{"layout": None}, {"layout": ("sign",)}, {"extrapolated": 1}, {"geometry": "sign"}])
def test_a_group_that_no_step_could_continue_is_refused_before_anything_changes(change: dict[str, Any]):
    model = small_model()
    optimizer = made(model)
    train(model, optimizer, range(1))
    before = str(optimizer.state_dict())
    saved = optimizer.state_dict()
    saved["param_groups"][0].update(change)
    with pytest.raises(ValueError, match=r"must have the layout .* Load what state_dict\(\) returned, unchanged"):
        optimizer.load_state_dict(saved)
    assert str(optimizer.state_dict()) == before


def groups_of_adam(model: nn.Module) -> list[dict[str, Any]]:
    return [{"params": group["params"]} for group in groups(model)]


def test_hooks_closures_and_follow_work_as_in_the_family():
    model = small_model()
    optimizer = made(model)
    optimizer.follow(model)
    x, y = batch(0)
    seen: list[str] = []
    optimizer.register_step_post_hook(lambda *_: seen.append("stepped"))

    def closure() -> float:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss.item()

    assert optimizer.step(closure) > 0
    assert seen == ["stepped"]
    model.eval()
    with pytest.raises(RuntimeError, match=r"step\(\) in eval mode"):
        optimizer.step(closure)
    assert model.train().training == optimizer.training


def test_stats_report_the_norm_of_z_and_the_rate():
    p = nn.Parameter(torch.zeros(2, 2))
    optimizer = SpectralPlus([p], lr=0.3)
    assert optimizer.stats().norm == 0.0
    give(optimizer, [torch.tensor([[3.0, 0.0], [0.0, 4.0]])])
    optimizer.step()
    stats = optimizer.stats()
    assert (stats.step, stats.norm, stats.eta, stats.skipped) == (1, 5.0, 0.3, 0)
    assert stats.norm_sum != stats.norm_sum  # NaN: no step computes the norm
