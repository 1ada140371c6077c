"""Methods of the paper's Table 1 that torch.optim does not have. (NIGT is `adamplus.NIGT`.)"""

from ._adam_type import GeneralizedAdam, PAdam
from ._base import Recipe
from ._escaping_sgd import EscapingSGD
from ._paired_gradients import PairedGradients
from ._prox_sarah import ProxSARAH
from ._snvrg import SNVRG
from ._spider import SPIDER
from ._stagewise import StagewiseAdaGrad
from ._storm import STORM

__all__ = [
    "SNVRG",
    "SPIDER",
    "STORM",
    "EscapingSGD",
    "GeneralizedAdam",
    "PAdam",
    "PairedGradients",
    "ProxSARAH",
    "Recipe",
    "StagewiseAdaGrad",
]
