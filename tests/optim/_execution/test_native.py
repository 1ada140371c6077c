"""The C library gives the same bits as plain execution, for every layout and number of threads."""

import multiprocessing
import os
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from cases import (
    LAYOUTS,
    SETTINGS,
    allocations,
    difference,
    give,
    layouts,
    pair,
    parameter,
    params,
    seeds,
    settings,
    values,
)
from torch import Tensor, nn

from adamplus import AdamPlus
from adamplus.optim._algorithm import Part
from adamplus.optim._execution import foreach as _foreach
from adamplus.optim._execution import native as _native
from adamplus.optim._execution.plain import tensor_norm

built = pytest.mark.skipif(_native.LIBRARY is None, reason="no C compiler when this was installed")
DTYPES = [torch.float32, torch.float64]
# Around the ends of vectors, blocks and chunks, and enough chunks for three threads.
SIZES = [1, 7, 8, 15, 16, 17, 255, 256, 257, 1000, _native.CHUNK - 1, _native.CHUNK, _native.CHUNK + 1, 200_003]


def test_the_library_is_built_if_there_is_a_compiler():
    avx2 = torch.backends.cpu.get_cpu_capability() != "DEFAULT"
    assert (_native.LIBRARY is not None) or not (shutil.which("cc") and avx2)


def natively(optimizer: AdamPlus) -> list[bool]:
    """Whether the library steps each parameter of the first group."""
    ps = [p for p in optimizer.param_groups[0]["params"] if p.grad is not None]
    with torch.no_grad():
        gs, zs = [cast("Tensor", p.grad) for p in ps], [optimizer.state[p]["z"] for p in ps]
        parts = _foreach.FOREACH.parts(Part(list(ps), gs, zs, zs, zs, list(range(len(ps))), _foreach.FOREACH))
    native = {i: isinstance(part.run, _native.Native) for part in parts for i in part.index}
    return [native[i] for i in range(len(ps))]


def run(
    start: list[Tensor], grads: list[list[Tensor | None]], groups: list[dict[str, Any]], **execution: Any
) -> tuple[AdamPlus, list[Tensor]]:
    """An optimizer after steps with these gradients, and all of its parameters and state."""
    ps = [nn.Parameter(torch.empty_strided(p.shape, p.stride(), dtype=p.dtype).copy_(p.detach())) for p in start]
    rest = iter(ps)
    optimizer = AdamPlus([{**g, "params": [next(rest) for _ in range(g["params"])]} for g in groups], **execution)
    for gs in grads:
        give(optimizer, gs)
        optimizer.step()
    state = [value for p in ps if p in optimizer.state for value in optimizer.state[p].values()]
    return optimizer, values(optimizer) + state + [group["record"] for group in optimizer.param_groups]


def assert_same_bits(a: list[Tensor], b: list[Tensor]) -> None:
    for x, y in zip(a, b, strict=True):
        assert torch.equal(torch.nan_to_num(x, 7.0), torch.nan_to_num(y, 7.0))
        assert torch.equal(x.isnan(), y.isnan())


@built
@hypothesis.given(
    groups=st.lists(st.tuples(layouts, st.sampled_from(DTYPES), settings), min_size=1, max_size=3),
    capturable=st.booleans(),
    tensors=st.booleans(),
    missing=st.integers(0, 2**12 - 1),
    seed=seeds,
)
def test_foreach_is_bit_identical_to_plain_execution(
    groups: list[Any], capturable: bool, tensors: bool, missing: int, seed: int
):
    torch.manual_seed(seed)
    start: list[Tensor] = [parameter(layout, dtype).detach() for names, dtype, _ in groups for layout in names]
    chosen = [{**s, "params": len(names)} for names, _, s in groups]
    if tensors:
        chosen = [{**s, "lr": torch.tensor(s["lr"]), "beta": torch.tensor(s["beta"])} for s in chosen]
    grads: list[list[Tensor | None]] = [[torch.randn_like(p) for p in start] for _ in range(4)]
    grads[1] = [None if missing >> i & 1 else g for i, g in enumerate(grads[1])]
    grads[3] = [torch.zeros_like(p) for p in start]
    # The same `capturable`: Python's arithmetic and a tensor's may differ in the last bit of float64, see test_resume.
    plain = run(start, grads, chosen, foreach=False, capturable=capturable)[1]
    assert_same_bits(plain, run(start, grads, chosen, foreach=True, capturable=capturable)[1])


@built
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_do_not_depend_on_the_number_of_threads(dtype: torch.dtype, setting: str):
    start = [torch.randn(size, dtype=dtype) for size in SIZES]
    grads: list[list[Tensor | None]] = [[torch.randn_like(p) for p in start] for _ in range(3)]
    groups = [{**SETTINGS[setting], "params": len(start)}]
    before = torch.get_num_threads()
    results = []
    try:
        for threads, foreach in ((1, True), (2, True), (3, True), (1, False), (3, False)):
            torch.set_num_threads(threads)
            results.append(run(start, grads, groups, foreach=foreach)[1])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert_same_bits(results[0], other)


@built
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16])
def test_which_dtypes_and_layouts_the_library_steps(dtype: torch.dtype, layout: str):
    p = parameter(layout, dtype)
    taken = [dtype in DTYPES and layout not in ("strided", "complex")]  # complex ones come as pairs of real ones
    optimizer, _ = run([p], [[torch.randn_like(p)]], [{"params": 1}])
    assert natively(optimizer) == taken
    with torch.no_grad():
        q = torch.view_as_real(p) if p.is_complex() else p
        assert _native.takes(q, q, q) == (q.dtype in DTYPES and layout != "strided")


class Own(nn.Parameter):
    pass


@built
def test_which_tensors_the_library_does_not_step():
    x = torch.randn(4, 3)
    others = {
        "a subclass": (Own(x), x, x),
        "a gradient of another class": (x, Own(x), x),
        "a z of another class": (x, x, Own(x)),
        "another dtype": (x, x, x.double()),
        "a gradient in another layout": (x, torch.randn(3, 4).t(), x),
        "overlapping": (x[:1].expand(4, 3),) * 3,
        "not negated yet": (x, torch.randn(4, 3, dtype=torch.complex64).conj().imag, x),
        "not there yet": (x, torch._efficientzerotensor((4, 3)), x),
        "elsewhere": (x.to("meta"),) * 3,
    }
    assert {why: _native.takes(*tensors) for why, tensors in others.items()} == dict.fromkeys(others, False)


@built
def test_parameters_inside_and_outside_the_library_share_one_norm():
    start = [torch.randn(300), torch.randn(40).bfloat16(), torch.randn(6, 5)[::2], torch.randn(3, dtype=torch.float64)]
    grads: list[list[Tensor | None]] = [[torch.randn_like(p) for p in start] for _ in range(4)]
    optimizer, foreach = run(start, grads, [{"params": 4}], foreach=True)
    assert natively(optimizer) == [True, False, False, True]
    assert_same_bits(foreach, run(start, grads, [{"params": 4}], foreach=False)[1])


@built
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("scope", ["global", "tensor"])
def test_nan_and_inf_spread_as_in_plain_execution(bad: float, scope: str):
    start = [torch.randn(5), torch.randn(300)]
    grads: list[list[Tensor | None]] = [[torch.randn_like(p) for p in start] for _ in range(3)]
    grads[1] = [torch.randn(5), torch.randn(300).index_fill_(0, torch.tensor([17]), bad)]
    groups = [{"norm_scope": scope, "params": 2}]
    foreach = run(start, grads, groups, foreach=True)[1]
    assert_same_bits(foreach, run(start, grads, groups, foreach=False)[1])
    assert foreach[1].isnan().all()
    assert foreach[0].isfinite().all() == (scope == "tensor")


@pytest.mark.parametrize("library", ["with", "without"])
@pytest.mark.parametrize("magnitude", [1e-30, 1e25])
def test_squares_beyond_float32_are_summed_in_float64(magnitude: float, library: str, monkeypatch: pytest.MonkeyPatch):
    if library == "without":
        monkeypatch.setattr(_native, "LIBRARY", None)
    z = magnitude * torch.randn(70_000)
    with torch.no_grad():
        assert float(tensor_norm(z)) == pytest.approx(float(z.double().norm()), rel=1e-13)


@built
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_step_allocates_no_memory_of_the_size_of_a_parameter(setting: str):
    """This holds with weight decay and maximize, too. Scalars and columns need far less than 1/64 of a parameter."""
    p = nn.Parameter(torch.randn(1 << 20))
    optimizer = AdamPlus([p], **SETTINGS[setting])
    p.grad = torch.randn_like(p)
    optimizer.step()
    assert max(allocations(optimizer.step)) <= p.numel() * 4 / 64


def test_without_the_library_torchs_operations_are_used(monkeypatch: pytest.MonkeyPatch):
    """Results agree up to rounding, because the norm is summed in another order."""
    start = [torch.randn(5000), torch.randn(3, 4), torch.randn(())]
    grads: list[list[Tensor | None]] = [[torch.randn_like(p) for p in start] for _ in range(5)]
    native = run(start, grads, [{"weight_decay": 0.1, "params": 3}])[1]
    monkeypatch.setattr(_native, "LIBRARY", None)
    optimizer, without = run(start, grads, [{"weight_decay": 0.1, "params": 3}])
    assert natively(optimizer) == [False] * 3
    assert difference(without, native) <= 1e-6


@built
def test_a_step_increments_the_versions_of_parameters():
    p = nn.Parameter(torch.ones(3))
    optimizer = AdamPlus([p])
    loss = (p * p).sum()
    p.grad = torch.ones(3)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@built
def test_an_optimizer_whose_execution_changes_matches_the_reference():
    ps = [nn.Parameter(torch.randn(shape)) for shape in ((70_000,), (30, 20), ())]
    optimizer, reference = pair("adam_plus", [{"params": ps, "weight_decay": 0.01}], {})
    for i in range(12):
        optimizer.param_groups[0].update(foreach=(None, False, True)[i % 3], capturable=i % 4 == 3)
        grads: list[Tensor | None] = [torch.randn_like(p) for p in ps]
        for o in (optimizer, reference):
            give(o, grads)
            o.step()
    assert difference(values(optimizer), values(reference)) <= 1e-6


def step_in_a_child(connection: Any, optimizer: AdamPlus) -> None:
    optimizer.step()
    connection.send([p.detach().tolist() for p in params(optimizer)])


@built
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python 3.12: it has threads, which is the point
def test_a_forked_process_can_step():
    """A child does not have OpenMP's threads of its parent, so waiting for them would hang."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        p = nn.Parameter(torch.randn(3 * _native.CHUNK))
        optimizer = AdamPlus([p])
        p.grad = torch.randn_like(p)
        optimizer.step()
        here, there = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=step_in_a_child, args=(there, optimizer))
        child.start()
        assert here.poll(60)
        received = here.recv()
        child.join()
        optimizer.step()
        assert received == [p.detach().tolist()]
    finally:
        torch.set_num_threads(before)


def test_a_library_that_cannot_be_loaded_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert _native.load(tmp_path / "nowhere.so") is None
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    monkeypatch.setattr(_native.platform, "machine", lambda: "x86_64")
    assert _native.load(_native.PATH) is None


@built
@pytest.mark.parametrize("why", ["a runtime without OpenMP", "a forked process"])
def test_a_step_with_one_thread(why: str, monkeypatch: pytest.MonkeyPatch):
    if why == "a forked process":
        monkeypatch.setattr(_native, "PROCESS", os.getpid() + 1)
    else:
        monkeypatch.setattr(_native, "PARALLEL", None)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    z = torch.randn(200_000)
    assert _native.Table([z], None, [z]).threads == 1


def test_the_openmp_threads_of_torch_are_found():
    """Only if torch reports that it uses OpenMP."""
    assert _native.torch_threads() is not None or "OpenMP" not in torch.__config__.parallel_info()


@built
def test_data_of_another_shape_is_refused_and_not_written_beyond_its_end():
    p = nn.Parameter(torch.ones(10))
    optimizer = AdamPlus([p])
    p.grad = torch.ones(10)
    optimizer.step()
    memory = torch.full((10,), 7.0)
    p.data, p.grad = memory[:5], None
    p.grad = torch.ones(10)[:5]
    with pytest.raises(RuntimeError, match=r"a parameter has shape \(5,\), and its z \(10,\)"):
        optimizer.step()
    assert (memory == 7).all()


@built
def test_a_library_of_another_source_is_not_used(tmp_path: Path):
    shutil.copy(_native.PATH, tmp_path)
    source = _native.PATH.with_suffix("").read_text()
    (tmp_path / "native.c").write_text(source)
    assert _native.load(tmp_path / _native.PATH.name) is not None
    (tmp_path / "native.c").write_text(source + "/* another version */")
    with pytest.warns(UserWarning, match="compiled from another native.c"):
        assert _native.load(tmp_path / _native.PATH.name) is None


@pytest.mark.parametrize("execution", [{"foreach": True}, {"foreach": False}, {"fused": True}, {"capturable": True}])
def test_a_step_on_the_cpu_does_not_depend_on_the_default_device(execution: dict[str, Any]):
    results = []
    for elsewhere in (False, True):
        torch.manual_seed(0)
        ps = [nn.Parameter(torch.randn(5)), nn.Parameter(torch.randn(2, 3))]
        optimizer = AdamPlus(ps, **execution)
        grads = [[torch.randn_like(p) for p in ps] for _ in range(3)]
        with torch.device("meta") if elsewhere else nullcontext():
            for gradients in grads:
                for p, g in zip(ps, gradients, strict=True):
                    p.grad = g
                optimizer.step()
            optimizer.eval()
            optimizer.train()
            assert optimizer.stats().step == 3
        results.append(values(optimizer))
    assert_same_bits(*results)
