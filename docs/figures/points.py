"""Draw docs/figures/points.png: where w, ŵ and z are, in one step and over a noisy run of the real optimizer."""

from pathlib import Path
from typing import Any

import matplotlib
import torch
from torch import Tensor

from adamplus import AdamPlus

matplotlib.use("Agg")
import matplotlib.pyplot as plt

W, W_HAT, Z = "#1b6ca8", "#e07a2f", "#5a5a5a"
CURVATURE = torch.tensor([1.0, 6.0])


def loss(x: Tensor) -> Tensor:
    """A long valley with its floor at (0, 0)."""
    return 0.5 * (CURVATURE * x.square()).sum(-1)


def trajectory(
    start: list[float], steps: int, noise: float, seed: int, **settings: float
) -> tuple[Tensor, Tensor, Tensor]:
    """w, ŵ and z after each step."""
    torch.manual_seed(seed)
    x = torch.nn.Parameter(torch.tensor(start))
    optimizer = AdamPlus([x], **settings)  # pyright: ignore[reportArgumentType]
    ws, w_hats, zs = [x.detach().clone()], [x.detach().clone()], []
    for _ in range(steps):
        x.grad = CURVATURE * x.detach() + noise * torch.randn(2)
        optimizer.step()
        w_hats.append(x.detach().clone())
        zs.append(optimizer.state[x]["z"].clone())
        with optimizer.averaged():
            ws.append(x.detach().clone())
    return torch.stack(ws), torch.stack(w_hats), torch.stack(zs)


def arrow(axes: Any, start: Tensor, end: Tensor, colour: str, **style: Any) -> None:
    """An arrow from point to point, in data coordinates."""
    shape = {"arrowstyle": "-|>", "color": colour, "lw": 1.8, "shrinkA": 3, "shrinkB": 3, **style}
    axes.annotate("", xy=end.tolist(), xytext=start.tolist(), arrowprops=shape)


def draw_step(axes: Any) -> None:
    """One step: both points lie on the ray from w_t along −z_t, ŵ further out by 1/β."""
    ws, w_hats, _ = trajectory([-2.4, 1.5], 3, 9.0, seed=6, lr=0.85, beta=0.4)
    before, after, was, ahead = ws[2], ws[3], w_hats[2], w_hats[3]
    arrow(axes, was, before, Z, lw=1.2, ls=":")
    arrow(axes, before, ahead, W_HAT, ls=(0, (4, 2)))
    arrow(axes, before, after, W, lw=2.4)
    labels: list[tuple[Tensor, str, str, tuple[int, int]]] = [
        (was, "$\\hat w_t$: the parameters, where\nthe gradient $g_t$ is taken", W_HAT, (12, 0)),
        (before, "$w_t = \\hat w_t + c_{t-1} z_{t-1}$", W, (2, 15)),
        (after, "$w_{t+1} = w_t - \\eta_t z_t$:\nevaluate and ship this one", W, (12, 0)),
        (ahead, "$\\hat w_{t+1} = w_t - (\\eta_t/\\beta)\\, z_t$:\nthe next gradient is taken here", W_HAT, (12, 0)),
    ]
    for point, text, colour, at in labels:
        axes.plot(*point.tolist(), "o", color=colour, ms=8)
        axes.annotate(text, point.tolist(), at, textcoords="offset points", color=colour, va="center", fontsize=10.5)
    points = torch.stack([was, before, after, ahead])
    low, high = points.amin(0), points.amax(0)
    room = high - low
    axes.set_xlim(float(low[0] - 0.15 * room[0]), float(high[0] + 1.2 * room[0]))
    axes.set_ylim(float(low[1] - 0.2 * room[1]), float(high[1] + 0.2 * room[1]))
    axes.set_title("One step: average the gradient into $z$, go along $-z$", loc="left")


def draw_run(axes: Any) -> None:
    """A noisy run: w is the moving average of ŵ."""
    ws, w_hats, _ = trajectory([-3.2, 1.3], 60, 4.0, seed=4, lr=0.5, beta=0.15)
    grid = torch.stack(torch.meshgrid(torch.linspace(-4, 1.6, 200), torch.linspace(-1.8, 2.1, 200), indexing="xy"), -1)
    axes.contour(grid[..., 0], grid[..., 1], loss(grid).sqrt(), levels=14, colors="#dddddd", linewidths=0.8, zorder=0)
    axes.plot(
        *w_hats.T, "-o", color=W_HAT, lw=0.8, ms=2.5, alpha=0.75, label="$\\hat w$: in the parameters while training"
    )
    axes.plot(*ws.T, "-o", color=W, lw=1.8, ms=3, label="$w$: in the parameters after eval()")
    axes.plot(0, 0, "*", color="black", ms=11, label="minimum")
    axes.set_xlim(-4, 1.6)
    axes.set_ylim(-1.8, 2.1)
    axes.legend(loc="lower left", fontsize=9, framealpha=0.95)
    axes.set_title("Sixty steps with noisy gradients: $w$ is the moving average of $\\hat w$", loc="left")


def main() -> None:
    """Draw both panels."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), width_ratios=(1, 1.15), layout="constrained")
    draw_step(left)
    draw_run(right)
    for axes in (left, right):
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_color("#bbbbbb")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main()
