"""Worker of several ranks: `follow(model)` through the wrappers of a model on several processes."""

import copy
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from adamplus import AdamPlus, update_bn


def following_through_ddp(order: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = AdamPlus(model.parameters())
    if order == "follow first":
        optimizer.follow(model)
    wrapped = DistributedDataParallel(model)
    if order == "wrap first":
        optimizer.follow(wrapped)
    torch.manual_seed(dist.get_rank())
    for _ in range(5):
        optimizer.zero_grad()
        wrapped(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    w_hat = [p.detach().clone() for p in model.parameters()]
    wrapped.eval()
    assert not optimizer.training
    w = [p.detach().clone() for p in model.parameters()]
    assert all(not torch.equal(a, b) for a, b in zip(w, w_hat, strict=True))
    model.train()  # the inner one, as code that knows nothing of the wrapper does
    assert optimizer.training
    for value in w:  # ranks agree: gradients are averaged, and so is the norm's input
        others = [torch.empty_like(value) for _ in range(dist.get_world_size())]
        dist.all_gather(others, value)
        assert all(torch.equal(value, other) for other in others)


def following_through_fully_shard() -> None:
    """Same w as one process with the whole batch: the norm counts every shard once."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)).double()
    single = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)).double()
    single.load_state_dict(model.state_dict())
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model[0], model):  # the last layer is the outermost module's own
        fully_shard(layer, mesh=mesh)
    sharded, alone = AdamPlus(model.parameters()), AdamPlus(single.parameters())
    sharded.follow(model)
    alone.follow(single)
    for step in range(10):
        torch.manual_seed(step)
        x = torch.randn(8, 4, dtype=torch.float64)
        for m, o, batch in ((model, sharded, x.chunk(dist.get_world_size())[dist.get_rank()]), (single, alone, x)):
            o.zero_grad()
            m(batch).square().mean().backward()
            o.step()
            if step % 3 == 0:  # which leaves w in the parameters that the outermost module has gathered
                m.eval()
                with torch.no_grad():
                    m(batch)
                m.train()
    model.eval()
    single.eval()
    for a, b in zip(model.parameters(), single.parameters(), strict=True):
        whole = a.full_tensor()  # pyright: ignore[reportAttributeAccessIssue]
        torch.testing.assert_close(whole, b.detach(), rtol=1e-12, atol=1e-14)


def switched_without_a_backward_pass() -> None:
    """`averaged()` and `update_bn()` evaluate without a backward pass, which would free what was gathered."""
    torch.manual_seed(0)
    layers = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 1)
    model, single = nn.Sequential(*layers).double(), nn.Sequential(*copy.deepcopy(layers)).double()
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    sharded, alone = AdamPlus(model.parameters()), AdamPlus(single.parameters())
    with torch.no_grad():  # the outermost module keeps what it gathered, and has no parameter of the optimizer's
        model.eval()(torch.randn(8, 4, dtype=torch.float64))
        model.train()
    sharded.follow(model)
    for step in range(8):
        torch.manual_seed(step)
        x = torch.randn(8, 4, dtype=torch.float64)
        for m, o in ((model, sharded), (single, alone)):
            o.zero_grad()
            m(x).square().mean().backward()
            o.step()
            if step % 2:
                with o.averaged(), torch.no_grad():
                    m(x)
            elif step % 4:
                update_bn([x], m, o)
    for a, b in zip(model.parameters(), single.parameters(), strict=True):
        torch.testing.assert_close(a.full_tensor(), b, rtol=1e-12, atol=1e-14)  # pyright: ignore[reportAttributeAccessIssue]


if __name__ == "__main__":
    dist.init_process_group("gloo")
    following_through_ddp("follow first")
    following_through_ddp("wrap first")
    following_through_fully_shard()
    switched_without_a_backward_pass()
    dist.barrier()
    os._exit(0)  # gloo's threads may abort the interpreter on its way out, after everything was shown
