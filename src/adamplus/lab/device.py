"""What differs between a CPU and a CUDA device: selection, synchronization, memory and names."""

import gc
import os
import platform
from pathlib import Path

import torch

from .errors import InputError


def choose(name: str | None) -> torch.device:
    """The device with this name. Default: CUDA if it is available, else the CPU.

    A CUDA device becomes the current one.
    """
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise InputError(f"--device must be cpu, cuda, or cuda:1 and so on, got {name!r}")
    if device.type == "cpu":
        return torch.device("cpu")  # cpu:0, too
    if not torch.cuda.is_available():
        raise InputError(f"--device {name}: torch {torch.__version__} sees no CUDA device here; use --device cpu")
    if (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"--device {name}: there are {torch.cuda.device_count()} CUDA devices, counted from 0")
    device = torch.device("cuda", device.index or 0)
    torch.cuda.set_device(device)
    return device


def synchronize(device: torch.device) -> None:
    """Wait for the kernels that were launched on a CUDA device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def release(device: torch.device) -> None:
    """Free unused memory, so that the next measurement or run starts with as much as this one."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def room(device: torch.device) -> int:
    """Bytes that may be allocated: the free memory of a CUDA device, or half of the machine's memory."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def hardware(device: torch.device) -> str:
    """The model name of the device."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {os.cpu_count()} cores"
