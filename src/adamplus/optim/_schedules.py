"""The paper's schedules: lr and β reduced when validation stops improving, and the two drops of the CIFAR runs."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import MultiStepLR, ReduceLROnPlateau


class ReduceOnPlateau(ReduceLROnPlateau):
    """Multiply several settings of every group by `factor` when a metric stops improving.

    The defaults are those of the paper's WikiText-2 runs, which divide lr and β by 4 whenever an epoch does not improve
    the validation loss. It is a subclass of torch's ReduceLROnPlateau, so trainers pass it the metric.

    Args:
        optimizer: the optimizer whose groups are changed.
        keys: names of the settings to multiply.
        factor: factor in (0, 1).
        mode: whether the metric should fall ("min") or rise ("max").
        patience: number of epochs without improvement before a reduction.
        threshold: smallest difference that counts as an improvement.
        threshold_mode: whether `threshold` is relative ("rel") or absolute ("abs").
        cooldown: number of epochs to wait after a reduction.
        minimum: lower bound of each key.

    Example:
        >>> w = torch.nn.Parameter(torch.ones(2))
        >>> optimizer = adamplus.AdamPlus([w], lr=20.0, beta=0.8)
        >>> scheduler = adamplus.ReduceOnPlateau(optimizer)
        >>> for loss in (5.0, 4.0, 4.5):
        ...     scheduler.step(loss)
        >>> optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["beta"]
        (5.0, 0.2)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        keys: Sequence[str] = ("lr", "beta"),
        factor: float = 0.25,
        *,
        mode: Literal["min", "max"] = "min",
        patience: int = 0,
        threshold: float = 0.0,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        minimum: Mapping[str, float] | None = None,
    ) -> None:
        self.keys: tuple[str, ...] = (keys,) if isinstance(keys, str) else tuple(keys)
        self.minimum: dict[str, float] = dict(minimum or {})
        if not 0 < factor < 1:
            raise ValueError(f"factor must be in (0, 1), got {factor}: it multiplies {', '.join(self.keys)}")
        for i, group in enumerate(optimizer.param_groups):
            if missing := [key for key in self.keys if key not in group]:
                raise ValueError(
                    f"group {i} of {type(optimizer).__name__} has no {', '.join(missing)}: keys may name "
                    f"{', '.join(k for k, v in group.items() if isinstance(v, float) or k == 'lr')}"
                )
        if unknown := [key for key in self.minimum if key not in self.keys]:
            raise ValueError(f"minimum names {', '.join(unknown)}, and keys are {', '.join(self.keys)}")
        super().__init__(
            optimizer,
            mode=mode,
            factor=factor,
            patience=patience,
            threshold=threshold,
            threshold_mode=threshold_mode,
            cooldown=cooldown,
        )

    # torch (2.6 to 2.13) calls this when its patience is exhausted; test_schedules fails if it does not.
    def _reduce_lr(self, epoch: Any) -> None:
        filled: set[int] = set()  # groups that take the optimizer's default share one tensor
        for group in self.optimizer.param_groups:
            for key in self.keys:
                if id(group[key]) in filled:
                    continue
                value = max(float(group[key]) * self.factor, self.minimum.get(key, 0.0))
                if float(group[key]) - value <= self.eps:  # torch's 1e-8: smaller reductions are skipped
                    continue
                if isinstance(group[key], Tensor):
                    group[key].fill_(value)  # the tensor that a captured or compiled step reads
                    filled.add(id(group[key]))
                else:
                    group[key] = value


def cifar_schedule(optimizer: Optimizer, epochs: int = 350) -> MultiStepLR:
    """The paper's CIFAR schedule: lr ÷10 after 3/7 and again after 5/7 of the epochs (150 and 250 of 350).

    Example:
        >>> w = torch.nn.Parameter(torch.ones(2))
        >>> sorted(adamplus.cifar_schedule(adamplus.AdamPlus([w])).milestones)
        [150, 250]
    """
    if epochs < 7:
        raise ValueError(f"epochs must be at least 7 for drops at 3/7 and 5/7, got {epochs}")
    return MultiStepLR(optimizer, milestones=[epochs * 3 // 7, epochs * 5 // 7], gamma=0.1)
