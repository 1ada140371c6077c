"""Measurement of the errors of z and g between two epochs of a run, without any effect on the run."""

from typing import TYPE_CHECKING

import torch

from adamplus import AdamPlus
from adamplus.theory import VarianceProbe, undisturbed

if TYPE_CHECKING:
    from .learner import Learner


def measure_errors(learner: "Learner") -> dict[str, float]:
    """‖z − ∇F(w)‖ and ‖g − ∇F(ŵ)‖ for one more batch, and ‖∇F(w)‖; F is over all training rows, in train mode.

    Augmentation and dropout are as in training. Their noise is therefore part of the error of g, and ∇F is a mean over
    rows with one draw each. Empty for optimizers outside the Adam⁺ family.
    """
    optimizer, task, model = learner.optimizer, learner.task, learner.model
    if not isinstance(optimizer, AdamPlus):
        return {}
    rows = torch.arange(len(learner.data["train"][0]), device=learner.device)

    def gradient() -> None:
        model.train()
        task.begin(model)
        for some in rows.split(task.batch):
            loss, _, _ = learner.loss(some)
            (loss * (len(some) / len(rows))).backward()

    held = [(p, p.grad) for p in model.parameters()]  # a captured graph has its own gradient tensors
    probe = VarianceProbe(model, optimizer, gradient, every=0)
    try:
        with undisturbed(model, optimizer):
            optimizer.zero_grad()
            model.train()
            task.begin(model)
            batch = rows if task.ordered else rows[torch.randperm(len(rows), device="cpu").to(rows.device)]
            learner.loss(batch[: task.batch])[0].backward()
            errors = probe.measure()
    finally:
        probe.remove()
        for p, grad in held:
            p.grad = grad
    return {"z_error": errors.z_error, "g_error": errors.g_error, "gradient": errors.gradient}
