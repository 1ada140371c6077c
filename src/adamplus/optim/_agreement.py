"""All ranks take a step, or each of them raises: one small message per step shows whether all of them can."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class JointError(RuntimeError):
    """An error that all ranks raise in the same step, so that none waits for another."""


class Agreement:
    """Ranks that step together.

    A message has four numbers, whatever the parameters are, so that ranks whose parameters differ can read it, too:
    one of the subclass's own, the number of ranks in eval mode, that of ranks with an error, and a sum that is 0 if all
    ranks have the same layout.
    """

    HINT: str
    """What to do if not all ranks can take a step."""
    FAILURE: str
    """What has failed if a message cannot be sent to `{ranks}`."""
    DIFFERENT: str
    """What is wrong if `{ranks}` do not have the same layout."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.summed = device, False
        """Device of messages, and whether this rank has sent the message of the present step."""
        self.number = 0.0
        self._join([], [])

    def _join(self, groups: list[Any], ranks: list[int]) -> None:
        """Messages go to these ranks: through one group, or through the groups of a mesh's dimensions in turn."""
        self.groups, self.ranks = groups, ranks
        self.devices = [device.type for device in groups[0]._device_types] if groups else []

    def decline(self, in_eval_mode: bool) -> None:
        """Tell the other ranks, which wait for this one's message, that it cannot step."""
        if self.groups and not self.summed:
            self._reduced(self._numbers(0.0, float(in_eval_mode), float(not in_eval_mode), 0.0))

    def check(self, flags: Tensor) -> None:
        """Raise if other ranks cannot step. On an accelerator, an assertion on the device does it without waiting."""
        if torch.compiler.is_compiling() or not flags.is_cpu:
            torch._assert_async((flags == 0).all(), f"another rank cannot take this step. {self.HINT}")
        else:
            self._refuse(*flags.tolist())

    def _refuse(self, in_eval_mode: float, failed: float, layout: float) -> None:
        if in_eval_mode or failed:
            why = f"{in_eval_mode:.0f} in eval mode" if in_eval_mode else f"{failed:.0f} with an error, raised there"
            raise JointError(f"of the ranks {self.ranks}, not all can take this step: {why}. {self.HINT}")
        if layout:
            raise JointError(self.DIFFERENT.format(ranks=self.ranks))

    def _cancelling(self, number: int) -> float:
        """This rank's term of a sum that is 0 if all ranks have the same number."""
        is_last = dist.get_rank() == self.ranks[-1]
        return float(number * (1 - len(self.ranks) if is_last else 1))

    def _numbers(self, *numbers: float) -> Tensor:
        return torch.tensor(numbers, dtype=torch.float64, device=self.device)

    def _reduced(self, message: Tensor) -> Tensor:
        message = self._on_device_of_group(message)
        if torch.compiler.is_compiling():  # pragma: no cover - dynamo traces without running
            for group in self.groups:
                dist.all_reduce(message, group=group)
            return message
        try:
            for group in self.groups:
                dist.all_reduce(message, group=group)
        except RuntimeError as error:
            raise JointError(f"{self.FAILURE.format(ranks=self.ranks)}: {error}. {self.HINT}") from error
        return message

    def _on_device_of_group(self, message: Tensor) -> Tensor:
        """Parameters may be offloaded to the CPU, where a group of GPUs cannot sum."""
        return message if message.device.type in self.devices else message.to(self.devices[0])


def device_of(params: list[Tensor]) -> torch.device:
    """Device of messages: that of the parameters, or a guess for a rank without any."""
    if params:
        return params[0].device
    return torch.device("cuda" if torch.cuda.is_initialized() else "cpu")
