"""SpectralPlus of a model."""

from torch import nn

from adamplus import SpectralPlus

from .routing import routed


def spectral_plus(
    model: nn.Module,
    lr: float = 0.02,
    beta: float = 0.05,
    *,
    lookahead: float | None = 1.0,
    weight_decay: float = 0.1,
    sign_scale: float = 0.04,
    keep_direction: bool = False,
    stochastic_rounding: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    capturable: bool = False,
) -> SpectralPlus:
    """Build SpectralPlus with spectral steps for hidden matrices, and sign steps for embeddings, heads and vectors.

    With `lookahead=0`, these are the directions of Scion (Pethick et al., 2025) in the parametrisation of SpectralPlus:
    Scion's radii are the ratio of step sizes here, and its constrained form is decoupled weight decay.

    Args:
        model: the model.
        lr: the size of a spectral step.
        beta: the weight of the new gradient.
        lookahead: how many steps ahead gradients are taken.
        weight_decay: of hidden matrices. The others have none.
        sign_scale: the size of a sign step over that of a spectral step.
        keep_direction: keep directions in bfloat16 between steps instead of computing them twice.
        stochastic_rounding: of bfloat16 parameters.
        foreach: as in SpectralPlus.
        fused: as in SpectralPlus.
        capturable: as in SpectralPlus.
    """
    return SpectralPlus(
        routed(model, sign={"scale": sign_scale, "weight_decay": 0.0}),
        lr=lr,
        beta=beta,
        lookahead=lookahead,
        weight_decay=weight_decay,
        keep_direction=keep_direction,
        stochastic_rounding=stochastic_rounding,
        foreach=foreach,
        fused=fused,
        capturable=capturable,
    )
