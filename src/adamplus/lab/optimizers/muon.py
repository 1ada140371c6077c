"""Muon for matrices combined with AdamW for all other parameters."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.nn import Parameter
from torch.optim import AdamW, Optimizer

from .contender import UnavailableError


def muon_with_adamw(
    params: Iterable[Parameter], *, muon: Mapping[str, Any] | None = None, adamw: Mapping[str, Any] | None = None
) -> list[Optimizer]:
    """Muon for matrices and AdamW for other parameters: a list of both, or of one if the other has no parameters.

    A matrix is a parameter of two dimensions. Embeddings cannot be distinguished from other matrices here, so Muon
    steps them, too.

    Args:
        params: The parameters; not groups.
        muon: Settings of `torch.optim.Muon`.
        adamw: Settings of `torch.optim.AdamW`.

    Raises:
        UnavailableError: If this version of torch has no Muon.
    """
    if not hasattr(torch.optim, "Muon"):
        raise UnavailableError(f"torch {torch.__version__} has no Muon: install torch 2.9 or later")
    params = list(params)
    matrices, others = ([p for p in params if (p.ndim == 2) is matrix] for matrix in (True, False))
    parts: list[Optimizer] = [torch.optim.Muon(matrices, **(muon or {}))] if matrices else []
    return [*parts, AdamW(others, **(adamw or {}))] if others else parts


class MuonAdamW(Optimizer):
    """Muon for matrices and AdamW for all other parameters, as one optimizer with one learning rate.

    Muon's updates are scaled to the size of AdamW's (`match_rms_adamw`).
    """

    def __init__(self, params: Any, lr: float = 1e-3, momentum: float = 0.95, weight_decay: float = 0.0) -> None:
        both = {"lr": lr, "weight_decay": weight_decay}
        muon = {**both, "momentum": momentum, "adjust_lr_fn": "match_rms_adamw"}
        self.parts: list[Optimizer] = muon_with_adamw(params, muon=muon, adamw=both)
        super().__init__([group for part in self.parts for group in part.param_groups], {})
        self._share()

    def _share(self) -> None:
        """Let the parts work on the groups and the state that this optimizer shows, saves and loads."""
        for part, group in zip(self.parts, self.param_groups, strict=True):
            part.param_groups, part.state = [group], self.state

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
