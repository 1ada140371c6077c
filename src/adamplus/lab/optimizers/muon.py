"""Muon for hidden matrices combined with AdamW for embeddings, heads and vectors."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW, Optimizer

from .contender import UnavailableError
from .routing import routed

Groups = list[dict[str, Any]]


def muon_with_adamw(
    model: nn.Module,
    *,
    muon: Mapping[str, Any] | None = None,
    adamw: Mapping[str, Any] | None = None,
    weight_decay: float = 0.1,
) -> list[Optimizer]:
    """Muon for hidden matrices and AdamW for the rest: a list of both, or of one if the other has no parameters.

    `spectral_groups` decides which matrices are hidden. torch's Muon steps parameters of two dimensions, so AdamW steps
    convolutions as well.

    Args:
        model: the model.
        muon: settings of `torch.optim.Muon`.
        adamw: settings of `torch.optim.AdamW`.
        weight_decay: of hidden matrices and convolutions. Embeddings, heads and vectors have none.

    Raises:
        UnavailableError: If this version of torch has no Muon.
        InputError: If a parameter's place in the model is not known.
    """
    if not hasattr(torch.optim, "Muon"):
        raise UnavailableError(f"torch {torch.__version__} has no Muon: install torch 2.9 or later")
    matrices: list[nn.Parameter] = []
    decayed: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for group in routed(model):
        for p in group["params"]:
            (others if group["geometry"] == "sign" else matrices if p.ndim == 2 else decayed).append(p)
    rest = [{"params": some, "weight_decay": decay} for some, decay in ((decayed, weight_decay), (others, 0.0)) if some]
    parts: list[Optimizer] = []
    if matrices:
        parts.append(torch.optim.Muon(matrices, weight_decay=weight_decay, **(muon or {})))
    if rest:
        parts.append(AdamW(rest, **(adamw or {})))
    return parts


class MuonAdamW(Optimizer):
    """Muon for hidden matrices and AdamW for the rest, as one optimizer.

    Muon's updates are scaled to the size of AdamW's, by 0.2 √max(d_out, d_in) (`match_rms_adamw`).

    Args:
        model: the model.
        lr: Muon's learning rate.
        adamw_ratio: AdamW's learning rate over Muon's.
        weight_decay: of hidden matrices and convolutions.
        momentum: Muon's.
        nesterov: whether Muon steps by its momentum and the newest gradient.
        betas: AdamW's.
    """

    def __init__(
        self,
        model: nn.Module,
        lr: float = 1e-3,
        adamw_ratio: float = 0.5,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        muon = {"lr": lr, "momentum": momentum, "nesterov": nesterov, "adjust_lr_fn": "match_rms_adamw"}
        adamw = {"lr": adamw_ratio * lr, "betas": betas}
        self.parts: list[Optimizer] = muon_with_adamw(model, muon=muon, adamw=adamw, weight_decay=weight_decay)
        super().__init__([group for part in self.parts for group in part.param_groups], {})
        self._share()

    def _share(self) -> None:
        """Let the parts work on the groups and the state that this optimizer shows, saves and loads."""
        first = 0
        for part in self.parts:
            last = first + len(part.param_groups)
            part.param_groups, part.state = self.param_groups[first:last], self.state
            first = last

    def step(self, closure: Any = None) -> Any:
        """Take a step of both parts; returns the closure's loss, if there is a closure."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part in self.parts:
            part.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned."""
        super().load_state_dict(state_dict)
        self._share()
