"""Adam⁺: an optimizer with one state buffer, gradients taken ahead of the iterate, and a proof of convergence."""

from . import rivals as rivals
from . import theory as theory
from .optim import (
    NIGT,
    PAPER,
    AdamPlus,
    AdamPlusReference,
    NAdamPlus,
    ReduceOnPlateau,
    SpectralPlus,
    SpectralPlusReference,
    Stats,
    cifar_schedule,
    lr_from_sgd,
    spectral_groups,
    update_bn,
)

__version__ = "0.1.0"

__all__ = [
    "NIGT",
    "PAPER",
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
