"""What only a GPU can show of fused execution; CI has none.

On a machine with one: `TRITON_INTERPRET=0 python -m pytest tests/gpu`.
"""

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases import SETTINGS, difference, give, params, values
from torch import Tensor, nn

from adamplus import AdamPlus, update_bn

ON_GPU = torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1"
pytestmark = pytest.mark.skipif(not ON_GPU, reason="needs a GPU, and TRITON_INTERPRET=0")
SHAPES = [(300, 200), (1025,), (), (7, 3, 2), (0,), (100_000,)]


def made(dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape, device="cuda").to(dtype)) for shape in SHAPES]


def gradients(seed: int) -> list[Tensor]:
    generator = torch.Generator("cuda").manual_seed(seed)
    return [torch.randn(shape, device="cuda", generator=generator) for shape in SHAPES]


def captured(optimizer: AdamPlus, step: Callable[[], object]) -> torch.cuda.CUDAGraph:
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        step()
    return graph


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("setting", SETTINGS)
def test_fused_is_foreach(setting: str, dtype: torch.dtype):
    ways: list[dict[str, Any]] = [{"fused": True}, {"foreach": True}]
    fused, foreach = (AdamPlus(made(dtype), **SETTINGS[setting], **way) for way in ways)
    for i in range(10):
        grads = [None if (i + j) % 5 == 0 else g for j, g in enumerate(gradients(i))]
        for optimizer in (fused, foreach):
            give(optimizer, grads)
            optimizer.step()
    # foreach rounds a 16-bit parameter twice a step, and fused once: half an ulp each
    assert difference(values(fused), values(foreach)) <= (
        1e-6 if dtype == torch.float32 else 15 * torch.finfo(dtype).eps
    )
    assert fused.stats() == pytest.approx(foreach.stats(), rel=1e-6 if dtype == torch.float32 else 1e-2)


def test_update_bn_does_not_wait_for_the_device():
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8), nn.BatchNorm1d(8)).cuda()
    optimizer = AdamPlus(model.parameters())
    batches = [torch.randn(64, 8, device="cuda") for _ in range(5)]
    update_bn(batches, model, optimizer)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    torch.cuda.set_sync_debug_mode("error")
    try:
        update_bn(batches, model, optimizer)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for name, buffer in model.named_buffers():
        assert buffer.is_cuda
        assert torch.equal(buffer, before[name])
    assert model[1].num_batches_tracked == 5


def test_graphs_and_eager_steps_do_not_disturb_each_other():
    lr = torch.tensor(0.1, device="cuda")
    mixed, steady = AdamPlus(made(), lr=lr, fused=True), AdamPlus(made(), lr=lr.clone(), fused=True)
    give(mixed, gradients(0))
    static = [p.grad for p in params(mixed)]
    graph = captured(mixed, mixed.step)
    give(steady, gradients(0))
    steady.step()  # the warm-up; a capture takes no step
    for i in range(1, 9):
        if i % 3 == 0:  # eager, with gradients elsewhere and another β, which is a float
            for optimizer in (mixed, steady):
                give(optimizer, gradients(i))
                optimizer.param_groups[0]["beta"] = 0.1 + 0.01 * i
                optimizer.step()
                optimizer.param_groups[0]["beta"] = 0.1
        else:  # a replay, with the gradients, the β and the lr tensor that it was captured with
            for own, new in zip(static, gradients(i), strict=True):
                own.copy_(new)  # pyright: ignore[reportOptionalMemberAccess]
            lr.fill_(0.1 / i)
            graph.replay()
            steady.param_groups[0]["lr"].fill_(0.1 / i)
            give(steady, gradients(i))
            steady.step()
    assert difference(values(mixed), values(steady)) == 0
    assert mixed.stats() == steady.stats()


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_a_compiled_step_is_the_eager_one(mode: str | None):
    compiled, eager = (AdamPlus(made(), lr=torch.tensor(0.1, device="cuda"), fused=True) for _ in range(2))
    step = torch.compile(compiled.step, mode=mode, fullgraph=True)
    for i in range(8):
        for optimizer, take in ((compiled, step), (eager, eager.step)):
            give(optimizer, gradients(i))
            take()
    assert difference(values(compiled), values(eager)) == 0
    assert {float(s["step"]) for s in compiled.state.values()} == {8.0}


def test_no_step_waits_for_the_device():
    optimizer = AdamPlus(made(), fused=True)
    scaler = torch.amp.GradScaler("cuda")
    for i in range(4):
        give(optimizer, [scaler.scale(g) for g in gradients(i)])
        torch.cuda.set_sync_debug_mode("error" if i > 1 else "default")
        try:
            optimizer.step() if i % 2 else scaler.step(optimizer)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        if not i % 2:
            scaler.update()
    assert optimizer.stats().step == 4


@pytest.mark.parametrize("execution", [{"fused": True}, {"foreach": True}, {"foreach": True, "capturable": True}])
def test_skipped_steps_do_not_wait_for_the_device(execution: dict[str, Any]):
    skipping, twin = AdamPlus(made(), skip_nonfinite=True, **execution), AdamPlus(made(), **execution)
    for i in range(6):
        grads = gradients(i)
        if i in (0, 3):
            grads[0].view(-1)[0] = float("inf")
        give(skipping, grads)
        torch.cuda.set_sync_debug_mode("error" if i > 1 else "default")
        try:
            skipping.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        if i not in (0, 3):
            give(twin, grads)
            twin.step()
    assert difference(values(skipping), values(twin)) <= 1e-6  # β is a tensor for the one, and a number for the other
    assert skipping.stats() == pytest.approx(twin.stats()._replace(skipped=2), rel=1e-6)


def test_a_captured_step_is_skipped_at_replay():
    optimizer = AdamPlus(made(), fused=True, skip_nonfinite=True)
    give(optimizer, gradients(0))
    static = [p.grad for p in params(optimizer)]
    graph = captured(optimizer, optimizer.step)
    before = optimizer.stats()
    for i in range(1, 5):
        for own, new in zip(static, gradients(i), strict=True):
            own.copy_(new)  # pyright: ignore[reportOptionalMemberAccess]
        if i % 2:
            static[0].fill_(float("nan"))  # pyright: ignore[reportOptionalMemberAccess]
        points = values(optimizer)
        graph.replay()
        assert (difference(values(optimizer), points) == 0) == bool(i % 2)
    assert (optimizer.stats().step, optimizer.stats().skipped) == (before.step + 2, before.skipped + 2)


def test_an_optimizer_may_be_older_than_its_parameters_move_to_the_gpu():
    model = nn.Linear(5, 3)
    optimizer = AdamPlus(model.parameters())
    model(torch.ones(2, 5)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    model.cuda()
    model(torch.ones(2, 5, device="cuda")).sum().backward()
    optimizer.step()
    assert optimizer._plan is not None
    assert optimizer.stats().step == 2


def test_tensors_of_more_than_2_31_elements():
    size = 2**31 + 5000
    if torch.cuda.mem_get_info()[0] < 10 * size:
        pytest.skip("not enough memory")
    p: Any = nn.Parameter(torch.zeros(size, device="cuda", dtype=torch.bfloat16))
    optimizer = AdamPlus([p], lr=1.0, norm_power=0.0, beta=1.0, state_dtype=torch.bfloat16, fused=True)
    p.grad = torch.zeros_like(p)
    for at in (0, 2**31 - 1, 2**31, size - 1):
        p.grad[at] = 1.0
    optimizer.step()
    assert optimizer.stats().norm == 2.0
    p = p.detach()
    assert [float(p[at]) for at in (0, 1, 2**31 - 1, 2**31, 2**31 + 1, size - 1)] == [-1.0, 0.0, -1.0, -1.0, 0.0, -1.0]
    assert int(p.count_nonzero()) == 4


def test_scalars_take_no_half_kilobyte_each():
    ps = [nn.Parameter(torch.zeros(128, device="cuda")) for _ in range(2000)]
    for p in ps:
        p.grad = torch.ones_like(p)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    optimizer = AdamPlus(ps, fused=True)
    optimizer.step()
    z = 2000 * 512
    assert torch.cuda.max_memory_allocated() - before - z <= 2 * 2**20
    assert len(optimizer.state) == 2000


@pytest.fixture
def one_rank():
    import torch.distributed as dist

    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    yield dist
    dist.destroy_process_group()


@pytest.mark.parametrize("offload", [False, True])
def test_fully_sharded_parameters_are_stepped_as_plain_ones(one_rank: Any, offload: bool):
    from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard

    def model() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(30, 40), nn.Tanh(), nn.Linear(40, 3)).cuda()

    sharded, alone = model(), model()
    fully_shard(sharded, offload_policy=CPUOffloadPolicy() if offload else OffloadPolicy())
    optimizers = [AdamPlus(m.parameters(), weight_decay=0.01) for m in (sharded, alone)]
    for i in range(10):
        x = torch.randn(16, 30, device="cuda", generator=torch.Generator("cuda").manual_seed(i))
        for m, optimizer in zip((sharded, alone), optimizers, strict=True):
            optimizer.zero_grad()
            m(x).square().mean().backward()
            optimizer.step()
    assert (optimizers[0]._plan is None) == offload
    for p, q in zip(sharded.parameters(), alone.parameters(), strict=True):
        whole = p.to_local().cuda()  # pyright: ignore[reportAttributeAccessIssue]
        torch.testing.assert_close(whole, q, rtol=1e-5 if offload else 0, atol=1e-6 if offload else 0)


def test_the_norm_over_a_process_group_needs_no_wait(one_rank: Any):
    joined, alone = AdamPlus(made(), fused=True, process_group=one_rank.group.WORLD), AdamPlus(made(), fused=True)
    for i in range(6):
        for optimizer in (joined, alone):
            give(optimizer, gradients(i))
            torch.cuda.set_sync_debug_mode("error" if i > 1 else "default")
            try:
                optimizer.step()
            finally:
                torch.cuda.set_sync_debug_mode("default")
    assert difference(values(joined), values(alone)) <= 1e-6
    assert joined.stats() == pytest.approx(alone.stats(), rel=1e-12)
