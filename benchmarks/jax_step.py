"""Time and memory of a compiled step in JAX, beside `optax.adam` and torch's fused `AdamPlus`, as ratios in one run.

`PYTHONPATH=src python3 benchmarks/jax_step.py [--out FILE]`, where there is a GPU, with JAX for CUDA installed. The
parameters are GPT-2's, 124 M in float32. Contenders take turns, so that all of them see the same machine. The time is
that of steps that follow each other: the host is ahead of the device, as in training. Peak memory is what a step holds
at once, parameters and gradients included: XLA's own account for JAX, with donated parameters and state, and
`max_memory_allocated` for torch.
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or nothing would be left for torch

import jax
import jax.numpy as jnp
import optax
import torch

from adamplus import AdamPlus, spectral_groups
from adamplus.jax import Geometry, Sign, Spectral, adam_plus, spectral_plus
from adamplus.lab.bench.shapes import gpt, parameters

MODELS = {"gpt2-124m": (768, 12, 1024), "tiny": (64, 1, 8)}
BASE = "optax.adam"


class Contender(NamedTuple):
    """A step that is timed."""

    steps: Callable[[int], None]
    """Takes this many steps and waits for the last one."""
    peak_bytes: int | None


def geometry_of(model: torch.nn.Module) -> dict[str, Geometry]:
    """Geometry of each parameter, whose layout is torch's, as `spectral_groups` routes it."""
    return {
        name: Spectral(output=0, blocks=group.get("blocks", 1)) if group["geometry"] == "spectral" else Sign()
        for group in spectral_groups(model)
        for name in group["param_names"]
    }


def in_jax(model: torch.nn.Module, optimizer: Any) -> Contender:
    """A compiled step with donated parameters and state, and the same gradients each time."""
    params: Any = {name: jnp.ones(tuple(p.shape), jnp.float32) for name, p in model.named_parameters()}
    grads = {name: jax.random.normal(jax.random.key(i), p.shape) for i, (name, p) in enumerate(params.items())}

    def update(params: Any, state: Any, grads: Any) -> tuple[Any, Any]:
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    held = [params, optimizer.init(params)]
    step = jax.jit(update, donate_argnums=(0, 1)).lower(*held, grads).compile()
    stats: Any = step.memory_analysis()
    peak = (
        stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes - stats.alias_size_in_bytes
    )

    def steps(count: int) -> None:
        for _ in range(count):
            held[:] = step(*held, grads)
        jax.block_until_ready(held)

    return Contender(steps, peak)


def in_torch(model: torch.nn.Module) -> Contender:
    """The fused step on CUDA, and the default one on a CPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    params = [torch.nn.Parameter(torch.ones(p.shape, device=device)) for p in model.parameters()]
    for p in params:
        p.grad = torch.randn_like(p)
    optimizer = AdamPlus(params, lr=0.01, fused=True if device == "cuda" else None)
    optimizer.step()
    peak = None
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        optimizer.step()
        peak = torch.cuda.max_memory_allocated()

    def steps(count: int) -> None:
        for _ in range(count):
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return Contender(steps, peak)


def measure(model: torch.nn.Module, rounds: int, steps: int) -> dict[str, dict[str, Any]]:
    """Median milliseconds of a step, its ratio to `optax.adam`, and peak memory of each contender."""
    contenders = {
        BASE: in_jax(model, optax.adam(1e-3)),
        "jax adam_plus": in_jax(model, adam_plus(0.01)),
        "jax spectral_plus": in_jax(model, spectral_plus(0.01, geometry=geometry_of(model))),
        "torch AdamPlus": in_torch(model),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for i in range(rounds + 1):
        for name, contender in contenders.items():
            begin = time.perf_counter()
            contender.steps(steps)
            if i > 0:  # the first round warms up
                times[name].append(1000 * (time.perf_counter() - begin) / steps)
    ratios = {
        name: statistics.median(a / b for a, b in zip(own, times[BASE], strict=True)) for name, own in times.items()
    }
    return {
        name: {"ms": statistics.median(own), "over_optax_adam": ratios[name], "peak_bytes": contenders[name].peak_bytes}
        for name, own in times.items()
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print a table, and write the report."""
    parser = argparse.ArgumentParser(description="Time and memory of a compiled step in JAX.")
    parser.add_argument("--model", choices=MODELS, default="gpt2-124m", help="[default: gpt2-124m]")
    parser.add_argument("--rounds", type=int, default=20, help="times that each contender is measured [default: 20]")
    parser.add_argument("--steps", type=int, default=20, help="steps of each measurement [default: 20]")
    parser.add_argument("--out", type=Path, help="JSON file of the report")
    options = parser.parse_args(arguments)
    width, layers, context = MODELS[options.model]
    model = gpt(width, layers, context)
    report = {
        "model": options.model,
        "parameters": parameters(model),
        "contenders": measure(model, options.rounds, options.steps),
        "device": jax.devices()[0].device_kind,
        "versions": {"jax": jax.__version__, "optax": optax.__version__, "torch": torch.__version__},
        "python": platform.python_version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rounds": options.rounds,
        "steps": options.steps,
    }
    print(f"{options.model}, {report['parameters']:,} parameters, {report['device']}")
    for name, row in report["contenders"].items():
        peak = "" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 2**20:10.1f} MiB"
        print(f"{name:18} {row['ms']:10.3f} ms  {row['over_optax_adam']:6.2f} × {BASE} {peak}")
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")
    return report


if __name__ == "__main__":
    main()
