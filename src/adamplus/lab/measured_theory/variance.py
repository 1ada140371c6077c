"""Measurement of ‖z − ∇F(w)‖² beside ‖g − ∇F‖², with gradients at ŵ and, for comparison, at w."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from adamplus import AdamPlus
from adamplus.theory import VarianceProbe
from adamplus.theory.problems import DoubleWell

from .._run import one_thread
from .._store import certificate
from ..errors import InputError
from ..tasks import Digits
from .request import VarianceRequest
from .walks import BatchedAdamPlus

WAYS = {"extrapolated": True, "plain": False}
"""Point of the gradients: ŵ, as in Algorithm 1 (True), or w, which makes z a plain moving average (False)."""
Series = dict[str, list[Any]]
"""steps, and for each step a list over seeds: z_error2, g_error2, gradient2."""


def _series() -> Series:
    return {"steps": [], "z_error2": [], "g_error2": [], "gradient2": []}


def on_double_well(steps: int, runs: int, lr: float, beta: float, extrapolate: bool) -> Series:
    """Errors on the double well, with exact ∇F and the same noise everywhere. Both ways use the same random numbers."""
    problem, generator = DoubleWell(), torch.Generator().manual_seed(0)
    method = BatchedAdamPlus(problem.start(runs, generator), lr, beta, extrapolate=extrapolate)
    series, measured = _series(), measured_steps(steps)
    for step in range(steps):
        w, at = method.w, method.at
        g = problem.sample(at, 1, generator)[0]
        method.step(g)
        if step in measured:
            assert method.z is not None
            true = problem.gradient(w)
            for name, error in (
                ("z_error2", method.z - true),
                ("g_error2", g - problem.gradient(at)),
                ("gradient2", true),
            ):
                series[name].append(error.square().sum(1).tolist())
            series["steps"].append(step)
    return series


def on_digits(epochs: int, seeds: int, lr: float, beta: float, extrapolate: bool) -> Series:
    """Errors on the network of the task `digits`, with batches of 64 and ∇F from all 1,197 images."""
    with one_thread():
        each = [_train(epochs, seed, lr, beta, extrapolate) for seed in range(1, seeds + 1)]
    steps = each[0]["steps"]
    return {
        "steps": steps,
        **{
            name: [[run[name][i] for run in each] for i in range(len(steps))]
            for name in ("z_error2", "g_error2", "gradient2")
        },
    }


def _train(epochs: int, seed: int, lr: float, beta: float, extrapolate: bool) -> Series:
    task = Digits()
    x, y = task.data()["train"]
    torch.manual_seed(seed)
    model = task.model()
    optimizer = AdamPlus(model.parameters(), lr=lr, beta=beta)
    probe = VarianceProbe(model, optimizer, lambda: task.loss(model(x), y).backward(), every=0)
    batches = [
        rows for _ in range(epochs) for rows in torch.randperm(len(x)).split(task.batch) if len(rows) == task.batch
    ]
    series, measured = _series(), measured_steps(len(batches))
    for step, rows in enumerate(batches):
        optimizer.zero_grad()
        if not extrapolate:
            optimizer.eval()
        task.loss(model(x[rows]), y[rows]).backward()
        g_error2 = _noise(model, lambda: task.loss(model(x), y)) if step in measured else 0.0
        optimizer.train()
        if step in measured:
            errors = probe.measure()
            series["steps"].append(step)
            series["z_error2"].append(errors.z_error**2)
            series["g_error2"].append(g_error2)
            series["gradient2"].append(errors.gradient**2)
        optimizer.step()
    return series


def _noise(model: nn.Module, loss: Callable[[], Tensor]) -> float:
    """‖g − ∇F‖² at the point of g. Without extrapolation the probe measures at a different point."""
    parameters = list(model.parameters())
    true = torch.autograd.grad(loss(), parameters)
    return sum(float((p.grad - t).square().sum()) for p, t in zip(parameters, true, strict=True) if p.grad is not None)


def measured_steps(steps: int) -> set[int]:
    """About 60 steps, evenly spaced in the logarithm, with the first and the last."""
    return {round(steps ** (i / 60)) - 1 for i in range(61)} | {steps - 1}


def measure_variance(request: VarianceRequest, tell: Callable[[str], None]) -> dict[str, Any]:
    """Measure both places in both ways, and return the report.

    Args:
        request: what to measure.
        tell: is called with a line of text before each way.
    """
    born = {"command": request.command, **certificate(torch.device("cpu")), "workers": 1}
    began = time.perf_counter()
    beta, lr, seeds = request.beta, request.rates, {"double-well": 10 * request.seeds, "digits": request.seeds}
    places: dict[str, dict[str, Any]] = {"double-well": {}, "digits": {}}
    for way, extrapolate in WAYS.items():
        tell(f"gradients: {way}")
        measured = {
            "double-well": on_double_well(request.steps, seeds["double-well"], lr["double-well"], beta, extrapolate),
            "digits": on_digits(request.epochs, seeds["digits"], lr["digits"], beta, extrapolate),
        }
        for place, series in measured.items():
            if not all(np.isfinite(values).all() for values in series.values()):
                raise InputError(f"training on {place} diverges with lr = {lr[place]:g}: pass a smaller --lr")
            places[place][way] = _summary(series)
    return {
        "kind": "variance",
        "certificate": {**born, "seconds": time.perf_counter() - began},
        "settings": {"beta": beta, "lr": lr},
        "seeds": seeds,
        "places": places,
    }


def _summary(series: Series) -> dict[str, Any]:
    """Mean and standard error over seeds, at each measured step."""
    summary: dict[str, Any] = {"steps": series["steps"]}
    for name in ("z_error2", "g_error2", "gradient2"):
        values = np.array(series[name])
        summary[name] = values.mean(1).tolist()
        summary[f"{name}_error"] = (values.std(1, ddof=1) / values.shape[1] ** 0.5).tolist()
    return summary
