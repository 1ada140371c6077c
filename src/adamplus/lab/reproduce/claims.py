"""The paper's claims about its experiments, sentence by sentence, and the rules that decide them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .rules import FarFromIdeal, Flattens, Rule, Undecided, Versus

OTHERS = ("sgd", "msgd", "adagrad", "nigt", "adam")
PLAIN = ("sgd", "msgd", "adagrad", "adam")
PANELS: tuple[Literal["train", "test"], ...] = ("train", "test")
"""The panels of every figure. A sentence that names neither must hold in both."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and the rules that must hold."""

    title: str
    section: str
    sentence: str
    rules: tuple[tuple[str, Rule], ...]
    """Names of experiments, each with a rule that must hold for it."""
    note: str = ""
    ours: bool = False
    """Whether the claim is ours: the paper makes it about something else."""

    @property
    def experiments(self) -> tuple[str, ...]:
        """The names of the experiments that the claim is about."""
        return tuple(dict.fromkeys(name for name, _ in self.rules))


def _of(experiments: Sequence[str] | str, *rules: Rule) -> tuple[tuple[str, Rule], ...]:
    names = (experiments,) if isinstance(experiments, str) else experiments
    return tuple((name, rule) for name in names for rule in rules)


IMAGES, TEXT, SPEECH, INTRODUCTION, GROWTH = "4.1", "4.2", "4.3", "1", "4.4"
ALL_TASKS = ("cifar10", "cifar100", "wikitext2", "swb300")
GROWING = ("cifar10", "cifar100")
SEEN = (
    "The paper shows a figure and has no rule. This one was made when curves had been seen here, after two others that "
    "place the bend elsewhere (two straight lines, two parabolas, fitted to Σ‖z‖): a judgement of what one sees."
)
OUTPERFORMS = (
    "We observe that our algorithm consistently outperforms all other algorithms on both CIFAR10 and CIFAR100, in "
    "terms of both training and testing accuracy."
)
FINAL_AND_EARLY = (
    "Second, Adam⁺ achieves almost the same final accuracy as NIGT, and Adam⁺ converges much faster in the early stage "
    "of the training."
)
TRAINING_PERPLEXITY = (
    "First, in terms of training perplexity, our algorithm achieves comparable performance with SGD and momentum SGD "
    "and outperforms Adagrad and NIGT, and it is worse than Adam."
)
TEST_PERPLEXITY = (
    "Second, in terms of test perplexity, our algorithm outperforms Adam, Adagrad, NIGT and momentum SGD, and it is "
    "comparable to SGD."
)
HELD_OUT = (
    "Adam⁺ achieves the indistinguishable training loss and held-out loss w.r.t. well-tuned Momentum SGD baseline and "
    "significantly outperforms the other optimizers."
)
PLATEAU = (
    "From Figure 5, we can observe that it quickly reaches a plateau and then grows at a very slow rate with respect "
    "to the number of iterations. Specifically, the plateau is reached at around 6×10⁴ iterations, which corresponds "
    "to the epoch 154."
)
ON_ALL = (
    "Our empirical results show that our proposed algorithm consistently outperforms Adam on all tasks, and it "
    "achieves comparable performance with the best-tuned SGD and momentum SGD."
)
SPEECH_RULES: tuple[Rule, ...] = (
    Versus("train", "comparable to", ("msgd",)),
    Versus("test", "comparable to", ("msgd",)),
    Versus("train", "better than", ("adagrad", "nigt", "adam")),
    Versus("test", "better than", ("adagrad", "nigt", "adam")),
)

CLAIMS: tuple[Claim, ...] = (
    *(
        Claim(
            f"{title}: best in {panel} accuracy", IMAGES, OUTPERFORMS, _of(name, Versus(panel, "better than", OTHERS))
        )
        for name, title in (("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100"))
        for panel in PANELS
    ),
    Claim(
        "CIFAR-100: Adam⁺ and NIGT ahead of the rest",
        IMAGES,
        "First, both Adam⁺ and NIGT significantly outperform SGD, momentum SGD, Adagrad and Adam.",
        _of(
            "cifar100",
            *(Versus(panel, "better than", PLAIN, hero) for hero in ("adam-plus", "nigt") for panel in PANELS),
        ),
    ),
    Claim(
        "CIFAR-100: Adam⁺ ends where NIGT ends",
        IMAGES,
        FINAL_AND_EARLY,
        _of("cifar100", *(Versus(panel, "comparable to", ("nigt",)) for panel in PANELS)),
        "This and the claims above that Adam⁺ is ahead of NIGT cannot both hold by these rules: the paper says both.",
    ),
    Claim(
        "CIFAR-100: Adam⁺ is faster than NIGT early",
        IMAGES,
        FINAL_AND_EARLY,
        _of("cifar100", *(Versus(panel, "better than", ("nigt",), early=True) for panel in PANELS)),
    ),
    Claim(
        "WikiText-2, training: level with SGD and momentum SGD",
        TEXT,
        TRAINING_PERPLEXITY,
        _of("wikitext2", Versus("train", "comparable to", ("sgd", "msgd"))),
    ),
    Claim(
        "WikiText-2, training: ahead of AdaGrad and NIGT",
        TEXT,
        TRAINING_PERPLEXITY,
        _of("wikitext2", Versus("train", "better than", ("adagrad", "nigt"))),
    ),
    Claim(
        "WikiText-2, training: behind Adam",
        TEXT,
        TRAINING_PERPLEXITY,
        _of("wikitext2", Versus("train", "worse than", ("adam",))),
    ),
    Claim(
        "WikiText-2, test: ahead of Adam, AdaGrad, NIGT and momentum SGD",
        TEXT,
        TEST_PERPLEXITY,
        _of("wikitext2", Versus("test", "better than", ("adam", "adagrad", "nigt", "msgd"))),
    ),
    Claim(
        "WikiText-2, test: level with SGD",
        TEXT,
        TEST_PERPLEXITY,
        _of("wikitext2", Versus("test", "comparable to", ("sgd",))),
    ),
    Claim(
        "WikiText-2: Adam trains fast and generalises badly",
        TEXT,
        "An interesting observation is that Adam does not generalize well even if it has fast convergence in terms of "
        "training error",
        _of(
            "wikitext2",
            Versus("train", "better than", ("adam-plus", "sgd", "msgd", "adagrad", "nigt"), "adam"),
            Versus("test", "worse than", ("adam-plus", "sgd"), "adam"),
        ),
    ),
    Claim("SWB-300: level with momentum SGD, ahead of the rest", SPEECH, HELD_OUT, _of("swb300", *SPEECH_RULES)),
    Claim(
        "The same on AN4",
        SPEECH,
        HELD_OUT,
        _of("an4", *SPEECH_RULES),
        "AN4 is other speech, hundreds of times less of it, and so are steps: the paper claims nothing of it.",
        ours=True,
    ),
    *(
        Claim(f"{title}: Σ‖z‖ {ending}", GROWTH, PLATEAU, _of(name, Flattens(where)), SEEN)
        for name, title in (("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100"))
        for where, ending in ((False, "reaches a plateau"), (True, "flattens at epoch 154"))
    ),
    Claim(
        "Where Σ‖z‖ flattens, training has far to go",
        GROWTH,
        "At this particular epoch, the training and test accuracy are far from ideal and hence we need to keep the "
        "training until epoch 350.",
        _of(GROWING, FarFromIdeal()),
        SEEN,
    ),
    Claim("Ahead of Adam on all tasks", INTRODUCTION, ON_ALL, _of(ALL_TASKS, Versus("test", "better than", ("adam",)))),
    Claim(
        "Level with the best SGD and momentum SGD, or ahead",
        INTRODUCTION,
        ON_ALL,
        _of(ALL_TASKS, Versus("test", "no worse than", ("sgd", "msgd"))),
        "The paper tells of plain SGD on every task but SWB-300.",
    ),
    Claim(
        "Normalising by ‖z‖ instead of its root is slow",
        "2.2",
        "However, we observed that normalizing by ‖z_t‖ leads to slow convergence in practice, so we are instead "
        "interested in p<1.",
        _of(("cifar10", "cifar100", "wikitext2"), Undecided()),
        "NIGT is Nadam⁺ with p = 1, as the paper says there, but its rates are chosen otherwise: to compare it with "
        "Adam⁺ is to compare settings more than powers.",
    ),
    Claim(
        "Slow growth of Σ‖z‖ is why Adam⁺ converges fast",
        GROWTH,
        "Then our algorithm Adam⁺ is able to take advantage of the slow growth rate of Σ‖z_i‖ for large t and enjoys "
        "faster convergence, which is consistent with Figure 1. This phenomenon verifies the variance reduction effect "
        "and also explains the reason why Adam⁺ enjoys a fast convergence speed in practice.",
        _of(GROWING, Undecided()),
        "Growth falls where the rate is divided by ten, which would explain as much.",
    ),
    Claim(
        "As little to tune as Adam has",
        "abstract",
        "As a result, Adam⁺ requires few parameter tuning, as Adam, but it enjoys a provable convergence guarantee.",
        _of("cifar10", Undecided()),
        "Searches of both over ranges as wide would tell: `adamplus compare --tune` says how wide the good rates are.",
    ),
)
