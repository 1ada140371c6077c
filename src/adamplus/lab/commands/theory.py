"""`adamplus theory …`: theorems as settings, measured rates, the measured Table 1, the exactness of z."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, TypeVar

import typer

from ..errors import InputError
from ..measured_theory import (
    METHODS,
    PROVED,
    RateRequest,
    VarianceRequest,
    measure_rates,
    measure_variance,
    stored,
    theorem_settings,
    write,
)
from .errors import said_plainly

Request = TypeVar("Request", RateRequest, VarianceRequest)

theory_app: typer.Typer = typer.Typer(help="The paper's theorems, as settings and measured.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="The folder of tables, figures and page.")]
Epsilons = Annotated[str, typer.Option(help="From, to, and how many: even in the logarithm.")]
Runs = Annotated[int, typer.Option(help="Runs of each method for each ε.")]
Workers = Annotated[int, typer.Option(help="Processes.")]
MaxSteps = Annotated[int, typer.Option(help="Runs of more steps are given up.")]


@theory_app.command()
def settings(
    theorem: Annotated[str, typer.Option(help="1, 2, 3, fast (of the appendix) or nigt.")],
    epsilon: Annotated[float | None, typer.Option(help="The accuracy, for 3 and fast.", show_default=False)] = None,
    T: Annotated[int | None, typer.Option("--T", help="Steps, for 1, 2, nigt.", show_default=False)] = None,  # noqa: N803
    L: Annotated[float | None, typer.Option("--L", help="Lipschitz constant of ∇F.", show_default=False)] = None,  # noqa: N803
    L_H: Annotated[float | None, typer.Option("--L-H", help="That of the Hessian.", show_default=False)] = None,  # noqa: N803
    G: Annotated[float | None, typer.Option("--G", help="The largest ‖∇F‖.", show_default=False)] = None,  # noqa: N803
    Delta: Annotated[float | None, typer.Option("--Delta", help="F(w₀) − inf F.", show_default=False)] = None,  # noqa: N803
    sigma: Annotated[float | None, typer.Option(help="Noise of a sample's gradient.", show_default=False)] = None,
    b: Annotated[float | None, typer.Option("--b", help="β = T^(−b), for 1.", show_default=False)] = None,
    initial_batch: Annotated[int | None, typer.Option(help="T₀.", show_default=False)] = None,
    batch: Annotated[int | None, typer.Option(help="m.", show_default=False)] = None,
    lr: Annotated[float | None, typer.Option(help="α, if not the largest allowed.", show_default=False)] = None,
    norm_sum: Annotated[float | None, typer.Option(help="Σ‖z‖ of a run, for 1's bound.", show_default=False)] = None,
    repaired: Annotated[bool, typer.Option("--repaired", help="Constants with the proofs' slips repaired.")] = False,
) -> None:
    """Settings, batches, evaluations, bound and conditions of a theorem."""
    given: dict[str, Any] = {"epsilon": epsilon, "T": T, "L": L, "L_H": L_H, "G": G, "Delta": Delta, "sigma": sigma}
    given |= {"b": b, "initial_batch": initial_batch, "batch": batch, "lr": lr}
    with said_plainly(kept=False):
        typer.echo(theorem_settings(theorem, given, norm_sum=norm_sum, repaired=repaired))


@theory_app.command()
def rate(
    method: Annotated[str, typer.Option(help="Names, separated by commas.")] = ",".join(PROVED),
    problem: Annotated[str, typer.Option(help="double-well, valley, or both with a comma.")] = "double-well",
    epsilon: Epsilons = "0.3,0.03,6",
    runs: Runs = 64,
    max_steps: MaxSteps = 100_000,
    workers: Workers = 2,
    out: Out = Path("theory"),
) -> None:
    """Evaluations until E‖∇F‖ ≤ ε under the settings that rates are proved for, and their slope."""
    _measure(RateRequest("rate", method, problem, epsilon, runs, None, max_steps, workers), measure_rates, out)


@theory_app.command()
def table1(
    method: Annotated[str, typer.Option(help="Names, separated by commas.")] = ",".join(METHODS),
    problem: Annotated[str, typer.Option(help="double-well, valley, or both with a comma.")] = "double-well,valley",
    epsilon: Epsilons = "0.2,0.02,5",
    runs: Runs = 64,
    tuning_runs: Annotated[int, typer.Option(help="Other runs, that settings are chosen by.")] = 16,
    max_steps: MaxSteps = 16_000,
    workers: Workers = 2,
    out: Out = Path("theory"),
) -> None:
    """The paper's Table 1 with two measured columns, everybody tuned alike."""
    request = RateRequest("table1", method, problem, epsilon, runs, tuning_runs, max_steps, workers)
    _measure(request, measure_rates, out)


@theory_app.command()
def variance(
    seeds: Annotated[int, typer.Option(help="Of digits; the double well has ten times as many.")] = 5,
    epochs: Annotated[int, typer.Option(help="Of digits.")] = 40,
    steps: Annotated[int, typer.Option(help="Of the double well.")] = 2000,
    beta: Annotated[float, typer.Option(help="β.")] = 0.1,
    lr: Annotated[str, typer.Option(help="α on the double well, and on digits.")] = "1.0,1.0",
    out: Out = Path("theory"),
) -> None:
    """‖z − ∇F(w)‖² beside ‖g − ∇F‖² in training, with gradients at ŵ and at w."""
    _measure(VarianceRequest(seeds, epochs, steps, beta, lr), measure_variance, out)


@theory_app.command()
def show(folder: Annotated[Path, typer.Argument(help="What --out of the other commands was.")]) -> None:
    """Tables, figures and page anew, from the numbers that a folder has."""
    with said_plainly(kept=False):
        reports = stored(folder)
        if not reports:
            raise InputError(f"{folder} has no numbers of `adamplus theory`: give what --out was")
        for report in reports:
            _keep(report, folder)


def _measure(request: Request, measure: Callable[[Request, Callable[[str], None]], dict[str, Any]], out: Path) -> None:
    """Check, measure, write everything into the folder, and print the table."""
    with said_plainly(kept=False):
        request.check()
        _make(out)
        _keep(measure(request, lambda line: typer.echo(line, err=True)), out)


def _make(folder: Path) -> None:
    """The folder, and whether it can be written to: to be told before minutes of measuring, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(f"--out {folder} cannot be written to: {error.strerror or error}") from None


def _keep(report: dict[str, Any], folder: Path) -> None:
    """Write everything, and print the table."""
    typer.echo(write(report, folder))
    typer.echo(f"Written: {folder}/{report['kind']}.json, .md, .csv, .png, .pdf and {folder}/theory.html")
