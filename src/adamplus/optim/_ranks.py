"""The sum over ranks that makes ‖z‖ the norm of the whole model: one small message per step.

Each rank steps its own part of the model (`_layout`). Ranks that have copies of a part each count their fraction of it.
"""

import operator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ._copies import wrong_copies
from ._layout import ALONE, GLOBAL, GROUP, Groups, Layout, Scope, Share, find_layout, parameters

HINT = "Each rank takes every step in train mode, with a process_group of the same ranks"


class JointError(RuntimeError):
    """An error that all ranks raise in the same step, so that none waits for another."""


class Joint:
    """The ranks that share a model.

    A message has four numbers, whatever the parameters are, so that ranks whose parameters differ can read it, too:
    Σz² of the global norm, the number of ranks in eval mode, that of ranks with an error, and a sum that is 0 if all
    ranks have the same layout. The squares of other norms follow in a second message.
    """

    def __init__(self, groups: Groups, process_group: Any) -> None:
        self.held = _key(groups, process_group)
        self.looked = self.summed = False
        self.device = _device(groups)
        self.layout: Layout | None = None
        """None until `look`, and if this rank has all of the model."""
        self.number = 0.0
        self._join(process_group)

    def _join(self, group: Any) -> None:
        """Messages go to the ranks of this process group."""
        self.group = group
        self.ranks = [] if group is None else dist.get_process_group_ranks(group)
        self.devices = [] if group is None else [device.type for device in group._device_types]

    def look(self, groups: Groups, process_group: Any, silently: bool) -> None:
        """Find out which parts of the model the ranks have. Raise if these cannot make up one vector.

        `silently` sends no message, for where none can be read: under torch.compile, and while a graph is captured.
        """
        self.layout = find_layout(groups, process_group)
        if self.layout is not None:
            self._join(self.layout.group)
            self.number = self._cancelling(self.layout.number)
            if not silently:
                self._call_the_roll(self.layout)
                wrong = wrong_copies(self.layout, groups, process_group, self._gathered)
                if wrong is not None:
                    raise JointError(wrong)
        self.looked = True

    def share(self, i: int, j: int) -> Share:
        """This rank's part of parameter j of group i."""
        return ALONE if self.layout is None else self.layout.shares[i][j]

    def is_for(self, groups: Groups, process_group: Any) -> bool:
        """Whether it was made for these parameters and has read their meshes without an error."""
        now = _key(groups, process_group)
        return self.looked and len(now) == len(self.held) and all(map(operator.is_, now, self.held))

    def sum(self, squares: dict[Scope, Tensor], home: Tensor) -> dict[Scope, Tensor]:
        """Σz² of each scope over all ranks. `squares` has this rank's."""
        zero = torch.zeros((), dtype=home.dtype, device=self.device)
        self.summed = True
        own = torch.stack([squares.get(GLOBAL, zero).to(zero), zero, zero, zero + self.number])
        message = self._reduced(own)
        self.check(message[1:])
        totals = {GLOBAL: message[0].to(home)}
        if self.layout is not None and (scopes := self.layout.scopes):
            message = self._reduced(torch.stack([squares.get(key, zero).to(zero) for key in scopes]))
            totals.update(zip(scopes, message.to(home).unbind(), strict=True))
        return totals

    def decline(self, in_eval_mode: bool) -> None:
        """Tell the other ranks, which wait for this one's squares, that it cannot step."""
        if self.group is not None and not self.summed:
            self._reduced(self._numbers(0.0, float(in_eval_mode), float(not in_eval_mode), 0.0))

    def check(self, flags: Tensor) -> None:
        """Raise if other ranks cannot step. On an accelerator, an assertion on the device does it without waiting."""
        if torch.compiler.is_compiling() or not flags.is_cpu:
            torch._assert_async((flags == 0).all(), f"another rank cannot take this step. {HINT}")
        else:
            self._refuse(*flags.tolist())

    def _refuse(self, in_eval_mode: float, failed: float, layout: float) -> None:
        if in_eval_mode or failed:
            why = f"{in_eval_mode:.0f} in eval mode" if in_eval_mode else f"{failed:.0f} with an error, raised there"
            raise JointError(f"of the ranks {self.ranks}, not all can take this step: {why}. {HINT}")
        if layout:
            raise JointError(
                f"the ranks {self.ranks} have different parameters in their param groups, so their parts do not make "
                "up one model: give all ranks the same groups, norm_scope and skip_nonfinite included, and change them "
                "on all ranks"
            )

    def _call_the_roll(self, layout: Layout) -> None:
        """Look at the same time as the other ranks. If some of them are in a step instead, all raise."""
        message = self._reduced(self._numbers(0.0, 0.0, 0.0, self._cancelling(layout.number + 1)))
        self._refuse(*message[1:].tolist())

    def _cancelling(self, number: int) -> float:
        """This rank's term of a sum that is 0 if all ranks have the same number."""
        is_last = dist.get_rank(self.group) == len(self.ranks) - 1
        return float(number * (1 - len(self.ranks) if is_last else 1))

    def _numbers(self, *numbers: float) -> Tensor:
        return torch.tensor(numbers, dtype=torch.float64, device=self.device)

    def _reduced(self, message: Tensor) -> Tensor:
        message = self._on_device_of_group(message)
        if torch.compiler.is_compiling():  # pragma: no cover - dynamo traces without running
            dist.all_reduce(message, group=self.group)
            return message
        try:
            dist.all_reduce(message, group=self.group)
        except RuntimeError as error:
            raise JointError(f"the norm over the ranks {self.ranks} was not summed up: {error}. {HINT}") from error
        return message

    def _gathered(self, row: Tensor) -> list[list[int]]:
        """A row of each rank."""
        row = self._on_device_of_group(row)
        rows = [torch.empty_like(row) for _ in self.ranks]
        dist.all_gather(rows, row, group=self.group)
        return torch.stack(rows).tolist()

    def _on_device_of_group(self, message: Tensor) -> Tensor:
        """Parameters may be offloaded to the CPU, where a group of GPUs cannot sum."""
        return message if message.device.type in self.devices else message.to(self.devices[0])


def refuse_process_group(process_group: Any) -> None:
    """Raise for anything but a process group that contains this rank."""
    if process_group is None or isinstance(process_group, dist.ProcessGroup):
        return
    if process_group == dist.GroupMember.NON_GROUP_MEMBER:
        raise RuntimeError(
            f"process_group does not contain this rank, {dist.get_rank()}: {GROUP}, or build no optimizer here"
        )
    raise TypeError(f"process_group must be None or a torch.distributed.ProcessGroup, got {process_group!r}: {GROUP}")


def _key(groups: Groups, process_group: Any) -> list[Any]:
    """Objects that the sums over ranks depend on."""
    return [process_group, *(group["norm_scope"] for group in groups), *(p for _, _, p in parameters(groups))]


def _device(groups: Groups) -> torch.device:
    """Device of messages: that of the parameters, or a guess for a rank without any."""
    if (p := next((p for _, _, p in parameters(groups)), None)) is not None:
        return p.device
    return torch.device("cuda" if torch.cuda.is_initialized() else "cpu")
