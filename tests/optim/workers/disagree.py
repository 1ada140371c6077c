"""Worker of several ranks: if ranks cannot form one vector, each raises with the reason, and none waits for ever."""

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from splits import EXECUTIONS, RANK, SETTINGS, WORLD, explicit, fsdp, like
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from adamplus import AdamPlus
from adamplus.optim._layout import local


def expect(message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()


def give(optimizer: AdamPlus, seed: int) -> None:
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for p, g in zip(params, explicit(params, seed), strict=True):
        p.grad = like(p, g)


def some_ranks_in_eval_mode() -> None:
    for name, execution in EXECUTIONS.items():
        model = fsdp()[1]
        optimizer = AdamPlus(model.parameters(), **SETTINGS, **execution)
        for first in (True, False):  # before any step, too
            give(optimizer, 0)
            optimizer.train(RANK != WORLD - 1)
            expect(
                r"step\(\) in eval mode" if RANK == WORLD - 1 else r"not all can take this step: 1 in eval mode",
                optimizer.step,
            )
            if name == "plain" and RANK != WORLD - 1:  # which writes while it computes
                for call in (optimizer.eval, optimizer.state_dict):
                    expect("broke off", call)
            if name == "plain":
                optimizer = AdamPlus(fsdp()[1].parameters(), **SETTINGS, **execution)
            optimizer.train()
            if first:
                give(optimizer, 1)
                optimizer.step()
                assert optimizer.stats().step == 1


def some_ranks_in_eval_mode_and_two_messages() -> None:
    """The second message, with norms of tensors, is not sent if the first says that a rank cannot step."""
    flat = init_device_mesh("cpu", (WORLD,))
    square = init_device_mesh("cpu", (WORLD // 2, 2))
    params = [
        nn.Parameter(distribute_tensor(torch.ones(4, 2), square, [Replicate(), Shard(0)])),
        nn.Parameter(distribute_tensor(torch.ones(4, 2), flat, [Shard(0)])),
    ]
    optimizer = AdamPlus(params, norm_scope="tensor")
    for _ in range(2):
        give(optimizer, 0)
        optimizer.train(RANK != WORLD - 1)
        expect("in eval mode", optimizer.step)
        optimizer.add_param_group({"params": [nn.Parameter(distribute_tensor(torch.ones(4), flat, [Shard(0)]))]})


def a_closure_of_a_rank_in_eval_mode() -> None:
    """The closure runs, because other ranks wait in theirs. With a single process it does not run."""
    run, model, mine = fsdp()
    optimizer = AdamPlus(model.parameters())
    optimizer.train(RANK != 0)

    def closure() -> float:
        loss = run(mine(torch.ones(8, 5))).square().mean()
        loss.backward()
        return loss.item()

    expect("in eval mode", lambda: optimizer.step(closure))
    alone = AdamPlus([nn.Parameter(torch.ones(2))]).eval()
    expect("in eval mode", lambda: alone.step(lambda: 1 / 0))


def gradients_and_parameters_of_other_kinds() -> None:
    mesh = init_device_mesh("cpu", (WORLD,))
    for execution in EXECUTIONS.values():
        p = nn.Parameter(torch.ones(4))
        optimizer = AdamPlus([p], process_group=dist.group.WORLD, **execution)
        p.grad = DTensor.from_local(torch.ones(4), mesh, [Partial()])
        expect("make them alike", optimizer.step)


def a_rank_with_an_error_of_its_own() -> None:
    params = [nn.Parameter(torch.ones(3))]
    for execution in EXECUTIONS.values():
        optimizer = AdamPlus(params, **SETTINGS, process_group=dist.group.WORLD, **execution)
        params[0].grad = torch.ones(3).to_sparse() if RANK == 0 else torch.ones(3)
        expect("sparse gradient" if RANK == 0 else "1 with an error", optimizer.step)


def groups_that_are_not_the_same() -> None:
    """Each rank waits in its own group for the other ranks until the timeout of that group."""
    groups: list[Any] = [dist.new_group(timeout=timedelta(seconds=3)) for _ in range(WORLD)]
    optimizer = AdamPlus([nn.Parameter(torch.ones(3))], process_group=groups[RANK])
    give(optimizer, 0)
    expect(r"the norm over the ranks \[0, 1.*was not summed up.*process_group of the same ranks", optimizer.step)


def meshes_and_groups_of_other_ranks() -> None:
    some = DeviceMesh("cpu", list(range(WORLD - 1)))
    optimizer = AdamPlus([nn.Parameter(distribute_tensor(torch.ones(4), some, [Shard(0)]))])
    give(optimizer, 0)
    for _ in range(2):  # and again: what was refused once is not taken the next time
        expect(
            f"and this is rank {RANK}"
            if RANK == WORLD - 1
            else f"there are {WORLD} ranks: the others may have parameters",
            optimizer.step,
        )
    joined = AdamPlus(
        [nn.Parameter(distribute_tensor(torch.ones(4), some, [Shard(0)]))], process_group=dist.group.WORLD
    )
    give(joined, 0)
    for _ in range(2):
        expect(f"and this is rank {RANK}" if RANK == WORLD - 1 else "1 with an error", joined.step)

    inner: Any = dist.new_group([0])
    mine = [nn.Parameter(distribute_tensor(torch.ones(4), init_device_mesh("cpu", (WORLD,)), [Shard(0)]))]
    if RANK == 0:
        optimizer = AdamPlus(mine, process_group=inner)
        mine[0].grad = mine[0].detach().clone()
        expect(r"process_group has the ranks \[0\]", optimizer.step)
    else:
        expect("does not contain this rank", lambda: AdamPlus(mine, process_group=inner))

    whole = init_device_mesh("cpu", (WORLD,))
    without_value: Any = nn.Parameter(DTensor.from_local(torch.ones(2), whole, [Partial()]))
    optimizer = AdamPlus([without_value])
    without_value.grad = without_value.detach().clone()
    expect("has the placements", optimizer.step)


def param_groups_that_differ() -> None:
    """In number, scope or shapes, from the first step or after one rank has changed its own: all ranks raise."""
    mesh = init_device_mesh("cpu", (WORLD,))

    def parameter(*shape: int) -> Any:
        return nn.Parameter(distribute_tensor(torch.ones(shape), mesh, [Shard(0)]))

    first, second, third, other = parameter(4, 2), parameter(4), parameter(3), parameter(4)
    plain = nn.Parameter(torch.ones(3))
    for p in (first, second, third, other, plain):
        p.grad = p.detach().clone()
    layouts: list[Any] = [
        [{"params": [first, second, third]}],
        [{"params": [first]}, {"params": [second, third]}],
        [{"params": [first, second]}],
        [{"params": [first, second, plain]}],
        [{"params": [first, second, third], "norm_scope": "group"}],
        [{"params": [first, second, third], "norm_scope": "tensor"}],
    ]
    for name, execution in EXECUTIONS.items():
        for one, two in [(a, b) for a in layouts for b in layouts if a is not b]:
            groups = two if RANK == WORLD - 1 else one
            if name == "fused" and any("norm_scope" in group for group in [*one, *two]):
                continue
            optimizer = AdamPlus([dict(group) for group in groups], **SETTINGS, **execution)
            before = [p.detach().clone() for p in (first, second, third, plain)]
            for _ in range(2):
                expect("have different parameters in their param groups", optimizer.step)
            after = [p.detach() for p in (first, second, third, plain)]
            assert all(map(torch.equal, map(local, before), map(local, after))), name
            optimizer.eval()  # nothing was written, so nothing is torn

        optimizer = AdamPlus([first, second], **execution, skip_nonfinite=RANK == 0)
        expect("same groups, norm_scope and skip_nonfinite included", optimizer.step)

        for alike in (True, False):  # another parameter of the same shape cannot be seen in the layout
            optimizer = AdamPlus([first, second], **SETTINGS, **execution)
            optimizer.step()
            if RANK == 0 and alike:
                optimizer.param_groups[0]["params"][1] = other
            elif RANK == 0:
                optimizer.add_param_group({"params": [third]})
            expect("have different parameters in their param groups", optimizer.step)
            if name == "plain":  # the other ranks were in a step, and have written z already
                expect("with an error" if RANK == 0 else "broke off", optimizer.step)
            else:
                expect("have different parameters in their param groups", optimizer.step)


CASES = (
    param_groups_that_differ,
    some_ranks_in_eval_mode,
    some_ranks_in_eval_mode_and_two_messages,
    a_closure_of_a_rank_in_eval_mode,
    gradients_and_parameters_of_other_kinds,
    a_rank_with_an_error_of_its_own,
    meshes_and_groups_of_other_ranks,
    groups_that_are_not_the_same,
)

if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    for case in CASES:
        if not sys.argv[1:] or case.__name__ in sys.argv[1:]:
            case()
            print(RANK, case.__name__, flush=True)
    os._exit(0)  # gloo's threads may abort the interpreter on its way out, after everything was shown
