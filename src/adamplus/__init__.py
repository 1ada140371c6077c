"""Adam⁺: an optimizer with one state buffer, adaptive variance reduction and a proof of convergence."""

from . import rivals as rivals
from . import theory as theory
from .optim import (
    NIGT,
    AdamPlus,
    AdamPlusReference,
    NAdamPlus,
    ReduceOnPlateau,
    SpectralPlus,
    SpectralPlusReference,
    Stats,
    cifar_schedule,
    spectral_groups,
    update_bn,
)

__version__ = "0.1.0"

__all__ = [
    "NIGT",
    "AdamPlus",
    "AdamPlusReference",
    "NAdamPlus",
    "ReduceOnPlateau",
    "SpectralPlus",
    "SpectralPlusReference",
    "Stats",
    "cifar_schedule",
    "spectral_groups",
    "update_bn",
]
