"""The paper's tasks with one other reading: Adam and AdaGrad follow the schedule as well.

The paper says "initial learning rate" of Adam and AdaGrad, too, and mentions no schedule for them.
"""

from .an4 import An4
from .cifar import Cifar10, Cifar100
from .schedules import Experiment
from .swb300 import Swb300
from .wikitext2 import Wikitext2


class Decayed(Experiment):
    """An experiment in which the schedule applies to every optimizer, and everything else is as in the paper."""

    def is_scheduled(self, optimizer: str) -> bool:
        """Return True: the schedule applies to every optimizer."""
        del optimizer
        return True


class DecayedCifar10(Decayed, Cifar10):
    """CIFAR-10 as in the paper, but every optimizer's rate falls at epochs 150 and 250."""

    paper_description = "CIFAR-10, all 50,000 images to train; ResNet18; crops (4 pixels) and flips; every rate falls."


class DecayedCifar100(Decayed, Cifar100):
    """CIFAR-100 as in the paper, but every optimizer's rate falls at epochs 150 and 250."""

    paper_description = "CIFAR-100, all 50,000 images to train; VGG19; crops (4 pixels) and flips; every rate falls."


class DecayedWikitext2(Decayed, Wikitext2):
    """WikiText-2 as in the paper, but every optimizer's rate falls when the validation loss saturates."""

    paper_description = (
        "WikiText-2, LSTM of two layers (650, untied, dropout 0.5); 20 streams of 35, clip 0.25; every rate falls."
    )


class DecayedAn4(Decayed, An4):
    """AN4 as in the paper's protocol, but every optimizer's rate is annealed."""

    paper_description = (
        "AN4, all speakers to train, cepstra with deltas; bidirectional LSTM of six layers; every rate is annealed."
    )


class DecayedSwb300(Decayed, Swb300):
    """SWB-300 as in the paper, but every optimizer's rate is annealed."""

    paper_description = (
        "SWB-300, all utterances to train; bidirectional LSTM of six layers, 32,000 states; every rate is annealed."
    )
