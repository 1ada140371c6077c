"""Skipped steps (`skip_nonfinite=True`): a step whose ‖z‖ is not finite changes nothing but a count.

‖z_t‖ shows an inf or a NaN in any gradient, on any rank, without another pass over the gradients or another message.
C and Triton write nothing before they know it. List operations do, unless they are `Deferred`.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from .._algorithm import Execution, ListExecution, Part, gradient_weights


class Deferred(Execution):
    """List operations that write nothing in `first`: z_t is averaged twice. An instance executes one part, one step."""

    def __init__(self, run: ListExecution) -> None:
        self.run = run

    def first(self, x: Part, group: dict[str, Any], lr: float | Tensor, beta: float | Tensor) -> Tensor:
        """Return ‖z_t‖ of each tensor."""
        self.settings = group, lr, beta
        decay = 0.0 if group["decoupled_weight_decay"] else group["weight_decay"]
        g = self.run.gradients(x.g, x.w_hat, x.z, group["maximize"], decay)
        z = self.run.average([z.clone() for z in x.z], g, gradient_weights(x.step, beta, group["capturable"]))
        return self.run.norms(z)

    def second(self, x: Part, rate: Tensor, offset: Tensor) -> None:
        """Take the step, and take it back on the device if it has to be skipped."""
        before = None if x.skip is None else [[t.clone() for t in ts] for ts in (x.w_hat, x.z, x.offset, x.step)]
        self.run.first(x, *self.settings)
        self.run.second(x, rate, offset)
        if before is not None:
            w_hat, z, offsets, steps = before
            x.w_hat = self.run.assign(x.w_hat, _chosen(x, w_hat, x.w_hat))
            x.z = self.run.assign(x.z, _chosen(x, z, x.z))
            x.offset = self.run.assign(x.offset, _chosen(x, offsets, x.offset))
            for step, new in zip(x.step, _chosen(x, steps, x.step), strict=True):
                step.copy_(new)


def _chosen(x: Part, before: list[Tensor], after: list[Tensor]) -> list[Tensor]:
    """The values before the step if it is skipped, else those after it."""
    skip: Any = x.skip
    return [torch.where(skip.to(new.device), old, new) for old, new in zip(before, after, strict=True)]


def skippable(run: Execution, lists: ListExecution, on_host: bool) -> Execution:
    """What executes a part so that the step can be skipped after `first`. C does, if the host decides."""
    return run if on_host and not isinstance(run, ListExecution) else Deferred(lists)


def host_decides(groups: list[dict[str, Any]], params: Iterable[Tensor]) -> bool:
    """Whether the host may read ‖z‖: it waits for nothing if everything is on the CPU."""
    return not (
        torch.compiler.is_compiling()
        or any(group["capturable"] or not group["record"].is_cpu for group in groups)
        or not all(p.is_cpu for p in params)
    )
