"""The family in JAX, as optax transformations (`pip install '.[jax]'` in a clone)."""

from ._adam_plus import adam_plus, nadam_plus, nigt
from ._geometry import Geometry, Sign, Spectral
from ._routing import default_geometry
from ._spectral_plus import spectral_plus
from ._state import AdamPlusState, SpectralPlusState, eval_params
from ._transfer import from_torch, to_torch

__all__ = [
    "AdamPlusState",
    "Geometry",
    "Sign",
    "Spectral",
    "SpectralPlusState",
    "adam_plus",
    "default_geometry",
    "eval_params",
    "from_torch",
    "nadam_plus",
    "nigt",
    "spectral_plus",
    "to_torch",
]
