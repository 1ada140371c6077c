"""What `adamplus theory variance` keeps, draws and says of z's errors."""

import csv
import io
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .._certificate import certificate
from .._errors import InputError
from ..report._figures import STYLE
from ._figures import save_figure, tidy
from ._report import Report
from ._variance import WAYS, Series, on_digits, on_double_well

TITLES = {"double-well": "the double well, one sample a step", "digits": "the network of `digits`, batches of 64"}
COLOURS = {"z": "#0072B2", "plain": "#D55E00", "g": "#7A7A7A", "gradient": "#009E73"}


def variance(
    *, command: str, seeds: int, epochs: int, steps: int, beta: float, lr: dict[str, float], told: Callable[[str], None]
) -> Report:
    """Measure both places in both ways."""
    check(seeds, epochs, steps, beta, tuple(lr.values()))
    born = {"command": command, **certificate(torch.device("cpu")), "workers": 1}
    began = time.perf_counter()
    places: dict[str, dict[str, Any]] = {"double-well": {}, "digits": {}}
    for way, extrapolate in WAYS.items():
        told(way)
        places["double-well"][way] = _summary(on_double_well(steps, 10 * seeds, lr["double-well"], beta, extrapolate))
        places["digits"][way] = _summary(on_digits(epochs, seeds, lr["digits"], beta, extrapolate))
    return {
        "kind": "variance",
        "certificate": {**born, "seconds": time.perf_counter() - began},
        "settings": {"beta": beta, "lr": lr},
        "seeds": {"double-well": 10 * seeds, "digits": seeds},
        "places": places,
    }


def check(seeds: int, epochs: int, steps: int, beta: float, lr: tuple[float, ...]) -> None:
    """Refuse what cannot be measured."""
    if seeds < 2 or epochs < 1 or steps < 10:
        raise InputError(f"{seeds} seeds, {epochs} epochs, {steps} steps: at least 2, 1 and 10 are needed")
    if not 0 < beta <= 1 or not all(0 < rate < math.inf for rate in lr):
        raise InputError(f"β = {beta:g}, lr = {', '.join(f'{rate:g}' for rate in lr)}: β is in (0, 1], lr above 0")


def _summary(series: Series) -> dict[str, Any]:
    """Mean and standard error over seeds, at each step that was looked at."""
    found: dict[str, Any] = {"steps": series["steps"]}
    for name in ("z_error2", "g_error2", "gradient2"):
        values = np.array(series[name])
        found[name] = values.mean(1).tolist()
        found[f"{name}_error"] = (values.std(1, ddof=1) / values.shape[1] ** 0.5).tolist()
    return found


def part(series: dict[str, Any], name: str, last: bool) -> tuple[float, float]:
    """Mean over the first or the last tenth of the steps, and its standard error as if looks were one.

    Looks are even in the logarithm, so they are weighted by the steps that they stand for.
    """
    steps = np.array(series["steps"], dtype=float)
    end = steps[-1]
    within = steps >= 0.9 * end if last else steps <= 0.1 * end
    weights = np.gradient(steps)[within]
    mean, error = (np.average(np.array(series[key])[within], weights=weights) for key in (name, f"{name}_error"))
    return float(mean), float(error)


def cells(found: Report) -> list[list[str]]:
    """Heading and lines: what the errors were in the first and in the last tenth of training."""
    lines = [["", "gradients at", "‖z − ∇F(w)‖²: first tenth", "last tenth", "‖g − ∇F‖²: first tenth", "last tenth"]]
    lines[0] += ["‖∇F(w)‖²: first tenth", "last tenth"]
    for place, ways in found["places"].items():
        for way, series in ways.items():
            numbers = [
                f"{mean:.3g} ± {error:.1g}"
                for name in ("z_error2", "g_error2", "gradient2")
                for mean, error in (part(series, name, last=False), part(series, name, last=True))
            ]
            lines.append([TITLES[place], "ŵ (Adam⁺)" if WAYS[way] else "w (plain average)", *numbers])
    return lines


def note(found: Report) -> str:
    """Where the numbers come from."""
    born, settings = found["certificate"], found["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in born["versions"].items())
    return (
        f"`{born['command']}` on {born['hardware']}, {born['started'][:10]}; {versions}; {born['seconds']:.0f} s. "
        f"Means ± standard errors over {found['seeds']['double-well']} and {found['seeds']['digits']} seeds; "
        f"β = {settings['beta']:g}, lr = {settings['lr']['double-well']:g} and {settings['lr']['digits']:g}."
    )


def markdown(found: Report) -> str:
    """The same as Markdown."""
    head, *lines = cells(found)
    rule = [":--", ":--", *["--:"] * (len(head) - 2)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))
    return f"{table}\n\n- {note(found)}\n"


def to_csv(found: Report) -> str:
    """A line for every place, way and step."""
    text = io.StringIO()
    names = ["z_error2", "z_error2_error", "g_error2", "g_error2_error", "gradient2", "gradient2_error"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["place", "gradients", "step", *names])
    for place, ways in found["places"].items():
        for way, series in ways.items():
            for i, step in enumerate(series["steps"]):
                writer.writerow([place, way, step, *(series[name][i] for name in names)])
    return text.getvalue()


def draw(found: Report, folder: Path) -> list[Path]:
    """One panel a place; the files' paths."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(9, 3.9), layout="constrained")
        for axes, (place, ways) in zip(figure.subplots(1, 2), found["places"].items(), strict=True):
            plus, plain = ways["extrapolated"], ways["plain"]
            _band(axes, plus, "g_error2", COLOURS["g"], "-", "noise of a gradient, ‖g − ∇F(ŵ)‖²")
            _band(
                axes, plain, "z_error2", COLOURS["plain"], (0, (5, 2)), "‖z − ∇F(w)‖², gradients at w (plain average)"
            )
            _band(axes, plus, "z_error2", COLOURS["z"], "-", "‖z − ∇F(w)‖², gradients at ŵ (Adam⁺)")
            _band(axes, plus, "gradient2", COLOURS["gradient"], (0, (1, 1.5)), "‖∇F(w)‖²")
            tidy(axes, TITLES[place])
            axes.set(xscale="log", yscale="log", xlabel="step")
        figure.axes[0].set_ylabel("squared error, mean over seeds")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
        return save_figure(figure, folder / "variance")


def _band(axes: Any, series: dict[str, Any], name: str, colour: str, stroke: Any, label: str) -> None:
    steps, mean = np.array(series["steps"]) + 1, np.array(series[name])
    error = np.array(series[f"{name}_error"])
    axes.plot(steps, mean, color=colour, linestyle=stroke, linewidth=1.5, label=label)
    axes.fill_between(steps, np.maximum(mean - 2 * error, mean / 10), mean + 2 * error, color=colour, alpha=0.18, lw=0)
