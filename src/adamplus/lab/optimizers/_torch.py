"""torch.optim's own."""

from typing import Any

import torch
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RAdam, RMSprop

from ._contender import Contender, LogUniform, UnavailableError


class MuonAdamW(Optimizer):
    """Muon for matrices, and AdamW for what is none, as people combine them."""

    def __init__(
        self, params: Any, lr: float = 0.02, adamw_lr: float = 1e-3, momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        if not hasattr(torch.optim, "Muon"):
            raise UnavailableError(f"torch {torch.__version__} does not have it (2.9 and later do)")
        params = list(params)
        matrices, others = ([p for p in params if (p.ndim == 2) is matrix] for matrix in (True, False))
        self.parts: list[Optimizer] = []
        if matrices:
            self.parts.append(torch.optim.Muon(matrices, lr=lr, momentum=momentum, weight_decay=weight_decay))
        if others:
            self.parts.append(AdamW(others, lr=adamw_lr, weight_decay=weight_decay))
        super().__init__(params, {})
        self._share_groups()

    def _share_groups(self) -> None:
        self.param_groups = [group for part in self.parts for group in part.param_groups]

    def step(self, closure: Any = None) -> Any:
        """Take a step of both."""
        loss = None if closure is None else closure()
        for part in self.parts:
            part.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Of both."""
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What `state_dict` gave."""
        for part, saved in zip(self.parts, state_dict["parts"], strict=True):
            part.load_state_dict(saved)
        self._share_groups()


CAPTURABLE, RATE = {"capturable": True}, ("lr",)
CONTENDERS = [
    Contender("sgd", SGD, {"lr": LogUniform(0.01, 3)}, {}, {"fused": True}, RATE),
    Contender("msgd", SGD, {"lr": LogUniform(0.003, 1)}, {"momentum": 0.9}, {"fused": True}, RATE),
    Contender("adagrad", Adagrad, {"lr": LogUniform(0.001, 0.3)}),
    Contender("adam", Adam, {"lr": LogUniform(1e-4, 0.03)}, {}, {"fused": True, **CAPTURABLE}, RATE),
    Contender("adamw", AdamW, {"lr": LogUniform(1e-4, 0.03)}, {}, {"fused": True, **CAPTURABLE}, RATE),
    Contender("amsgrad", Adam, {"lr": LogUniform(1e-4, 0.03)}, {"amsgrad": True}, {"fused": True, **CAPTURABLE}, RATE),
    Contender("rmsprop", RMSprop, {"lr": LogUniform(1e-5, 0.003)}, {}, CAPTURABLE, RATE),
    Contender("radam", RAdam, {"lr": LogUniform(1e-4, 0.03)}, {}, CAPTURABLE, RATE),
    Contender("muon", MuonAdamW, {"lr": LogUniform(0.001, 0.3)}),
]
