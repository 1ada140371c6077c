"""Gradients of a fused step: where they are, and whether dtype and layout are still those of the tables."""

from typing import Any, cast

import torch
from torch import Tensor

from ..._layout import is_sharded, local_gradient
from ..._state import same_layout

# Functions for map(), which is faster than a loop in Python.
GRADIENT, POINTER = cast("Any", Tensor.grad).__get__, Tensor.data_ptr
# DTensors do not override these functions, and finding that out takes as long as the functions themselves.
NO_OVERRIDES = torch._C.DisableTorchFunctionSubclass
NOWHERE, EMPTY = 0, 16  # addresses of a missing gradient, and of one without elements, which is never read


def same_places(tensors: list[Tensor], places: list[int], numbers: list[int]) -> bool:
    """Whether the tensors with these numbers are at these addresses."""
    return [tensors[i].data_ptr() for i in numbers] == [places[i] for i in numbers]


# One call, if torch is built with CUDA: its own graphs make this check before each replay.
SAME_PLACES: Any = getattr(torch._C, "_tensors_data_ptrs_at_indices_equal", same_places)


class Gradients:
    """Gradients of some parameters, expected to have these dtypes and the layouts of `locals`, the local tensors."""

    def __init__(self, params: list[Tensor], locals: list[Tensor], dtypes: list[torch.dtype]) -> None:
        self.params, self.locals, self.dtypes, self.numbers = params, locals, dtypes, list(range(len(params)))
        self.specs = [cast("Any", p)._spec if is_sharded(p) else None for p in params]
        self.split = any(spec is not None for spec in self.specs)
        self.guards: Any = None
        self.pointers: list[int] = []
        self.places: list[int] = []
        self.copies: list[Tensor] = []  # copies of gradients in another layout, which kernels may still read

    def look(self) -> tuple[list[int] | None, list[Any]]:
        """Return the address of each gradient, or None if one does not match the tables, and the gradients.

        Releasing the gradients takes time, so the caller does that while kernels are running.
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
    """Whether kernels can read g's elements from memory, in the order of p's."""
    return same_layout(g, p) and not g.is_neg() and not g._is_zerotensor()


def _guards(tensors: list[Tensor]) -> Any:
    """A check of dtypes, devices and layouts in one call, which takes a third of the time of checks in Python."""
    try:
        from torch._C._dynamo.guards import TensorGuards  # torch.compile makes this check before each call
    except ImportError:
        return None
    sizes, strides = (
        cast("Any", [list(x) for x in xs]) for xs in ([t.shape for t in tensors], [t.stride() for t in tensors])
    )
    return TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
