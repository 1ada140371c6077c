"""State of an optimizer: z, offset and step of each parameter, and the record of norms of each group."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ._norm import scalar_dtype


def new_states(params: list[Tensor], group: dict[str, Any]) -> list[dict[str, Tensor]]:
    """State of parameters before their first step."""
    zero = torch.zeros((), device="cpu")
    offsets = together([zero] * len(params), [(p.device, offset_dtype(p)) for p in params])
    steps = together([zero] * len(params), [(step_device(p, group), torch.float32) for p in params])
    zs = [_new_z(p, group) for p in params]
    return [{"z": z, "offset": c, "step": t} for z, c, t in zip(zs, offsets, steps, strict=True)]


def _new_z(p: Tensor, group: dict[str, Any]) -> Tensor:
    refuse_dtype(p, group)
    own = p.dtype.to_real()
    dtype = group["state_dtype"] or (torch.float32 if own.itemsize == 2 else own)
    return torch.zeros_like(p, dtype=dtype.to_complex() if p.is_complex() else dtype)


def refuse_dtype(p: Tensor, group: dict[str, Any]) -> None:
    """Raise if a parameter has a dtype that no step can move."""
    if not (p.is_floating_point() or p.is_complex()) or p.dtype.to_real().itemsize < 2:
        raise TypeError(
            f"a parameter is {p.dtype}, and steps are smaller than its rounding: leave it out, or train a copy of it "
            "in 16 bits or more"
        )
    if p.is_complex() and (dtype := group["state_dtype"]) is not None and dtype.itemsize == 2:
        raise TypeError(f"state_dtype={dtype} for a {p.dtype} parameter: complex z is float32 or float64")


def together(scalars: list[Tensor], homes: list[tuple[torch.device, torch.dtype]]) -> list[Tensor]:
    """Copies of scalars with these devices and dtypes.

    On an accelerator they share one piece of memory: each alone would take 512 bytes.
    """
    if len({(s.device, s.dtype) for s in scalars}) == len(set(homes)) == 1 and homes[0][0].type != "cpu":
        return list(torch.stack(scalars).to(*homes[0]).unbind())
    return [s.to(*home, copy=True) for s, home in zip(scalars, homes, strict=True)]


def separate(state: dict[str, Tensor]) -> bool:
    """Give the scalars memory of their own again, and return whether they shared any.

    Inductor steps copies of tensors that share memory, and loses some of what is written to them (torch 2.11, CUDA).
    """
    shared = [name for name in ("offset", "step") if state[name].untyped_storage().nbytes() > state[name].itemsize]
    for name in shared:
        state[name] = state[name].clone()
    return bool(shared)


def suit(p: Tensor, state: dict[str, Tensor]) -> None:
    """Move a parameter's state to its device and into its layout, as the fused kernels need it."""
    refuse_other_data(p, state["z"])
    for name, value in state.items():
        if value.device != p.device:
            state[name] = value.to(p.device)  # pragma: no cover - CI has one device
    if state["offset"].dtype != torch.float32:  # of a parameter that was float64 when its state was loaded
        state["offset"] = state["offset"].float()
    if not same_layout(state["z"], p):
        state["z"] = torch.empty_like(p, dtype=state["z"].dtype).copy_(state["z"])


def refuse_other_data(p: Tensor, z: Tensor) -> None:
    """Raise if a parameter does not have the shape that its state was made for."""
    if z.shape != p.shape:
        raise RuntimeError(
            f"a parameter has shape {tuple(p.shape)}, and its z {tuple(z.shape)}: it was given other data "
            "since its last step. Delete its state (optimizer.state.pop(p)) to start it anew"
        )


def same_layout(a: Tensor, b: Tensor) -> bool:
    """Whether tensors of one shape have their elements in the same order in memory."""
    strides = zip(a.shape, a.stride(), b.stride(), strict=True)
    return a.stride() == b.stride() or all(i == j for size, i, j in strides if size > 1)


def new_record(group: dict[str, Any]) -> Tensor:
    """Record of a group before its first step, on its device: ‖z‖, η, Σ‖z‖, steps taken, and steps skipped."""
    device = home_of(group)
    return torch.zeros(5, dtype=scalar_dtype(device), device=device)


def count_skipped(records: Iterable[Tensor], skipped: Tensor) -> None:
    """Count a step in the records of all groups if the flag says that it is skipped."""
    for record in records:
        record[4:].add_(skipped.to(record))


def offset_dtype(p: Tensor) -> torch.dtype:
    """Dtype of a parameter's offset."""
    return torch.float64 if p.dtype.to_real() == torch.float64 else torch.float32


def step_device(p: Tensor, group: dict[str, Any]) -> torch.device:
    """Device of a parameter's step count."""
    # With skip_nonfinite, only the device knows which steps are taken.
    on_device = group["capturable"] or group["fused"] or group.get("skip_nonfinite")
    return p.device if on_device else torch.device("cpu")


def home_of(group: dict[str, Any]) -> torch.device:
    """Device of a group's record."""
    return group["params"][0].device if group["params"] else torch.device("cpu")
