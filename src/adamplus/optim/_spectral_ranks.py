"""The ranks that have parts of the same matrices agree on each call before they exchange shards.

A rank that is in eval mode, that has an error of its own, or that has no gradient of a matrix of which others have one,
would leave the others waiting in an all-to-all. All ranks raise instead.
"""

import operator
import zlib
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from ._agreement import Agreement, JointError, device_of
from ._cuts import Cut, find_cut
from ._layout import Groups, parameters

Call = Literal["step", "eval", "train"]


class MatrixRanks(Agreement):
    """The ranks that have parts of this rank's matrices. Without any, no message is sent.

    A message's own number is a sum that is 0 if all ranks have gradients of the same matrices, or state if they switch.
    Ranks that make different calls count as ranks with different layouts.
    """

    HINT = "All ranks call step(), eval() and train() of SpectralPlus together, and step() in train mode"
    FAILURE = "the ranks {ranks} have parts of the same matrices, and not all of them can be reached"
    DIFFERENT = (
        "the ranks {ranks} have parts of the same matrices, and do not make the same call with the same param groups: "
        "give all ranks the same groups and settings, and let all of them call step(), eval() or train()"
    )
    UNEQUAL = (
        "the ranks {ranks} have parts of the same matrices, and only some ranks have a gradient of one (or its state, "
        "in eval() and train()): give all of them a gradient, or none"
    )

    def __init__(self, groups: Groups) -> None:
        self.held = [p for _, _, p in parameters(groups)]
        self.cuts: dict[Tensor, Cut] = {}
        """How matrices are cut, for each parameter whose matrices are."""
        for i, j, p in parameters(groups):
            if groups[i]["geometry"] == "spectral":
                cut = find_cut(p, groups[i]["stacked"], f"parameter {j} of group {i}")
                if cut is not None:
                    self.cuts[p] = cut
        super().__init__(device_of(list(self.cuts)))
        if self.cuts:
            mesh = _largest_mesh([cut.mesh for cut in self.cuts.values()])
            process_groups = [mesh.get_group(d) for d in range(mesh.ndim) if mesh.size(d) > 1]
            self._join(process_groups, mesh.mesh.flatten().tolist())
        self.described = _checksum([[self._description(p) for p in group["params"]] for group in groups])

    def is_for(self, groups: Groups) -> bool:
        """Whether it was made for these parameters."""
        now = [p for _, _, p in parameters(groups)]
        return len(now) == len(self.held) and all(map(operator.is_, now, self.held))

    def agree(self, call: Call, groups: Groups, present: Sequence[bool]) -> None:
        """Raise, on all ranks, unless all make this call with the same groups, and with the same matrices `present`."""
        self.summed = True
        zero = torch.zeros((), dtype=torch.float64, device=self.device)
        ahead = [group["extrapolated"] or (call == "step" and group["lookahead"] != 0) for group in groups]
        settings = [(group["layout"], group["state_dtype"]) for group in groups], ahead
        numbers = _checksum(present), _checksum((call, settings, self.described))
        own, layout = (zero + self._cancelling(number) for number in numbers)
        # The device may be an accelerator, so numbers are not copied to it: a CUDA graph could not capture that.
        message = self._reduced(torch.stack([own, zero, zero, layout]))
        self.check(message.roll(-1))

    def _description(self, p: Any) -> Any:
        """What all ranks have in common of a parameter."""
        return (tuple(p.shape), p.dtype, p.device_mesh.size(), p.placements) if p in self.cuts else None

    def _refuse(self, in_eval_mode: float, failed: float, layout: float, present: float = 0.0) -> None:
        super()._refuse(in_eval_mode, failed, layout)
        if present:
            raise JointError(self.UNEQUAL.format(ranks=self.ranks))


def _largest_mesh(meshes: list[Any]) -> Any:
    """The one of these meshes that has the ranks of all others."""
    largest = max(meshes, key=lambda mesh: mesh.size())
    ranks = {*largest.mesh.flatten().tolist()}
    for mesh in meshes:
        if not {*mesh.mesh.flatten().tolist()} <= ranks:
            raise RuntimeError(
                f"matrices are divided over the mesh {largest} and over the mesh {mesh}, which has other ranks: "
                "make one SpectralPlus for each of these meshes"
            )
    return largest


def _checksum(value: Any) -> int:
    """A number that two different values have in common with a chance of one in a million."""
    return zlib.crc32(repr(value).encode()) % 2**20
