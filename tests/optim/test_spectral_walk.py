"""Random walks of SpectralPlus through steps, modes, checkpoints and changed settings, beside the float64 reference."""

import copy
import pickle
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from cases import float64_copy, params, seeds, through_a_file
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torch import nn

from adamplus import SpectralPlus, SpectralPlusReference

# Wide matrices of random gradients have singular values within a factor of ten of each other, which become 1 up to the
# rounding of matrix products: 1e-12 in float64 and 1e-5 in float32 were never exceeded by 2,000 walks. Kept directions
# are rounded to bfloat16: 2⁻⁹ of each entry, and the largest entry of U Vᵀ is 1.
DIRECTION = {torch.float64: 1e-11, torch.float32: 1e-4}
KEPT = 2.0**-9
ROUNDING = {torch.float64: 1e-15, torch.float32: 5e-7, torch.bfloat16: 2.0**-8}
# Entries of z that are this small beside the others may have another sign in another precision.
UNSURE = 1e-5

KINDS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "matrix": ((2, 7), {}),
    "tall": ((7, 2), {}),
    "row": ((1, 6), {}),
    "column": ((5, 1), {}),
    "convolution": ((2, 2, 2, 2), {}),
    "stored as (in, out)": ((9, 2), {"transposed": True}),
    "packed": ((6, 8), {"blocks": 3}),
    "packed unequally, stored as (in, out)": ((11, 5), {"blocks": (2, 3), "transposed": True}),
    "experts": ((3, 2, 9), {"stacked": True}),
    "packed experts": ((2, 4, 8), {"stacked": True, "blocks": 2}),
    "sign of a matrix": ((3, 3), {"geometry": "sign"}),
    "sign of a vector": ((5,), {"geometry": "sign"}),
    "sign of a scalar": ((), {"geometry": "sign"}),
}
settings = st.fixed_dictionaries(
    {
        "lr": st.floats(1e-3, 0.3),
        "beta": st.floats(0.05, 1.0),
        "lookahead": st.sampled_from([None, 0.0, 1.0, 1.0, 2.5]),
        "weight_decay": st.sampled_from([0.0, 0.1]),
        "scale": st.sampled_from([None, 0.3]),
        "maximize": st.booleans(),
    }
)
kinds = st.tuples(st.sampled_from(list(KINDS)), settings, st.booleans())
dtypes = st.sampled_from([torch.float64, torch.float32, torch.bfloat16])

# Coverage would double the time of the walks, and the tests of single rules run the same lines.
pytestmark = pytest.mark.uncovered


class Walk(RuleBasedStateMachine):
    fused = False
    fast: SpectralPlus
    reference: SpectralPlusReference

    @initialize(
        groups=st.lists(kinds, min_size=1, max_size=3),
        dtype=dtypes,
        execution=st.sampled_from([{}, {"foreach": False}, {"capturable": True}]),
        seed=seeds,
    )
    def start(self, groups: list[Any], dtype: torch.dtype, execution: dict[str, Any], seed: int) -> None:
        torch.manual_seed(seed)
        self.dtype = torch.float32 if self.fused and dtype == torch.float64 else dtype
        self.execution = {"fused": True} if self.fused else execution
        self.fast = SpectralPlus([nn.Parameter(torch.zeros(2, 2))])
        self.fast.param_groups.clear()
        self.reference = SpectralPlusReference([nn.Parameter(torch.zeros(2, 2))])
        self.reference.param_groups.clear()
        self.error, self.unsure = {}, {}
        for group in groups:
            self.add(*group)

    def add(self, kind: str, s: dict[str, Any], keep: bool) -> None:
        shape, layout = KINDS[kind]
        ps = [nn.Parameter(torch.randn(shape).to(self.dtype)) for _ in range(2)]
        self.reference.add_param_group({"params": [float64_copy(p) for p in ps], **layout, **s})
        self.fast.add_param_group({"params": ps, **layout, **s, "keep_direction": keep, **self.execution})
        for q in self.reference.param_groups[-1]["params"]:
            self.error[q], self.unsure[q] = 0.0, torch.zeros(shape, dtype=torch.bool)

    @rule(missing=st.integers(0, 2**8 - 1), seed=seeds)
    @precondition(lambda self: self.fast.training)
    def step(self, missing: int, seed: int) -> None:
        torch.manual_seed(seed)
        for i, (p, q) in enumerate(zip(params(self.fast), params(self.reference), strict=True)):
            p.grad = None if missing >> i & 1 and seed % 2 else torch.randn_like(p)
            q.grad = None if p.grad is None else p.grad.to(q.dtype)
        self.fast.step()
        self.reference.step()
        for fast, group in zip(self.fast.param_groups, self.reference.param_groups, strict=True):
            ahead = 1 / group["beta"] - 1 if group["lookahead"] is None else group["lookahead"]
            is_sign = group["geometry"] == "sign"
            scale = (0.04 if is_sign else 1.0) if group["scale"] is None else group["scale"]
            for q in group["params"]:
                if q.grad is not None:
                    z = self.reference.state[q]["z"]
                    # Three roundings of a point, and the error of a direction, which moves w and ŵ.
                    largest = max(q.abs().max().item(), self.reference.state[q]["w"].abs().max().item(), 1e-2)
                    self.error[q] += 3 * ROUNDING[self.dtype] * (largest + (2 + 2 * ahead) * group["lr"])
                    if is_sign:
                        self.unsure[q] |= z.abs() <= UNSURE
                    else:
                        own = DIRECTION[self.dtype if self.dtype == torch.float64 else torch.float32]
                        own += KEPT if fast["keep_direction"] else 0.0
                        self.error[q] += (2 + 2 * ahead) * group["lr"] * scale * (max(z.shape) ** 0.5) * own

    @rule()
    def evaluate(self) -> None:
        self.fast.eval()
        self.reference.eval()

    @rule()
    def train(self) -> None:
        self.fast.train()
        self.reference.train()

    @rule(foreach=st.sampled_from([None, False, True]), capturable=st.booleans())
    def save_and_load_elsewhere(self, foreach: bool | None, capturable: bool) -> None:
        saved = through_a_file({"model": [p.detach() for p in params(self.fast)], "optimizer": self.fast.state_dict()})
        fresh = [nn.Parameter(torch.full_like(p, 7.0)) for p in params(self.fast)]
        rest = iter(fresh)
        layouts = ("geometry", "stacked", "transposed", "blocks", "keep_direction")
        groups = [
            {"params": [next(rest) for _ in group["params"]], **{name: group[name] for name in layouts}}
            for group in self.fast.param_groups
        ]
        fused = self.fused and foreach is None  # else, a fused run goes on as another one
        self.fast = SpectralPlus(groups, foreach=foreach, capturable=capturable, fused=fused or None)
        self.fast.load_state_dict(saved["optimizer"])
        with torch.no_grad():
            for p, value in zip(fresh, saved["model"], strict=True):
                p.copy_(value)
        self.execution = {"foreach": foreach, "capturable": capturable, "fused": fused or None}

    @rule(how=st.sampled_from(["deepcopy", "pickle"]))
    def copy(self, how: str) -> None:
        before = self.fast
        self.fast = copy.deepcopy(before) if how == "deepcopy" else pickle.loads(pickle.dumps(before))
        with torch.no_grad():  # whatever the copy shares with the original shows from now on
            for p in params(before):
                p.fill_(float("nan"))
                for value in before.state.get(p, {}).values():
                    value.fill_(float("nan"))

    @rule(group=kinds, seed=seeds)
    @precondition(lambda self: len(self.fast.param_groups) < 4)
    def add_param_group(self, group: tuple[Any, ...], seed: int) -> None:
        torch.manual_seed(seed)
        self.add(*group)
        if not self.fast.training:  # what is new is at w and at ŵ
            assert self.fast.param_groups[-1]["training"] is False

    @rule(s=settings, which=st.integers(0, 3))
    def change_settings(self, s: dict[str, Any], which: int) -> None:
        for optimizer in (self.fast, self.reference):
            optimizer.param_groups[which % len(optimizer.param_groups)].update(s)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "error"):
            return
        for p, q in zip(params(self.fast), params(self.reference), strict=True):
            now = self.error[q] + 3 * ROUNDING[self.dtype] * max(1.0, q.detach().abs().max().item())
            difference = (p.detach().to(q.dtype) - q.detach()).abs().masked_fill(self.unsure[q], 0.0)
            assert difference.max().item() <= now
            assert p.isfinite().all()


class FusedWalk(Walk):
    """The same walks with signs through the kernel, in Triton's interpreter."""

    fused = True


TestWalk = Walk.TestCase
TestFusedWalk = FusedWalk.TestCase
TestFusedWalk.settings = hypothesis.settings(max_examples=hypothesis.settings().max_examples // 8)
