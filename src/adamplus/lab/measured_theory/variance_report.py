"""Tables, text and figure of a report of `adamplus theory variance`."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from .._present import COLOURS, drawing, markdown_table, save, tidy
from .figures import DPI
from .variance import WAYS

TITLES = {"double-well": "the double well, one sample a step", "digits": "the network of `digits`, batches of 64"}
COLOUR_OF = {"z": COLOURS[0], "plain": COLOURS[1], "g": COLOURS[6], "gradient": COLOURS[2]}


def part(series: dict[str, Any], name: str, last: bool) -> tuple[float, float]:
    """Mean over the first or the last tenth of the steps, and its standard error, as if errors were fully correlated.

    Measured steps are evenly spaced in the logarithm, so each is weighted by the number of steps that it represents.
    """
    steps = np.array(series["steps"], dtype=float)
    end = steps[-1]
    within = steps >= 0.9 * end if last else steps <= 0.1 * end
    weights = np.gradient(steps)[within]
    mean, error = (np.average(np.array(series[key])[within], weights=weights) for key in (name, f"{name}_error"))
    return float(mean), float(error)


def level(series: dict[str, Any]) -> int:
    """The last measured step at which the noise of g is at least that of the first step. Later it falls as well."""
    noise = series["g_error2"]
    return max(step for step, value in zip(series["steps"], noise, strict=True) if value >= noise[0])


def cells(report: dict[str, Any]) -> list[list[str]]:
    """Table of the errors in the first and in the last tenth of training: the heading, then the lines."""
    lines = [["", "gradients at", "‖z − ∇F(w)‖²: first tenth", "last tenth", "‖g − ∇F‖²: first tenth", "last tenth"]]
    lines[0] += ["‖∇F(w)‖²: first tenth", "last tenth"]
    for place, ways in report["places"].items():
        for way, series in ways.items():
            numbers = [
                f"{mean:.3g} ± {error:.1g}"
                for name in ("z_error2", "g_error2", "gradient2")
                for mean, error in (part(series, name, last=False), part(series, name, last=True))
            ]
            lines.append([TITLES[place], "ŵ (Adam⁺)" if WAYS[way] else "w (plain average)", *numbers])
    return lines


def note(report: dict[str, Any]) -> str:
    """Note on the origin of the numbers."""
    born, settings = report["certificate"], report["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in born["versions"].items())
    return (
        f"`{born['command']}` on {born['hardware']}, {born['started'][:10]}; {versions}; {born['seconds']:.0f} s. "
        f"Means ± standard errors over {report['seeds']['double-well']} and {report['seeds']['digits']} seeds; "
        f"β = {settings['beta']:g}, lr = {settings['lr']['double-well']:g} and {settings['lr']['digits']:g}."
    )


def reading(report: dict[str, Any]) -> str:
    """Text on how far the error of z fell while the noise of g did not."""
    parts = []
    for place, ways in report["places"].items():
        series, last = ways["extrapolated"], level(ways["extrapolated"])
        at = series["steps"].index(last)
        g, z = ([series[name][i] for i in (0, at)] for name in ("g_error2", "z_error2"))
        parts.append(
            f"on {TITLES[place]}, at step {last + 1:,} of {series['steps'][-1] + 1:,} (‖g − ∇F‖² from {g[0]:.3g} to "
            f"{g[1]:.3g}, ‖z − ∇F(w)‖² from {z[0]:.3g} to {z[1]:.3g}, which is {z[1] / g[1]:.3g} of it)"
        )
    return (
        "With gradients at ŵ, the noise of g was last as large as at first, or larger, "
        f"{'; '.join(parts)}. In the figure, what comes later is shaded; the dotted line is β/(2 − β) = "
        f"{_averaged(report):.3g}, what averaging makes of steady noise."
    )


def _averaged(report: dict[str, Any]) -> float:
    beta = report["settings"]["beta"]
    return beta / (2 - beta)


def markdown(report: dict[str, Any]) -> str:
    """Table and texts as Markdown."""
    head, *lines = cells(report)
    return f"{markdown_table(head, lines, left=head[:2])}\n\n- {reading(report)}\n- {note(report)}\n"


def to_csv(report: dict[str, Any]) -> str:
    """CSV with a line for every place, way and step."""
    text = io.StringIO()
    names = ["z_error2", "z_error2_error", "g_error2", "g_error2_error", "gradient2", "gradient2_error"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["place", "gradients", "step", *names])
    for place, ways in report["places"].items():
        for way, series in ways.items():
            for i, step in enumerate(series["steps"]):
                writer.writerow([place, way, step, *(series[name][i] for name in names)])
    return text.getvalue()


def draw(report: dict[str, Any], folder: Path) -> list[Path]:
    """Draw the errors, one panel per place, and below them z's as a part of g's. Returns the paths of the files."""
    with drawing(folder):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 5.6), layout="constrained")
        panels = figure.subplots(2, 2, sharex="col", height_ratios=(3, 2))
        for axes, ratios, (place, ways) in zip(*panels, report["places"].items(), strict=True):
            plus, plain = ways["extrapolated"], ways["plain"]
            _band(axes, plus, "g_error2", COLOUR_OF["g"], "-", "noise of a gradient, ‖g − ∇F(ŵ)‖²")
            _band(
                axes, plain, "z_error2", COLOUR_OF["plain"], (0, (5, 2)), "‖z − ∇F(w)‖², gradients at w (plain average)"
            )
            _band(axes, plus, "z_error2", COLOUR_OF["z"], "-", "‖z − ∇F(w)‖², gradients at ŵ (Adam⁺)")
            _band(axes, plus, "gradient2", COLOUR_OF["gradient"], (0, (1, 1.5)), "‖∇F(w)‖²")
            _ratio(ratios, plain, COLOUR_OF["plain"], (0, (5, 2)))
            _ratio(ratios, plus, COLOUR_OF["z"], "-")
            ratios.axhline(_averaged(report), color=COLOUR_OF["g"], linewidth=0.8, linestyle=(0, (1, 2)))
            axes.set_title(TITLES[place].replace("`", ""), fontsize=9)
            tidy(axes)
            tidy(ratios)
            axes.set(xscale="log", yscale="log")
            ratios.set(xscale="log", yscale="log", xlabel="step")
            for panel in (axes, ratios):
                panel.axvspan(level(plus) + 1, plus["steps"][-1] + 1, color="#000000", alpha=0.06, linewidth=0)
        panels[0][0].set_ylabel("squared error, mean over seeds")
        panels[1][0].set_ylabel("z's as a part of g's")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
        return save(figure, folder / "variance", DPI)


def _ratio(axes: Any, series: dict[str, Any], colour: str, stroke: Any) -> None:
    ratio = np.array(series["z_error2"]) / np.array(series["g_error2"])
    axes.plot(np.array(series["steps"]) + 1, ratio, color=colour, linestyle=stroke, linewidth=1.5)


def _band(axes: Any, series: dict[str, Any], name: str, colour: str, stroke: Any, label: str) -> None:
    steps, mean = np.array(series["steps"]) + 1, np.array(series[name])
    error = np.array(series[f"{name}_error"])
    axes.plot(steps, mean, color=colour, linestyle=stroke, linewidth=1.5, label=label)
    axes.fill_between(steps, np.maximum(mean - 2 * error, mean / 10), mean + 2 * error, color=colour, alpha=0.18, lw=0)
