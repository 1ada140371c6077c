"""The fused kernels, through Triton's interpreter: what CI can show of them. Their speed is in results/step."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from cases import FAMILY, SETTINGS, difference, give, pair, params, through_a_file, values
from torch import nn

from adamplus import AdamPlus
from adamplus.optim import _execution, _fused

SHAPES = [(4, 3), (2500,), (), (2, 3, 2), (0,), (1025,)]


def made(shapes: list[tuple[int, ...]] = SHAPES, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    return [nn.Parameter(torch.randn(shape).to(dtype)) for shape in shapes]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", FAMILY)
def test_float32_equals_the_float64_reference(name: str, setting: str):
    """≤ 1e-6 relative after 10 steps, lr and β changing, gradients missing."""
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
def test_16_bit_parameters_round_once_a_step(dtype: torch.dtype, state_dtype: torch.dtype | None):
    """10 steps, each rounding ŵ by half an ulp at most: 5 eps, and a 16-bit z as much again."""
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
def test_layouts_that_kernels_must_be_told_of(layout: str):
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


def test_a_z_saved_in_another_layout_is_laid_out_anew():
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


def test_tables_are_made_once_and_gradients_may_move(monkeypatch: pytest.MonkeyPatch):
    built = []
    make = _fused.Plan.__init__
    monkeypatch.setattr(_fused.Plan, "__init__", lambda self, *a: built.append(1) or make(self, *a))
    ps = made()
    optimizer = AdamPlus(ps, fused=True)
    kept = []
    for _ in range(5):
        optimizer.zero_grad()
        give(optimizer, [torch.randn(shape) for shape in SHAPES])
        kept.append([p.grad for p in ps])  # so that the next ones are elsewhere
        optimizer.step()
    assert len(built) == 1
    for p, unaligned in zip(ps, [torch.randn(torch.Size(shape).numel() + 1)[1:] for shape in SHAPES], strict=True):
        p.grad = unaligned.view(p.shape)
    optimizer.step()
    assert len(built) == 2
    ps[3].grad = torch.randn(2, 3, 2).transpose(0, 2)
    optimizer.step()
    built.pop()
    ps[0].grad = None
    optimizer.step()
    built.pop()
    assert len(built) == 2
    ps[1].data = ps[1].data.clone()
    optimizer.step()
    assert len(built) == 3
    optimizer.load_state_dict(through_a_file(optimizer.state_dict()))
    optimizer.step()
    assert len(built) == 4
    optimizer.add_param_group({"params": made([(3,)])})
    optimizer.step()
    assert len(built) == 5


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


def test_on_cuda_fused_is_chosen_by_itself(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_execution, "_on_cuda", lambda params: True)
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
    optimizer.step()  # float64: foreach takes over, without a word
    assert optimizer._plan is None


def test_a_compiled_step_of_a_fused_optimizer_is_the_compilers():
    results = []
    for compiled in (False, True):
        torch.manual_seed(0)
        ps = made([(5,), (3, 2)])
        optimizer = AdamPlus(ps, fused=True)
        step = torch.compile(optimizer.step, backend="aot_eager", fullgraph=True) if compiled else optimizer.step
        for i in range(4):
            give(optimizer, [torch.randn(p.shape) for p in ps])
            (optimizer.step if i in (0, 3) else step)()  # kernels before it, and again after it
        results.append(values(optimizer))
    assert difference(*results) <= 1e-6


def test_a_step_that_could_not_unscale_is_refused():
    p = nn.Parameter(torch.ones(3))
    optimizer = AdamPlus([p], fused=True)
    vars(optimizer).update(grad_scale=torch.tensor(2.0), found_inf=torch.tensor(0.0))
    with pytest.raises(RuntimeError, match="GradScaler leaves unscaling to fused kernels"):
        optimizer.step()  # without a gradient, as with a compiler, another way is taken


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (torch.ones(3, dtype=torch.float64), "parameter 0 of group 0 is torch.float64"),
        (torch.ones(3, dtype=torch.complex64), "parameter 0 of group 0 is torch.complex64"),
        (torch.ones(6)[::2], "parameter 0 of group 0 is a view with gaps"),
    ],
)
def test_fused_says_what_it_cannot(p: torch.Tensor, words: str):
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
    monkeypatch.setattr(_fused, "INTERPRETED", False)
    with pytest.raises(RuntimeError, match="is on cpu, and the kernels run on CUDA"):
        AdamPlus([nn.Parameter(torch.ones(3))], fused=True)


def test_several_devices_and_subclasses_are_refused():
    class Own(nn.Parameter):
        pass

    assert "a Own" in str(_fused.refusal([{"params": [Own(torch.ones(2))]}]))
    meta = nn.Parameter(torch.ones(2, device="meta"))
    both = str(_fused.refusal([{"params": [nn.Parameter(torch.ones(2)), meta]}]))
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
