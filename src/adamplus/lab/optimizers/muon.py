"""torch.optim's own."""

from typing import Any

import torch
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RAdam, RMSprop

from .contender import Contender, LogUniform, UnavailableError


class MuonAdamW(Optimizer):
    """Muon for matrices and AdamW for what is none, as people combine them; one learning rate is for both.

    Muon's updates are brought to the size of AdamW's (`match_rms_adamw`). A matrix is a parameter of two dimensions:
    which of them embeds words cannot be seen from here, and those are Muon's too.
    """

    def __init__(self, params: Any, lr: float = 1e-3, momentum: float = 0.95, weight_decay: float = 0.0) -> None:
        if not hasattr(torch.optim, "Muon"):
            raise UnavailableError(f"torch {torch.__version__} does not have it (2.9 and later do)")
        params = list(params)
        matrices, others = ([p for p in params if (p.ndim == 2) is matrix] for matrix in (True, False))
        self.parts: list[Optimizer] = []
        if matrices:
            muon = {"momentum": momentum, "adjust_lr_fn": "match_rms_adamw"}
            self.parts.append(torch.optim.Muon(matrices, lr=lr, weight_decay=weight_decay, **muon))
        if others:
            self.parts.append(AdamW(others, lr=lr, weight_decay=weight_decay))
        super().__init__([group for part in self.parts for group in part.param_groups], {})
        self._share()

    def _share(self) -> None:
        """Let the parts work on the groups and the state that are seen, saved and loaded here."""
        for part, group in zip(self.parts, self.param_groups, strict=True):
            part.param_groups, part.state = [group], self.state

    def step(self, closure: Any = None) -> Any:
        """Take a step of both."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part in self.parts:
            part.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What `state_dict` gave."""
        super().load_state_dict(state_dict)
        self._share()


CAPTURABLE, RATE = {"capturable": True}, ("lr",)
CONTENDERS = [
    Contender("sgd", SGD, {"lr": LogUniform(0.05, 15)}, {}, {"fused": True}, RATE),
    Contender("msgd", SGD, {"lr": LogUniform(0.01, 3)}, {"momentum": 0.9}, {"fused": True}, RATE),
    Contender("adagrad", Adagrad, {"lr": LogUniform(0.001, 0.3)}),
    Contender("adam", Adam, {"lr": LogUniform(2e-4, 0.06)}, {}, {"fused": True, **CAPTURABLE}, RATE),
    Contender("adamw", AdamW, {"lr": LogUniform(2e-4, 0.06)}, {}, {"fused": True, **CAPTURABLE}, RATE),
    Contender("amsgrad", Adam, {"lr": LogUniform(2e-4, 0.06)}, {"amsgrad": True}, {"fused": True, **CAPTURABLE}, RATE),
    Contender("rmsprop", RMSprop, {"lr": LogUniform(1e-4, 0.03)}, {}, CAPTURABLE, RATE),
    Contender("radam", RAdam, {"lr": LogUniform(5e-4, 0.15)}, {}, CAPTURABLE, RATE),
    Contender("muon", MuonAdamW, {"lr": LogUniform(2e-4, 0.06)}),
]
