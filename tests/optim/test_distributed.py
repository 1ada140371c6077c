"""Several processes step one vector: every way of splitting a model, and the errors where that is impossible."""

import pickle
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from cases import difference, give, values
from ranks import Run
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from adamplus import AdamPlus, SpectralPlus
from adamplus.optim._ranks import Joint
from adamplus.optim._spectral_ranks import _largest_mesh

WORKERS = Path(__file__).parent / "workers"
FOUR = pytest.param(4, marks=pytest.mark.slow)


@pytest.fixture
def one_rank():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.parametrize("processes", [2, FOUR])
@pytest.mark.parametrize(
    "splits",
    [pytest.param("every_split_is_one_process", marks=pytest.mark.uncovered),  # the others run the same lines
     "several_meshes_and_scopes hand_made_partitions meshes_of_some_ranks",
     pytest.param("compiled", marks=pytest.mark.slow),
     "zero_redundancy one_small_message rounding_at_random gradients_on_some_ranks a_warm_up_from_nothing "
     "replicas_of_a_tensor_parallel_model "
     "skipped_steps fused_before_anything_global_has_state no_rank_has_gradients flat_parameters"],
)  # fmt: skip
def test_every_split_takes_the_steps_of_one_process(
    run: Run, splits: str, processes: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("STEPS", "10" if processes == 2 else "50")  # w is compared every ten steps
    monkeypatch.setenv("QUICK", "yes" if processes == 2 else "")
    run(processes, WORKERS / "splits.py", *splits.split())


@pytest.mark.parametrize("processes", [4, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", [
    "layers_outside_the_plan pipelines checkpoints copies_that_differ elements_that_would_count_twice",
    *(pytest.param(case, marks=pytest.mark.slow) for case in ("layers_outside_the_plan", "pipelines", "checkpoints")),
])  # fmt: skip
def test_layers_outside_the_tensor_parallel_plan(run: Run, case: str, processes: int, monkeypatch: pytest.MonkeyPatch):
    is_quick = " " in case
    monkeypatch.setenv("STEPS", "4" if is_quick else "50")
    monkeypatch.setenv("QUICK", "yes" if is_quick else "")
    run(processes, WORKERS / "meshes.py", *case.split())


@pytest.mark.parametrize("processes", [2, FOUR])
def test_ranks_that_disagree_raise_and_do_not_wait(run: Run, processes: int):
    run(processes, WORKERS / "disagree.py")


SPECTRAL = "every_placement_is_one_process every_wrapper_is_one_process replicas_are_equal"
BESIDE = "rounding_at_random stacks_are_not_exchanged a_first_gradient_in_a_later_step zero_redundancy checkpoints"
TOGETHER = """ranks_that_disagree switches_that_need_no_other_rank a_failed_step_with_a_new_look_ahead
parameters_that_cannot_be_exchanged"""


@pytest.mark.uncovered  # test_exchange.py and the next test run the same lines
def test_spectral_plus_on_two_processes_takes_the_steps_of_one(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STEPS", "10")
    monkeypatch.setenv("QUICK", "yes")
    run(2, WORKERS / "spectral.py", *SPECTRAL.split(), *BESIDE.split())


def test_ranks_of_spectral_plus_make_a_call_together_or_all_raise(run: Run):
    run(2, WORKERS / "spectral.py", *TOGETHER.split())


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("cases", [SPECTRAL, f"compiled {BESIDE} {TOGETHER}"])
def test_every_split_of_spectral_plus(run: Run, cases: str, processes: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STEPS", "20")
    run(processes, WORKERS / "spectral.py", *cases.split())


def test_spectral_plus_on_a_mesh_of_one_rank_sends_no_message(one_rank: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dist, "all_reduce", None)
    monkeypatch.setattr(dist, "all_to_all_single", None)
    mesh, value = dist.init_device_mesh("cpu", (1,)), torch.randn(5, 3)
    split = SpectralPlus([nn.Parameter(distribute_tensor(value, mesh, [Shard(0)]))])
    plain = SpectralPlus([nn.Parameter(value.clone())])
    for _ in range(3):
        g = torch.randn(5, 3)
        split.param_groups[0]["params"][0].grad = distribute_tensor(g, mesh, [Shard(0)])
        give(plain, [g])
        split.step()
        plain.step()
    own: Any = split.eval().param_groups[0]["params"][0]
    assert difference([own._local_tensor], values(plain.eval())) == 0
    assert str(split.stats()) == str(plain.stats())


def test_matrices_on_two_meshes_need_one_that_has_all_ranks():
    def mesh(*ranks: int) -> Any:
        return SimpleNamespace(mesh=torch.tensor(ranks), size=lambda: len(ranks))

    everyone = mesh(0, 1, 2, 3)
    assert _largest_mesh([mesh(0, 1), everyone, mesh(1, 3)]) is everyone
    with pytest.raises(RuntimeError, match="which has other ranks: make one SpectralPlus for each"):
        _largest_mesh([mesh(0, 1), mesh(0, 2)])


def test_a_wrapped_model_switches_the_optimizer(run: Run):
    run(2, WORKERS / "following.py")


def test_zero_redundancy_optimizer_without_a_process_group_is_refused(one_rank: Any):
    p = nn.Parameter(torch.ones(3))
    with pytest.raises(RuntimeError, match=r"optimizer_class=functools.partial\(AdamPlus, process_group="):
        ZeroRedundancyOptimizer([p], optimizer_class=AdamPlus, lr=0.1)
    joined: Any = partial(AdamPlus, process_group=one_rank)
    ZeroRedundancyOptimizer([p], optimizer_class=joined, lr=0.1)


def test_a_process_group_needs_the_global_norm():
    group = torch.distributed.ProcessGroup(0, 1)  # pyright: ignore[reportCallIssue]
    with pytest.raises(ValueError, match='needs norm_scope="global"'):
        AdamPlus([nn.Parameter(torch.ones(1))], norm_scope="tensor", process_group=group)


def test_a_copy_without_its_process_group_is_refused():
    """A copy without the group would silently train with the wrong norm."""
    group = torch.distributed.ProcessGroup(0, 1)  # pyright: ignore[reportCallIssue]
    optimizer = AdamPlus([nn.Parameter(torch.ones(1))], process_group=group)
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(optimizer)


def test_a_differentiable_step_of_a_dtensor_is_refused(one_rank: Any):
    mesh = dist.init_device_mesh("cpu", (1,))
    p = nn.Parameter(distribute_tensor(torch.ones(3), mesh, [Shard(0)]))
    optimizer = AdamPlus([p], differentiable=True)
    p.grad = p.detach().clone()
    with pytest.raises(RuntimeError, match="is a DTensor, which differentiable"):
        optimizer.step()


@pytest.mark.parametrize("execution", [{"foreach": False}, {}, {"fused": True}])
def test_a_mesh_of_one_rank_sends_no_message(one_rank: Any, execution: Any, monkeypatch: pytest.MonkeyPatch):
    """Gradients of another placement and replaced local tensors are used as they are."""
    monkeypatch.setattr(dist, "all_reduce", None)
    mesh = dist.init_device_mesh("cpu", (1,))
    values_ = [torch.randn(5, 3), torch.randn(4)]
    split = AdamPlus(
        [
            nn.Parameter(distribute_tensor(v, mesh, [at]))
            for v, at in zip(values_, (Shard(0), Replicate()), strict=True)
        ],
        **execution,
    )
    plain = AdamPlus([nn.Parameter(v.clone()) for v in values_], **execution)
    ps: list[Any] = split.param_groups[0]["params"]
    for i in range(6):
        grads = [torch.randn_like(v) for v in values_]
        give(plain, grads)
        for p, g in zip(ps, grads, strict=True):
            p.grad = distribute_tensor(g, mesh, [Replicate() if i == 3 else p.placements[0]])
        if i == 4:
            ps[0]._local_tensor = ps[0]._local_tensor.clone()  # as FSDP2 does after `module.to()`
        split.step()
        plain.step()
    assert split._ranks is None
    assert difference([p._local_tensor for p in ps], values(plain)) == 0
    assert split.stats() == plain.stats()


def test_a_fused_step_of_dtensors_needs_the_global_norm(one_rank: Any):
    mesh = dist.init_device_mesh("cpu", (1,))
    p = nn.Parameter(distribute_tensor(torch.ones(3), mesh, [Shard(0)]))
    with pytest.raises(RuntimeError, match="is a DTensor, and norm_scope is 'tensor'"):
        AdamPlus([p], norm_scope="tensor", fused=True)


def test_nothing_is_sent_where_no_message_can_be_read(one_rank: Any, monkeypatch: pytest.MonkeyPatch):
    """Under torch.compile and while a CUDA graph is captured, the layout is read and not compared with other ranks."""
    monkeypatch.setattr(dist, "all_reduce", None)
    groups = [{"params": [nn.Parameter(torch.ones(3))], "norm_scope": "global", "skip_nonfinite": False}]
    joint = Joint(groups, one_rank)
    joint.look(groups, one_rank, silently=True)
    assert joint.is_for(groups, one_rank)
    with pytest.raises(TypeError):
        joint.look(groups, one_rank, silently=False)


def test_a_message_is_on_a_device_on_which_its_group_can_sum(one_rank: Any, monkeypatch: pytest.MonkeyPatch):
    """Parameters may be offloaded to the CPU while the group is one of GPUs."""
    joint = Joint([{"params": [], "norm_scope": "global"}], one_rank)
    joint.devices = ["meta"]
    seen: list[str] = []
    monkeypatch.setattr(dist, "all_reduce", lambda message, group: seen.append(message.device.type))
    monkeypatch.setattr(Joint, "check", lambda *_: None)
    joint.decline(True)
    assert seen == ["meta"]


def test_errors_of_other_ranks_are_checked_on_an_accelerator_without_waiting(
    one_rank: Any, monkeypatch: pytest.MonkeyPatch
):
    asserted: list[str] = []
    monkeypatch.setattr(torch, "_assert_async", lambda condition, text: asserted.append(text))
    Joint([{"params": [], "norm_scope": "global"}], one_rank).check(torch.ones(3, device="meta"))
    assert "another rank cannot take this step" in asserted[0]
