"""One step of SpectralPlus, on one screen: Adam⁺ with another direction D(z) in place of z, and no norm to divide by.

    z_t = (1 − β) z_{t−1} + β g_t,  z_0 = g_0
    w_{t+1} = (1 − lr λ) w_t − lr D(z_t)
    ŵ_{t+1} = w_{t+1} − ℓ lr D(z_t)

As in `_algorithm.py`, the parameters hold ŵ, z is the only buffer, and w = ŵ + c D(z) with the offset c = ℓ lr of the
step that made ŵ. `_directions.py` has D, and `_exchange.py` has it for matrices that are cut over ranks.
"""

from typing import Any, cast

import torch
from torch import Tensor

from ._algorithm import ListExecution, Part, extrapolated, gradient_weights, per_tensor, scalar
from ._cuts import Cut
from ._directions import directions, scale_of
from ._exchange import exchanged_directions


def spectral_plus(x: Part, group: dict[str, Any]) -> None:
    """Take one step with a part of a group, by the list operations that execute it."""
    run = cast("ListExecution", x.run)
    lr, beta = scalar(group, "lr"), scalar(group, "beta")
    x.written = True
    g = run.gradients(x.g, x.w_hat, x.z, group["maximize"], 0.0)
    # w_t = ŵ_t + c_{t−1} D(z_{t−1}): undo the last extrapolation
    w = run.add_scaled(x.w_hat, known_direction(x, group), x.offset, +1, x.seeds) if group["extrapolated"] else x.w_hat
    if group["weight_decay"] != 0:
        w = run.scale(w, 1 - lr * group["weight_decay"], x.seeds)
    z = run.average(x.z, g, gradient_weights(x.step, beta, group["capturable"]))
    d = unscaled(z, x.cuts, group)
    if x.direction:
        d = run.assign(x.direction, d)  # rounded to bfloat16, as the next step will know it
    # s is in the rate and in the offset, and not in the direction: a later s cannot falsify w.
    rate, offset = extrapolated(lr * scale_of(group) * torch.ones_like(group["record"][0]), beta, group)
    # ŵ_{t+1} = w_{t+1} − ℓ lr D(z_t) = (1 − lr λ) w_t − (1 + ℓ) lr D(z_t)
    run.add_scaled(w, d, per_tensor(rate, x), -1, x.seeds)
    run.assign(x.offset, per_tensor(offset, x))
    run.count(x.step)


def known_direction(x: Part, group: dict[str, Any]) -> list[Tensor]:
    """D(z)/s that leads from ŵ back to w: kept since the last step, or computed from z again."""
    return x.direction or unscaled(x.z, x.cuts, group)


def unscaled(
    zs: list[Tensor], cuts: list[Cut], group: dict[str, Any], into: list[Tensor] | None = None
) -> list[Tensor]:
    """D(z)/s of each tensor, or of each shard if there are cuts. Without cuts, it may be written `into` tensors."""
    settings = {**group, "scale": 1.0}
    return exchanged_directions(zs, cuts, settings) if cuts else directions(zs, settings, into)
