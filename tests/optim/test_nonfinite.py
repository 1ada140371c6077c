"""inf and NaN in a gradient: a step that shows them everywhere or, with `skip_nonfinite`, one that is skipped."""

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import torch
from cases import FAMILY, NoHostRead, difference, give, params, thinned, through_a_file, values
from torch import Tensor, nn

from adamplus import NIGT, AdamPlus, AdamPlusReference, NAdamPlus
from adamplus.optim._algorithm import gradient_weights
from adamplus.optim._execution import native

BAD = [math.inf, -math.inf, math.nan]
# name → how the optimizer is built, and whether its step is compiled
EXECUTIONS: dict[str, tuple[dict[str, Any], bool]] = {
    "C": ({}, False),
    "foreach": ({"foreach": True, "state_dtype": torch.float64}, False),
    "plain": ({"foreach": False}, False),
    "capturable": ({"capturable": True}, False),
    "differentiable": ({"differentiable": True}, False),
    "fused": ({"fused": True}, False),
    "compiled": ({}, True),
    "compiled fused": ({"fused": True}, True),
}


def marked(params: list[Any]) -> list[Any]:
    """Parameters of tests, of which the first is an execution, with a mark for those that are compiled.

    Dynamo reads the lines of a step and does not run them; coverage would only make it half as fast.
    """
    return [
        pytest.param(*p.values, marks=[*p.marks, *[pytest.mark.uncovered] * EXECUTIONS[p.values[0]][1]]) for p in params
    ]


NAMES = marked([pytest.param(name) for name in EXECUTIONS])


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def _quiet_interpreter() -> Iterator[None]:
    """Triton's interpreter computes in NumPy, which warns of inf and NaN. A GPU does not."""
    with numpy.errstate(all="ignore"):
        yield


def built(execution: str, shapes: Any = ((3, 2), (4,)), **settings: Any) -> tuple[AdamPlus, Any]:
    """An optimizer of that execution, with one parameter in each group, and a function that takes its step."""
    own, is_compiled = EXECUTIONS[execution]
    tensors = [torch.randn(shape) for shape in shapes]
    ps = tensors if own.get("differentiable") else [nn.Parameter(t) for t in tensors]
    optimizer = AdamPlus([{"params": [p]} for p in ps], **{"lr": 0.1, **own, **settings})
    return optimizer, torch.compile(
        optimizer.step, backend="aot_eager", fullgraph=True
    ) if is_compiled else optimizer.step


def gradients(optimizer: torch.optim.Optimizer, bad: float | None = None) -> list[Tensor]:
    """New gradients. One element of the first is `bad`."""
    grads = [torch.randn_like(p) for p in params(optimizer)]
    if bad is not None:
        grads[0].view(-1)[1] = bad
    return grads


@pytest.mark.parametrize(("execution", "before", "bad"), marked(thinned(EXECUTIONS, [0, 2], BAD)))
def test_a_gradient_that_is_not_finite_makes_eta_and_every_parameter_nan(execution: str, before: int, bad: float):
    """η = 0 would stop the training, and nothing would show it."""
    optimizer, step = built(execution)
    for t in range(before + 2):  # it stays NaN in the step after that
        give(optimizer, gradients(optimizer, bad if t == before else None))
        step()
        if t >= before:
            assert math.isnan(optimizer.stats().eta)
            assert not math.isfinite(optimizer.stats().norm)
            assert all(p.isnan().all() for p in params(optimizer))
    optimizer.eval()
    assert all(p.isnan().all() for p in params(optimizer))


@pytest.mark.parametrize("execution", NAMES)
def test_the_reference_has_the_same_rule_in_every_scope(execution: str):
    for scope in ("group", "tensor"):
        optimizer, step = built(execution, norm_scope=scope)
        copies = [{"params": [nn.Parameter(p.detach().double())]} for p in params(optimizer)]
        reference = AdamPlusReference(copies, norm_scope=scope)
        for bad in (None, math.inf):
            grads = gradients(optimizer, bad)
            for one in (optimizer, reference):
                give(one, grads)
            step()
            reference.step()
        for one in (optimizer, reference):
            poisoned, clean = params(one)
            assert poisoned.isnan().all()
            assert clean.isfinite().all()
        assert difference(values(optimizer)[1:], values(reference)[1:]) <= 1e-6


@pytest.mark.parametrize("name", FAMILY)
def test_the_reference_is_nan_in_the_first_step_and_later(name: str):
    for before in (0, 2):
        reference = AdamPlusReference([nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))], **FAMILY[name][1])
        for t in range(before + 1):
            give(reference, gradients(reference, math.inf if t == before else None))
            reference.step()
        assert all(p.isnan().all() for p in params(reference))


@pytest.mark.parametrize("execution", NAMES)
def test_without_a_power_of_the_norm_only_the_element_itself_is_lost(execution: str):
    """norm_power=0 is SGD, whose elements know nothing of each other."""
    optimizer, step = built(execution, norm_power=0.0)
    for bad in (None, math.inf):
        give(optimizer, gradients(optimizer, bad))
        step()
    poisoned, clean = params(optimizer)
    assert poisoned.view(-1).isfinite().tolist() == [True, False, *[True] * 4]
    assert clean.isfinite().all()


SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "coupled, group scope": {"weight_decay": 0.05, "maximize": True, "norm_scope": "group"},
    "decoupled, tensor scope": {"weight_decay": 0.01, "decoupled_weight_decay": True, "norm_scope": "tensor"},
}


def contents(optimizer: AdamPlus) -> list[Tensor]:
    """Copies of everything that a step changes."""
    state = [value for p in params(optimizer) for value in optimizer.state[p].values()]
    records = [group["record"] for group in optimizer.param_groups]
    return [t.detach().clone() for t in (*params(optimizer), *state, *records)]


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.fixture
def _without_c(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's own list functions take the tensors of "foreach", which C would take."""
    if request.getfixturevalue("execution") == "foreach":
        monkeypatch.setattr(native, "LIBRARY", None)
        monkeypatch.setitem(EXECUTIONS, "foreach", ({"foreach": True}, False))


# Each compilation takes seconds, so two of the compiled ones are enough for `make test`.
COMPILED = [("compiled", "decoupled, tensor scope"), ("compiled fused", "coupled, group scope")]
SKIPPING = [
    pytest.param(name, setting, marks=[pytest.mark.slow] * (EXECUTIONS[name][1] and (name, setting) not in COMPILED))
    for name in EXECUTIONS
    for setting in SETTINGS
]


@pytest.mark.usefixtures("_without_c")
@pytest.mark.parametrize(("execution", "setting"), marked(SKIPPING))
def test_skipped_steps_change_nothing_but_their_count(execution: str, setting: str):
    """Steps 0, 3 and 4 are skipped. The others are those of an optimizer that was never given inf or NaN."""
    optimizer, step = built(execution, **SETTINGS[setting], skip_nonfinite=True)
    twin, twin_step = built(execution, **SETTINGS[setting])
    groups = [{"params": [nn.Parameter(p.detach().double())]} for p in params(optimizer)]
    reference = AdamPlusReference(groups, **SETTINGS[setting])
    with torch.no_grad():
        for p, q in zip(params(twin), params(optimizer), strict=True):
            p.copy_(q)
    for t in range(7):
        bad = {0: math.nan, 3: math.inf, 4: -math.inf}.get(t)
        grads = gradients(optimizer, bad)
        give(optimizer, grads)
        before = contents(optimizer) if t else values(optimizer)
        step()
        if bad is not None:
            now = contents(optimizer) if t else values(optimizer)
            assert same(before[:-2], now[:-2])
            assert t == 0 or same([r[:4] for r in before[-2:]], [r[:4] for r in now[-2:]])
            continue
        give(twin, grads)
        twin_step()
        give(reference, grads)
        reference.step()
    assert [optimizer.stats(g).skipped for g in (0, 1)] == [3, 3]
    assert [twin.stats(g)._replace(skipped=3) for g in (0, 1)] == [optimizer.stats(g) for g in (0, 1)]
    assert same(contents(optimizer)[:-2], contents(twin)[:-2])
    # float32, seven steps; a step of length 0.1 moves parameters of about 1
    assert difference(values(optimizer), values(reference)) <= 1e-6
    optimizer.eval()
    reference.eval()
    assert difference(values(optimizer), values(reference)) <= 1e-6


@pytest.mark.parametrize("cls", [AdamPlus, NAdamPlus, NIGT])
def test_the_family_takes_the_option(cls: type[AdamPlus]):
    optimizer = cls([nn.Parameter(torch.ones(3))], skip_nonfinite=True)
    give(optimizer, gradients(optimizer, math.nan))
    optimizer.step()
    assert optimizer.stats() == (0, 0.0, 0.0, 0.0, 1)


@pytest.mark.parametrize("execution", NAMES)
def test_a_step_without_inf_and_nan_is_the_same_bit_for_bit(execution: str):
    kinds = [torch.float32, torch.float64, torch.bfloat16, torch.complex64]
    if EXECUTIONS[execution][1] or execution == "fused":
        kinds = kinds[:1]
    for dtype in kinds:
        ends = []
        for skips in (True, False):
            torch.manual_seed(1)
            optimizer, step = built(execution, shapes=((3, 5), (), (0,)), skip_nonfinite=skips)
            for group in optimizer.param_groups:
                p = group["params"][0]
                p.data = p.detach().to(dtype)
                group["state_dtype"] = None
            for t in range(4):
                give(optimizer, [g if t != 2 or i else None for i, g in enumerate(gradients(optimizer))])
                step()
            ends.append(contents(optimizer))
        assert same(*ends)


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("capturable", [False, True])
def test_skipped_steps_of_bfloat16_parameters_change_no_bit(foreach: bool, capturable: bool):
    settings: dict[str, Any] = {"stochastic_rounding": True, "state_dtype": torch.bfloat16}
    p = nn.Parameter(torch.randn(2000).bfloat16())
    p.data[0] = -0.0
    optimizer = AdamPlus([p], foreach=foreach, capturable=capturable, skip_nonfinite=True, **settings)
    for bad in (None, math.inf, None, math.nan):
        before = contents(optimizer) if optimizer.state[p] else []
        give(optimizer, gradients(optimizer, bad))
        optimizer.step()
        if bad is not None:
            now = contents(optimizer)
            assert torch.equal(before[0].view(torch.int16), now[0].view(torch.int16))
            assert same(before[1:-1], now[1:-1])
    assert optimizer.stats().step == optimizer.stats().skipped == 2


@pytest.mark.parametrize("settings", [{}, {"foreach": False}, {"norm_scope": "tensor"}, {"lr": torch.tensor(0.1)}])
def test_a_capturable_skipped_step_reads_no_value(settings: dict[str, Any]):
    optimizer = AdamPlus(
        [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))], capturable=True, skip_nonfinite=True, **settings
    )
    for bad in (math.inf, None, math.nan):
        give(optimizer, gradients(optimizer, bad))
        with NoHostRead():
            optimizer.step()
    assert optimizer.stats()[::4] == (1, 2)


@pytest.mark.parametrize("differentiable", [False, True])
def test_steps_on_another_device_are_skipped_there(differentiable: bool):
    """Tensors on the meta device have no value, so reading one raises."""
    ps = [torch.empty(4, 3, device="meta"), torch.empty(5, device="meta")]
    optimizer = AdamPlus(
        ps if differentiable else [nn.Parameter(p) for p in ps], differentiable=differentiable, skip_nonfinite=True
    )
    for p in params(optimizer):
        p.grad = torch.empty_like(p)
    for _ in range(2):
        optimizer.step()
    assert {optimizer.state[p]["step"].device.type for p in params(optimizer)} == {"meta"}


def test_beta_stays_exact_if_steps_are_counted_on_a_device():
    weights = gradient_weights([torch.zeros((), device="meta")], 0.1, capturable=False)
    assert isinstance(weights[0], Tensor)
    assert weights[0].dtype == torch.float64


def test_gradients_flow_through_a_step_that_can_be_skipped():
    results = []
    for skips in (True, False):
        torch.manual_seed(3)
        lr = torch.tensor(0.1, requires_grad=True)
        ps = [torch.randn(3), torch.randn(2)]
        optimizer = AdamPlus(ps, lr=lr, differentiable=True, skip_nonfinite=skips)
        for bad in (None, math.inf, None) if skips else (None, None):
            grads = gradients(optimizer) if bad is None else [torch.full_like(p, bad) for p in ps]
            give(optimizer, grads)
            optimizer.step()
        sum(p.square().sum() for p in ps).backward()  # pyright: ignore[reportAttributeAccessIssue]
        results.append([lr.grad, *(p.detach() for p in ps)])
    assert same(*results)


def test_parameters_without_gradients_do_not_decide():
    p, q = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))
    optimizer = AdamPlus([{"params": [p]}, {"params": [q], "norm_scope": "group"}], skip_nonfinite=True)
    optimizer.step()
    q.grad = torch.full((2,), math.inf)
    optimizer.step()
    assert [optimizer.stats(g) for g in (0, 1)] == [(0, 0.0, 0.0, 0.0, 1)] * 2
    p.grad, q.grad = torch.ones(3), None
    optimizer.step()
    assert optimizer.stats(0)[::4] == (1, 1)


@pytest.mark.parametrize("execution", ["C", "plain", "capturable", "fused"])
def test_skipping_together_with_gradscaler(execution: str):
    """Steps that GradScaler skips are not counted: in most executions it does not call `step`."""
    optimizer, _ = built(execution, skip_nonfinite=True)
    twin, _ = built(execution)
    with torch.no_grad():
        for p, q in zip(params(twin), params(optimizer), strict=True):
            p.copy_(q)
    for one in (optimizer, twin):
        torch.manual_seed(5)
        scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
        for t in range(6):
            scaler.scale(torch.ones((), requires_grad=True))
            grads = gradients(one, math.inf if t in (0, 3) else None)
            give(one, [16 * g for g in grads])
            scaler.step(one)
            scaler.update(16.0)
    assert same(contents(optimizer), contents(twin))
    assert optimizer.stats()[::4] == (4, 0)


def test_an_inf_that_gradscaler_does_not_see_is_counted():
    """With fused kernels, GradScaler's flag and the step's own are both obeyed."""
    optimizer, step = built("fused", skip_nonfinite=True)
    for t, (bad, found_inf) in enumerate([(None, 0.0), (math.inf, 0.0), (None, 1.0), (math.inf, 1.0), (None, 0.0)]):
        give(optimizer, gradients(optimizer, bad))
        vars(optimizer).update(grad_scale=torch.tensor(2.0), found_inf=torch.tensor(found_inf))
        before = values(optimizer)
        step()
        assert same(before, values(optimizer)) == (t in (1, 2, 3))
    assert optimizer.stats()[::4] == (2, 1)


def test_the_fused_operator_skips_without_a_compiler(monkeypatch: pytest.MonkeyPatch):
    optimizer, step = built("fused", skip_nonfinite=True)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    for t, bad in enumerate([None, math.inf, None]):
        before = values(optimizer)
        give(optimizer, gradients(optimizer, bad))
        step()
        assert same(before, values(optimizer)) == (t == 1)
    assert optimizer.stats()[::4] == (2, 1)


@pytest.mark.parametrize("execution", ["C", "capturable", "fused"])
def test_the_count_survives_a_checkpoint_and_the_option_is_the_optimizers_own(execution: str):
    optimizer, step = built(execution, skip_nonfinite=True)
    for bad in (None, math.inf):
        give(optimizer, gradients(optimizer, bad))
        step()
    saved = through_a_file({"model": values(optimizer), "optimizer": optimizer.state_dict()})
    for skips in (True, False):
        loaded, _ = built(execution, skip_nonfinite=skips)
        loaded.load_state_dict(saved["optimizer"])
        with torch.no_grad():
            for p, value in zip(params(loaded), saved["model"], strict=True):
                p.copy_(value)
        assert loaded.stats() == optimizer.stats()
        give(loaded, gradients(loaded, math.inf))
        loaded.step()
        assert loaded.stats().skipped == (2 if skips else 1)
        assert params(loaded)[0].isfinite().all() == skips
    twin = copy.deepcopy(optimizer)
    give(twin, gradients(twin, math.inf))
    twin.step()
    assert twin.stats().skipped == 2


def test_state_dicts_from_before_there_were_skipped_steps_have_none():
    optimizer, step = built("C")
    give(optimizer, gradients(optimizer))
    step()
    old = copy.deepcopy(optimizer.state_dict())
    for group in old["param_groups"]:
        del group["skip_nonfinite"]
        group["record"] = group["record"][:4]
    loaded, _ = built("C", skip_nonfinite=True)
    loaded.load_state_dict(old)
    assert loaded.stats() == optimizer.stats()
    assert [group["record"].shape for group in loaded.param_groups] == [(5,), (5,)]
    assert all(group["skip_nonfinite"] for group in loaded.param_groups)


def test_the_option_is_one_for_all_groups():
    with pytest.raises(ValueError, match="skip_nonfinite is one for all groups: pass it to the optimizer"):
        AdamPlus([{"params": [nn.Parameter(torch.ones(2))], "skip_nonfinite": True}])
