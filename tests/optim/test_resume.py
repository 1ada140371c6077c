"""A resumed run has the bits of one that was not interrupted."""

import copy
import io
from typing import Any

import pytest
import torch
from cases import EXECUTIONS, FAMILY, difference, small_model, through_a_file, train

from adamplus import AdamPlus

SETTINGS: dict[str, Any] = {"lr": 0.05, "weight_decay": 1e-3}


def assert_same_bits(a: torch.nn.Module, b: torch.nn.Module) -> None:
    for x, y in zip(a.parameters(), b.parameters(), strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("after", EXECUTIONS)
@pytest.mark.parametrize("before", EXECUTIONS)
@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", FAMILY)
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(name: str, mode: str, before: str, after: str):
    cls = FAMILY[name][0]
    model = small_model()
    optimizer = cls(model.parameters(), **SETTINGS, **EXECUTIONS[before])
    optimizer.follow(model)
    train(model, optimizer, range(10))
    model.train(mode == "train")
    saved = through_a_file({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    model.train()
    train(model, optimizer, range(10, 20))

    again = small_model(seed=1)
    resumed = cls(again.parameters(), lr=9.0, **EXECUTIONS[after])
    again.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["optimizer"])
    assert resumed.training == (mode == "train")
    resumed.train()
    train(again, resumed, range(10, 20))

    assert_same_bits(model, again)
    assert_same_bits_of_state(optimizer, resumed)


def assert_same_bits_of_state(a: AdamPlus, b: AdamPlus) -> None:
    for x, y in zip(a.state.values(), b.state.values(), strict=True):
        assert {k: v.dtype for k, v in x.items()} == {k: v.dtype for k, v in y.items()}
        assert all(torch.equal(x[key], y[key]) for key in x)
    # float64 scalars: Python's arithmetic and a tensor's may differ in the last bit, far below float32's
    assert a.stats() == pytest.approx(b.stats(), rel=1e-15)


def test_the_execution_can_change_at_any_step():
    model, twin = small_model(), small_model()
    optimizer, steady = AdamPlus(model.parameters()), AdamPlus(twin.parameters())
    for i in range(12):
        optimizer.param_groups[0]["foreach"] = (None, False, True)[i % 3]
        train(model, optimizer, range(i, i + 1))
    train(twin, steady, range(12))
    assert_same_bits(model, twin)


def test_the_checkpoint_holds_w_when_saved_in_eval_mode():
    model = small_model()
    optimizer = AdamPlus(model.parameters())
    optimizer.follow(model)
    train(model, optimizer, range(5))
    offset = {p: s["offset"] * s["z"] for p, s in optimizer.state.items()}
    w = [(p + offset[p]).detach() for p in model.parameters()]
    assert difference(list(model.eval().state_dict().values()), w) <= 2e-7


def test_loading_keeps_the_execution():
    """A checkpoint of one machine must not decide which execution another machine uses."""
    model = small_model()
    saved = AdamPlus(model.parameters(), foreach=True, capturable=True).state_dict()
    optimizer = AdamPlus(model.parameters(), foreach=False)
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["foreach"] is False
    assert optimizer.param_groups[0]["capturable"] is False


def test_loading_copies_the_loaded_tensors():
    model = small_model()
    first = AdamPlus(model.parameters())
    train(model, first, range(3))
    second = AdamPlus(model.parameters())
    second.load_state_dict(first.state_dict())
    before = copy.deepcopy(second.state_dict())
    train(model, first, range(3, 6))
    for i, state in second.state_dict()["state"].items():
        assert all(torch.equal(state[key], before["state"][i][key]) for key in state)
    assert torch.equal(second.param_groups[0]["record"], before["param_groups"][0]["record"])


def test_load_hooks_see_and_change_the_loaded_state():
    model = small_model()
    optimizer = AdamPlus(model.parameters())
    train(model, optimizer, range(3))
    saved = copy.deepcopy(optimizer.state_dict())
    loaded = AdamPlus(model.parameters())
    seen: list[Any] = []

    def halve(_: Any, state_dict: dict[str, Any]) -> dict[str, Any]:
        state = {i: {**s, "z": s["z"] / 2} for i, s in state_dict["state"].items()}
        return {**state_dict, "state": state}

    loaded.register_load_state_dict_pre_hook(halve)
    loaded.register_load_state_dict_post_hook(lambda o: seen.append(next(iter(o.state.values()))["z"].clone()))
    loaded.load_state_dict(saved)
    assert torch.equal(seen[0], saved["state"][0]["z"] / 2)


def test_a_checkpoint_from_before_a_setting_existed_still_loads():
    model = small_model()
    optimizer = AdamPlus(model.parameters())
    train(model, optimizer, range(2))
    saved = copy.deepcopy(optimizer.state_dict())
    del saved["param_groups"][0]["state_dtype"]
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["state_dtype"] is None


def test_a_parameter_without_state_has_none_after_loading():
    model = small_model()
    optimizer = AdamPlus(model.parameters())
    next(model.parameters()).requires_grad_(False)
    train(model, optimizer, range(2))
    loaded = AdamPlus(model.parameters())
    loaded.load_state_dict(through_a_file(optimizer.state_dict()))
    assert len(loaded.state) == len(list(model.parameters())) - 1


def test_a_pickled_and_a_deep_copy_continue_with_the_same_bits():
    model = small_model()
    optimizer = AdamPlus(model.parameters(), lr=torch.tensor(0.05))
    train(model, optimizer, range(4))
    both = copy.deepcopy({"model": model, "optimizer": optimizer})
    buffer = io.BytesIO()
    torch.save({"model": model, "optimizer": optimizer}, buffer)
    buffer.seek(0)
    pickled = torch.load(buffer, weights_only=False)
    for twin in (both, pickled):
        train(twin["model"], twin["optimizer"], range(4, 8))
    train(model, optimizer, range(4, 8))
    assert_same_bits(model, both["model"])
    assert_same_bits(model, pickled["model"])
