"""Random walks through everything that can happen to an optimizer, compared with the reference after each rule."""

import copy
import math
import pickle
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy
import pytest
import torch
from cases import (
    FAMILY,
    dtypes,
    float64_copy,
    give,
    layouts,
    pair,
    parameter,
    params,
    seeds,
    settings,
    through_a_file,
    values,
)
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torch import Tensor, nn

from adamplus import AdamPlus, AdamPlusReference

# How far a walk may be from the float64 reference, in units of eps times the largest value that it has seen: each step
# rounds a parameter two or three times and each switch once. 600 walks of 50 rules were at most 8.4, 2.8, 1.3 and 3.4
# away; roundings add up, so a walk of more than 25 rules may be as much further. In 16 bits, steps smaller than half an
# ulp are lost one by one, all in the same direction: a rule may then cost a whole unit. Dtypes that share a norm share
# the accuracy of the coarsest, so a walk is judged by that one. Where ‖z‖ is small, a step divides z's own rounding by
# it: what that can do to ŵ is added up in `bent` (with eps=0, gradients that cancel leave a z made of rounding alone).
TOLERANCE = {torch.float64: 30, torch.float32: 10, torch.bfloat16: 5, torch.float16: 10}


# Coverage would double the time of the walks, and the tests of single rules run the same lines.
pytestmark = pytest.mark.uncovered


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
        skips=st.booleans(),
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
        skips: bool,
        seed: int,
    ) -> None:
        torch.manual_seed(seed)
        self.dtype = None if mixed else dtype
        self.cls = FAMILY[name][0]
        self.execution: dict[str, Any] = (
            {"fused": True} if self.fused else {"foreach": foreach, "capturable": capturable}
        ) | {"skip_nonfinite": skips}
        self.skipped = 0
        built = [{"params": self.parameters(layout, own), **s} for layout, own, s in groups]
        self.fast, self.reference = pair(name, built, self.execution)
        self.scale, self.walked, self.largest, self.bent = 1.0, 0, 0.0, 0.0

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
        before = [self.reference.state.get(q, {"w": q})["w"].detach().clone() for q in params(self.reference)]
        for optimizer in (self.fast, self.reference):
            give(optimizer, grads)
            optimizer.step()
        self.bend(before)

    @rule(missing=st.integers(0, 2**12 - 1), bad=st.sampled_from([math.inf, -math.inf, math.nan]), seed=seeds)
    @precondition(lambda self: self.fast.training and self.execution["skip_nonfinite"])
    def skip(self, missing: int, bad: float, seed: int) -> None:
        """A step with inf or NaN in one gradient, which the reference is not given."""
        torch.manual_seed(seed)
        ps = [p for p in params(self.fast) if p.numel()]
        poisoned = ps[seed % len(ps)] if ps else None
        for i, p in enumerate(params(self.fast)):
            p.grad = None if missing >> i & 1 and p is not poisoned else torch.randn_like(p)
        if poisoned is not None:
            at = torch.unravel_index(torch.tensor(seed % poisoned.numel()), poisoned.shape)
            poisoned.grad[at] = bad  # pyright: ignore[reportOptionalSubscript]
            before, points = self.fast.stats(), values(self.fast)
            with numpy.errstate(all="ignore"):  # Triton's interpreter computes in NumPy, which warns
                self.fast.step()
            self.skipped += 1
            assert self.fast.stats() == before._replace(skipped=self.skipped)
            assert all(torch.equal(a, b) for a, b in zip(points, values(self.fast), strict=True))

    def bend(self, before: list[Tensor]) -> None:
        """Add what this step can have made of the rounding of z, by the reference's own step size."""
        rates, places = [0.0], iter(before)
        for group in self.reference.param_groups:
            kept = 1 - group["lr"] * group["weight_decay"] * group["decoupled_weight_decay"]
            for q in group["params"]:
                w, state = next(places), self.reference.state.get(q)
                if state and q.grad is not None and state["z"].any():
                    z = state["z"].abs().max().item()
                    self.largest = max(self.largest, z, q.grad.abs().max().item())
                    steps = 1 / group["beta"] if group["lookahead"] is None else 1 + group["lookahead"]
                    rates.append((state["w"] - kept * w).abs().max().item() / z * steps)
        eps = max(torch.finfo(s["z"].dtype).eps for s in self.fast.state.values()) if self.fast.state else 0.0
        # four roundings of z, and a tenth of ŵ's error through weight decay; η bends as much again
        self.bent += 2 * max(rates) * (4 * eps * self.largest + 0.1 * self.tolerance())

    def tolerance(self) -> float:
        coarsest = max((p.dtype.to_real() for p in params(self.fast)), key=lambda dtype: torch.finfo(dtype).eps)
        lost = self.walked if coarsest.itemsize == 2 else 0
        units = TOLERANCE[coarsest] * max(1.0, self.walked / 25) + lost
        return units * torch.finfo(coarsest).eps * self.scale + self.bent

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
        skips = self.execution["skip_nonfinite"]
        self.fast = self.cls(groups, foreach=foreach, capturable=capturable, fused=fused or None, skip_nonfinite=skips)
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
        self.walked += 1
        tolerance = self.tolerance()
        for p, q in zip(params(self.fast), params(self.reference), strict=True):
            z, expected = (o.state.get(x, {}).get("z") for o, x in ((self.fast, p), (self.reference, q)))
            # a parameter has a state after a first step that was skipped
            assert expected is None or z is not None
            assert z is None or expected is not None or not z.any()
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


def test_the_profile_runs_at_least_200_walks():
    """torch.testing loads a hypothesis profile of ten examples; conftest.py must load its own after it."""
    assert hypothesis.settings().max_examples >= 200
    assert TestFusedWalk.settings.max_examples >= 25
