"""Where the parameters are: at ŵ to train, at w to evaluate, and who switches them."""

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

from ._execution import plain
from ._ranks import local
from ._state import refuse_other_data


class TwoPoints(Optimizer):
    """An optimizer whose parameters are at ŵ in train mode and at w = ŵ + c z in eval mode."""

    _training: bool = True  # and in each group, for state_dict()
    _torn: bool = False  # whether a step or a switch broke off in the middle
    _told: bool | None = None  # the mode that a followed model went to last
    _known: Sequence["ReferenceType[nn.Module]"] = ()  # models that have the parameters

    @property
    def training(self) -> bool:
        """Whether the parameters are at ŵ, where gradients are taken."""
        return self._training

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
            self._training = mode
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

        Where a model that the optimizer follows was switched in the block, they are where that model's mode says.

        Example:
            >>> w = torch.nn.Parameter(torch.ones(2))
            >>> optimizer = adamplus.AdamPlus([w])
            >>> with optimizer.averaged():
            ...     optimizer.training
            False
            >>> optimizer.training
            True
        """
        before, told, self._told = self.training, self._told, None
        self.eval()
        try:
            yield
        finally:
            self.train(before if self._told is None else self._told)
            self._told = told if self._told is None else self._told

    def follow(self, model: nn.Module) -> None:
        """Let `model.train()` and `model.eval()` switch this optimizer from now on, starting with the model's mode now.

        Works on the model itself and through what wraps it (torch.compile, DDP, fully_shard), before or after wrapping.
        `model.state_dict()` then holds w whenever the model is in eval mode. Several optimizers may follow one model,
        each with parameters of its own; one that has parameters of an earlier follower takes its place. Deep copies
        and pickles of the model follow none; a shallow copy, which has the same parameters, switches the model itself.

        Example:
            >>> model = torch.nn.Linear(2, 1)
            >>> optimizer = adamplus.AdamPlus(model.parameters())
            >>> optimizer.follow(model)
            >>> optimizer.training, model.eval().training, optimizer.training
            (True, False, False)
        """
        if not isinstance(model, nn.Module):
            raise TypeError(f"follow() takes the torch.nn.Module that holds the parameters, got {type(model).__name__}")
        reshard(model)  # after a forward pass FSDP2's outermost module still has the gathered parameters
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

    def _warn_of_another_mode(self) -> None:
        """Tell where a followed model's eval mode promises w, and ŵ has been loaded."""
        followed = [model for known in self._known if (model := known()) is not None and "train" in vars(model)]
        if self.training and not all(model.training for model in followed):
            warnings.warn(
                "a state_dict of train mode was loaded, and a model that this optimizer follows is in eval mode: its "
                "parameters are at ŵ until you call model.eval() or model.train()",
                stacklevel=3,
            )

    def _refuse_torn_state(self) -> None:
        if self._torn:
            raise RuntimeError(
                "the last step or switch broke off when its parameters may have half moved: load the last checkpoint "
                "of model and optimizer"
            )

    def _refuse_overwritten_mode(self) -> None:
        if any(group["training"] != self._training for group in self.param_groups):
            raise RuntimeError(
                f"the parameters are at {'ŵ' if self._training else 'w'}, and something else than train(), eval() and "
                f"load_state_dict() has set {not self._training} as the groups' mode (ZeroRedundancyOptimizer copies "
                "its own): call train() before you save or load through it"
            )

    @torch.no_grad()
    def _move(self, sign: int) -> None:
        moving = [(p, state) for group in self.param_groups for p in group["params"] if (state := self.state.get(p))]
        for p, state in moving:
            refuse_other_data(p, state["z"])
        try:
            for p, state in moving:
                w, z = real(local(p.detach())), real(local(state["z"]))
                plain.add_scaled([w], [z], [state["offset"]], sign)
        except BaseException:
            self._torn = True
            raise


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
        # Weakly, for the model has this: it would stay in memory until the garbage collector comes round.
        self.known, self.optimizer, self.before = ReferenceType(model), optimizer, _without(before, _ids(optimizer))

    @property
    def model(self) -> nn.Module:
        if (model := self.known()) is None:
            raise ReferenceError("the model that this switched is gone")
        return model

    def __call__(self, mode: bool = True) -> nn.Module:
        if self.before is None:
            type(self.model).train(self.model, mode)
        else:
            self.before(mode)
        self.optimizer.train(mode)._told = mode
        return self.model

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of the model has parameters that this optimizer does not know: it gets its class's own method.
        return getattr, (self.model, "train")


def _without(followed: Any, ids: set[int]) -> Any:
    """What stood in front of `model.train`, without the followers that have some of these parameters."""
    if not isinstance(followed, _FollowedTrain):
        return followed
    followed.before = _without(followed.before, ids)
    return followed if _ids(followed.optimizer).isdisjoint(ids) else followed.before


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
