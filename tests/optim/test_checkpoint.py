"""torch.distributed.checkpoint: state is read, saved, regrouped and loaded elsewhere, and training continues."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from cases import EXECUTIONS, difference, give, small_model, through_a_file, train, values
from ranks import Run
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

from adamplus import AdamPlus, AdamPlusReference

FLAT = StateDictOptions(flatten_optimizer_state_dict=True)
WORKER = Path(__file__).parent / "workers" / "checkpoint.py"


@pytest.mark.uncovered  # tests of one process and of test_distributed.py run the same lines
def test_a_run_saved_on_two_processes_continues_on_two_and_on_one(run: Run, tmp_path: Path):
    run(2, WORKER, "save+load", tmp_path, "0:99:3")
    run(0, WORKER, "load", tmp_path, "0:99:3")


@pytest.mark.slow
def test_every_way_of_saving_on_two_processes_and_loading_on_one_two_and_four(run: Run, tmp_path: Path):
    run(2, WORKER, "save+load", tmp_path, "0:99:1")
    run(0, WORKER, "load", tmp_path, "0:99:1")
    run(4, WORKER, "load", tmp_path, "0:99:1")


@pytest.mark.slow
def test_saved_on_four_processes_and_loaded_on_two(run: Run, tmp_path: Path):
    run(4, WORKER, "save", tmp_path, "0:99:2")
    run(2, WORKER, "load", tmp_path, "0:99:2")


def test_reading_the_state_of_a_fresh_optimizer_on_two_processes_changes_nothing(run: Run, tmp_path: Path):
    run(2, WORKER, "read", tmp_path, "0:0")


BUILT: dict[str, dict[str, Any]] = {
    **EXECUTIONS,
    "fused": {"fused": True},
    "tensor lr": {"lr": torch.tensor(0.1)},
    "coupled": {"weight_decay": 0.1},
    "decoupled": {"weight_decay": 0.01, "decoupled_weight_decay": True},
    "tensor norms": {"norm_scope": "tensor", "eps": 0.0},
    "bfloat16 state": {"state_dtype": torch.bfloat16},
}


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", BUILT)
def test_reading_the_state_of_a_fresh_optimizer_changes_nothing(name: str, mode: str):
    """DCP has a fresh optimizer step with zero gradients at lr 0; the first step with a gradient is still the first."""
    model, twin = small_model(), small_model()
    optimizer, unread = AdamPlus(model.parameters(), **BUILT[name]), AdamPlus(twin.parameters(), **BUILT[name])
    optimizer.follow(model)
    model.train(mode == "train")
    before = values(optimizer)
    state: Any = get_optimizer_state_dict(model, optimizer)
    assert set(state["state"]) == {name for name, _ in model.named_parameters()}
    assert optimizer.training == (mode == "train")
    assert all(torch.equal(a, b) for a, b in zip(before, values(optimizer), strict=True))
    assert optimizer.stats() == (0, 0.0, 0.0, 0.0, 0)
    assert not any(value.any() for state in optimizer.state.values() for value in state.values())
    model.train()
    train(model, optimizer, range(3))
    train(twin, unread, range(3))
    assert all(torch.equal(a, b) for a, b in zip(values(unread), values(optimizer), strict=True))
    assert optimizer.stats() == unread.stats()


@pytest.mark.parametrize("first", ["lr 0", "gradient 0"])
def test_a_first_step_that_only_lacks_one_of_both_counts(first: str):
    """A warm-up may start at lr 0, and z_0 = g_0 holds there; a gradient may vanish, and z_0 = 0 holds there."""
    torch.manual_seed(1)
    start = torch.randn(5, dtype=torch.float64)
    optimizer = AdamPlus([nn.Parameter(start.clone())], lr=0.1)
    reference = AdamPlusReference([nn.Parameter(start.clone())], lr=0.1)
    for o in (optimizer, reference):
        torch.manual_seed(2)
        for t in range(4):
            o.param_groups[0]["lr"] = 0.0 if first == "lr 0" and t == 0 else 0.1
            give(o, [torch.zeros(5) if first == "gradient 0" and t == 0 else torch.randn(5)])
            o.step()
    assert difference(values(optimizer), values(reference)) <= 1e-14
    assert optimizer.stats().step == 4


def test_a_step_of_lr_0_in_eval_mode_is_refused_if_it_has_a_gradient():
    optimizer = AdamPlus([nn.Parameter(torch.ones(2))], lr=0.0).eval()
    give(optimizer, [torch.ones(2)])
    with pytest.raises(RuntimeError, match=r"step\(\) in eval mode"):
        optimizer.step()
    assert not optimizer.state


def test_a_checkpoint_from_before_there_was_a_look_ahead_has_the_papers():
    model, again = small_model(), small_model()
    optimizer = AdamPlus(model.parameters())
    train(model, optimizer, range(3))
    saved = through_a_file(optimizer.state_dict())
    for group in saved["param_groups"]:
        del group["lookahead"]
    again.load_state_dict(model.state_dict())
    loaded = AdamPlus(again.parameters(), lookahead=1.0)
    loaded.load_state_dict(saved)
    assert loaded.param_groups[0]["lookahead"] is None
    train(model, optimizer, range(3, 6))
    train(again, loaded, range(3, 6))
    assert all(torch.equal(a, b) for a, b in zip(values(optimizer), values(loaded), strict=True))


def grouped(model: nn.Module, *groups: str, **settings: Any) -> AdamPlus:
    named = dict(model.named_parameters())
    return AdamPlus([{"params": [named[name] for name in names.split()]} for names in groups], **settings)


ONE, TWO = ["0.weight 0.bias 2.weight 2.bias"], ["2.bias 0.weight", "2.weight 0.bias"]


@pytest.mark.parametrize("scope", ["global", "group"])
@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("options", [StateDictOptions(), FLAT, StateDictOptions(full_state_dict=True)])
def test_a_group_that_is_split_keeps_the_mode_and_the_global_norms(options: Any, mode: str, scope: Any):
    """torch hands a saved group to one group alone, if it is not flattened: the other one has its own lr."""
    model, again = small_model(), small_model(seed=1)
    optimizer = grouped(model, *ONE, lr=0.1)
    train(model, optimizer, range(3))
    optimizer.train(mode == "train")
    saved = copy.deepcopy(get_optimizer_state_dict(model, optimizer, options=options))
    split = grouped(again, *TWO, lr=0.3, norm_scope=scope)
    set_optimizer_state_dict(again, split, saved, options=options)
    again.load_state_dict(model.state_dict())
    flat = options.flatten_optimizer_state_dict
    assert [group["lr"] for group in split.param_groups] == ([0.1, 0.1] if flat else [0.3, 0.1])
    assert [group["training"] for group in split.param_groups] == [mode == "train"] * 2
    sums = [split.stats(group).norm_sum for group in (0, 1)]
    expected = optimizer.stats().norm_sum
    assert sums == [expected if flat or scope == "global" else 0.0, expected]
    split.train()
    train(again, split, range(3, 4))
    assert split.stats(0).norm_sum == sums[0] + split.stats(0).norm  # counted once, although it was one record


def test_groups_that_are_merged_take_the_settings_of_their_first_parameter():
    model, again = small_model(), small_model(seed=1)
    optimizer = grouped(model, *TWO)
    optimizer.param_groups[0]["lr"] = 0.2
    train(model, optimizer, range(3))
    merged = grouped(again, *ONE)
    set_optimizer_state_dict(again, merged, get_optimizer_state_dict(model, optimizer, options=FLAT), options=FLAT)
    assert merged.param_groups[0]["lr"] == 0.2
    assert merged.stats() == optimizer.stats()


def test_loading_restores_the_dtype_of_z():
    """DCP reads into the existing tensors; the saved setting `state_dtype` has the dtype that they were saved in."""
    model, again = small_model(), small_model()
    optimizer = AdamPlus(model.parameters(), state_dtype=torch.bfloat16)
    train(model, optimizer, range(3))
    saved = copy.deepcopy(optimizer.state_dict())
    for state in saved["state"].values():
        state["z"] = state["z"].float()
    again.load_state_dict(model.state_dict())
    loaded = AdamPlus(again.parameters())
    loaded.load_state_dict(saved)
    assert {state["z"].dtype for state in loaded.state.values()} == {torch.bfloat16}
    train(model, optimizer, range(3, 6))
    train(again, loaded, range(3, 6))
    assert all(torch.equal(a, b) for a, b in zip(values(optimizer), values(loaded), strict=True))
