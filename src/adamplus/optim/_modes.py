"""Modes of an optimizer: its parameters are at ŵ to train and at w to evaluate."""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, cast
from weakref import ReferenceType

import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim import Optimizer

from ._execution import PLAIN, real
from ._layout import local
from ._never_at_w import Watch
from ._state import refuse_other_data


class Switchable(Optimizer):
    """An optimizer whose parameters are at ŵ in train mode and at w = ŵ + c d in eval mode."""

    _training: bool = True
    """Whether the parameters are at ŵ. Each group has a copy of it, for state_dict()."""
    _torn: bool = False
    """Whether a step or a switch failed halfway."""
    _model_mode: bool | None = None
    """Mode to which a followed model was switched last."""
    _watch: Watch
    """Whether the parameters have ever been at w."""
    _known: Sequence["ReferenceType[nn.Module]"] = ()
    """Models that hold the parameters."""

    @property
    def training(self) -> bool:
        """Whether the parameters are at ŵ, where gradients are taken."""
        return self._training

    def train(self, mode: bool = True) -> Self:
        """Put ŵ into the parameters, as `step()` needs it, or w if `mode` is False. Does nothing if they are there.

        Example:
            >>> w = torch.nn.Parameter(torch.ones(2))
            >>> optimizer = adamplus.AdamPlus([w])
            >>> optimizer.eval().training, optimizer.train().training
            (False, True)
        """
        if not isinstance(mode, bool):
            raise ValueError(f"mode must be True or False, got {mode!r}")
        if mode != self.training:
            self._before_switch()
            try:
                self._refuse_torn_state()
                self._move(-1 if mode else +1)
            except Exception as error:
                self._after_failed_switch(error)
                raise
            self._training = mode
            if not mode:
                self._watch.is_at_w()
            for group in self.param_groups:
                group["training"] = mode
            for known in self._known:
                if (model := known()) is not None:
                    reshard(model)
        return self

    def eval(self) -> Self:
        """Put w, the point to evaluate and to ship, into the parameters. Does nothing if they are there.

        If an optimizer takes 100 steps and its parameters are never at w, the process logs one line when it ends.
        `logging.getLogger("adamplus").setLevel("ERROR")` turns it off.
        """
        return self.train(False)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Put w into the parameters for a `with` block, and restore them when it ends, even by an exception.

        If a followed model is switched inside the block, its mode decides where the parameters are afterwards.

        Example:
            >>> w = torch.nn.Parameter(torch.ones(2))
            >>> optimizer = adamplus.AdamPlus([w])
            >>> with optimizer.averaged():
            ...     optimizer.training
            False
            >>> optimizer.training
            True
        """
        before, mode, self._model_mode = self.training, self._model_mode, None
        self.eval()
        try:
            yield
        finally:
            self.train(before if self._model_mode is None else self._model_mode)
            self._model_mode = mode if self._model_mode is None else self._model_mode

    def follow(self, model: nn.Module) -> None:
        """Let `model.train()` and `model.eval()` switch this optimizer from now on. The model's mode applies at once.

        It works through wrappers (torch.compile, DDP, fully_shard), called before or after wrapping.
        `model.state_dict()` then holds w whenever the model is in eval mode.

        Several optimizers may follow one model, each with its own parameters. An optimizer that shares parameters with
        an earlier follower replaces it. Deep copies and pickles of the model are not followed. A shallow copy has the
        same parameters, and switching it switches the model.

        Example:
            >>> model = torch.nn.Linear(2, 1)
            >>> optimizer = adamplus.AdamPlus(model.parameters())
            >>> optimizer.follow(model)
            >>> optimizer.training, model.eval().training, optimizer.training
            (True, False, False)
        """
        if not isinstance(model, nn.Module):
            raise TypeError(f"follow() takes the torch.nn.Module that holds the parameters, got {type(model).__name__}")
        reshard(model)  # after a forward pass, FSDP2's outermost module still holds the gathered parameters
        if _ids(self).isdisjoint(id(p) for p in model.parameters()):
            raise ValueError(
                "follow() got a model that shares no parameter with this optimizer: pass the model it was built for"
            )
        model = _unwrapped(model)
        # An entry of the instance shadows the method: wrappers call it by name, and swapping the class keeps it.
        vars(model)["train"] = _FollowedTrain(model, self, vars(model).get("train"))
        self._know(model)
        self.train(model.training)

    def _know(self, model: nn.Module) -> None:
        """Remember the model, so that its FSDP2 modules drop gathered parameters whenever the parameters switch."""
        self._known = [known for known in self._known if known() not in (None, model)] + [ReferenceType(model)]

    def _warn_of_another_mode(self) -> None:
        """Warn if ŵ was loaded and a followed model is in eval mode, which promises w."""
        followed = [model for known in self._known if (model := known()) is not None and "train" in vars(model)]
        if self.training and not all(model.training for model in followed):
            warnings.warn(
                "a state_dict of train mode was loaded, and a model that this optimizer follows is in eval mode: its "
                "parameters are at ŵ until model.eval() or model.train() is called",
                stacklevel=3,
            )

    def _refuse_torn_state(self) -> None:
        if self._torn:
            raise RuntimeError(
                "the last step or switch broke off, and its parameters may have half moved: load the last checkpoint "
                "of model and optimizer"
            )

    def _refuse_overwritten_mode(self) -> None:
        if any(group["training"] != self._training for group in self.param_groups):
            raise RuntimeError(
                f"the parameters are at {'ŵ' if self._training else 'w'}, but a group's mode was set to "
                f"training={not self._training} by something other than train(), eval() and load_state_dict() "
                "(ZeroRedundancyOptimizer copies its own groups): call train() before saving or loading through it"
            )

    def _displacements(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Each parameter with its offset c and the direction d in w = ŵ + c d. May raise before anything moves."""
        for group in self.param_groups:
            for p in group["params"]:
                if state := self.state.get(p):
                    yield p, state["offset"], state["z"]

    def _before_switch(self) -> None:
        """Prepare for a switch that may fail."""

    def _after_failed_switch(self, error: Exception) -> None:
        """Note that a switch has failed."""

    @torch.no_grad()
    def _move(self, sign: int) -> None:
        moving = [(p, state) for group in self.param_groups for p in group["params"] if (state := self.state.get(p))]
        for p, state in moving:
            refuse_other_data(p, state["z"])
        displacements = self._displacements()
        try:
            for p, offset, direction in displacements:
                PLAIN.add_scaled([real(local(p.detach()))], [real(local(direction))], [offset], sign)
        except BaseException:
            self._torn = True
            raise


def _unwrapped(model: nn.Module) -> nn.Module:
    """The model inside torch.compile, DDP and DataParallel wrappers, whose train() calls the model's own."""
    while True:
        if isinstance(model, DistributedDataParallel | DataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            return model


class _FollowedTrain:
    """Replacement of `model.train` that switches the optimizer after the model."""

    def __init__(self, model: nn.Module, optimizer: Switchable, before: Any) -> None:
        # A strong reference would be a cycle, and keep the model in memory until the garbage collector runs.
        self.known, self.optimizer, self.before = ReferenceType(model), optimizer, _without(before, _ids(optimizer))

    @property
    def model(self) -> nn.Module:
        if (model := self.known()) is None:
            raise ReferenceError("the model of this train() method no longer exists")
        return model

    def __call__(self, mode: bool = True) -> nn.Module:
        if self.before is None:
            type(self.model).train(self.model, mode)
        else:
            self.before(mode)
        self.optimizer.train(mode)._model_mode = mode
        return self.model

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of the model has other parameters than this optimizer: it gets the method of its class.
        return getattr, (self.model, "train")


def _without(followed: Any, ids: set[int]) -> Any:
    """The earlier replacements of `model.train`, without the followers that have some of these parameters."""
    if not isinstance(followed, _FollowedTrain):
        return followed
    followed.before = _without(followed.before, ids)
    return followed if _ids(followed.optimizer).isdisjoint(ids) else followed.before


def reshard(model: nn.Module) -> None:
    """Let FSDP2 modules drop gathered parameters: after an evaluation, the outermost one still holds w."""
    if (fsdp := sys.modules.get("torch.distributed.fsdp")) is not None:
        for module in model.modules():
            if isinstance(module, fsdp.FSDPModule):
                cast("Any", module).reshard()


def _ids(optimizer: Optimizer) -> set[int]:
    return {id(p) for group in optimizer.param_groups for p in group["params"]}
