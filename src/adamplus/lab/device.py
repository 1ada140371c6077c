"""What differs between a CPU and a CUDA device: waiting, room and names."""

import gc
import os
import platform
from pathlib import Path

import torch

from .errors import InputError


def choose(name: str | None) -> torch.device:
    """The device of that name; by itself CUDA, where there is one."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"device {name!r}: there are cpu and cuda (or cuda:1, …)")
    if device.type == "cpu":
        return torch.device("cpu")  # cpu:0, too
    if not torch.cuda.is_available():
        raise InputError(f"device {name!r}: torch {torch.__version__} sees no CUDA device here; use --device cpu")
    if (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {name!r}: there are {torch.cuda.device_count()} CUDA devices, counted from 0")
    device = torch.device("cuda", device.index or 0)
    torch.cuda.set_device(device)
    return device


def synchronize(device: torch.device) -> None:
    """Wait for what was launched, on a device that runs behind the host."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def release(device: torch.device) -> None:
    """Give back what nobody holds any more, so that the next one starts from the same room."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def room(device: torch.device) -> int:
    """Bytes that one may still allocate: the device's free ones, or half of the machine's memory."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def hardware(device: torch.device) -> str:
    """What the device is called."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {os.cpu_count()} cores"
