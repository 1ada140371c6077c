"""The gradients of a fused step: whether they look as the kernels' tables have it, and where they are."""

from typing import Any, cast

import torch
from torch import Tensor

from ..._ranks import is_split, local_gradient
from ..._state import same_layout

# As functions for map(), which spares each tensor a turn of Python's loop.
GRADIENT, POINTER = cast("Any", Tensor.grad).__get__, Tensor.data_ptr
# DTensors override no functions, and to find that out for each of them takes as long as the functions themselves.
NO_OVERRIDES = torch._C.DisableTorchFunctionSubclass
NOWHERE, EMPTY = 0, 16  # places of a gradient that is missing, and of one without elements, which is read by nobody


def same_places(tensors: list[Tensor], places: list[int], numbers: list[int]) -> bool:
    """Whether the tensors of these numbers are at these places."""
    return [tensors[i].data_ptr() for i in numbers] == [places[i] for i in numbers]


# In one call, where torch is built with CUDA: what its own graphs ask before each replay.
SAME_PLACES: Any = getattr(torch._C, "_tensors_data_ptrs_at_indices_equal", same_places)


class Gradients:
    """Those of some parameters, which are to have these dtypes and the layouts of `locals`, their local tensors."""

    def __init__(self, params: list[Tensor], locals: list[Tensor], dtypes: list[torch.dtype]) -> None:
        self.params, self.locals, self.dtypes, self.numbers = params, locals, dtypes, list(range(len(params)))
        self.specs = [cast("Any", p)._spec if is_split(p) else None for p in params]
        self.split = any(spec is not None for spec in self.specs)
        self.guards: Any = None
        self.pointers: list[int] = []
        self.places: list[int] = []
        self.copies: list[Tensor] = []  # of gradients in another layout; kernels may still read them

    def look(self) -> tuple[list[int] | None, list[Any]]:
        """Where each gradient is, or None where one does not look as it should; and the gradients.

        To let go of them takes time, which the caller has when kernels are running.
        """
        if not self.split:
            gradients: list[Any] = list(map(GRADIENT, self.params))
        else:
            with NO_OVERRIDES():
                gradients = list(map(GRADIENT, self.params))
            gradients = [
                g if g is None or spec is None else g._local_tensor if g._spec is spec else local_gradient(g, p)
                for g, spec, p in zip(gradients, self.specs, self.params, strict=True)
            ]
        if self.guards is None or not self.guards.check(*gradients):
            return self._look_at_each(gradients), gradients
        if not SAME_PLACES(gradients, self.pointers, self.numbers):
            self.pointers = list(map(POINTER, gradients))
            self.places = [pointer or EMPTY for pointer in self.pointers]
        return self.places, gradients

    def _look_at_each(self, gradients: list[Tensor | None]) -> list[int] | None:
        self.guards, self.copies, self.places = None, [], []
        for g, p, dtype in zip(gradients, self.locals, self.dtypes, strict=True):
            if g is None:
                self.places.append(NOWHERE)
                continue
            if (
                type(g) is not Tensor
                or g.layout != torch.strided
                or g.dtype != dtype
                or g.device != p.device
                or g.shape != p.shape
            ):
                return None
            if not readable(g, p):
                g = torch.empty_like(p.detach(), dtype=g.dtype).copy_(g.detach())
                self.copies.append(g)
            self.places.append(g.data_ptr() or EMPTY)
        if not self.copies and NOWHERE not in self.places:
            self.pointers = list(map(POINTER, cast("list[Tensor]", gradients)))
            self.guards = _guards(cast("list[Tensor]", gradients))
        return self.places


def readable(g: Tensor, p: Tensor) -> bool:
    """Whether kernels find g's elements in memory, in the order of p's."""
    return same_layout(g, p) and not g.is_neg() and not g._is_zerotensor()


def _guards(tensors: list[Tensor]) -> Any:
    """A check of dtypes, devices and layouts in one call, a third of the time that Python takes for them."""
    try:
        from torch._C._dynamo.guards import TensorGuards  # what torch.compile asks before each call
    except ImportError:
        return None
    sizes, strides = (
        cast("Any", [list(x) for x in xs]) for xs in ([t.shape for t in tensors], [t.stride() for t in tensors])
    )
    return TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
