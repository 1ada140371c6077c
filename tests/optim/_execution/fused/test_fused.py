"""The fused kernels in Triton's interpreter, which needs no GPU. Their speed is in results/step."""

import copy
import subprocess
import sys
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from cases import FAMILY, SETTINGS, difference, give, pair, params, thinned, through_a_file, values
from torch import nn

from adamplus import AdamPlus
from adamplus.optim._execution import choice
from adamplus.optim._execution.fused import operator as _operator
from adamplus.optim._execution.fused import plan
from adamplus.optim._execution.fused import tables as _tables

SHAPES = [(4, 3), (2500,), (), (2, 3, 2), (0,), (1025,)]


def made(shapes: list[tuple[int, ...]] = SHAPES, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    return [nn.Parameter(torch.randn(shape).to(dtype)) for shape in shapes]


@pytest.mark.parametrize(("name", "setting"), thinned(FAMILY, SETTINGS))
@pytest.mark.uncovered  # shorter tests run the same lines
def test_float32_equals_the_float64_reference(name: str, setting: str):
    """The relative difference is at most 1e-6 after 10 steps with changing lr and β and with missing gradients."""
    ps = made()
    groups = [{"params": ps[:3], **SETTINGS[setting]}, {"params": ps[3:], **SETTINGS[setting], "lr": 0.03}]
    fused, reference = pair(name, groups, {"fused": True})
    for i in range(10):
        grads = [torch.randn(shape) for shape in SHAPES]
        missing = [None if (i, j) in ((3, 0), (7, 5)) else g for j, g in enumerate(grads)]
        for optimizer in (fused, reference):
            give(optimizer, missing)
            optimizer.step()
            optimizer.param_groups[0]["lr"] *= 0.97
            optimizer.param_groups[1]["beta"] *= 0.99
    assert difference(values(fused), values(reference)) <= 1e-6
    fused.eval()
    reference.eval()
    assert difference(values(fused), values(reference)) <= 1e-6


@pytest.mark.parametrize("state_dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.uncovered  # shorter tests run the same lines
def test_16_bit_parameters_are_rounded_once_per_step(dtype: torch.dtype, state_dtype: torch.dtype | None):
    """Each of 10 steps rounds ŵ by at most half an ulp, 5 eps in total. A 16-bit z adds as much again."""
    fused, reference = pair("adam_plus", [{"params": made(dtype=dtype), "state_dtype": state_dtype}], {"fused": True})
    for _ in range(10):
        give(fused, [torch.randn(shape) for shape in SHAPES])
        give(reference, [p.grad for p in params(fused)])
        fused.step()
        reference.step()
    coarse = torch.bfloat16 if state_dtype is not None else dtype
    assert difference(values(fused), values(reference)) <= 10 * torch.finfo(coarse).eps


def test_mixed_dtypes_share_one_norm():
    ps = [*made([(300,)]), *made([(40,)], torch.bfloat16), *made([(7, 5)], torch.float16)]
    fused, foreach = AdamPlus(ps, fused=True), AdamPlus([nn.Parameter(p.detach().clone()) for p in ps])
    for _ in range(5):
        grads = [torch.randn(p.shape) for p in ps]
        for optimizer in (fused, foreach):
            give(optimizer, grads)
            optimizer.step()
    assert fused.stats() == pytest.approx(foreach.stats(), rel=1e-6)
    assert difference(values(fused)[:1], values(foreach)[:1]) <= 1e-6


@pytest.mark.parametrize("layout", ["unaligned", "channels last", "transposed gradient"])
def test_unaligned_tensors_and_other_memory_formats_are_stepped(layout: str):
    results = []
    executions: list[dict[str, Any]] = [{"fused": True}, {"foreach": True}]
    for settings in executions:
        torch.manual_seed(0)
        base = torch.randn(2, 6, 4, 4)
        if layout == "channels last":
            base = base.to(memory_format=torch.channels_last)
        p = nn.Parameter(torch.randn(1001)[1:] if layout == "unaligned" else base)
        optimizer = AdamPlus([p], **settings)
        for _ in range(4):
            g = torch.randn(p.shape)
            p.grad = torch.empty_like(g.transpose(0, -1)).transpose(0, -1).copy_(g) if layout.startswith("tr") else g
            optimizer.step()
        results.append(values(optimizer))
    assert difference(*results) <= 1e-6


def test_a_loaded_z_in_another_layout_is_copied_into_that_of_its_parameter():
    p = nn.Parameter(torch.randn(2, 6, 4, 4))
    q = nn.Parameter(p.detach().to(memory_format=torch.channels_last))
    contiguous, last = AdamPlus([p], fused=True), AdamPlus([q], fused=True)
    p.grad = torch.randn(p.shape)
    contiguous.step()
    last.load_state_dict(through_a_file(contiguous.state_dict()))
    q.data.copy_(p.data)
    q.grad = p.grad.clone()
    for optimizer in (contiguous, last):
        optimizer.step()
    assert last.state[q]["z"].stride() == q.stride()
    assert difference([q.detach()], [p.detach()]) <= 1e-6


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of NumPy, which the interpreter computes with
@pytest.mark.parametrize(
    ("bad", "scope", "power"),
    thinned([float("nan"), float("inf")], ["global", "group", "tensor"], [0.0, 0.5, 1.0]),
)
@pytest.mark.uncovered  # shorter tests run the same lines
def test_nan_and_inf_spread_as_in_plain_execution(bad: float, scope: Any, power: float):
    """A NaN or inf in ‖z‖ makes every step that is divided by it NaN. It must not be handled as ‖z‖ = 0."""
    start = made([(5,), (2500,)])
    executions: list[dict[str, Any]] = [{"fused": True}, {"foreach": False}]
    both = [
        AdamPlus([nn.Parameter(p.detach().clone()) for p in start], norm_scope=scope, norm_power=power, **execution)
        for execution in executions
    ]
    for i in range(4):
        gradients = [torch.randn_like(p) for p in start]
        if i == 1:
            gradients[1][17] = bad
        for optimizer in both:
            give(optimizer, gradients)
            optimizer.step()
        fused, plain = map(values, both)
        assert all(torch.equal(a.isnan(), b.isnan()) for a, b in zip(fused, plain, strict=True))
        etas = [optimizer.stats().eta for optimizer in both]
        assert etas[0] == pytest.approx(etas[1], rel=1e-6, nan_ok=True)
    assert values(both[0])[1].isnan().any()


def test_offsets_loaded_as_float64_are_read_as_float64():
    """Offsets that were loaded for float64 parameters stay float64 if the parameters become float32 again."""
    results = []
    for execution in ({"fused": True}, {"foreach": True}, {"foreach": False}):
        torch.manual_seed(0)
        model = nn.Linear(4, 4)
        optimizer = AdamPlus(model.parameters())
        for i in range(4):
            if i == 3:
                model.double()
                optimizer.load_state_dict(optimizer.state_dict())
                model.float()
                refusal = plan.refusal(
                    optimizer.param_groups, optimizer.state
                )  # the default on a GPU would be another execution
                assert refusal == "offset of parameter 0 of group 0 is torch.float64"
                for group in optimizer.param_groups:
                    group.update(execution)
            model.zero_grad()
            model(torch.ones(2, 4)).square().mean().backward()
            optimizer.step()
        assert {state["offset"].dtype for state in optimizer.state.values()} <= {torch.float32, torch.float64}
        results.append(values(optimizer))
    assert difference(results[0], results[2]) <= 1e-6
    assert difference(results[1], results[2]) <= 1e-6


def test_the_same_inputs_give_the_same_bits():
    results = []
    for _ in range(2):
        torch.manual_seed(0)
        ps = made()
        optimizer = AdamPlus(ps, fused=True)
        for _ in range(5):
            give(optimizer, [torch.randn(shape) for shape in SHAPES])
            optimizer.step()
        results.append(values(optimizer))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[plan.Plan]:
    """All plans that are made."""
    made_plans: list[plan.Plan] = []
    make = plan.Plan.__init__
    monkeypatch.setattr(plan.Plan, "__init__", lambda self, *a: made_plans.append(self) or make(self, *a))
    return made_plans


def stepped(**settings: Any) -> AdamPlus:
    optimizer = AdamPlus(made(), fused=True, **settings)
    for _ in range(2):
        give(optimizer, [torch.randn(shape) for shape in SHAPES])
        optimizer.step()
    return optimizer


def test_gradients_that_appear_disappear_or_move_need_no_new_tables(plans: list[plan.Plan]):
    optimizer = stepped()
    ps, kept = params(optimizer), []
    for i in range(6):
        optimizer.zero_grad()
        give(optimizer, [None if i == j else torch.randn(shape) for j, shape in enumerate(SHAPES)])
        kept.append([p.grad for p in ps])  # so that the next ones are elsewhere
        optimizer.step()
    ps[3].grad = torch.randn(2, 3, 2).transpose(0, 2)
    optimizer.step()
    assert len(plans) == 1


def test_gradients_of_convolutions_need_no_new_tables(plans: list[plan.Plan]):
    """Strides of dimensions of size 1 have no meaning, and autograd may give them any value."""
    conv = nn.Conv2d(1, 8, 3)
    optimizer = AdamPlus(conv.parameters(), fused=True)
    for _ in range(3):
        optimizer.zero_grad()
        conv(torch.randn(2, 1, 5, 5).to(memory_format=torch.channels_last)).sum().backward()
        own = conv.weight.grad
        optimizer.step()
        assert conv.weight.grad is own
    assert len(plans) == 1


def unaligned(optimizer: AdamPlus) -> None:
    for p in params(optimizer):
        p.grad = torch.randn(p.numel() + 1)[1:].view(p.shape)


def another_parameter(optimizer: AdamPlus) -> None:
    q = nn.Parameter(torch.ones(4, 3))
    q.grad = torch.ones(4, 3)
    optimizer.param_groups[0]["params"][0] = q


def swap(optimizer: AdamPlus, name: str) -> None:
    state = optimizer.state[params(optimizer)[0]]
    state[name] = state[name].clone()


def swap_data(tensor: torch.Tensor) -> None:
    tensor.data = tensor.data.clone()


CHANGES: dict[str, Any] = {
    "unaligned gradients": unaligned,
    "another parameter": another_parameter,
    "a group more": lambda o: o.add_param_group({"params": made([(3,)])}),
    "a parameter's data": lambda o: swap_data(params(o)[1]),
    "a loaded state": lambda o: o.load_state_dict(through_a_file(o.state_dict())),
    "no state": lambda o: o.state[params(o)[0]].clear(),
    "another record": lambda o: o.param_groups[0].update(record=o.param_groups[0]["record"].clone()),
    "a record's data": lambda o: swap_data(o.param_groups[0]["record"]),
    **{f"another {name}": lambda o, name=name: swap(o, name) for name in ("z", "offset", "step")},
    **{
        f"{name}'s data": lambda o, name=name: swap_data(o.state[params(o)[0]][name])
        for name in ("z", "offset", "step")
    },
}


@pytest.mark.parametrize("change", CHANGES)
def test_tables_are_made_again_if_anything_they_point_to_has_moved(change: str, plans: list[plan.Plan]):
    """The step is that of an optimizer that had no tables before."""
    optimizer = stepped()
    give(optimizer, [torch.randn(shape) for shape in SHAPES])
    CHANGES[change](optimizer)
    twin = copy.deepcopy(optimizer)
    for p, q in zip(params(optimizer), params(twin), strict=True):
        q.grad = None if p.grad is None else p.grad.clone()
    twin.param_groups[0]["fused"] = None
    for group in twin.param_groups:
        group["fused"], group["foreach"] = None, True
    before = len(plans)
    optimizer.step()
    twin.step()
    assert len(plans) == before + 1
    assert difference(values(optimizer), values(twin)) <= 1e-6
    assert optimizer.stats() == pytest.approx(twin.stats(), rel=1e-6)
    for p, q in zip(params(optimizer), params(twin), strict=True):
        for name, value in twin.state.get(q, {}).items():
            assert difference([optimizer.state[p][name]], [value]) <= 1e-6


def test_other_data_of_another_shape_is_refused():
    optimizer = stepped()
    p = params(optimizer)[1]
    optimizer.zero_grad()
    p.data = torch.ones(5000)
    p.grad = torch.ones(5000)
    with pytest.raises(RuntimeError, match=r"shape \(5000,\), and its z \(2500,\).*state\.pop"):
        optimizer.step()


def test_gradients_of_another_shape_are_refused():
    optimizer = stepped()
    p = params(optimizer)[1]
    data = p.data
    p.data = torch.ones(10)
    p.grad = torch.ones(10)
    p.data = data
    with pytest.raises(RuntimeError, match="same shape and device"):
        optimizer.step()


def test_a_step_increments_the_versions_of_parameters():
    optimizer = stepped()
    p = params(optimizer)[0]
    loss = (p * p).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("view", ["negated", "zeros", "sliced"])
def test_negated_zero_and_strided_gradients_are_read_by_their_values(view: str):
    results = []
    for fused in (True, None):
        torch.manual_seed(0)
        p = nn.Parameter(torch.ones(4))
        optimizer = AdamPlus([p], fused=fused)
        for make in (lambda: torch.randn(4), odd_gradient(view)):
            p.grad = make()
            optimizer.step()
        results.append([*values(optimizer), torch.tensor(optimizer.stats())])
    assert difference(*results) <= 1e-6


def odd_gradient(view: str) -> Any:
    return {
        "negated": lambda: torch._neg_view(torch.randn(4)),
        "zeros": lambda: torch._efficientzerotensor(4),
        "sliced": lambda: torch.randn(8)[::2],
    }[view]


def test_parameters_without_elements_count_steps():
    p = nn.Parameter(torch.ones(0))
    optimizer = AdamPlus([p], fused=True)
    for _ in range(2):
        p.grad = torch.ones(0)
        optimizer.step()
    assert optimizer.stats().step == 2


def test_a_float64_z_is_refused_and_left_to_foreach(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(RuntimeError, match=r"state_dtype=torch\.float64"):
        AdamPlus(made(), fused=True, state_dtype=torch.float64)
    wide = AdamPlus(made(), state_dtype=torch.float64)
    give(wide, [torch.randn(shape) for shape in SHAPES])
    wide.step()
    loaded = AdamPlus(made(), fused=True)
    loaded.load_state_dict(through_a_file(wide.state_dict()))
    give(loaded, [torch.randn(shape) for shape in SHAPES])
    for group in loaded.param_groups:
        group["state_dtype"] = None
    with pytest.raises(RuntimeError, match=r"z of parameter 0 of group 0 is torch\.float64"):
        loaded.step()
    monkeypatch.setattr(choice, "_on_cuda", lambda params: True)
    wide.step()
    assert wide._plan is None


@pytest.mark.skipif(
    not hasattr(torch.Tensor, "grad_dtype"), reason="a gradient has its parameter's dtype before torch 2.9"
)
def test_a_float64_gradient_is_refused():
    p: Any = nn.Parameter(torch.ones(3))
    p.grad_dtype = torch.float64
    p.grad = torch.ones(3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"the gradient of parameter 0 of group 0 is torch\.float64"):
        AdamPlus([p], fused=True).step()


def test_groups_that_contradict_each_other_are_refused():
    others: list[dict[str, Any]] = [{"fused": False}, {"foreach": False}]
    for other in others:
        with pytest.raises(RuntimeError, match="group 1 has fused="):
            AdamPlus([{"params": made([(3,)]), "fused": True}, {"params": made([(2,)]), **other}])


def test_a_16_bit_z_is_undone_as_it_was_used():
    """w moves by η times the stored z, up to float32's rounding. A 16-bit z has a thousand times its rounding."""
    p = nn.Parameter(torch.ones(500))
    optimizer = AdamPlus([p], lr=0.5, beta=0.05, state_dtype=torch.bfloat16, fused=True)
    for _ in range(5):
        before = values(optimizer.eval())[0].double()
        optimizer.train()
        p.grad = torch.randn(500)
        optimizer.step()
        moved = values(optimizer.eval())[0].double() - before
        optimizer.train()
        expected = -optimizer.stats().eta * optimizer.state[p]["z"].double()
        assert (moved - expected).abs().max() <= 4 * torch.finfo(torch.float32).eps * p.detach().abs().max()


def test_a_captured_step_does_not_change_the_tables_of_eager_steps(monkeypatch: pytest.MonkeyPatch):
    """Replays and eager steps each read gradients and settings of their own."""
    optimizer = stepped()
    eager = optimizer._plan
    at, numbers = list(eager.tables.at), list(eager.numbers)
    give(optimizer, [torch.randn(shape) for shape in SHAPES])
    with monkeypatch.context() as patch:
        patch.setattr(plan, "capturing", lambda: True)
        optimizer.param_groups[0]["lr"] = 0.7
        optimizer.step()
    (captured,) = optimizer._captured
    assert optimizer._plan is eager
    assert (eager.tables.at, eager.numbers) == (at, numbers)
    assert captured.tables.gradients.data_ptr() != eager.tables.gradients.data_ptr()
    assert captured.tables.settings.data_ptr() != eager.tables.settings.data_ptr()
    assert captured.tables.at == [p.grad.data_ptr() or 16 for p in captured.params]
    assert captured.tables.settings[0, 0] == 0.7
    assert eager.tables.settings[0, 0] == 1.0
    optimizer.param_groups[0]["lr"] = 1.0
    optimizer.step()
    assert optimizer.stats().step == 4


def test_eager_steps_do_not_use_tables_that_were_made_in_a_capture(
    monkeypatch: pytest.MonkeyPatch, plans: list[plan.Plan]
):
    optimizer = AdamPlus(made(), fused=True)
    give(optimizer, [torch.randn(shape) for shape in SHAPES])
    with monkeypatch.context() as patch:
        patch.setattr(plan, "capturing", lambda: True)
        optimizer.step()
    assert optimizer._plan is None
    assert plans[0] in optimizer._captured
    optimizer.step()
    assert len(plans) == 2
    assert optimizer.stats().step == 2


@pytest.mark.parametrize("scope", ["global", "tensor"])
def test_a_step_with_inf_changes_nothing_and_scales_are_taken_out(scope: Any):
    scaled, plain = (AdamPlus(ps, fused=True, norm_scope=scope) for ps in (made(), made()))
    with torch.no_grad():
        for p, q in zip(params(scaled), params(plain), strict=True):
            p.copy_(q)
    assert scaled._step_supports_amp_scaling
    for i in range(6):
        grads = [torch.randn(shape) for shape in SHAPES]
        give(scaled, [g * 128 for g in grads])
        poisoned = i in (0, 3)
        if poisoned:
            params(scaled)[1].grad[7] = float("inf")  # pyright: ignore[reportOptionalSubscript]
        before = values(scaled), scaled.stats()
        vars(scaled).update(
            grad_scale=torch.tensor(128.0), found_inf=torch.tensor(float(poisoned))
        )  # as GradScaler does
        scaled.step()
        for name in ("grad_scale", "found_inf"):
            delattr(scaled, name)
        if poisoned:
            assert all(torch.equal(a, b) for a, b in zip(before[0], values(scaled), strict=True))
            assert scaled.stats() == before[1]
        else:
            give(plain, grads)
            plain.step()
    assert all(torch.equal(a, b) for a, b in zip(values(scaled), values(plain), strict=True))
    assert scaled.stats() == plain.stats()
    assert scaled.stats().step == 4


def test_tensor_settings_are_read_on_the_device():
    results = []
    for tensors in (False, True):
        torch.manual_seed(0)
        ps = made()
        lr, beta = torch.tensor(0.25), torch.tensor(0.125)
        optimizer = AdamPlus(ps, lr=lr if tensors else 0.25, beta=beta if tensors else 0.125, fused=True)
        for _ in range(4):
            give(optimizer, [torch.randn(shape) for shape in SHAPES])
            optimizer.step()
            for name in ("lr", "beta"):
                optimizer.param_groups[0][name] *= 0.5
        results.append(values(optimizer))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_fused_is_the_default_on_cuda(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(choice, "_on_cuda", lambda params: True)
    chosen = []
    executions: list[dict[str, Any]] = [{}, {"fused": False}, {"foreach": True}, {"foreach": False}]
    for settings in executions:
        p = nn.Parameter(torch.ones(3))
        p.grad = torch.ones(3)
        optimizer = AdamPlus([p], **settings)
        optimizer.step()
        chosen.append(optimizer._plan is not None)
    assert chosen == [True, False, False, False]
    p = nn.Parameter(torch.ones(3, dtype=torch.float64))
    p.grad = torch.ones_like(p)
    optimizer = AdamPlus([p])
    optimizer.step()  # float64: foreach takes over, without a warning
    assert optimizer._plan is None


def test_a_step_that_could_not_unscale_is_refused():
    p = nn.Parameter(torch.ones(3))
    optimizer = AdamPlus([p], fused=True)
    vars(optimizer).update(grad_scale=torch.tensor(2.0), found_inf=torch.tensor(0.0))
    optimizer.step()  # without a gradient there is nothing to unscale
    p.grad = torch.ones(3)
    optimizer.param_groups[0]["fused"] = None
    with pytest.raises(RuntimeError, match="GradScaler leaves unscaling to fused kernels"):
        optimizer.step()
    assert torch.equal(p, torch.ones(3))


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (torch.ones(3, dtype=torch.float64), "parameter 0 of group 0 is torch.float64"),
        (torch.ones(3, dtype=torch.complex64), "parameter 0 of group 0 is torch.complex64"),
        (torch.ones(6)[::2], "parameter 0 of group 0 is a view with gaps"),
    ],
)
def test_fused_true_is_refused_with_the_reason(p: torch.Tensor, words: str):
    p = nn.Parameter(p)
    with pytest.raises(RuntimeError, match=f"fused=True: {words}.*Leave fused=None"):
        AdamPlus([p], fused=True)
    optimizer = AdamPlus([p])
    with pytest.raises(RuntimeError, match=f"fused=True: {words}"):
        optimizer.add_param_group({"params": [nn.Parameter(p.detach())], "fused": True})
    assert len(optimizer.param_groups) == 1
    optimizer.param_groups[0]["fused"] = True  # and set later
    p.grad = torch.ones_like(p)
    with pytest.raises(RuntimeError, match=f"fused=True: {words}"):
        optimizer.step()
    assert not optimizer.state
    assert (p == 1).all()


def test_fused_needs_cuda_unless_interpreted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_tables, "INTERPRETED", False)
    with pytest.raises(RuntimeError, match="is on cpu, and the kernels run on CUDA"):
        AdamPlus([nn.Parameter(torch.ones(3))], fused=True)


def test_several_devices_and_subclasses_are_refused():
    class Own(nn.Parameter):
        pass

    assert "a Own" in str(plan.refusal([{"params": [Own(torch.ones(2))], "state_dtype": None}], {}))
    meta = nn.Parameter(torch.ones(2, device="meta"))
    both = str(plan.refusal([{"params": [nn.Parameter(torch.ones(2)), meta], "state_dtype": None}], {}))
    assert "the parameters are on several devices" in both


def test_sparse_gradients_are_refused_in_the_middle_of_a_fused_run():
    embedding = nn.Embedding(5, 3, sparse=True)
    optimizer = AdamPlus(embedding.parameters(), fused=True)
    embedding.weight.grad = torch.ones(5, 3)
    optimizer.step()
    optimizer.zero_grad()
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="has a sparse gradient"):
        optimizer.step()


def test_without_triton_foreach_takes_over_and_fused_says_so():
    code = """
import sys; sys.modules["triton"] = None
import torch; from adamplus import AdamPlus
p = torch.nn.Parameter(torch.ones(2)); p.grad = torch.ones(2)
AdamPlus([p]).step()
try: AdamPlus([p], fused=True).step()
except RuntimeError as error: print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Triton is not installed (pip install triton)" in done.stdout


def test_a_group_without_gradients_keeps_its_record():
    for scope in ("group", "tensor"):
        ps = made([(5,), (7,)])
        groups = [{"params": [p], "norm_scope": scope} for p in ps]
        fused, foreach = (
            AdamPlus(groups, fused=True),
            AdamPlus(
                [{**group, "params": [nn.Parameter(p.detach().clone()) for p in group["params"]]} for group in groups]
            ),
        )
        for i in range(4):
            grads = [None if i in (1, 2) else torch.randn(5), torch.randn(7)]
            for optimizer in (fused, foreach):
                give(optimizer, grads)
                optimizer.step()
        for g in (0, 1):
            assert fused.stats(g) == pytest.approx(foreach.stats(g), rel=1e-6)
        assert difference(values(fused), values(foreach)) <= 1e-6


def test_large_lists_begin_with_their_largest_tensors(monkeypatch: pytest.MonkeyPatch):
    results = []
    for large in (1 << 25, 100):
        monkeypatch.setattr(_tables, "LARGE", large)
        monkeypatch.setattr(_tables, "HEAD", 4)
        torch.manual_seed(0)
        ps = made()
        optimizer = AdamPlus(ps, fused=True)
        for _ in range(3):
            give(optimizer, [torch.randn(shape) for shape in SHAPES])
            optimizer.step()
        assert [len(look.params) for look in optimizer._plan.gradients] == ([6] if large > 100 else [4, 2])
        results.append(values(optimizer))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_without_dynamos_guards_gradients_are_compared_one_by_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch._C._dynamo.guards", None)
    ps = made()
    optimizer = AdamPlus(ps, fused=True)
    for _ in range(2):
        give(optimizer, [torch.randn(shape) for shape in SHAPES])
        optimizer.step()
    assert optimizer._plan.gradients[0].guards is None
    ps[3].grad = torch.randn(2, 3, 2).transpose(0, 2)
    optimizer.step()
    assert len(optimizer._plan.gradients[0].copies) == 1


def test_the_operator_for_compilers_takes_the_same_step(monkeypatch: pytest.MonkeyPatch):
    """The operator that compilers call is called directly, by more optimizers than its cache keeps."""
    monkeypatch.setattr(_operator, "CALLERS", 1)
    for settings in SETTINGS.values():
        results = []
        for operator in (False, True):
            torch.manual_seed(0)
            ps = [*made([(4, 3), (2500,)]), nn.Parameter(torch.randn(2, 6, 4, 4).to(memory_format=torch.channels_last))]
            optimizer = AdamPlus([{"params": ps[:1], "lr": 0.3}, {"params": ps[1:]}], fused=True, **settings)
            for i in range(3):
                give(optimizer, [torch.randn(p.shape) for p in ps])
                if i == 1:
                    ps[0].grad = torch.randn(3, 4).t()
                with monkeypatch.context() as patch:
                    patch.setattr(torch.compiler, "is_compiling", lambda operator=operator: operator)
                    optimizer.step()
            results.append([*values(optimizer), *(torch.tensor(optimizer.stats(g)) for g in (0, 1))])
        assert difference(*results) <= 1e-6
    assert len(_operator._latest) == 1


def test_a_subclass_of_tensor_is_stepped_tensor_by_tensor():
    """A subclass may define its own operations, which foreach, C and the kernels would not call."""

    class Own(torch.Tensor):
        pass

    value = torch.randn(5)
    p, q = value.clone().as_subclass(Own).requires_grad_(), nn.Parameter(value.clone())
    with pytest.raises(RuntimeError, match="is a Own"):
        AdamPlus([p], fused=True)
    own, plain = AdamPlus([p]), AdamPlus([q], foreach=False)
    for _ in range(3):
        p.grad, q.grad = torch.ones(5).as_subclass(Own), torch.ones(5)
        own.step()
        plain.step()
    assert torch.equal(p.detach().as_subclass(torch.Tensor), q.detach())


@pytest.mark.parametrize("planned", [False, True])
def test_a_step_that_fails_between_its_kernels_is_torn(planned: bool, monkeypatch: pytest.MonkeyPatch):
    """At that point the kernel of step sizes has stored the new offsets, and ŵ has not moved."""
    optimizer = AdamPlus(made(), fused=True)
    for failing in (False, True) if planned else (True,):
        give(optimizer, [torch.randn(shape) for shape in SHAPES])
        with monkeypatch.context() as patch:
            if failing:
                patch.setattr(_tables.Tables, "second", Mock(side_effect=RuntimeError("no memory")))
                with pytest.raises(RuntimeError, match="no memory"):
                    optimizer.step()
            else:
                optimizer.step()
    with pytest.raises(RuntimeError, match="broke off"):
        optimizer.eval()


def test_a_step_that_fails_before_its_kernels_write_is_not_torn(monkeypatch: pytest.MonkeyPatch):
    optimizer = stepped()
    before = values(optimizer)
    give(optimizer, [torch.randn(shape) for shape in SHAPES])
    with monkeypatch.context() as patch:
        patch.setattr(_tables.Tables, "first", Mock(side_effect=RuntimeError("no memory")))
        with pytest.raises(RuntimeError, match="no memory"):
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(before, values(optimizer), strict=True))
    optimizer.step()
    assert optimizer.stats().step == 3
