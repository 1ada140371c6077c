"""torch.compile of a step and of a whole training step."""

import copy
from typing import Any

import pytest
import torch
from cases import FAMILY, batch, difference, small_model, values
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from adamplus import AdamPlus

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "coupled, maximize": {"weight_decay": 0.01, "maximize": True},
    "decoupled, tensor scope": {"weight_decay": 0.01, "decoupled_weight_decay": True, "norm_scope": "tensor"},
    "plain, one step ahead": {"foreach": False, "lookahead": 1.0},
    "capturable": {"capturable": True},
    "skipping": {"skip_nonfinite": True, "weight_decay": 0.01},
    "fused": {"fused": True, "weight_decay": 0.01},
    "fused, tensor scope": {
        "fused": True,
        "weight_decay": 0.01,
        "decoupled_weight_decay": True,
        "norm_scope": "tensor",
        "lookahead": 0.5,
    },
}

# Dynamo reads the lines of a step and does not run them; coverage would only make it half as fast.
pytestmark = pytest.mark.uncovered


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()


def scheduled(kind: str, **settings: Any) -> tuple[nn.Sequential, AdamPlus]:
    model = small_model()
    lr, beta = (torch.tensor(0.05), torch.tensor(0.2)) if kind == "tensor" else (0.05, 0.2)
    groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "eps": 1e-6}]
    return model, AdamPlus(groups, lr=lr, beta=beta, **settings)


def change(optimizer: AdamPlus, step: int) -> None:
    for group in optimizer.param_groups:
        for name, start in (("lr", 0.05), ("beta", 0.2)):
            value = start * 0.97**step
            if isinstance(group[name], torch.Tensor):
                group[name].fill_(value)
            else:
                group[name] = value


def run(model: nn.Module, optimizer: AdamPlus, step: Any, steps: int = 20) -> None:
    for i in range(steps):
        x, y = batch(i)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        step()
        change(optimizer, i)


# A step with floats is compiled twice: with constants, and with inputs in their place. Each takes seconds.
WITH_FLOATS = ("default", "plain, one step ahead", "fused, tensor scope")
KINDS = [pytest.param("tensor", 1, setting) for setting in SETTINGS] + [
    pytest.param("float", 2, setting, marks=[pytest.mark.slow] * (setting not in WITH_FLOATS)) for setting in SETTINGS
]


@pytest.mark.parametrize(("kind", "compilations", "setting"), KINDS)
def test_a_compiled_step_is_the_same_step(kind: str, compilations: int, setting: str):
    """Steps in which lr and β change: no recompilation with tensors, one with floats, and one graph throughout."""
    steps = 5 if "fused" in setting else 20  # Triton's interpreter is slow
    model, optimizer = scheduled(kind, **SETTINGS[setting])
    twin, compiled = scheduled(kind, **SETTINGS[setting])
    counter = CompileCounterWithBackend("inductor")
    run(model, optimizer, optimizer.step, steps)
    run(twin, compiled, torch.compile(compiled.step, backend=counter, fullgraph=True), steps)
    assert counter.frame_count == compilations
    # inductor contracts products and sums otherwise than eager kernels: a few float32 roundings over 20 steps
    assert difference(values(compiled), values(optimizer)) <= 2e-6
    assert compiled.stats() == pytest.approx(optimizer.stats(), rel=2e-6)
    compiled.eval()
    optimizer.eval()
    assert difference(values(compiled), values(optimizer)) <= 2e-6


def test_a_compiled_step_is_skipped_in_the_graph():
    """By inductor's kernels too, with 0-dim float64 scalars and no break in the graph."""
    ps = [nn.Parameter(torch.randn(shape, dtype=torch.float64)) for shape in ((3, 2), (), (5,))]
    optimizer = AdamPlus(ps, weight_decay=0.01, skip_nonfinite=True)
    step = torch.compile(optimizer.step, fullgraph=True)
    for bad in (torch.nan, None, torch.inf, None):
        for p in ps:
            p.grad = torch.randn_like(p) if bad is None else torch.full_like(p, bad)
        before = [*values(optimizer), *(t.clone() for s in optimizer.state.values() for t in s.values())]
        step()
        now = [*values(optimizer), *(t for s in optimizer.state.values() for t in s.values())]
        if before[3:] and bad is not None:
            assert all(torch.equal(a, b) for a, b in zip(before, now, strict=True))
    assert optimizer.stats()[::4] == (2, 2)


@pytest.mark.parametrize("name", FAMILY)
def test_the_whole_family_compiles_in_float64(name: str):
    """float64 leaves no room for tolerances: what the graph computes is what eager computes."""
    results = []
    for compiled in (False, True):
        torch.manual_seed(0)
        ps = [nn.Parameter(torch.randn(shape, dtype=torch.float64)) for shape in ((3, 2), (), (5,))]
        optimizer = FAMILY[name][0](ps, weight_decay=0.01)
        step = torch.compile(optimizer.step, fullgraph=True) if compiled else optimizer.step
        for _ in range(5):
            for p in ps:
                p.grad = torch.randn_like(p)
            step()
        results.append(
            [*values(optimizer), *(s["offset"] for s in optimizer.state.values()), torch.tensor(optimizer.stats())]
        )
    assert difference(results[1], results[0]) <= 1e-13


@pytest.mark.parametrize(("kind", "recompilations"), [("tensor", 0), ("float", 1)])
def test_a_compiled_training_step_is_the_same_training(kind: str, recompilations: int):
    model, optimizer = scheduled(kind)
    twin, compiled = scheduled(kind)

    def training_step(model: nn.Module, optimizer: AdamPlus, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    counter = CompileCounterWithBackend("inductor")
    fast = torch.compile(training_step, backend=counter)
    first = 0
    for i in range(20):
        slow_loss = training_step(model, optimizer, *batch(i))
        fast_loss = fast(twin, compiled, *batch(i))
        first = first or counter.frame_count
        torch.testing.assert_close(fast_loss, slow_loss, rtol=1e-5, atol=1e-6)
        for o in (optimizer, compiled):
            change(o, i)
    assert counter.frame_count - first == recompilations
    assert difference(values(compiled), values(optimizer)) <= 1e-5


def test_a_compiled_step_sees_gradients_that_come_and_go():
    ps = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))]
    qs = copy.deepcopy(ps)
    eager, compiled = AdamPlus(ps), AdamPlus(qs)
    step = torch.compile(compiled.step, backend="aot_eager")
    for i in range(6):
        for a, b in zip(ps, qs, strict=True):
            a.grad = b.grad = torch.randn_like(a)
        if i in (2, 3):
            ps[0].grad = qs[0].grad = None
        eager.step()
        step()
    assert difference(values(compiled), values(eager)) <= 1e-6
    assert [float(compiled.state[q]["step"]) for q in qs] == [4.0, 6.0]


def test_a_compiled_step_sees_eval_mode():
    p = nn.Parameter(torch.ones(3))
    optimizer = AdamPlus([p])
    step = torch.compile(optimizer.step, backend="eager")
    p.grad = torch.ones(3)
    step()
    optimizer.eval()
    with pytest.raises(RuntimeError, match=r"optimizer\.train\(\)"):
        step()
    optimizer.train()
    step()
    assert optimizer.stats().step == 2


def test_evaluations_between_steps_cause_no_recompilation():
    model = small_model()
    optimizer = AdamPlus(model.parameters())
    optimizer.follow(model)
    counter = CompileCounterWithBackend("eager")
    step = torch.compile(optimizer.step, backend=counter)
    for i in range(6):
        x, y = batch(i)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        step()
        if i == 1:
            model.eval()
            model.train()
        if i == 3:
            with optimizer.averaged():
                model(x)
    assert counter.frame_count == 1


def test_plans_of_captured_graphs_cause_no_recompilation():
    model = small_model()
    optimizer = AdamPlus(model.parameters())
    counter = CompileCounterWithBackend("eager")
    step = torch.compile(optimizer.step, backend=counter)
    for i in range(3):
        x, y = batch(i)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        step()
        optimizer._captured.append(object())  # as a capture between compiled steps does
    assert counter.frame_count == 1


def test_a_compiled_fused_step_calls_the_kernels_and_copies_nothing():
    """The graph has one operator, and inductor passes the tensors to it without copies."""
    model, optimizer = scheduled("tensor", fused=True)
    run(model, optimizer, optimizer.step, 2)
    names: list[str] = []

    def backend(graph: Any, inputs: Any) -> Any:
        names.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    step = torch.compile(optimizer.step, backend=backend, fullgraph=True)
    before = [p.data_ptr() for p in model.parameters()], [s["z"].data_ptr() for s in optimizer.state.values()]
    run(model, optimizer, step, 2)
    assert sum("fused_step" in name for name in names) == 1
    assert before == ([p.data_ptr() for p in model.parameters()], [s["z"].data_ptr() for s in optimizer.state.values()])


def test_a_compiled_fused_step_takes_turns_with_an_eager_one():
    model, optimizer = scheduled("float", fused=True)
    twin, other = scheduled("float", fused=True)
    step = torch.compile(other.step, backend="aot_eager", fullgraph=True)
    for i in range(6):
        run(model, optimizer, optimizer.step, 1)
        run(twin, other, step if i % 2 else other.step, 1)
    assert difference(values(other), values(optimizer)) <= 1e-6
    assert optimizer.stats() == pytest.approx(other.stats(), rel=1e-6)


def test_a_compiled_fused_step_unscales_and_skips_inf():
    model, optimizer = scheduled("tensor", fused=True)
    step = torch.compile(optimizer.step, backend="aot_eager", fullgraph=True)
    run(model, optimizer, step, 1)
    before = values(optimizer)
    vars(optimizer).update(grad_scale=torch.tensor(4.0), found_inf=torch.tensor(1.0))
    run(model, optimizer, step, 1)
    assert all(torch.equal(a, b) for a, b in zip(before, values(optimizer), strict=True))
    assert optimizer.stats().step == 1
    vars(optimizer).update(found_inf=torch.tensor(0.0))
    run(model, optimizer, step, 1)
    assert optimizer.stats().step == 2
