"""The family."""

from adamplus import NIGT, AdamPlus, NAdamPlus

from .contender import Contender, LogUniform

BOTH = ("lr", "beta")
CONTENDERS = [
    Contender("adam-plus", AdamPlus, {"lr": LogUniform(0.1, 30)}, {"beta": 0.1}, {}, BOTH),
    Contender("nadam-plus", NAdamPlus, {"lr": LogUniform(0.2, 60)}, {"beta": 0.1}, {}, BOTH),
    Contender("nigt", NIGT, {"lr": LogUniform(0.005, 1.5)}, {"momentum": 0.9}, {}, BOTH),
]
