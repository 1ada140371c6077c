"""SpectralPlus as printed in its documentation, with w, ŵ and z all stored, and singular value decompositions for D."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from . import _settings
from ._directions import check_geometry, scale_of
from ._reference import ReferenceOptimizer


class SpectralPlusReference(ReferenceOptimizer):
    r"""SpectralPlus with a singular value decomposition of every matrix in every step. It is slow and easy to check.

    .. math::
        z_t &= (1-\beta) z_{t-1} + \beta g_t(\hat w_t), \qquad z_0 = g_0(w_0) \\
        w_{t+1} &= (1 - \text{lr} \lambda) w_t - \text{lr} D(z_t) \\
        \hat w_{t+1} &= w_{t+1} - \ell \, \text{lr} D(z_t)

    ==============  ===============================================
    geometry        D(z)
    ==============  ===============================================
    ``"spectral"``  s √(d_out/d_in) U Vᵀ, where z = U Σ Vᵀ
    ``"sign"``      s sign(z)
    ==============  ===============================================

    The decomposition is computed in float64. Singular values up to max(d_out, d_in) · ε · σ_max count as zero, as in
    `torch.linalg.matrix_rank`, where ε is `torch.finfo(z.dtype).eps`. A matrix with inf or NaN has a direction of NaN.

    Args:
        params: parameters or parameter groups, as in torch.optim.
        lr: the size of a step.
        beta: β in (0, 1], the weight of the new gradient.
        lookahead: ℓ, how many steps ahead of w gradients are taken. None is Adam⁺'s 1/β − 1.
        weight_decay: λ. Each step shrinks w to (1 − lr·λ) w.
        geometry: "spectral" or "sign".
        scale: s. Default: 1 for "spectral" and 0.04 for "sign".
        stacked: all dimensions but the last two number matrices. Default: the first is d_out, all others are d_in.
        transposed: matrices are stored as (d_in, d_out).
        blocks: number or sizes of the matrices that d_out consists of.
        maximize: maximize the objective instead of minimizing it.

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([[3.0, 0.0], [0.0, 2.0]]))
        >>> optimizer = adamplus.SpectralPlusReference([w], lr=0.5, weight_decay=0.0)
        >>> w.grad = torch.tensor([[0.0, 7.0], [-0.1, 0.0]])
        >>> optimizer.step()                     # U Vᵀ has singular values of 1 instead of 7 and 0.1
        >>> optimizer.state[w]["w"]
        tensor([[ 3.0000, -0.5000],
                [ 0.5000,  2.0000]])
        >>> w.data
        tensor([[ 3., -1.],
                [ 1.,  2.]])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.02,
        beta: float | Tensor = 0.05,
        *,
        lookahead: float | None = 1.0,
        weight_decay: float = 0.1,
        geometry: str = "spectral",
        scale: float | None = None,
        stacked: bool = False,
        transposed: bool = False,
        blocks: int | tuple[int, ...] = 1,
        maximize: bool = False,
    ) -> None:
        defaults: dict[str, Any] = {
            "lr": lr,
            "beta": beta,
            "lookahead": lookahead,
            "weight_decay": weight_decay,
            "geometry": geometry,
            "scale": scale,
            "stacked": stacked,
            "transposed": transposed,
            "blocks": blocks,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group. Settings that it lacks are the optimizer's defaults."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            _settings.check_method(group)
            check_geometry(group, group["params"])
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step of all parameters that have a gradient."""
        loss = self.loss_before_step(closure)
        for group in self.param_groups:
            lr, beta = float(group["lr"]), float(group["beta"])
            ahead = 1 / beta - 1 if group["lookahead"] is None else group["lookahead"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["w"], state["w_hat"], state["z"] = p.clone(), p.clone(), None
                g = -p.grad if group["maximize"] else p.grad
                state["z"] = g.clone() if state["z"] is None else (1 - beta) * state["z"] + beta * g
                direction = _direction(state["z"], group)
                state["w"] = (1 - lr * group["weight_decay"]) * state["w"] - lr * direction
                state["w_hat"] = state["w"] - ahead * lr * direction
                p.copy_(state["w_hat"])
        return loss


def _direction(z: Tensor, group: dict[str, Any]) -> Tensor:
    """D(z) for the settings of a group."""
    scale = scale_of(group)
    if group["geometry"] == "sign":
        return scale * torch.sign(z) + 0 * z  # NaN where z is not finite
    if z.numel() == 0:
        return z.clone()
    if group["stacked"]:
        rows, columns = z.shape[-2:]
        stack = [_of_matrix(matrix, scale, group) for matrix in z.reshape(-1, rows, columns)]
        return torch.stack(stack).reshape(z.shape)
    return _of_matrix(z.reshape(z.shape[0], -1), scale, group).reshape(z.shape)


def _of_matrix(stored: Tensor, scale: float, group: dict[str, Any]) -> Tensor:
    """The same for one matrix as it is stored."""
    z = stored.T if group["transposed"] else stored
    number_or_sizes = group["blocks"]
    blocks = z.chunk(number_or_sizes) if isinstance(number_or_sizes, int) else z.split(number_or_sizes)
    direction = torch.cat([scale * math.sqrt(len(block) / block.shape[1]) * _polar(block) for block in blocks])
    return direction.T if group["transposed"] else direction


def _polar(z: Tensor) -> Tensor:
    """U Vᵀ of a matrix U Σ Vᵀ, without the singular values that are zero up to rounding."""
    if not z.isfinite().all():
        return torch.full_like(z, math.nan)
    u, sigma, vh = torch.linalg.svd(z.double(), full_matrices=False)
    kept = sigma > max(z.shape) * torch.finfo(z.dtype).eps * sigma.max()
    return (u[:, kept] @ vh[kept]).to(z.dtype)
