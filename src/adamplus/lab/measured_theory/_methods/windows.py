"""The rows of the measured Table 1, and the settings among which every method chooses.

The windows were fixed before the table was measured, after trial runs at a few ε, and are equal for all methods: nine
step sizes (a reach of 256), six batches (a reach of 32,768), and three values of one more setting (a reach of 16).
These batches are factors of 8 apart. A second stage therefore adds batches at factors of 2 and 4 from each chosen one,
beyond the ends of the window too, with the chosen step size and its neighbours and the chosen third setting.

Their units are:

- Step size 1 is the step that moves along a gradient of norm ε as a gradient descent step of 1/L does; 1/ℓ for methods
  that compare a sample at two points. Step sizes that fall in time do so after about 1/ε steps.
- Batch 1 is σ²/ε², the number of samples whose mean has error ε. Methods with a large batch take this as their large
  batch, and their other batches in the proportions of their papers.
- Weights of moving averages (Adam⁺'s β and the weight of the average of any other method's iterates) are multiples of
  the batch's share: the noise of the average is then a part of ε for every batch.
"""

import math
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from adamplus import rivals
from adamplus.theory.problems import DoubleWell

from ..methods import whole
from . import rules

STEPS: tuple[float, ...] = tuple(2.0**power for power in range(-3, 6))
"""Step sizes of every method, in the units above."""
SHARES: tuple[float, ...] = tuple(8.0**-power for power in range(-1, 5))
"""Batches of every method, as shares of σ²/ε²."""
FINER: tuple[float, ...] = (4.0, 2.0, 0.5, 0.25)
"""Batches of the second stage, as multiples of those that the first stage chose."""
WEIGHTS: tuple[float, ...] = (0.25, 1.0, 4.0)
"""Weights of moving averages, as multiples of the batch's share."""


@dataclass(frozen=True)
class Scale:
    """Problem, ε and batch share, from which a method makes its settings."""

    problem: DoubleWell
    epsilon: float
    share: float

    @property
    def batch(self) -> int:
        """Samples per step."""
        return whole(self.share * (self.problem.sigma / self.epsilon) ** 2)

    @property
    def noise(self) -> float:
        """Standard deviation of one coordinate of a batch's gradient."""
        return self.problem.sigma / (self.batch * self.problem.dim) ** 0.5

    def weight(self, own: float) -> float:
        """Weight of a moving average."""
        return min(1.0, own * self.share)


@dataclass(frozen=True)
class Group:
    """Candidates that take their steps together, because they have the same batches and restarts."""

    share: float
    places: list[tuple[int, int]]
    """Index of each candidate's step size and of its third setting in their windows."""
    settings: list[dict[str, Any]]
    make: Callable[[Tensor, list[dict[str, Any]]], rules.Rule]
    shared: str
    """Batches and other settings that all candidates share, as text."""
    weights: tuple[float, ...]
    """Weights of the averages of the iterates; empty if the method averages them itself."""

    def only(self, places: Container[tuple[int, int]]) -> "Group":
        """The candidates at these places."""
        kept = [i for i, place in enumerate(self.places) if place in places]
        return replace(self, places=[self.places[i] for i in kept], settings=[self.settings[i] for i in kept])

    def begin(self, start: Tensor, chosen: list[int] | None = None) -> rules.Rule:
        """Begin runs of all candidates, or of the chosen ones, at the starting points."""
        return self.make(start, self.settings if chosen is None else [self.settings[i] for i in chosen])

    def text(self, candidate: int, average: int | None = None) -> str:
        """Settings of a candidate, with the weight of an average of its iterates if there is one."""
        own = (f"{name}={value:.3g}" for name, value in self.settings[candidate].items())
        averaged = [] if average is None else [f"average {self.weights[average]:.3g}"]
        return ", ".join([*own, *averaged]) + f"; {self.shared}"


Settings = Callable[[Scale, float, float], dict[str, Any]]
"""Function of a scale, a step size and a third setting, both in the window's units."""
MakeGroups = Callable[[Scale], Iterator[Group]]


@dataclass(frozen=True)
class Method:
    """One row of Table 1."""

    name: str
    source: str
    individual_smooth: bool
    hessian_lipschitz: bool
    exponent: float | None
    """Proved number of evaluations in the worst case, as a power of 1/ε; None if nothing is proved."""
    data_dependent: str
    groups: MakeGroups
    third: tuple[float, ...]
    """Window of the third setting."""

    def all_groups(self, problem: DoubleWell, epsilon: float) -> Iterator[Group]:
        """Groups of candidates, the largest batch first: it needs the fewest steps, and limits the others."""
        for share in SHARES:
            yield from self.groups(Scale(problem, epsilon, share))

    def finer_groups(
        self, problem: DoubleWell, epsilon: float, chosen: Iterable[tuple[float, int, int]]
    ) -> Iterator[Group]:
        """Groups of the second stage, the largest batch first.

        Args:
            problem: the problem.
            epsilon: the target.
            chosen: batch share and places in the windows of each choice of the first stage.
        """
        wanted: dict[float, set[tuple[int, int]]] = {}
        for share, i, j in chosen:
            for factor in FINER:
                wanted.setdefault(factor * share, set()).update((near, j) for near in (i - 1, i, i + 1))
        for share in sorted(wanted.keys() - set(SHARES), reverse=True):
            for group in self.groups(Scale(problem, epsilon, share)):
                if (only := group.only(wanted[share])).places:
                    yield only


def _one_point(rule: Any, settings: Settings, third: tuple[float, ...], **options: Any) -> MakeGroups:
    """Groups of a method with one batch size: one group with all step sizes and third settings."""

    def groups(scale: Scale) -> Iterator[Group]:
        places = [(i, j) for i in range(len(STEPS)) for j in range(len(third))]
        chosen = [settings(scale, STEPS[i], third[j]) for i, j in places]
        extra = {name: value(scale) if callable(value) else value for name, value in options.items()}

        def make(start: Tensor, settings: list[dict[str, Any]]) -> rules.Rule:
            return rule(start, settings, scale.batch, **extra)

        averages_itself = rule is rules.Family and extra.get("extrapolate", True)
        weights = () if averages_itself else tuple(scale.weight(own) for own in WEIGHTS)
        yield Group(scale.share, places, chosen, make, f"batch {scale.batch:,}", weights)

    return groups


def _nested(
    make_rule: Callable[[Tensor, list[dict[str, Any]], Scale, float], rules.Rule],
    settings: Settings,
    shared: Callable[[Scale, float], str],
    third: tuple[float, ...],
) -> MakeGroups:
    """Groups of a method whose third setting decides batches and restarts: one group for each of its values."""

    def groups(scale: Scale) -> Iterator[Group]:
        for j, own in enumerate(third):
            chosen = [settings(scale, step, own) for step in STEPS]

            def make(start: Tensor, settings: list[dict[str, Any]], own: float = own) -> rules.Rule:
                return make_rule(start, settings, scale, own)

            weights = tuple(scale.weight(weight) for weight in WEIGHTS)
            places = [(i, j) for i in range(len(STEPS))]
            yield Group(scale.share, places, chosen, make, shared(scale, own), weights)

    return groups


def _no_floor(scale: Scale, beta: float) -> float:
    return 1e-8


def _family(
    beta_power: float,
    norm_power: float,
    *,
    floor: Callable[[Scale, float], float] = _no_floor,
    extrapolate: bool = True,
) -> MakeGroups:
    def settings(scale: Scale, step: float, own: float) -> dict[str, Any]:
        beta = scale.weight(own)
        lr = step * scale.epsilon**norm_power * beta**-beta_power / scale.problem.L
        return {"lr": lr, "beta": beta, "eps": floor(scale, beta)}

    options = {"beta_power": beta_power, "norm_power": norm_power, "extrapolate": extrapolate}
    return _one_point(rules.Family, settings, WEIGHTS, **options)


def _adam_type(kind: str) -> MakeGroups:
    def settings(scale: Scale, step: float, own: float) -> dict[str, Any]:
        size = scale.noise**0.25 if kind == "padam" else scale.noise / scale.epsilon**0.5
        return {"lr": step * size / scale.problem.L, "gain": own}

    return _one_point(rules.AdamType, settings, GAINS, kind=kind)


def _bound(scale: Scale) -> float:
    """Bound of one coordinate of ∇F."""
    return scale.problem.G / scale.problem.dim**0.5


def _stagewise(scale: Scale, step: float, own: float) -> dict[str, Any]:
    return {"lr": step * _bound(scale) / (scale.problem.L * scale.epsilon**0.5), "gamma": own / scale.problem.L}


def _plain(scale: Scale, step: float, _: float) -> dict[str, Any]:
    return {"lr": step / scale.problem.L}


def _escaping(scale: Scale, step: float, own: float) -> dict[str, Any]:
    lr, L_H = step / scale.problem.L, scale.problem.L_H
    radius = own * (scale.epsilon / L_H) ** 0.5
    return {"lr": lr, "radius": radius, "ball_steps": math.ceil(1 / (lr * (L_H * scale.epsilon) ** 0.5))}


def _storm(scale: Scale, step: float, own: float) -> dict[str, Any]:
    smoothness = scale.problem.smoothness
    return {"lr": step / smoothness, "c": own * scale.share * smoothness**2, "w": 0.1}


def _spider_recipe(scale: Scale, own: float) -> rivals.Recipe:
    # smaller noise makes its batches, 2σ²/ε² and 2σ/(ε n₀), smaller
    return rivals.SPIDER.recipe(scale.epsilon, scale.problem.smoothness, scale.share**0.5 * scale.problem.sigma, own)


def _spider(scale: Scale, step: float, own: float) -> dict[str, Any]:
    recipe = _spider_recipe(scale, own).settings
    return {"lr": step * recipe["lr"], "length": step * recipe["length"]}


def _make_spider(start: Tensor, settings: list[dict[str, Any]], scale: Scale, own: float) -> rules.Rule:
    recipe = _spider_recipe(scale, own)
    return rules.SPIDER(start, settings, (recipe.batches[0], recipe.batches[1]), recipe.settings["period"])


def _spider_text(scale: Scale, own: float) -> str:
    recipe = _spider_recipe(scale, own)
    return f"period {recipe.settings['period']:,}; batches {_listed(recipe.batches)}"


def _sarah_recipe(scale: Scale, own: float) -> rivals.Recipe:
    small = whole(scale.batch**0.5)
    return rivals.ProxSARAH.recipe(scale.problem.smoothness, whole(own * small), small, scale.batch)


def _sarah(scale: Scale, step: float, own: float) -> dict[str, Any]:
    recipe = _sarah_recipe(scale, own).settings
    return {"lr": step * recipe["lr"] * recipe["gamma"]}


def _make_sarah(start: Tensor, settings: list[dict[str, Any]], scale: Scale, own: float) -> rules.Rule:
    recipe = _sarah_recipe(scale, own)
    return rules.ProxSARAH(start, settings, (recipe.batches[0], recipe.batches[1]), recipe.settings["inner"] + 1)


def _sarah_text(scale: Scale, own: float) -> str:
    recipe = _sarah_recipe(scale, own)
    return f"inner {recipe.settings['inner']:,}; batches {_listed(recipe.batches)}"


def _snvrg_shape(scale: Scale, own: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Batches and loops, with the paper's ratio of B_l to B but without its powers of 6: B_l would be larger than B."""
    loops = rivals.SNVRG.recipe(1.0, whole(own)).settings["loops"]
    large = scale.batch
    return (large, *(whole(large / math.prod(loops[:level]) ** 2) for level in range(len(loops)))), loops


def _snvrg(scale: Scale, step: float, _: float) -> dict[str, Any]:
    return {"lr": step / scale.problem.smoothness}


def _make_snvrg(start: Tensor, settings: list[dict[str, Any]], scale: Scale, own: float) -> rules.Rule:
    return rules.SNVRG(start, settings, *_snvrg_shape(scale, own))


def _snvrg_text(scale: Scale, own: float) -> str:
    batches, loops = _snvrg_shape(scale, own)
    return f"loops {_listed(loops)}; batches {_listed(batches)}"


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)


GAINS = (0.4, 0.1, 0.025)
"""1 − β₁ of Adam-type methods."""
LEVELS = (2, 3, 4)
"""Levels of SNVRG, which is the only window whose reach is not 16."""
N_0 = (1, 4, 16)
"""n₀ of SPIDER and the factor in STORM's c."""
GAMMAS = (0.125, 0.5, 2)
"""γ L of stagewise AdaGrad."""

ADAM_TYPE: dict[str, Any] = {
    "individual_smooth": False,
    "hessian_lipschitz": False,
    "exponent": 4.0,
    "data_dependent": "type I",
}
TWO_POINTS: dict[str, Any] = {
    "individual_smooth": True,
    "hessian_lipschitz": False,
    "exponent": 3.0,
    "data_dependent": "–",
}
HESSIAN: dict[str, Any] = {"individual_smooth": False, "hessian_lipschitz": True}
CHEN = "Chen, Liu, Sun, Hong 2018"
METHODS = {
    "amsgrad": Method("Generalized Adam: AMSGrad", CHEN, groups=_adam_type("amsgrad"), third=GAINS, **ADAM_TYPE),
    "adafom": Method("Generalized Adam: AdaFom", CHEN, groups=_adam_type("adafom"), third=GAINS, **ADAM_TYPE),
    "padam": Method("PAdam", "Chen, Zhou, … 2018", groups=_adam_type("padam"), third=GAINS, **ADAM_TYPE),
    "stagewise": Method(
        "Stagewise AdaGrad",
        "Chen, Yuan, … 2019",
        groups=_one_point(rules.StagewiseAdaGrad, _stagewise, GAMMAS, bound=_bound),
        third=GAMMAS,
        **ADAM_TYPE,
    ),
    "spider": Method(
        "SPIDER",
        "Fang, Li, … 2018",
        groups=_nested(_make_spider, _spider, _spider_text, N_0),
        third=N_0,
        **TWO_POINTS,
    ),
    "storm": Method(
        "STORM", "Cutkosky, Orabona 2019", groups=_one_point(rules.STORM, _storm, N_0), third=N_0, **TWO_POINTS
    ),
    "snvrg": Method(
        "SNVRG",
        "Zhou, Xu, Gu 2018",
        groups=_nested(_make_snvrg, _snvrg, _snvrg_text, LEVELS),
        third=LEVELS,
        **TWO_POINTS,
    ),
    "prox-sarah": Method(
        "Prox-SARAH",
        "Pham, Nguyen, … 2020",
        groups=_nested(_make_sarah, _sarah, _sarah_text, WEIGHTS),
        third=WEIGHTS,
        **TWO_POINTS,
    ),
    "sgd": Method(
        "SGD (Fang, Lin, Zhang)",
        "Fang, Lin, Zhang 2019",
        exponent=3.5,
        data_dependent="–",
        groups=_one_point(rules.EscapingSGD, _escaping, WEIGHTS),
        third=WEIGHTS,
        **HESSIAN,
    ),
    "sgd-ema": Method(
        "SGD + EMA (p = 0)",
        "not in the paper",
        exponent=4.0,
        data_dependent="–",
        groups=_one_point(rules.SGD, _plain, (1.0,)),
        third=(1.0,),
        individual_smooth=False,
        hessian_lipschitz=False,
    ),
    "nigt": Method(
        "Normalized momentum SGD (NIGT)",
        "Cutkosky, Mehta 2020",
        exponent=3.5,
        data_dependent="–",
        groups=_family(1.0, 1.0),
        third=WEIGHTS,
        **HESSIAN,
    ),
    "adam-plus-plain": Method(
        "Adam⁺ without extrapolation",
        "not in the paper",
        exponent=None,
        data_dependent="–",
        groups=_family(1.0, 0.5, extrapolate=False),
        third=WEIGHTS,
        **HESSIAN,
    ),
    "adam-plus": Method(
        "Adam⁺ (p = 1/2)",
        "Adam⁺",
        exponent=4.5,
        data_dependent="type II",
        groups=_family(1.0, 0.5),
        third=WEIGHTS,
        **HESSIAN,
    ),
    "adam-plus-floor": Method(
        "Adam⁺ (p = 1/2) with ε₀ = √(2ε)",
        "not in the paper",
        exponent=None,
        data_dependent="–",
        groups=_family(1.0, 0.5, floor=lambda scale, beta: (2 * scale.epsilon) ** 0.5),
        third=WEIGHTS,
        **HESSIAN,
    ),
    "nadam-plus": Method(
        "Nadam⁺ (p = 2/3)",
        "Adam⁺",
        exponent=3.5,
        data_dependent="–",
        groups=_family(4 / 3, 2 / 3, floor=lambda scale, beta: 2 * beta ** (4 / 3)),
        third=WEIGHTS,
        **HESSIAN,
    ),
}
