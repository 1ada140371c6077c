"""Where the parameters are: at ŵ to train, at w to evaluate, and who switches them."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, cast
from weakref import ReferenceType

import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim import Optimizer

from . import _plain
from ._split import local


class TwoPoints(Optimizer):
    """An optimizer whose parameters are at ŵ in train mode and at w = ŵ + c z in eval mode."""

    _torn: bool = False  # whether a step broke off in the middle
    _known: Sequence["ReferenceType[nn.Module]"] = ()  # models that have the parameters

    @property
    def training(self) -> bool:
        """Whether the parameters are at ŵ, where gradients are taken."""
        return self.param_groups[0]["training"]

    def train(self, mode: bool = True) -> Self:
        """Put ŵ into the parameters (w if `mode` is False), as `step()` needs it; does nothing where they are.

        Example:
            >>> w = torch.nn.Parameter(torch.ones(2))
            >>> optimizer = adamplus.AdamPlus([w])
            >>> optimizer.eval().training, optimizer.train().training
            (False, True)
        """
        if mode != self.training:
            self._refuse_torn_state()
            self._move(-1 if mode else +1)
            for group in self.param_groups:
                group["training"] = mode
            for known in self._known:
                if (model := known()) is not None:
                    reshard(model)
        return self

    def eval(self) -> Self:
        """Put w, the point to evaluate and to ship, into the parameters; does nothing where it is."""
        return self.train(False)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Have the parameters at w inside a `with` block, and back where they were after it, exceptions included.

        Example:
            >>> w = torch.nn.Parameter(torch.ones(2))
            >>> optimizer = adamplus.AdamPlus([w])
            >>> with optimizer.averaged():
            ...     optimizer.training
            False
            >>> optimizer.training
            True
        """
        before = self.training
        self.eval()
        try:
            yield
        finally:
            self.train(before)

    def follow(self, model: nn.Module) -> None:
        """Let `model.train()` and `model.eval()` switch this optimizer from now on, starting with the model's mode now.

        Works on the model itself and through what wraps it (torch.compile, DDP, fully_shard), before or after wrapping.
        `model.state_dict()` then holds w whenever the model is in eval mode. Several optimizers may follow one model,
        each with parameters of its own; one that has parameters of an earlier follower takes its place. Deep copies
        and pickles of the model follow none.

        Example:
            >>> model = torch.nn.Linear(2, 1)
            >>> optimizer = adamplus.AdamPlus(model.parameters())
            >>> optimizer.follow(model)
            >>> optimizer.training, model.eval().training, optimizer.training
            (True, False, False)
        """
        if not isinstance(model, nn.Module):
            raise TypeError(f"follow() takes the torch.nn.Module that holds the parameters, got {type(model).__name__}")
        if _ids(self).isdisjoint(id(p) for p in model.parameters()):
            raise ValueError(
                "follow() got a model none of whose parameters this optimizer has: pass the model that it was built for"
            )
        model = _unwrapped(model)
        # An entry of the instance shadows the method: wrappers call it by name, and swapping the class keeps it.
        vars(model)["train"] = _FollowedTrain(model, self, vars(model).get("train"))
        self._know(model)
        self.train(model.training)

    def _know(self, model: nn.Module) -> None:
        """Let FSDP2 modules of the model drop what they have gathered, whenever the parameters are switched."""
        self._known = [known for known in self._known if known() not in (None, model)] + [ReferenceType(model)]

    def _refuse_torn_state(self) -> None:
        if self._torn:
            raise RuntimeError(
                "the last step broke off when its parameters had half moved: load the last checkpoint of model and "
                "optimizer"
            )

    @torch.no_grad()
    def _move(self, sign: int) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if state := self.state.get(p):
                    w, z = real(local(p.detach())), real(local(state["z"]))
                    _plain.add_scaled([w], [z], [state["offset"]], sign)


def _unwrapped(model: nn.Module) -> nn.Module:
    """The model inside of torch.compile, DDP and DataParallel, whose train() calls the model's own."""
    while True:
        if isinstance(model, DistributedDataParallel | DataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            return model


class _FollowedTrain:
    """`model.train`, with the optimizer behind it, in front of whatever stood there before."""

    def __init__(self, model: nn.Module, optimizer: TwoPoints, before: Any) -> None:
        while isinstance(before, _FollowedTrain) and not _ids(before.optimizer).isdisjoint(_ids(optimizer)):
            before = before.before
        self.model, self.optimizer, self.before = model, optimizer, before

    def __call__(self, mode: bool = True) -> nn.Module:
        if self.before is None:
            type(self.model).train(self.model, mode)
        else:
            self.before(mode)
        self.optimizer.train(mode)
        return self.model

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of the model has parameters that this optimizer does not know: it gets its class's own method.
        return getattr, (self.model, "train")


def reshard(model: nn.Module) -> None:
    """Let FSDP2 modules drop parameters that they have gathered: after an evaluation the outermost still has w."""
    if (fsdp := sys.modules.get("torch.distributed.fsdp")) is not None:
        for module in model.modules():
            if isinstance(module, fsdp.FSDPModule):
                cast("Any", module).reshard()


def _ids(optimizer: Optimizer) -> set[int]:
    return {id(p) for group in optimizer.param_groups for p in group["params"]}


def real(tensor: Tensor) -> Tensor:
    """A view to compute with: complex tensors as pairs of real ones, as torch.optim has it, and scalars as vectors.

    Of 0-dim float64 tensors on a CPU, torch.compile loses what is written (torch 2.13, its own Adam included).
    """
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj())
    return tensor.unsqueeze(0) if tensor.ndim == 0 else tensor


def unreal(view: Tensor, like: Tensor) -> Tensor:
    """What `real` made a view of, for a new tensor."""
    return torch.view_as_complex(view) if like.is_complex() else view.reshape(like.shape)
