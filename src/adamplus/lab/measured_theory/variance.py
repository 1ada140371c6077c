"""How exact z is: ‖z − ∇F(w)‖² beside ‖g − ∇F‖², with gradients at ŵ and, for comparison, at w."""

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
"""Gradients at ŵ, as Algorithm 1 has them, or at w: a plain moving average."""
Series = dict[str, list[Any]]
"""steps, and for each of them a list over seeds: z_error2, g_error2, gradient2."""


def _series() -> Series:
    return {"steps": [], "z_error2": [], "g_error2": [], "gradient2": []}


def on_double_well(steps: int, runs: int, lr: float, beta: float, extrapolate: bool) -> Series:
    """Exact gradients, and noise that is the same everywhere; both ways see the same random numbers."""
    problem, generator = DoubleWell(), torch.Generator().manual_seed(0)
    method = BatchedAdamPlus(problem.start(runs, generator), lr, beta, extrapolate=extrapolate)
    found, looked = _series(), looks(steps)
    for step in range(steps):
        w, at = method.w, method.at
        g = problem.sample(at, 1, generator)[0]
        method.step(g)
        if step in looked:
            assert method.z is not None
            true = problem.gradient(w)
            for name, error in (
                ("z_error2", method.z - true),
                ("g_error2", g - problem.gradient(at)),
                ("gradient2", true),
            ):
                found[name].append(error.square().sum(1).tolist())
            found["steps"].append(step)
    return found


def on_digits(epochs: int, seeds: int, lr: float, beta: float, extrapolate: bool) -> Series:
    """The network of the task `digits`, batches of 64, ∇F from all 1,197 images."""
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
    found, looked = _series(), looks(len(batches))
    for step, rows in enumerate(batches):
        optimizer.zero_grad()
        if not extrapolate:
            optimizer.eval()
        task.loss(model(x[rows]), y[rows]).backward()
        g_error2 = _noise(model, lambda: task.loss(model(x), y)) if step in looked else 0.0
        optimizer.train()
        if step in looked:
            errors = probe.measure()
            found["steps"].append(step)
            found["z_error2"].append(errors.z_error**2)
            found["g_error2"].append(g_error2)
            found["gradient2"].append(errors.gradient**2)
        optimizer.step()
    return found


def _noise(model: nn.Module, loss: Callable[[], Tensor]) -> float:
    """‖g − ∇F‖² at the point where g was taken, which without extrapolation is not the one that the probe looks at."""
    parameters = list(model.parameters())
    true = torch.autograd.grad(loss(), parameters)
    return sum(float((p.grad - t).square().sum()) for p, t in zip(parameters, true, strict=True) if p.grad is not None)


def looks(steps: int) -> set[int]:
    """About 60 steps, evenly in the logarithm, the first and the last among them."""
    return {round(steps ** (i / 60)) - 1 for i in range(61)} | {steps - 1}


def measure_variance(request: VarianceRequest, tell: Callable[[str], None]) -> dict[str, Any]:
    """The report of both places in both ways; `tell` gets a line for each way that begins."""
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
                raise InputError(f"with lr = {lr[place]:g} training on {place} diverges: pass a smaller --lr")
            places[place][way] = _summary(series)
    return {
        "kind": "variance",
        "certificate": {**born, "seconds": time.perf_counter() - began},
        "settings": {"beta": beta, "lr": lr},
        "seeds": seeds,
        "places": places,
    }


def _summary(series: Series) -> dict[str, Any]:
    """Mean and standard error over seeds, at each step that was looked at."""
    found: dict[str, Any] = {"steps": series["steps"]}
    for name in ("z_error2", "g_error2", "gradient2"):
        values = np.array(series[name])
        found[name] = values.mean(1).tolist()
        found[f"{name}_error"] = (values.std(1, ddof=1) / values.shape[1] ** 0.5).tolist()
    return found
