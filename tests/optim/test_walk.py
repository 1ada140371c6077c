"""Random walks through everything that happens to an optimizer, beside the reference that does the same."""

import copy
import pickle
from typing import Any

import hypothesis
import hypothesis.strategies as st
import torch
from cases import FAMILY, float64_copy, give, pair, params, through_a_file
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torch import Tensor, nn

from adamplus import AdamPlus, AdamPlusReference

# How far a walk may be from the float64 reference, in units of eps times the largest value that it has seen: each step
# rounds a parameter two or three times and each switch once. 600 walks of 50 rules were at most 8.4, 2.8, 1.3 and 3.4
# away; roundings add up, so a walk of more than 25 rules may be as much further. In 16 bits, steps smaller than half an
# ulp are lost one by one, all in the same direction: a rule may then cost a whole unit. Dtypes that share a norm share
# the accuracy of the coarsest, so a walk is judged by that one.
TOLERANCE = {torch.float64: 30, torch.float32: 10, torch.bfloat16: 5, torch.float16: 10}
LAYOUTS = ["scalar", "empty", "vector", "matrix", "transposed", "strided", "channels last", "complex"]


def parameter(layout: str, dtype: torch.dtype) -> nn.Parameter:
    match layout:
        case "scalar":
            t = torch.randn(())
        case "empty":
            t = torch.randn(0, 3)
        case "vector":
            t = torch.randn(5)
        case "matrix":
            t = torch.randn(3, 4)
        case "transposed":
            t = torch.randn(4, 3).t()
        case "strided":
            t = torch.randn(6, 5)[::2, 1::2]
        case "channels last":
            t = torch.randn(2, 3, 2, 2).to(memory_format=torch.channels_last)
        case _:
            # complex16 is no dtype that torch computes in: complex parameters are complex64 and complex128
            t = torch.randn(4, dtype=torch.complex64)
            return nn.Parameter(t.to(torch.complex128 if dtype == torch.float64 else torch.complex64))
    t = t.to(dtype) if layout != "strided" else torch.empty(6, 5, dtype=dtype).copy_(torch.randn(6, 5))[::2, 1::2]
    return nn.Parameter(t)


settings = st.fixed_dictionaries(
    {
        "lr": st.floats(1e-3, 0.5),
        "beta": st.one_of(st.just(1.0), st.floats(0.05, 1.0)),
        "weight_decay": st.sampled_from([0.0, 0.1]),
        "decoupled_weight_decay": st.booleans(),
        "maximize": st.booleans(),
        "norm_scope": st.sampled_from(["global", "group", "tensor"]),
        "eps": st.sampled_from([0.0, 1e-8, 1e-2]),
    }
)
dtypes = st.sampled_from([torch.float64, torch.float32, torch.float32, torch.bfloat16, torch.float16])
layouts = st.lists(st.sampled_from(LAYOUTS), min_size=1, max_size=4)
seeds = st.integers(0, 2**32 - 1)


class Walk(RuleBasedStateMachine):
    fused = False
    fast: AdamPlus
    reference: AdamPlusReference

    @initialize(
        name=st.sampled_from(list(FAMILY)),
        dtype=dtypes,
        mixed=st.booleans(),
        groups=st.lists(st.tuples(layouts, dtypes, settings), min_size=1, max_size=3),
        foreach=st.sampled_from([None, False, True]),
        capturable=st.booleans(),
        seed=seeds,
    )
    def start(
        self,
        name: str,
        dtype: torch.dtype,
        mixed: bool,
        groups: list[Any],
        foreach: bool | None,
        capturable: bool,
        seed: int,
    ) -> None:
        torch.manual_seed(seed)
        self.dtype = None if mixed else dtype
        self.cls = FAMILY[name][0]
        self.execution = {"fused": True} if self.fused else {"foreach": foreach, "capturable": capturable}
        built = [{"params": self.parameters(layout, own), **s} for layout, own, s in groups]
        self.fast, self.reference = pair(name, built, self.execution)
        self.scale, self.walked = 1.0, 0

    def parameters(self, layout: list[str], own: torch.dtype) -> list[nn.Parameter]:
        dtype = self.dtype or own
        if self.fused:  # what the kernels take: the rest is refused, see test_fused
            layout = ["vector" if x in ("complex", "strided") else x for x in layout]
            dtype = torch.float32 if dtype == torch.float64 else dtype
        return [parameter(x, dtype) for x in layout]

    @rule(missing=st.integers(0, 2**12 - 1), zero=st.booleans(), seed=seeds)
    @precondition(lambda self: self.fast.training)
    def step(self, missing: int, zero: bool, seed: int) -> None:
        torch.manual_seed(seed)
        grads: list[Tensor | None] = []
        for i, p in enumerate(params(self.fast)):
            g = torch.zeros_like(p) if zero else torch.randn_like(p)
            grads.append(None if missing >> i & 1 and seed % 2 else g)
        for optimizer in (self.fast, self.reference):
            give(optimizer, grads)
            optimizer.step()

    @rule()
    def evaluate(self) -> None:
        self.fast.eval()
        self.reference.eval()

    @rule()
    def train(self) -> None:
        self.fast.train()
        self.reference.train()

    @rule(fail=st.booleans())
    def averaged(self, fail: bool) -> None:
        before = self.reference.training
        self.reference.eval()
        try:
            with self.fast.averaged():
                self.agrees()
                if fail:
                    raise KeyError
        except KeyError:
            pass
        self.reference.train(before)

    @rule(foreach=st.sampled_from([None, False, True]), capturable=st.booleans())
    def save_and_load_elsewhere(self, foreach: bool | None, capturable: bool) -> None:
        saved = through_a_file({"model": [p.detach() for p in params(self.fast)], "optimizer": self.fast.state_dict()})
        fresh = [nn.Parameter(torch.full_like(p, 7.0)) for p in params(self.fast)]
        rest = iter(fresh)
        groups = [{"params": [next(rest) for _ in group["params"]]} for group in self.fast.param_groups]
        fused = self.fused and foreach is None  # else, a fused run goes on as another one
        self.fast = self.cls(groups, foreach=foreach, capturable=capturable, fused=fused or None)
        self.fast.load_state_dict(saved["optimizer"])
        with torch.no_grad():
            for p, value in zip(fresh, saved["model"], strict=True):
                p.copy_(value)

    @rule(how=st.sampled_from(["deepcopy", "pickle"]))
    def copy(self, how: str) -> None:
        before = self.fast
        self.fast = copy.deepcopy(before) if how == "deepcopy" else pickle.loads(pickle.dumps(before))
        with torch.no_grad():  # whatever the copy shares with the original shows from now on
            for p in params(before):
                p.fill_(float("nan"))
                for value in before.state.get(p, {}).values():
                    value.fill_(float("nan"))

    @rule(layout=layouts, dtype=dtypes, s=settings, seed=seeds)
    @precondition(lambda self: len(self.fast.param_groups) < 4)
    def add_param_group(self, layout: list[str], dtype: torch.dtype, s: dict[str, Any], seed: int) -> None:
        torch.manual_seed(seed)
        ps = self.parameters(layout, dtype)
        self.reference.add_param_group({"params": [float64_copy(p) for p in ps], **s})
        self.fast.add_param_group({"params": ps, **s})

    @rule(s=settings, which=st.integers(0, 3))
    def change_settings(self, s: dict[str, Any], which: int) -> None:
        for optimizer in (self.fast, self.reference):
            optimizer.param_groups[which % len(optimizer.param_groups)].update(s)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "fast"):
            return
        for q in params(self.reference):
            state = self.reference.state.get(q, {})
            for point in (q.detach(), state.get("w"), state.get("w_hat")):
                if point is not None and point.numel():
                    self.scale = max(self.scale, point.abs().max().item())
        coarsest = max((p.dtype.to_real() for p in params(self.fast)), key=lambda dtype: torch.finfo(dtype).eps)
        self.walked += 1
        lost = self.walked if coarsest.itemsize == 2 else 0
        units = TOLERANCE[coarsest] * max(1.0, self.walked / 25) + lost
        tolerance = units * torch.finfo(coarsest).eps * self.scale
        for p, q in zip(params(self.fast), params(self.reference), strict=True):
            z, expected = (o.state.get(x, {}).get("z") for o, x in ((self.fast, p), (self.reference, q)))
            assert (z is None) == (expected is None)
            if z is not None and expected is not None and z.numel():
                # gradients are at most about 5 here, and decay adds a tenth of ŵ's own error
                assert (z.to(expected.dtype) - expected).abs().max() <= tolerance + 1e-5 * (z.dtype != torch.float64)
            assert p.isfinite().all()
            assert not p.numel() or (p.detach().to(q.dtype) - q.detach()).abs().max() <= tolerance


class FusedWalk(Walk):
    """The same walks through the kernels, in Triton's interpreter."""

    fused = True


TestWalk = Walk.TestCase
TestFusedWalk = FusedWalk.TestCase
TestFusedWalk.settings = hypothesis.settings(max_examples=hypothesis.settings().max_examples // 8)


def test_walks_are_as_many_as_they_claim():
    """torch.testing brings a hypothesis profile of ten examples along; conftest must have the last word."""
    assert hypothesis.settings().max_examples >= 200
    assert TestFusedWalk.settings.max_examples >= 25
