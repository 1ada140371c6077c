"""Wrong settings, gradients and state dicts are refused with a helpful message, and change nothing."""

import copy
import math
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from cases import small_model, train, values
from torch import nn

from adamplus import NIGT, AdamPlus, NAdamPlus, SpectralPlus, update_bn
from adamplus.optim._execution import native

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"lr": -0.1}, ValueError, r"lr must be finite and at least 0, got -0.1: to ascend, pass maximize=True"),
    ({"lr": float("nan")}, ValueError, "lr must be finite and at least 0, got nan$"),
    ({"lr": float("inf")}, ValueError, "lr must be finite and at least 0, got inf$"),
    ({"lr": 10**400}, ValueError, "lr must be finite, got an integer that no float can hold"),
    ({"lr": "0.1"}, TypeError, "lr must be a number or a 0-dim tensor, got '0.1'"),
    ({"lr": torch.tensor(-1.0)}, ValueError, "lr must be finite and at least 0, got -1.0"),
    ({"lr": torch.ones(2)}, ValueError, r"Tensor lr must be 1-element, got shape \(2,\)"),
    ({"beta": 0.0}, ValueError, r"beta must be in \(0, 1\], got 0.0"),
    ({"beta": 1.1}, ValueError, r"beta must be in \(0, 1\], got 1.1"),
    ({"beta": torch.tensor(2.0)}, ValueError, r"beta must be in \(0, 1\], got 2.0"),
    ({"beta": (0.9, 0.999)}, TypeError, r"beta must be a number or a 0-dim tensor, got \(0.9, 0.999\)"),
    ({"norm_power": -0.1}, ValueError, r"norm_power must be in \[0, 1\], got -0.1"),
    ({"norm_power": 1.5}, ValueError, r"norm_power must be in \[0, 1\], got 1.5"),
    ({"beta_power": -1.0}, ValueError, "beta_power must be finite and at least 0, got -1.0"),
    ({"eps": -1e-8}, ValueError, "eps must be finite and at least 0, got -1e-08"),
    ({"lookahead": -1.0}, ValueError, "lookahead must be finite and at least 0, or None, got -1.0: it is the number"),
    ({"lookahead": "paper"}, TypeError, "lookahead must be a number or None, got 'paper'"),
    ({"lookahead": torch.tensor(1.0)}, TypeError, "lookahead must be a number or None, got tensor"),
    ({"weight_decay": -1.0}, ValueError, "weight_decay must be finite and at least 0, got -1.0"),
    ({"norm_scope": "layer"}, ValueError, "norm_scope must be one of 'global', 'group', 'tensor', got 'layer'"),
    ({"state_dtype": torch.int8}, TypeError, "state_dtype must be one of torch.float64, .* got torch.int8"),
    ({"state_dtype": "float32"}, TypeError, "state_dtype must be one of torch.float64, .* got 'float32'"),
    ({"weight_decay": torch.tensor([0.1])}, TypeError, "weight_decay must be a number, got"),
    ({"decoupled_weight_decay": 0.01}, TypeError, "decoupled_weight_decay must be True or False, got 0.01"),
    ({"maximize": "False"}, TypeError, "maximize must be True or False, got 'False'"),
    ({"fused": True, "foreach": True}, RuntimeError, "`fused` and `foreach` cannot be `True` together"),
    ({"fused": True, "differentiable": True}, RuntimeError, "`fused` does not support `differentiable`"),
    ({"foreach": True, "differentiable": True}, RuntimeError, "exclude each other: leave foreach=None"),
    ({"capturable": True, "differentiable": True}, RuntimeError, "exclude each other: a graph has no autograd"),
    ({"betas": (0.9, 0.999)}, TypeError, r"AdamPlus has no betas: .* Pass beta = 1 − betas\[0\]"),
    ({"momentum": 0.9}, TypeError, r"AdamPlus has no momentum: .* Pass beta = 1 − momentum \(momentum=0.9 is beta=0.1"),
    ({"nesterov": True}, TypeError, "AdamPlus has no nesterov: gradients are always taken ahead of w.* Leave it out"),
    ({"amsgrad": False}, TypeError, "AdamPlus has no amsgrad: it keeps no second moment. Leave it out"),
]


@pytest.mark.parametrize(("settings", "kind", "words"), BAD)
def test_a_bad_setting_is_named(settings: dict[str, Any], kind: type[Exception], words: str):
    with pytest.raises(kind, match=words):
        AdamPlus([nn.Parameter(torch.ones(1))], **settings)


def test_an_unknown_setting_is_named_with_the_closest_known_one():
    w: list[Any] = [nn.Parameter(torch.ones(1))]
    misspelled: Any = {"wieght_decay": 0.1}
    unlike: Any = {"trust": 0.1}
    with pytest.raises(TypeError, match="NAdamPlus has no wieght_decay: did you mean weight_decay"):
        NAdamPlus(w, **misspelled)
    with pytest.raises(TypeError, match=r"AdamPlus has no trust: its settings are lr, beta, .*, process_group, "):
        AdamPlus(w, **unlike)
    with pytest.raises(TypeError, match="SpectralPlus has no betas"):
        SpectralPlus(w, **cast("Any", {"betas": (0.9, 0.95)}))


def test_a_group_may_have_keys_of_its_user():
    optimizer = AdamPlus([{"params": [nn.Parameter(torch.ones(1))], "name": "head", "lr_scale": 0.5}])
    assert optimizer.param_groups[0]["name"] == "head"


@pytest.mark.parametrize("cls", [AdamPlus, NAdamPlus, NIGT])
@pytest.mark.parametrize(
    ("lr", "decay", "words"),
    [
        (3.0, 0.01, r"lr=3 with weight_decay=0.01 takes 0.03 of it.* are 3.3e-06 with this lr"),
        (torch.tensor(0.25), 0.05, r"lr=0.25 with weight_decay=0.05 takes 0.013 of it"),
    ],
)
def test_strong_decoupled_decay_is_warned_of_once(cls: Any, lr: float | torch.Tensor, decay: float, words: str):
    w = nn.Parameter(torch.ones(1))
    with pytest.warns(UserWarning, match=words) as found:
        optimizer = cls([w], lr=lr, weight_decay=decay, decoupled_weight_decay=True)
    assert [Path(one.filename) for one in found] == [Path(__file__)]
    optimizer.load_state_dict(optimizer.state_dict())  # the settings are the same, so there is no second warning
    cls([w], lr=lr, weight_decay=decay)  # coupled decay has other units
    cls([{"params": [w], "lr": 1e-3}], lr=lr, weight_decay=decay, decoupled_weight_decay=True)  # no group has this lr


def test_strong_decoupled_decay_of_a_group_is_warned_of():
    optimizer = AdamPlus([nn.Parameter(torch.ones(1))], lr=0.5, weight_decay=0.01, decoupled_weight_decay=True)
    with pytest.warns(UserWarning, match=r"takes 0\.02 of it"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))], "lr": 2.0})


def test_nigt_explains_keywords_by_its_own():
    w = [nn.Parameter(torch.ones(1))]
    unknown: Any = [{"betas": (0.9, 0.999)}, {"momentm": 0.9}, {"nesterov": True}]
    for settings, words in zip(
        unknown, [r"Pass momentum = betas\[0\]", "did you mean momentum", "NIGT has no nesterov"], strict=True
    ):
        with pytest.raises(TypeError, match=words):
            NIGT(w, **settings)


def test_groups_of_a_subclass_may_have_its_own_keywords():
    class Scaled(AdamPlus):
        def __init__(self, params: Any, momentum: float = 0.9, **settings: Any) -> None:
            super().__init__(params, beta=1 - momentum, **settings)

    assert Scaled([{"params": [nn.Parameter(torch.ones(1))], "momentum": 0.5}]).param_groups[0]["momentum"] == 0.5


def test_spectral_plus_may_decay_more():
    """Its steps have one length, so decay only bounds the weights, by scale/λ: results/defaults measures it."""
    SpectralPlus([nn.Parameter(torch.ones(2, 2))], lr=0.36, weight_decay=0.1)
    assert SpectralPlus([nn.Parameter(torch.ones(2, 2))]).defaults["weight_decay"] == 0.1


def test_a_process_group_is_one():
    with pytest.raises(TypeError, match=r"process_group must be None or a torch\.distributed\.ProcessGroup, got 3"):
        AdamPlus([nn.Parameter(torch.ones(1))], process_group=cast("Any", 3))


@pytest.mark.parametrize(("settings", "kind", "words"), BAD)
def test_a_bad_group_is_refused_and_leaves_the_optimizer_as_it_was(
    settings: dict[str, Any], kind: type[Exception], words: str
):
    model = small_model()
    optimizer = AdamPlus(model.parameters())
    train(model, optimizer, range(2))
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(kind, match=words):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))], **settings})
    same_state(before, optimizer.state_dict())


def same_state(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a["state"].keys() == b["state"].keys()
    for i in a["state"]:
        assert all(torch.equal(a["state"][i][key], b["state"][i][key]) for key in ("z", "offset", "step"))
    assert len(a["param_groups"]) == len(b["param_groups"])
    for one, two in zip(a["param_groups"], b["param_groups"], strict=True):
        assert torch.equal(one["record"], two["record"])
        assert {**one, "record": None} == {**two, "record": None}


@pytest.mark.parametrize(
    ("settings", "kind", "words"),
    [
        ({"momentum": 1.0}, ValueError, r"momentum must be in \[0, 1\), got 1.0"),
        ({"momentum": -0.1}, ValueError, r"momentum must be in \[0, 1\), got -0.1"),
        ({"momentum": "0.9"}, TypeError, "momentum must be a number"),
        ({"beta": 0.1}, TypeError, "NIGT takes momentum, which is 1 − beta"),
        ({"norm_power": 0.5}, TypeError, "NIGT has beta_power=0 and norm_power=1: AdamPlus takes other powers"),
        ({"momentum": torch.tensor(1.5)}, ValueError, r"beta must be in \(0, 1\], got -0.5"),
    ],
)
def test_nigt_names_momentum(settings: dict[str, Any], kind: type[Exception], words: str):
    with pytest.raises(kind, match=words):
        NIGT([nn.Parameter(torch.ones(1))], **settings)


def test_nigt_takes_momentum_or_beta():
    with pytest.raises(ValueError, match="momentum or beta"):
        NIGT([{"params": [nn.Parameter(torch.ones(1))], "momentum": 0.9, "beta": 0.1}])


def test_a_group_must_be_a_dict():
    optimizer = AdamPlus([nn.Parameter(torch.ones(1))])
    with pytest.raises(TypeError, match="must be a dict"):
        optimizer.add_param_group([nn.Parameter(torch.ones(1))])  # pyright: ignore[reportArgumentType]


def test_a_step_in_eval_mode_says_what_to_call_and_touches_nothing():
    model = small_model()
    optimizer = AdamPlus(model.parameters())
    train(model, optimizer, range(3))
    optimizer.eval()
    points, state = values(optimizer), copy.deepcopy(optimizer.state_dict())
    called = []
    with pytest.raises(RuntimeError, match=r"step\(\) in eval mode.*optimizer\.train\(\)"):
        optimizer.step(lambda: called.append(1) or 0.0)
    assert not called
    assert all(torch.equal(a, b) for a, b in zip(points, values(optimizer), strict=True))
    same_state(state, optimizer.state_dict())


def test_a_closure_that_leaves_the_model_in_eval_mode_is_caught():
    """Gradients at w are not those of ŵ: a closure may evaluate, but must come back."""
    model = small_model()
    optimizer = AdamPlus(model.parameters())
    optimizer.follow(model)
    train(model, optimizer, range(3))

    def closure() -> float:
        model.eval()
        return 0.0

    with pytest.raises(RuntimeError, match="eval mode"):
        optimizer.step(closure)


def test_sparse_gradients_are_refused_before_anything_changes():
    dense, embedding = nn.Linear(3, 3), nn.Embedding(5, 3, sparse=True)
    optimizer = AdamPlus([{"params": dense.parameters()}, {"params": embedding.parameters()}])
    dense(embedding(torch.tensor([1, 2]))).sum().backward()
    points = values(optimizer)
    with pytest.raises(RuntimeError, match=r"parameter 0 of group 1 has a sparse gradient.*sparse=False"):
        optimizer.step()
    assert not optimizer.state
    assert all(torch.equal(a, b) for a, b in zip(points, values(optimizer), strict=True))


OTHERS = [
    lambda ps: torch.optim.Adam(ps),
    lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
]


@pytest.mark.parametrize("stepped", [True, False])
@pytest.mark.parametrize("other", OTHERS)
def test_the_state_dict_of_another_optimizer_is_refused(other: Any, stepped: bool):
    model = small_model()
    optimizer, foreign = AdamPlus(model.parameters()), other(model.parameters())
    train(model, optimizer, range(2))
    if stepped:
        train(model, foreign, range(2))
    points, before = values(optimizer), copy.deepcopy(optimizer.state_dict())
    with pytest.raises(
        ValueError, match=r"not Adam⁺'s: its group 0 has no .*beta.*Load it into the optimizer that wrote"
    ):
        optimizer.load_state_dict(foreign.state_dict())
    same_state(before, optimizer.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(points, values(optimizer), strict=True))


def saved() -> tuple[AdamPlus, dict[str, Any]]:
    model = small_model()
    optimizer = AdamPlus([{"params": model[0].parameters()}, {"params": model[2].parameters()}])
    train(model, optimizer, range(2))
    return optimizer, copy.deepcopy(optimizer.state_dict())


def rename_state(state_dict: dict[str, Any]) -> None:
    state_dict["state"][1]["exp_avg"] = state_dict["state"][1].pop("z")


def reshape_z(state_dict: dict[str, Any]) -> None:
    state_dict["state"][0]["z"] = torch.zeros(7)


def mix_modes(state_dict: dict[str, Any]) -> None:
    state_dict["param_groups"][0]["training"] = False


def break_beta(state_dict: dict[str, Any]) -> None:
    state_dict["param_groups"][1]["beta"] = -1.0


def shorten_record(state_dict: dict[str, Any]) -> None:
    state_dict["param_groups"][1]["record"] = torch.zeros(3)


def empty(state_dict: dict[str, Any]) -> None:
    state_dict.clear()


def put(key: str, value: Any) -> Any:
    """Replace a value in the state of parameter 1, or a setting of group 1."""

    def spoil(state_dict: dict[str, Any]) -> None:
        inside = state_dict["state"][1] if key in ("z", "offset", "step") else state_dict["param_groups"][1]
        inside[key] = value

    return spoil


def put_state(value: Any) -> Any:
    """Replace the whole state of parameter 1."""

    def spoil(state_dict: dict[str, Any]) -> None:
        state_dict["state"][1] = value

    return spoil


def put_part(key: str, value: Any) -> Any:
    """Replace `state` or `param_groups`."""

    def spoil(state_dict: dict[str, Any]) -> None:
        state_dict[key] = value

    return spoil


def drop_group(state_dict: dict[str, Any]) -> None:
    state_dict["param_groups"].pop()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (rename_state, "not Adam⁺'s: parameter 1 has the state offset, step, exp_avg, not z, offset, step"),
        (reshape_z, r"parameter 0 has shape \(8, 6\), its z in this state_dict \(7,\)"),
        (mix_modes, "groups in train mode and groups in eval mode"),
        (break_beta, r"beta must be in \(0, 1\], got -1.0"),
        (
            shorten_record,
            "record of group 1 must be ‖z‖, η, Σ‖z‖ and the numbers of steps and of skipped ones, got tensor",
        ),
        (empty, "a state_dict has state and param_groups, this one has nothing"),
        (drop_group, "different number of parameter groups"),
        (
            put("z", 1.0),
            r"z of parameter 1 must be a tensor of a floating-point dtype and shape \(8,\), got 1\.0\. Load what",
        ),
        (put("z", torch.ones(8, dtype=torch.int64)), r"z of parameter 1 .* got torch\.int64 of shape \(8,\)"),
        (put("z", torch.ones(8, dtype=torch.bool)), r"z of parameter 1 .* got torch\.bool of shape"),
        (put("z", torch.ones(8, dtype=torch.complex64)), r"z of parameter 1 .* got torch\.complex64 of shape"),
        (put("z", torch.ones(8).to(torch.float8_e4m3fn)), r"z of parameter 1 .* got torch\.float8_e4m3fn of shape"),
        (put("z", torch.ones(8).to_sparse()), r"z of parameter 1 .* got a torch\.sparse_coo tensor"),
        (
            put("offset", 0.5),
            r"offset of parameter 1 must be a tensor of a floating-point dtype and shape \(\), got 0\.5",
        ),
        (put("offset", torch.ones(8)), r"offset of parameter 1 .* got torch\.float32 of shape \(8,\)"),
        (put("offset", torch.ones(1)), r"offset of parameter 1 .* got torch\.float32 of shape \(1,\)"),
        (put("offset", torch.ones((), dtype=torch.int32)), r"offset of parameter 1 .* got torch\.int32 of shape \(\)"),
        (put("step", 2.0), r"step of parameter 1 must be a tensor of a floating-point dtype and shape \(\), got 2\.0"),
        (put("step", "two"), r"step of parameter 1 .* got 'two'"),
        (put("step", torch.tensor(2)), r"step of parameter 1 .* got torch\.int64 of shape \(\)"),
        (put("step", torch.ones(8)), r"step of parameter 1 .* got torch\.float32 of shape \(8,\)"),
        (put("step", torch.tensor(-1.0)), r"step of parameter 1 must be a whole number of at least 0, got -1\.0"),
        (put("step", torch.tensor(1.5)), r"step of parameter 1 must be a whole number of at least 0, got 1\.5"),
        (put("step", torch.tensor(math.nan)), r"step of parameter 1 must be a whole number of at least 0, got nan"),
        (put("step", torch.tensor(math.inf)), r"step of parameter 1 must be a whole number of at least 0, got inf"),
        (put("training", "yes"), r"training of group 1 must be True or False, got 'yes'"),
        (put("training", 1), r"training of group 1 must be True or False, got 1"),
        (put("record", [1.0, 2.0, 3.0, 4.0]), r"record of group 1 .* got \[1\.0, 2\.0, 3\.0, 4\.0\]"),
        (put("record", "four"), r"record of group 1 .* got 'four'"),
        (put("record", torch.ones(4, dtype=torch.int64)), r"record of group 1 .* got tensor\(\[1, 1, 1, 1\]\)"),
        (put_state(3), r"the state of parameter 1 must be a dict, got 3"),
        (put_part("state", [1]), r"state must be a dict, got \[1\]"),
        (put_part("param_groups", "no"), r"param_groups must be a list of dicts that have params, got 'no'"),
        (put_part("param_groups", [3, 4]), r"param_groups must be a list of dicts that have params, got \[3, 4\]"),
        (
            put_part("param_groups", [{}, {}]),
            r"param_groups must be a list of dicts that have params, got \[\{\}, \{\}\]",
        ),
    ],
)
def test_a_spoilt_state_dict_is_refused_and_nothing_is_loaded(spoil: Any, words: str):
    optimizer, state_dict = saved()
    before = copy.deepcopy(optimizer.state_dict())
    spoil(state_dict)
    with pytest.raises(ValueError, match=words):
        optimizer.load_state_dict(state_dict)
    same_state(before, optimizer.state_dict())
    assert optimizer.training
    optimizer.load_state_dict(before)  # no hook is left behind, so its own state still loads


@pytest.mark.parametrize("mode", ["x", None, 1, torch.tensor(True)])
def test_a_mode_is_true_or_false(mode: Any):
    """As in torch.nn.Module.train()."""
    optimizer, _ = saved()
    points = values(optimizer)
    with pytest.raises(ValueError, match=r"mode must be True or False, got ('x'|None|1|tensor\(True\))"):
        optimizer.train(mode)
    assert optimizer.training
    assert all(torch.equal(a, b) for a, b in zip(points, values(optimizer), strict=True))


def test_a_torch_checkpoint_with_a_number_for_the_step_is_refused():
    """torch's test_load_nontensor_step: older versions of its optimizers saved floats. Adam⁺ never did."""
    optimizer, state_dict = saved()
    for state in state_dict["state"].values():
        state["step"] = float(state["step"])
    with pytest.raises(ValueError, match=r"step of parameter 0 must be a tensor .* got 2\.0"):
        optimizer.load_state_dict(state_dict)


@pytest.mark.parametrize(
    ("settings", "kind", "words"),
    [
        ({"beta": 0.0}, ValueError, r"beta must be in \(0, 1\], got 0.0"),
        ({"beta": 2.0}, ValueError, r"beta must be in \(0, 1\], got 2.0"),
        ({"lr": float("nan")}, ValueError, "lr must be finite"),
        ({"eps": -1.0}, ValueError, "eps must be finite"),
        ({"weight_decay": torch.tensor(0.1)}, TypeError, "weight_decay must be a number"),
        ({"norm_scope": "layer"}, ValueError, "norm_scope must be one of"),
        ({"maximize": "no"}, TypeError, "maximize must be True or False, got 'no'"),
    ],
)
@pytest.mark.parametrize("fused", [None, True])
def test_a_setting_spoilt_between_steps_is_refused_before_anything_changes(
    settings: dict[str, Any], kind: type[Exception], words: str, fused: bool | None
):
    model = small_model()
    optimizer = AdamPlus(model.parameters(), fused=fused)
    train(model, optimizer, range(2))
    points, before = values(optimizer), copy.deepcopy(optimizer.state_dict())
    group = optimizer.param_groups[0]
    kept = {name: group[name] for name in settings}
    group.update(settings)
    with pytest.raises(kind, match=words):
        optimizer.step()
    group.update(kept)
    assert all(torch.equal(a, b) for a, b in zip(points, values(optimizer), strict=True))
    same_state(before, optimizer.state_dict())


def test_reading_a_missing_state_does_no_harm():
    """optimizer.state is a defaultdict, so reading a missing entry creates an empty one."""
    p, q = (nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = AdamPlus([p, q])
    p.grad = torch.ones(2)
    optimizer.step()
    assert optimizer.state[q].get("z") is None
    optimizer.eval().train()
    assert optimizer.stats().step == 1
    AdamPlus([p, q]).load_state_dict(optimizer.state_dict())
    q.grad = torch.ones(2)
    optimizer.step()
    assert float(optimizer.state[q]["step"]) == 1


def test_differentiable_is_for_all_groups_and_not_for_leaves():
    p = nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match="differentiable is one for all groups"):
        AdamPlus([{"params": [p], "differentiable": True}])
    optimizer = AdamPlus([p], differentiable=True)
    p.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match=r"is a leaf that requires a gradient.*p\.clone\(\)"):
        optimizer.step()
    assert not optimizer.state


def test_a_complex_z_of_16_bits_is_refused():
    p = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    with pytest.raises(TypeError, match="complex z is float32 or float64"):
        AdamPlus([p], state_dtype=torch.bfloat16)


def test_parameters_of_other_dtypes_are_refused_only_if_they_are_stepped():
    """Models may have frozen quantized weights among their parameters()."""
    frozen = nn.Parameter(torch.ones(2, dtype=torch.int8), requires_grad=False)
    p = nn.Parameter(torch.ones(2))
    optimizer = AdamPlus([frozen, p])
    p.grad = torch.ones(2)
    optimizer.step()
    frozen.grad = torch.ones(2, dtype=torch.int8)
    before = p.detach().clone()
    with pytest.raises(TypeError, match=r"a parameter is torch\.int8, .* leave it out"):
        optimizer.step()
    frozen.grad = None
    optimizer.eval().train()  # which a half-moved optimizer would refuse
    assert torch.equal(p, before)
    with pytest.raises(TypeError, match=r"a parameter is torch\.float8_e4m3fn, "):
        AdamPlus([nn.Parameter(torch.ones(2).to(torch.float8_e4m3fn))])


@pytest.mark.parametrize("how", [{"foreach": False}, {"foreach": True}, {"fused": True}], ids=str)
def test_a_parameter_with_data_of_another_shape_is_refused_and_starts_anew_without_its_state(how: dict[str, Any]):
    p, q = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
    optimizer = AdamPlus([p, q], **how)
    for _ in range(2):
        p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
        optimizer.step()
    p.data, before = torch.ones(4), q.detach().clone()
    p.grad = torch.ones(4)
    with pytest.raises(RuntimeError, match=r"shape \(4,\), and its z \(2,\).*optimizer\.state\.pop\(p\)"):
        optimizer.step()
    assert torch.equal(q, before)
    optimizer.state.pop(p)
    optimizer.step()
    assert (float(optimizer.state[p]["step"]), float(optimizer.state[q]["step"])) == (1, 3)


@pytest.mark.parametrize("how", [{"foreach": False}, {"foreach": True}, {"fused": True}], ids=str)
def test_what_is_made_in_inference_mode_steps_outside_of_it(how: dict[str, Any]):
    p, q = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    other = AdamPlus([q], **how)
    with torch.inference_mode():
        optimizer = AdamPlus([p], **how)
    for inference in (True, False, True):
        p.grad, q.grad = torch.ones(2), torch.ones(2)
        with torch.inference_mode(inference):
            optimizer.step()
            optimizer.load_state_dict(optimizer.state_dict())
        other.step()
    assert torch.equal(p, q)
    assert optimizer.stats() == other.stats()


def test_native_steps_that_break_off_after_they_began_to_write_are_torn(monkeypatch: pytest.MonkeyPatch):
    p = nn.Parameter(torch.ones(2))
    optimizer = AdamPlus([p], foreach=True)
    p.grad = torch.ones(2)
    optimizer.step()

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(native.Table, "update", fail)
    with pytest.raises(RuntimeError, match="no"):
        optimizer.step()
    with pytest.raises(RuntimeError, match="may have half moved"):
        optimizer.eval()


def test_another_method_does_not_take_over_in_silence():
    """Powers are settings, which a state_dict brings along, and are the method: NIGT has no others."""
    p = nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match=r"NIGT has beta_power=0, got 1\.0: AdamPlus takes other powers"):
        NIGT([p]).load_state_dict(AdamPlus([p]).state_dict())
    with pytest.raises(ValueError, match=r"NIGT has norm_power=1, got 0\.5: AdamPlus takes other powers"):
        NIGT([{"params": [p], "norm_power": 0.5}])
    same: list[Any] = [(NAdamPlus, {"norm_power": 0.4}), (NAdamPlus, {}), (NIGT, {}), (AdamPlus, {})]
    for kind, settings in same:
        optimizer = kind([p], **settings)
        optimizer.load_state_dict(kind([p], lr=0.3, **settings).state_dict())
        assert optimizer.param_groups[0]["lr"] == 0.3
    optimizer = NAdamPlus([p])
    with pytest.warns(UserWarning, match=r"another method was loaded: .* \[\(0\.5, 1\.0\)\], and this NAdamPlus had"):
        optimizer.load_state_dict(AdamPlus([p]).state_dict())
    assert optimizer.param_groups[0]["norm_power"] == 0.5


def test_a_process_group_is_one_for_all_groups():
    with pytest.raises(ValueError, match="process_group is one for all groups"):
        AdamPlus([{"params": [nn.Parameter(torch.ones(2))], "process_group": None}])


def test_update_bn_says_what_it_takes():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer, adam = AdamPlus(model.parameters()), torch.optim.Adam(model.parameters())
    wrong: list[Any] = [(model, [torch.ones(2, 2)], optimizer), ([], model, adam)]
    for arguments in wrong:
        with pytest.raises(TypeError, match="takes a loader, a model and an optimizer of this package, in this order"):
            update_bn(*arguments)


def test_a_conjugate_that_is_not_in_memory_is_refused():
    p = nn.Parameter(torch.randn(3, dtype=torch.complex64).conj())
    with pytest.raises(ValueError, match="parameter 0 is a lazy conjugate"):
        AdamPlus([p])
    optimizer = AdamPlus([nn.Parameter(torch.ones(2))])
    with pytest.raises(ValueError, match="parameter 1 is a lazy conjugate"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2)), p]})
    assert len(optimizer.param_groups) == 1
    AdamPlus([nn.Parameter(p.detach().resolve_conj())])


def test_one_dict_may_build_two_optimizers():
    group = {"params": [nn.Parameter(torch.ones(2))]}
    first, second = AdamPlus([group]), AdamPlus([group])
    first.eval()
    assert second.training


def test_follow_needs_a_model_with_the_optimizers_parameters():
    optimizer = AdamPlus(small_model().parameters())
    with pytest.raises(TypeError, match=r"torch\.nn\.Module that holds the parameters, got list"):
        optimizer.follow([])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="shares no parameter"):
        optimizer.follow(small_model())


@pytest.mark.parametrize(
    "name", ["foreach", "fused", "capturable", "differentiable", "stochastic_rounding", "skip_nonfinite"]
)
def test_flags_are_flags(name: str):
    with pytest.raises(TypeError, match=f"{name} must be True.* or False, got 'no'"):
        AdamPlus([nn.Parameter(torch.ones(2))], **{name: "no"})  # pyright: ignore[reportArgumentType]
