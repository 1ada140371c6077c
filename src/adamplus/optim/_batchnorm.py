"""BatchNorm statistics at w. Those gathered while training belong to ŵ."""

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ._modes import Switchable, reshard


def update_bn(
    loader: Iterable[Any], model: nn.Module, optimizer: Switchable, device: torch.device | str | None = None
) -> None:
    """Re-estimate the running statistics of a model's BatchNorm layers at w. Nothing else changes.

    The statistics are the plain average over the batches of `loader`. All other layers are in eval mode (dropout is
    off), as in the evaluation that follows. Call it before an evaluation that counts.

    Args:
        loader: batches: tensors, or tuples and lists whose first entry is the model's input.
        model: the model.
        optimizer: the optimizer that holds w.
        device: device to move the inputs to. Default: they stay where they are.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        >>> optimizer = adamplus.AdamPlus(model.parameters())
        >>> adamplus.update_bn([torch.ones(8, 2)], model, optimizer)
        >>> torch.allclose(model[1].running_mean, model[0](torch.ones(2)))
        True
    """
    if not (isinstance(model, nn.Module) and hasattr(optimizer, "averaged")):
        raise TypeError(
            "update_bn() takes a loader, a model and an optimizer of this package, in this order, got "
            f"{type(loader).__name__}, {type(model).__name__} and {type(optimizer).__name__}"
        )
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    if not layers:
        return
    modes = [(m, m.training) for m in model.modules()]
    momenta = [(m, m.momentum) for m in layers]
    counts = [(m, cast("Tensor", m.num_batches_tracked)) for m in layers]
    before = [{name: buffer.clone() for name, buffer in m.named_buffers()} for m in layers]
    counted = 0
    try:
        with optimizer.averaged(), torch.no_grad():
            reshard(model)
            for m, _ in modes:
                m.training = isinstance(m, _BatchNorm)  # model.train() would switch a follower to ŵ
            for m in layers:
                m.reset_running_stats()
                m.momentum = None  # a plain average
                # Every pass reads the count, and the host would wait for a count on the device, layer after layer.
                m.num_batches_tracked = torch.zeros((), dtype=torch.long, device="cpu")
            for batch in loader:
                model(_input(batch, device))
                counted += 1
        if not counted:
            raise ValueError("update_bn() got a loader without batches: the statistics are unchanged")
    except BaseException:
        for m, buffers in zip(layers, before, strict=True):
            m.load_state_dict(buffers, strict=False)
        raise
    finally:
        reshard(model)
        for m, count in counts:
            m.num_batches_tracked = count.fill_(int(cast("Tensor", m.num_batches_tracked)))
        for m, mode in modes:
            m.training = mode
        for m, momentum in momenta:
            m.momentum = momentum


def _input(batch: Any, device: torch.device | str | None) -> Tensor:
    x = batch[0] if isinstance(batch, tuple | list) else batch
    return x if device is None else x.to(device)
