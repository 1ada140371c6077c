"""The sum over ranks that makes ‖z‖ the norm of the whole model: one small message per step.

Each rank steps its own part of the model (`_layout`). Ranks that have copies of a part each count their fraction of it.
"""

import operator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ._agreement import Agreement, JointError, device_of
from ._copies import wrong_copies
from ._layout import ALONE, GLOBAL, GROUP, Groups, Layout, Scope, Share, find_layout, parameters


class Joint(Agreement):
    """The ranks that share a model, and Σz² over them.

    A message has Σz² of the global norm as its own number. The squares of other norms follow in a second message.
    """

    HINT = "Each rank takes every step in train mode, with a process_group of the same ranks"
    FAILURE = "the norm over the ranks {ranks} was not summed up"
    DIFFERENT = (
        "the ranks {ranks} have different parameters in their param groups, so their parts do not make up one model: "
        "give all ranks the same groups, norm_scope and skip_nonfinite included, and change them on all ranks"
    )

    def __init__(self, groups: Groups, process_group: Any) -> None:
        super().__init__(device_of([p for _, _, p in parameters(groups)]))
        self.held = _key(groups, process_group)
        self.looked = False
        self.layout: Layout | None = None
        """None until `look`, and if this rank has all of the model."""
        if process_group is not None:
            self._join_group(process_group)

    def _join_group(self, group: Any) -> None:
        self._join([group], dist.get_process_group_ranks(group))

    def look(self, groups: Groups, process_group: Any, silently: bool) -> None:
        """Find out which parts of the model the ranks have. Raise if these cannot make up one vector.

        `silently` sends no message, for where none can be read: under torch.compile, and while a graph is captured.
        """
        self.layout = find_layout(groups, process_group)
        if self.layout is not None:
            self._join_group(self.layout.group)
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

    def _call_the_roll(self, layout: Layout) -> None:
        """Look at the same time as the other ranks. If some of them are in a step instead, all raise."""
        message = self._reduced(self._numbers(0.0, 0.0, 0.0, self._cancelling(layout.number + 1)))
        self._refuse(*message[1:].tolist())

    def _gathered(self, row: Tensor) -> list[list[int]]:
        """A row of each rank."""
        row = self._on_device_of_group(row)
        rows = [torch.empty_like(row) for _ in self.ranks]
        dist.all_gather(rows, row, group=self.groups[0])
        return torch.stack(rows).tolist()


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
