"""The Adam⁺ family and what belongs to training with it."""

from ._adam_plus import AdamPlus
from ._batchnorm import update_bn
from ._family import NIGT, NAdamPlus
from ._optimizer import Stats
from ._orthogonal import POLAR_EXPRESS
from ._reference import AdamPlusReference
from ._schedules import ReduceOnPlateau, cifar_schedule
from ._spectral_groups import spectral_groups
from ._spectral_plus import SpectralPlus
from ._spectral_reference import SpectralPlusReference
from ._start import PAPER, lr_from_sgd

__all__ = [
    "NIGT",
    "PAPER",
    "POLAR_EXPRESS",
    "AdamPlus",
    "AdamPlusReference",
    "NAdamPlus",
    "ReduceOnPlateau",
    "SpectralPlus",
    "SpectralPlusReference",
    "Stats",
    "cifar_schedule",
    "lr_from_sgd",
    "spectral_groups",
    "update_bn",
]
