"""The paper's claims about its experiments, sentence by sentence, and the rules that decide them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .elsewhere import DefaultsAsGood, Elsewhere, NoMeasure, SpeechModelSize, VarianceFalls, VariantBehind
from .experiments import IMAGE_TASKS
from .findings import Rule
from .growth_rules import FarFromIdeal, Flattens
from .rules import BestOfGrid, GoodDefaults, Needs, SmallerGap, TrainingTime, Versus

OTHERS = ("sgd", "msgd", "adagrad", "nigt", "adam")
PLAIN = ("sgd", "msgd", "adagrad", "adam")
PANELS: tuple[Literal["train", "test"], ...] = ("train", "test")
"""The panels of every figure. A sentence that names neither must hold in both."""
IMAGE_TITLES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}


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
    post_hoc: bool = False
    """Whether the rule was made after the measurements. Its outcome is no verdict on the paper."""
    elsewhere: Elsewhere | None = None
    """The rule of a claim that no run of an experiment decides. It has no other rules then."""

    @property
    def of_settings(self) -> bool:
        """Whether the claim is about the paper's settings. Searches of settings say nothing about it."""
        return bool(self.rules) and all(isinstance(rule, BestOfGrid | GoodDefaults) for _, rule in self.rules)

    @property
    def experiments(self) -> tuple[str, ...]:
        """The names of the experiments that the claim is about."""
        return tuple(dict.fromkeys(name for name, _ in self.rules))


def _of(experiments: Sequence[str] | str, *rules: Rule) -> tuple[tuple[str, Rule], ...]:
    names = (experiments,) if isinstance(experiments, str) else experiments
    return tuple((name, rule) for name in names for rule in rules)


IMAGES, TEXT, SPEECH, GROWTH = "3.1", "3.2", "3.3", "3.4"
ABSTRACT, INTRODUCTION, ALGORITHM, CONCLUSION = "abstract", "1", "2", "4"
ALL_TASKS = ("cifar10", "cifar100", "wikitext2", "swb300")
GROWING = IMAGE_TASKS
SEEN = (
    "The paper shows a figure and states no rule. This rule was made after the curves had been seen here. Two earlier "
    "rules (two straight lines, and two parabolas, fitted to Σ‖z‖) place the bend elsewhere. The schedule divides the "
    "rate by ten near that epoch, which bends Σ‖z‖ in any case."
)
LATE = "This rule was made after runs had been seen here."
LICENSED = "SWB-300 is licensed. Without its data, this claim can be refuted, but not confirmed."
GRID = "`adamplus reproduce --grid` runs the whole grid."
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
DEFAULTS_CAPTION = (
    "Adam⁺: Good default settings for the tested machine learning problems are α=0.1, a=1, β=0.1, ε₀=10⁻⁸."
)
RATES = "The best initial learning rates for Adagrad and Adam are 0.01 and 0.001 respectively."
RATES_OF_SPEECH = (
    "We grid search the learning rate of Adam and Adagrad from {0.1,0.01,0.001}, and report the best configuration we "
    "have found (Adam with learning rate 0.001 and Adagrad with learning rate 0.01)."
)
MOMENTUM_OF_IMAGES = (
    "For NIGT, we tune the their momentum parameter from {0.01,0.1,0.9} (the best momentum parameter we found is 0.9) "
    "and the learning rate is chosen the same as in SGD."
)
MOMENTUM_OF_TEXT = (
    "For NIGT, we tune the initial value of learning rate from the same range as in SGD, and tune the momentum "
    "parameter β from {0.01,0.1,0.9}, and the best parameter choice is β=0.9."
)
MOMENTUM_OF_SPEECH = (
    "In addition, we fine tuned β in NIGT by exploring β in {0.01,0.1,0.9} and reported the best configuration (β=0.9)."
)
SPEECH_RULES: tuple[Rule, ...] = (
    Versus("train", "comparable to", ("msgd",)),
    Versus("test", "comparable to", ("msgd",)),
    Versus("train", "better than", ("adagrad", "nigt", "adam")),
    Versus("test", "better than", ("adagrad", "nigt", "adam")),
)

CLAIMS: tuple[Claim, ...] = (
    *(
        claim
        for name, title in IMAGE_TITLES.items()
        for claim in (
            Claim(
                f"{title}: best in train accuracy",
                IMAGES,
                OUTPERFORMS,
                _of(name, Versus("train", "better than", OTHERS, when="whole")),
                "At the end almost every optimizer has a training accuracy of 1, so the mean over the run counts. "
                f"{LATE}",
                post_hoc=True,
            ),
            Claim(
                f"{title}: best in test accuracy", IMAGES, OUTPERFORMS, _of(name, Versus("test", "better than", OTHERS))
            ),
            Claim(
                f"{title}: best in test accuracy over the run",
                IMAGES,
                OUTPERFORMS,
                _of(name, Versus("test", "better than", OTHERS, when="whole")),
                f'The sentence says "consistently", so the mean over the run counts beside the end. {LATE}',
                post_hoc=True,
            ),
        )
    ),
    Claim(
        "CIFAR-100: Adam⁺ and NIGT ahead of the rest",
        IMAGES,
        "First, both Adam⁺ and NIGT significantly outperform SGD, momentum SGD, Adagrad and Adam.",
        _of(
            "cifar100",
            *(
                rule
                for hero in ("adam-plus", "nigt")
                for rule in (
                    Versus("train", "better than", PLAIN, hero, "whole"),
                    Versus("test", "better than", PLAIN, hero),
                )
            ),
        ),
    ),
    Claim(
        "CIFAR-100: Adam⁺ ends where NIGT ends",
        IMAGES,
        FINAL_AND_EARLY,
        _of("cifar100", *(Versus(panel, "comparable to", ("nigt",)) for panel in PANELS)),
        "The paper also says that Adam⁺ is ahead of NIGT. By these rules, both cannot hold.",
    ),
    Claim(
        "CIFAR-100: Adam⁺ is faster than NIGT early",
        IMAGES,
        FINAL_AND_EARLY,
        _of("cifar100", *(Versus(panel, "better than", ("nigt",), when="early") for panel in PANELS)),
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
        "AN4 is other speech, and hundreds of times less of it. The paper makes no claim about it.",
        ours=True,
    ),
    *(
        Claim(f"{title}: Σ‖z‖ {ending}", GROWTH, PLATEAU, _of(name, Flattens(where)), SEEN, post_hoc=True)
        for name, title in IMAGE_TITLES.items()
        for where, ending in ((False, "reaches a plateau"), (True, "flattens at epoch 154"))
    ),
    Claim(
        "Where Σ‖z‖ flattens, training has far to go",
        GROWTH,
        "At this particular epoch, the training and test accuracy are far from ideal and hence we need to keep the "
        "training until epoch 350.",
        _of(GROWING, FarFromIdeal()),
        SEEN,
        post_hoc=True,
    ),
    Claim(
        "Ahead of Adam on all tasks",
        INTRODUCTION,
        ON_ALL,
        _of(ALL_TASKS, Versus("test", "better than", ("adam",))),
        LICENSED,
    ),
    Claim(
        "Level with the best SGD and momentum SGD, or ahead",
        INTRODUCTION,
        ON_ALL,
        _of(ALL_TASKS, Versus("test", "no worse than", ("sgd", "msgd"))),
        f"The paper has plain SGD on every task but SWB-300. {LICENSED}",
    ),
    Claim(
        "Significantly ahead of Adam",
        ABSTRACT,
        "Our empirical studies on various deep learning tasks, including image classification, language modeling, and "
        "automatic speech recognition, demonstrate that Adam⁺ significantly outperforms Adam and achieves comparable "
        "performance with best-tuned SGD and momentum SGD.",
        _of(ALL_TASKS, Versus("test", "better than", ("adam",), least_seeds=3)),
        LICENSED,
    ),
    Claim(
        "The default settings are good",
        ALGORITHM,
        DEFAULTS_CAPTION,
        _of(ALL_TASKS, GoodDefaults()),
        "The paper itself runs other settings on text (rates of a grid, β as NIGT's) and on speech (β = 0.01).",
    ),
    Claim("The default settings are good on AN4", ALGORITHM, DEFAULTS_CAPTION, _of("an4", GoodDefaults()), ours=True),
    *(
        Claim(
            f"{title}: the best rates of AdaGrad and Adam are 0.01 and 0.001",
            section,
            sentence,
            _of(names, BestOfGrid("adagrad", "lr"), BestOfGrid("adam", "lr")),
            GRID,
            ours=names == ("an4",),
        )
        for title, section, sentence, names in (
            ("Images", IMAGES, RATES, IMAGE_TASKS),
            ("WikiText-2", TEXT, RATES, ("wikitext2",)),
            ("SWB-300", SPEECH, RATES_OF_SPEECH, ("swb300",)),
            ("AN4", SPEECH, RATES_OF_SPEECH, ("an4",)),
        )
    ),
    *(
        Claim(
            f"{title}: NIGT's best β is 0.9",
            section,
            sentence,
            _of(names, BestOfGrid("nigt", "momentum")),
            f"{GRID} β is read as a momentum here; the reading `beta-as-weight` has the other letter.",
            ours=names == ("an4",),
        )
        for title, section, sentence, names in (
            ("Images", IMAGES, MOMENTUM_OF_IMAGES, IMAGE_TASKS),
            ("WikiText-2", TEXT, MOMENTUM_OF_TEXT, ("wikitext2",)),
            ("SWB-300", SPEECH, MOMENTUM_OF_SPEECH, ("swb300",)),
            ("AN4", SPEECH, MOMENTUM_OF_SPEECH, ("an4",)),
        )
    ),
    *(
        Claim(
            f"{title}: Adam⁺'s best β is 0.01",
            SPEECH,
            "For Adam⁺, we follow the same learning rate and annealing strategy as in the Momentum SGD and tuned β in "
            "the same way as in NIGT, reporting the best configuration (β=0.01).",
            _of(name, BestOfGrid("adam-plus", "beta")),
            GRID,
            ours=name == "an4",
        )
        for title, name in (("SWB-300", "swb300"), ("AN4", "an4"))
    ),
    Claim(
        "Better generalisation than Adam",
        ALGORITHM,
        "Finally, Adam⁺ does not employ coordinate-wise learning rates as in Adam, and hence it is expected to have "
        "better generalization performance according to Wilson et al. (2017).",
        _of(("cifar10", "cifar100", "wikitext2"), SmallerGap("adam")),
        "Training accuracy is that of augmented images, so gaps on images are smaller than without augmentation.",
    ),
    Claim(
        "Provable variants of Adam are behind Adam in practice",
        ABSTRACT,
        "Variants of Adam have been proposed with provable convergence guarantee, but they tend not be competitive "
        "with Adam on the practical performance.",
        (),
        "The paper's experiments have no such variant. The rule's tasks are small ones on a CPU, so its outcome is no "
        "verdict on the paper. AMSGrad is torch's, with the β₁ and β₂ of Adam.",
        ours=True,
        elsewhere=VariantBehind(),
    ),
    Claim(
        "Normalising by ‖z‖ instead of its root is slow",
        "2.2",
        "However, we observed that normalizing by ‖z_t‖ leads to slow convergence in practice, so we are instead "
        "interested in p<1.",
        _of(("cifar10", "cifar100", "wikitext2"), Versus("train", "worse than", ("adam-plus",), "nigt", "early")),
        "NIGT is Nadam⁺ with p = 1, as the paper says there. In the column *paper* its rate is chosen otherwise than "
        f"Adam⁺'s; in *tuned* both have the same search. {LATE}",
        post_hoc=True,
    ),
    Claim(
        "The variance of z falls as the algorithm converges",
        ABSTRACT,
        "Our analysis further shows that Adam⁺ enjoys adaptive variance reduction, i.e., the variance of the "
        "stochastic gradient estimator reduces as the algorithm converges, hence enjoying an adaptive convergence.",
        (),
        "The rule was made after the measurement. On `digits` the error of z falls on, but so does the noise of its "
        "gradients. The theorems let β fall as the run goes on; the experiments on images keep it constant.",
        post_hoc=True,
        elsewhere=VarianceFalls(),
    ),
    Claim(
        "Slow growth of Σ‖z‖ is why Adam⁺ converges fast",
        GROWTH,
        "Then our algorithm Adam⁺ is able to take advantage of the slow growth rate of Σ‖z_i‖ for large t and enjoys "
        "faster convergence, which is consistent with Figure 1. This phenomenon verifies the variance reduction effect "
        "and also explains the reason why Adam⁺ enjoys a fast convergence speed in practice.",
        _of(GROWING, Needs((Flattens(where=False), Versus("train", "better than", OTHERS, when="early")))),
        f"Growth falls where the rate is divided by ten, which would explain as much. {LATE}",
        post_hoc=True,
    ),
    Claim(
        "As little to tune as Adam has",
        ABSTRACT,
        "As a result, Adam⁺ requires few parameter tuning, as Adam, but it enjoys a provable convergence guarantee.",
        (),
        "Few parameters to tune means here that defaults do. This rule was made after the measurement. The second half "
        "of the sentence is Theorem 1.",
        post_hoc=True,
        elsewhere=DefaultsAsGood(),
    ),
    Claim(
        "The size of the speech model",
        SPEECH,
        "This model contains over 43 million parameters and is about 165MB large.",
        (),
        elsewhere=SpeechModelSize(),
    ),
    Claim(
        "Training on SWB-300 takes 20 hours",
        SPEECH,
        "The training takes about 20 hours on 1 V100 GPU.",
        _of("swb300", TrainingTime(20, "V100")),
    ),
    Claim(
        "Deep networks are trained efficiently",
        CONCLUSION,
        "In this paper, we design a new algorithm named Adam⁺ to train deep neural networks efficiently.",
        (),
        elsewhere=NoMeasure(
            "the sentence names no quantity (time, evaluations or memory), no level of it, and no other optimizer to "
            "compare with. Claims 1 to 25 are about the test metrics and the speed that the paper shows elsewhere"
        ),
    ),
)
