"""Train and eval mode: what the parameters hold, and what switches them."""

import copy
import gc
import io
import pickle
import sys
import weakref
from typing import Any

import pytest
import torch
from cases import difference, give, params, small_model, train, values
from torch import nn

from adamplus import AdamPlus, AdamPlusReference, update_bn
from adamplus.optim._execution import native, plain
from adamplus.optim._execution.fused import tables


def trained(steps: int = 6, **settings: Any) -> tuple[nn.Sequential, AdamPlus]:
    model = small_model(dtype=torch.float64)
    optimizer = AdamPlus(model.parameters(), **{"lr": 0.1, **settings})
    train(model, optimizer, range(steps))
    return model, optimizer


def reference_points(steps: int = 6) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """w and ŵ after as many steps of the reference."""
    model = small_model(dtype=torch.float64)
    optimizer = AdamPlusReference(model.parameters())
    train(model, optimizer, range(steps))
    states = [optimizer.state[p] for p in params(optimizer)]
    return [s["w"] for s in states], [s["w_hat"] for s in states]


def test_train_holds_w_hat_and_eval_holds_w():
    _, optimizer = trained()
    w, w_hat = reference_points()
    assert difference(values(optimizer), w_hat) <= 1e-14
    optimizer.eval()
    assert difference(values(optimizer), w) <= 1e-14
    optimizer.train()
    assert difference(values(optimizer), w_hat) <= 1e-14


def test_a_new_optimizer_is_in_train_mode_and_switching_it_moves_nothing():
    model = small_model()
    optimizer = AdamPlus(model.parameters(), lr=0.1)
    before = values(optimizer)
    assert optimizer.training
    assert not optimizer.eval().training
    assert all(torch.equal(a, b) for a, b in zip(before, values(optimizer), strict=True))


def test_both_switches_are_idempotent_to_the_bit():
    _, optimizer = trained()
    for switch in (optimizer.eval, optimizer.train):
        switch()
        once = values(optimizer)
        switch()
        assert all(torch.equal(a, b) for a, b in zip(once, values(optimizer), strict=True))


def test_averaged_comes_back_from_an_exception_and_stays_in_eval_mode():
    _, optimizer = trained()
    w, w_hat = reference_points()
    inside = []

    def fail() -> None:
        inside.append(difference(values(optimizer), w))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), optimizer.averaged():
        fail()
    assert inside[0] <= 1e-14
    assert optimizer.training
    assert difference(values(optimizer), w_hat) <= 1e-14
    optimizer.eval()
    with optimizer.averaged():
        pass
    assert not optimizer.training


def test_following_switches_with_the_model():
    model, optimizer = trained()
    w, w_hat = reference_points()
    optimizer.follow(model)
    assert model.eval() is model
    assert difference(list(model.state_dict().values()), w) <= 1e-14
    assert model.train() is model
    assert difference(values(optimizer), w_hat) <= 1e-14
    model.train(False)
    assert not optimizer.training


def test_following_starts_in_the_mode_of_the_model():
    model, optimizer = trained()
    model.eval()
    optimizer.follow(model)
    assert not optimizer.training


def test_following_through_wrappers_of_wrappers():
    model, optimizer = trained()
    wrapped: Any = torch.compile(nn.DataParallel(torch.compile(model, backend="eager")), backend="eager")  # pyright: ignore
    optimizer.follow(wrapped)
    wrapped.eval()
    assert not optimizer.training
    model.train()
    assert optimizer.training


def test_a_part_that_is_called_module_is_no_wrapper():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module, self.head = nn.Linear(6, 3), nn.Linear(3, 1)

    model = Net()
    optimizer = AdamPlus(model.parameters(), lr=0.1)
    optimizer.follow(model)
    model.module.eval()
    assert optimizer.training
    model.eval()
    model.module.train()
    assert not optimizer.training


def test_a_frozen_submodule_switches_nothing():
    model, optimizer = trained()
    optimizer.follow(model)
    model[0].eval()
    assert optimizer.training


@pytest.mark.parametrize("order", ["follow the model, then compile", "compile, then follow the wrapper"])
def test_following_through_torch_compile(order: str):
    model, optimizer = trained()
    compiled: Any = torch.compile(model, backend="eager")
    optimizer.follow(model if order.startswith("follow") else compiled)
    compiled.eval()
    assert not optimizer.training
    assert difference(values(optimizer), reference_points()[0]) <= 1e-14
    x = torch.randn(3, 6, dtype=torch.float64)
    assert torch.equal(compiled(x), model(x))
    compiled.train()
    assert optimizer.training


def test_a_copy_and_a_pickle_of_a_followed_model_are_not_followed():
    model, optimizer = trained()
    optimizer.follow(model)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(buffer, weights_only=False)):
        assert twin.eval() is twin
        assert not twin.training
        assert optimizer.training
        assert model.training


def test_an_optimizer_of_the_same_parameters_takes_the_followers_place():
    model, first = trained()
    second = AdamPlus(model.parameters(), lr=0.1)
    first.follow(model)
    second.follow(model)
    model.eval()
    assert first.training
    assert not second.training


def test_optimizers_of_different_parameters_follow_together():
    model = small_model()
    first, second = AdamPlus(model[0].parameters(), lr=0.1), AdamPlus(model[2].parameters())
    called = []
    vars(model)["train"] = lambda mode=True: called.append(mode) or nn.Module.train(model, mode)  # another library's
    first.follow(model)
    second.follow(model)
    model.eval()
    assert (model.training, first.training, second.training, called) == (False, False, False, [False])
    first.follow(model)  # again: once is enough
    model.train()
    assert (model.training, first.training, second.training) == (True, True, True)


def test_a_class_swapped_later_keeps_following():
    """What fully_shard does to a module: another class over the same instance."""
    model, optimizer = trained()
    optimizer.follow(model)
    model.__class__ = type("Sharded", (nn.Sequential,), {})
    model.eval()
    assert not optimizer.training


def test_groups_added_in_eval_mode_are_in_eval_mode():
    _, optimizer = trained()
    optimizer.eval()
    p = nn.Parameter(torch.ones(2, dtype=torch.float64))
    optimizer.add_param_group({"params": [p]})
    assert optimizer.param_groups[1]["training"] is False
    optimizer.train()
    assert optimizer.param_groups[1]["training"] is True
    assert torch.equal(p, torch.ones_like(p))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.outer = nn.Linear(8, 1)
        self.drop = nn.Dropout(0.5)
        self.untracked = nn.BatchNorm1d(8, track_running_stats=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(self.drop(self.untracked(self.norm(self.inner(x)))))


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("follow", [True, False])
def test_update_bn_measures_at_w_and_leaves_the_rest_alone(mode: bool, follow: bool):
    model = Net()
    optimizer = AdamPlus(model.parameters(), lr=0.1)
    if follow:
        optimizer.follow(model)
    train(model, optimizer, range(5))
    model.train(mode)
    at = optimizer.training
    model.drop.eval()
    batches = [(torch.randn(32, 6), torch.zeros(32)) for _ in range(4)]
    update_bn(batches, model, optimizer)
    with optimizer.averaged(), torch.no_grad():
        hidden = [model.inner(x) for x, _ in batches]
    mean = torch.stack([h.mean(0) for h in hidden]).mean(0)
    variance = torch.stack([h.var(0) for h in hidden]).mean(0)
    torch.testing.assert_close(model.norm.running_mean, mean)
    torch.testing.assert_close(model.norm.running_var, variance)
    assert model.norm.momentum == 0.1
    assert (model.training, model.norm.training, model.drop.training) == (mode, mode, False)
    assert optimizer.training is at


def test_update_bn_averages_over_passes_of_a_layer_that_is_used_twice():
    norm = nn.BatchNorm1d(3)
    model = nn.Sequential(norm, nn.Linear(3, 3), norm)
    optimizer = AdamPlus(model.parameters(), lr=0.1)
    norm(torch.randn(8, 3))
    count = norm.num_batches_tracked
    batches = [torch.randn(8, 3) for _ in range(3)]
    update_bn(batches, model, optimizer)
    assert norm.num_batches_tracked is count  # others may hold it: DDP, a graph
    assert count == 6
    assert norm.running_mean is not None
    expected = [x.mean(0) for x in batches]
    normed = [(x - x.mean(0)) / (x.var(0, unbiased=False) + norm.eps).sqrt() for x in batches]
    with torch.no_grad():
        expected += [model[1](x * norm.weight + norm.bias).mean(0) for x in normed]
    torch.testing.assert_close(norm.running_mean, torch.stack(expected).mean(0))


def test_update_bn_takes_tensors_and_a_device_and_refuses_an_empty_loader():
    model = Net()
    optimizer = AdamPlus(model.parameters(), lr=0.1)
    update_bn([torch.randn(8, 6)], model, optimizer, device="cpu")
    assert model.norm.running_mean is not None
    before = model.norm.running_mean.clone()
    with pytest.raises(ValueError, match="without batches"):
        update_bn([], model, optimizer)
    assert torch.equal(model.norm.running_mean, before)
    update_bn([], small_model(), optimizer)  # no BatchNorm, nothing to do


def test_update_bn_comes_back_from_an_exception():
    model = Net()
    optimizer = AdamPlus(model.parameters(), lr=0.1)
    with pytest.raises(RuntimeError):
        update_bn([torch.randn(8, 5)], model, optimizer)
    assert model.training
    assert model.norm.momentum == 0.1
    assert optimizer.training


@pytest.mark.parametrize("bad", [0, 1])
def test_update_bn_leaves_statistics_as_they_were_when_a_batch_fails(bad: int):
    model = Net()
    optimizer = AdamPlus(model.parameters(), lr=0.1)
    train(model, optimizer, range(3))
    before = {name: buffer.clone() for name, buffer in model.norm.named_buffers()}
    batches = [torch.randn(8, 6), torch.randn(8, 6)]
    batches[bad] = torch.randn(8, 5)
    with pytest.raises(RuntimeError):
        update_bn(batches, model, optimizer)
    assert all(torch.equal(before[name], buffer) for name, buffer in model.norm.named_buffers())


def test_stats_count_steps_of_any_group():
    a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = AdamPlus([{"params": [a]}, {"params": [b]}])
    b.grad = torch.ones(1)
    optimizer.step()
    assert optimizer.stats().step == 1


def test_stats_tell_the_last_step_and_the_sum():
    model, optimizer = small_model(dtype=torch.float64), None
    optimizer = AdamPlus(model.parameters(), lr=0.2, beta=0.3)
    assert optimizer.stats() == (0, 0.0, 0.0, 0.0, 0)
    total = 0.0
    for i in range(5):
        train(model, optimizer, range(i, i + 1))
        norm = sum(float(s["z"].square().sum()) for s in optimizer.state.values()) ** 0.5
        total += norm
        optimizer.param_groups[0]["lr"] *= 0.5  # η is that of the step, not of the settings now
        assert optimizer.stats() == pytest.approx((i + 1, norm, 0.2 * 0.5**i * 0.3 / norm**0.5, total, 0), rel=1e-12)


def test_stats_of_a_group_and_of_single_tensors():
    a, b = (nn.Parameter(torch.zeros(1, dtype=torch.float64)) for _ in range(2))
    optimizer = AdamPlus([{"params": [a], "lr": 1.0}, {"params": [b], "lr": 2.0}], beta=1.0, norm_scope="group")
    a.grad, b.grad = torch.full_like(a, 4.0), torch.full_like(b, 9.0)
    optimizer.step()
    assert optimizer.stats() == (1, 4.0, 0.5, 4.0, 0)
    assert optimizer.stats(group=1) == (1, 9.0, 2 / 3, 9.0, 0)
    optimizer = AdamPlus([a, b], lr=1.0, beta=1.0, norm_scope="tensor")
    a.grad, b.grad = torch.full_like(a, 3.0), torch.full_like(b, 4.0)
    optimizer.step()
    assert optimizer.stats() == pytest.approx((1, 5.0, 3**-0.5, 5.0, 0))


def test_accelerate_switches_under_the_same_names():
    from accelerate import Accelerator

    model, optimizer = trained()
    w, w_hat = reference_points()
    accelerator = Accelerator(cpu=True)
    wrapped = accelerator.prepare(optimizer)
    wrapped.eval()
    assert difference(values(optimizer), w) <= 1e-14
    wrapped.train()
    assert difference(values(optimizer), w_hat) <= 1e-14
    loss = model(torch.ones(1, 6, dtype=torch.float64)).sum()
    accelerator.backward(loss)
    wrapped.step()
    assert optimizer.stats().step == 7


def test_switching_after_the_model_is_gone_or_before_fsdp_was_there(monkeypatch: pytest.MonkeyPatch):
    """A followed model is known, so that FSDP2 can drop what it has gathered; there need be neither."""
    model = small_model()
    optimizer = AdamPlus(model.parameters(), lr=0.1)
    optimizer.follow(model)
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "torch.distributed.fsdp", raising=False)
        assert not optimizer.eval().training
    (known,) = optimizer._known
    del model
    gc.collect()
    assert known() is None
    assert optimizer.train().training


def test_a_replaced_follower_is_gone_from_behind_others_too():
    model: Any = small_model(dtype=torch.float64)
    first, other = AdamPlus(model[0].parameters(), lr=0.1), AdamPlus(model[2].parameters())
    second = AdamPlus(model[0].parameters(), lr=0.1)
    for optimizer in (first, other, second):
        optimizer.follow(model)
    for optimizer, steps in ((first, range(3)), (second, range(3, 6))):
        train(model, optimizer, steps)
    state = second.state[model[0].weight]
    w = model[0].weight.detach() + state["offset"] * state["z"]
    model.eval()
    assert (first.training, second.training, other.training) == (True, False, False)
    assert difference([model[0].weight.detach()], [w]) <= 1e-14


@pytest.mark.parametrize("nested", [False, True])
def test_a_followed_model_is_freed_with_its_last_reference(nested: bool):
    model, optimizer = trained()
    optimizer.follow(model)
    if nested:
        AdamPlus(model[0].parameters(), lr=0.1).follow(model)
    held, switch = weakref.ref(model), model.train
    gc.disable()
    try:
        del model
        assert held() is None
    finally:
        gc.enable()
    with pytest.raises(ReferenceError, match="no longer exists"):
        switch()
    assert optimizer.training


@pytest.mark.parametrize("followed", [False, True])
@pytest.mark.parametrize("switch", ["eval", "train", None])
@pytest.mark.parametrize("before", ["eval", "train"])
def test_after_averaged_parameters_are_where_a_followed_model_says(followed: bool, switch: str | None, before: str):
    model, optimizer = trained()
    getattr(model, before)()
    getattr(optimizer, before)()
    if followed:
        optimizer.follow(model)
    with optimizer.averaged():
        if switch is not None:
            getattr(model, switch)()
    expected = switch if followed and switch is not None else before
    assert optimizer.training == (expected == "train")
    if followed:
        assert optimizer.training == model.training
    w, w_hat = reference_points()
    assert difference(values(optimizer), w_hat if optimizer.training else w) <= 1e-14


def test_a_switch_that_cannot_be_made_moves_nothing():
    model: Any
    model, optimizer = trained()
    kept, before = model[2].weight.data, values(optimizer)
    model[2].weight.data = torch.zeros(3, 3, dtype=torch.float64)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="it was given other data since its last step"):
            optimizer.eval()
    model[2].weight.data = kept
    assert optimizer.training
    assert all(torch.equal(a, b) for a, b in zip(before, values(optimizer), strict=True))
    optimizer.eval()
    assert difference(values(optimizer), reference_points()[0]) <= 1e-14


@pytest.mark.parametrize("what", ["step", "switch"])
@pytest.mark.parametrize("execution", [{"foreach": False}, {"foreach": True}, {"fused": True}])
def test_what_is_interrupted_in_its_middle_is_refused_from_then_on(
    what: str, execution: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """Ctrl-C, when some have moved; a checkpoint makes it whole."""
    model = small_model()
    optimizer = AdamPlus(model.parameters(), **execution)
    train(model, optimizer, range(3))
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    where = {"foreach": False}, {"foreach": True}
    owner: Any = (plain.Plain, native.Table)[where.index(execution)] if execution in where else tables.Tables
    name = "add_scaled" if owner is plain.Plain else "update" if owner is native.Table else "second"
    with monkeypatch.context() as patch:
        if what == "switch":
            patch.setattr(plain.Plain, "add_scaled", interrupted)
        else:
            patch.setattr(owner, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(model, optimizer, range(3, 4)) if what == "step" else optimizer.eval()
    for one in (optimizer, copy.deepcopy(optimizer)):
        for call in (one.step, one.eval, one.state_dict):
            with pytest.raises(RuntimeError, match="broke off"):
                call()
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    train(model, optimizer, range(3, 5))


def test_a_mode_that_others_wrote_into_groups_is_refused_and_comes_back():
    """As ZeroRedundancyOptimizer does, which copies its own groups' settings."""
    _, optimizer = trained()
    optimizer.eval()
    optimizer.param_groups[0]["training"] = True
    with pytest.raises(RuntimeError, match="eval mode"):
        optimizer.step()
    with pytest.raises(RuntimeError, match=r"a group's mode was set to training=True .*\(ZeroRedundancyOptimizer"):
        optimizer.state_dict()
    optimizer.train()
    assert difference(values(optimizer), reference_points()[1]) <= 1e-14
    optimizer.state_dict()
    optimizer.param_groups[0]["training"] = False
    with pytest.raises(RuntimeError, match="a group's mode was set to training=False"):
        optimizer.step()


def test_the_mode_goes_along_with_copies():
    _, optimizer = trained()
    optimizer.eval()
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert not twin.training
        twin.train()
        assert difference(values(twin), reference_points()[1]) <= 1e-14


def test_stats_read_each_device_once():
    optimizer = AdamPlus([nn.Parameter(torch.ones(2)) for _ in range(30)])
    for _ in range(6):
        give(optimizer, [torch.ones(2)] * 30)
        optimizer.step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        assert optimizer.stats().step == 6
    reads = [event.count for event in profile.key_averages() if event.key == "aten::_local_scalar_dense"]
    assert sum(reads) <= 5  # the five numbers of the record


@pytest.mark.parametrize("how", [{"foreach": False}, {"foreach": True}, {"capturable": True}, {"fused": True}], ids=str)
def test_stats_count_the_steps_and_not_those_of_a_parameter(how: dict[str, Any]):
    for scope, counted in (("global", 9), ("group", 3)):
        settings = {**how, "norm_scope": scope}
        params = [nn.Parameter(torch.ones(2)) for _ in range(3)]
        optimizer = AdamPlus([{"params": [p]} for p in params], lr=0.1, beta=0.5, **settings)
        for i in range(9):
            optimizer.zero_grad()
            params[i % 3].grad = torch.ones(2)
            optimizer.step()
        for group in range(3):
            stats = optimizer.stats(group)
            assert stats.step == counted
            assert stats.norm_sum == pytest.approx(counted * 2**0.5, rel=1e-12)
        assert {int(optimizer.state[p]["step"]) for p in params} == {3}


def test_loading_train_mode_beside_a_model_in_eval_mode_warns():
    model, optimizer = trained()
    checkpoint = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    optimizer.follow(model)
    model.eval()
    model.load_state_dict(checkpoint["model"])
    with pytest.warns(UserWarning, match="train mode was loaded.* in eval mode: its parameters are at ŵ until"):
        optimizer.load_state_dict(checkpoint["optimizer"])
    model.eval()
    assert difference(values(optimizer), reference_points()[0]) <= 1e-14
    model.train()
    optimizer.load_state_dict(optimizer.state_dict())  # without a warning
