"""Execution in C: both passes by the library that `native.c` is compiled to when the package is installed."""

import ctypes
import operator
import os
import platform
import warnings
import zlib
from array import array
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .._algorithm import Execution, Part, gradient_weights, per_tensor
from .._layout import ORDINARY

PATH = Path(__file__).with_name("native.c.so")  # not native.so, which Python would import in place of this file
CHUNK = 1 << 17  # as in native.c
DTYPE, SHAPE, IS_CPU = operator.attrgetter("dtype"), operator.attrgetter("shape"), operator.attrgetter("is_cpu")
SUFFIX = {torch.float32: "float32", torch.float64: "float64"}


def load(path: Path) -> Any:
    """The library, or None if it cannot be used: foreach then uses torch's own operations."""
    # It is compiled for CPUs with fma, which torch reports as anything but "DEFAULT".
    if platform.machine() in ("x86_64", "AMD64") and torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        return None
    try:
        library = ctypes.CDLL(str(path))
        made_from = ctypes.c_uint64.in_dll(library, "made_from").value
        source = path.with_suffix("").read_bytes()
    except (OSError, ValueError):
        return None
    if made_from != zlib.crc32(source):
        warnings.warn(
            f"{path.name} was compiled from another {path.stem}, and is not used: CPU steps are slower. "
            "Install adamplus again (pip install -e . in a clone)",
            stacklevel=2,
        )
        return None
    return library


def torch_threads() -> Any:
    """Entry to the OpenMP threads that torch uses, or None. A second pool would compete with them for the cores."""
    return getattr(ctypes.CDLL(torch._C.__file__), "GOMP_parallel", None)


LIBRARY = load(PATH)
PARALLEL = torch_threads()
PROCESS = os.getpid()


class Native(Execution):
    """Both halves of a step in C, each in one pass over memory. An instance executes one part, for one step.

    `first` writes nothing, so that `second` still has z_{t−1}.
    """

    def first(self, x: Part, group: dict[str, Any], lr: float | Tensor, beta: float | Tensor) -> Tensor:
        """Return ‖z_t‖ of each tensor."""
        decay, is_decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        self.table = Table(x.w_hat, x.g, x.z)
        self.keep = column([1 - lr * decay if is_decoupled else 1.0])
        self.settings: dict[str, Any] = {
            "maximize": group["maximize"],
            "decay": 0.0 if is_decoupled else decay,
            "weight": column(gradient_weights(x.step, beta, group["capturable"])),
        }
        return self.table.norms(**self.settings)

    def second(self, x: Part, rate: Tensor, offset: Tensor) -> None:
        """Undo the last extrapolation, average, move, and store the offset."""
        rates, offsets = per_tensor(rate, x), per_tensor(offset, x)
        x.written = True
        self.table.update(x.offset, rates, keep=self.keep, **self.settings)
        torch.autograd.graph.increment_version(x.w_hat)  # so that autograd notices; z is never part of a graph
        torch._foreach_copy_(x.offset, offsets)
        torch._foreach_add_(x.step, [torch.ones((), device="cpu")] * len(x.step))  # a number would become one for each


def ready() -> bool:
    """Whether C may write to memory: torch.compile and autograd would not notice."""
    return not torch.compiler.is_compiling() and LIBRARY is not None and not torch.is_grad_enabled()


def takes(w_hat: Tensor, g: Tensor, z: Tensor, offset: Tensor | None = None) -> bool:
    """Whether C can take these tensors: plain CPU tensors without gaps, of one dtype and layout."""
    return (
        z.is_cpu
        and (offset is None or offset.dtype is z.dtype)
        and w_hat.shape == g.shape == z.shape
        and w_hat.dtype is g.dtype is z.dtype
        and z.dtype in SUFFIX
        and type(w_hat) in ORDINARY
        and type(g) in ORDINARY
        and type(z) in ORDINARY
        and not (w_hat.is_neg() or g.is_neg() or g._is_zerotensor())  # torch has not written these to memory yet
        and (
            (w_hat.is_contiguous() and g.is_contiguous() and z.is_contiguous())
            or (w_hat.stride() == g.stride() == z.stride() and in_memory_order(z).is_contiguous())
        )
    )


def takes_all(w_hats: list[Tensor], gs: list[Tensor], zs: list[Tensor], offsets: list[Tensor]) -> bool:
    """Whether C can take all of these tensors, if all are contiguous and of one dtype. Faster than `takes` for each."""
    everything = [*w_hats, *gs, *zs]
    return (
        {*map(type, everything)} <= {*ORDINARY}
        and len(dtypes := {*map(DTYPE, everything), *map(DTYPE, offsets)}) == 1
        and dtypes <= SUFFIX.keys()
        and all(map(IS_CPU, everything))
        and all(map(Tensor.is_contiguous, everything))
        and list(map(SHAPE, w_hats)) == list(map(SHAPE, gs)) == list(map(SHAPE, zs))
        and not any(map(Tensor.is_neg, everything))
        and not any(map(Tensor._is_zerotensor, gs))
    )


def in_memory_order(t: Tensor) -> Tensor:
    """View of t with its dimensions in memory order: contiguous, unless t has gaps or overlaps."""
    return t.permute(sorted(range(t.ndim), key=lambda d: (-t.stride(d), d)))


class Work(ctypes.Structure):
    """Arguments of one pass: `struct work` of `native.c`."""

    _fields_ = (
        ("tensors", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("chunks", ctypes.c_int64),
        ("next", ctypes.c_int64),
        ("done", ctypes.c_int64),
        ("maximize", ctypes.c_int64),
        ("decay", ctypes.c_double),
        ("keep", ctypes.c_void_p),
        ("weight", ctypes.c_void_p),
        ("old_offset", ctypes.c_void_p),
        ("rate", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
        ("norms", ctypes.c_void_p),
    )


class Table:
    """Addresses of the tensors that the library takes, and their chunks."""

    def __init__(self, w_hats: list[Tensor], gs: list[Tensor] | None, zs: list[Tensor]) -> None:
        sizes = list(map(Tensor.numel, zs))
        first_chunks = [0, *accumulate(-(-size // CHUNK) for size in sizes)]
        self.count, self.chunks = len(zs), first_chunks.pop()
        g_pointers = [0] * self.count if gs is None else _pointers(gs)
        rows = zip(_pointers(w_hats), g_pointers, _pointers(zs), sizes, first_chunks, strict=True)
        self.rows = array("q", [*chain.from_iterable(rows), 0, 0, 0, 0, self.chunks])
        self.suffix = SUFFIX[zs[0].dtype]
        # A forked process has no OpenMP threads, and would wait for them.
        alone = PARALLEL is None or os.getpid() != PROCESS
        self.threads = 1 if alone else min(torch.get_num_threads(), 1 + sum(sizes) // CHUNK)

    def norms(self, **settings: Any) -> Tensor:
        """‖z_t‖ of each tensor. Writes to none of them."""
        norms = torch.zeros(self.count, dtype=torch.float64, device="cpu")
        self._run("norms", sums=array("d", bytes(8 * self.chunks)), norms=norms, **settings)
        return norms

    def update(self, old_offset: list[Tensor], rate: list[Tensor], **settings: Any) -> None:
        """Update ŵ and z."""
        self._run("update", old_offset=array("q", _pointers(old_offset)), rate=array("q", _pointers(rate)), **settings)

    def _run(self, name: str, maximize: bool = False, decay: float = 0.0, **columns: Any) -> None:
        at = {key: c.data_ptr() if isinstance(c, Tensor) else c.buffer_info()[0] for key, c in columns.items()}
        work = Work(self.rows.buffer_info()[0], self.count, self.chunks, maximize=maximize, decay=decay, **at)
        function = getattr(LIBRARY, f"{name}_{self.suffix}")
        if self.threads == 1:
            function(ctypes.byref(work))
        else:
            PARALLEL(function, ctypes.byref(work), self.threads, 0)


def _pointers(tensors: list[Tensor]) -> list[int]:
    return list(map(Tensor.data_ptr, tensors))


def column(values: list[Any]) -> Any:
    """The values in float64, without reading those that are tensors."""
    if not any(isinstance(value, Tensor) for value in values):
        return array("d", values)
    return torch.stack([torch.as_tensor(value, dtype=torch.float64, device="cpu") for value in values])
