"""`adamplus theory …`: settings of theorems, measured rates, the measured Table 1, and the errors of z."""
# ruff: noqa: N803 (the paper's letters)

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, TypeVar

import typer

from ..errors import InputError
from ..measured_theory import (
    METHODS,
    PROBLEMS,
    PROVED,
    RateRequest,
    Table1Request,
    VarianceRequest,
    load_reports,
    measure_rates,
    measure_table1,
    measure_variance,
    remove_parts,
    theorem_settings,
    write_report,
)
from .errors import reported_errors
from .examples import examples

Request = TypeVar("Request", RateRequest, Table1Request, VarianceRequest)

theory_app: typer.Typer = typer.Typer(
    help="Settings and measurements of the paper's theorems.",
    epilog=examples(
        "adamplus theory settings --theorem 1 --T 10000 --L 1 --G 1 --Delta 1 --sigma 1",
        "adamplus theory rate --runs 16 --out theory",
        "adamplus theory table1 --problem double-well --out theory",
        see="docs/theory.md.",
    ),
    no_args_is_help=True,
)

Out = Annotated[Path, typer.Option(help="Folder of the tables, figures and page.")]
Epsilons = Annotated[str, typer.Option(help="Largest ε, smallest ε, and how many, evenly spaced in the logarithm.")]
Runs = Annotated[int, typer.Option(help="Runs of each method for each ε.")]
Workers = Annotated[int, typer.Option(help="Number of processes.")]
MaxSteps = Annotated[int, typer.Option(help="Steps after which a run stops.")]


@theory_app.command()
def settings(
    theorem: Annotated[str, typer.Option(help="1, 2, 3, fast (the appendix's), nigt, remark (after 1) or lemma4.")],
    epsilon: Annotated[
        float | None, typer.Option(help="ε, the target accuracy, for 3, fast, remark and lemma4.", show_default=False)
    ] = None,
    growth: Annotated[
        float | None, typer.Option(help="Exponent with which Σ‖z‖ grows, for remark.", show_default=False)
    ] = None,
    T: Annotated[
        int | None, typer.Option("--T", help="Number of steps, for 1, 2 and nigt.", show_default=False)
    ] = None,
    L: Annotated[float | None, typer.Option("--L", help="Lipschitz constant of ∇F.", show_default=False)] = None,
    L_H: Annotated[
        float | None, typer.Option("--L-H", help="Lipschitz constant of the Hessian.", show_default=False)
    ] = None,
    G: Annotated[float | None, typer.Option("--G", help="Largest ‖∇F‖.", show_default=False)] = None,
    Delta: Annotated[float | None, typer.Option("--Delta", help="F(w₀) − inf F.", show_default=False)] = None,
    sigma: Annotated[float | None, typer.Option(help="σ, noise of a sample's gradient.", show_default=False)] = None,
    b: Annotated[float | None, typer.Option("--b", help="Exponent in β = T^(−b), for 1.", show_default=False)] = None,
    initial_batch: Annotated[
        int | None, typer.Option(help="T₀, samples of the first gradient.", show_default=False)
    ] = None,
    batch: Annotated[int | None, typer.Option(help="m, samples of every other gradient.", show_default=False)] = None,
    lr: Annotated[float | None, typer.Option(help="α.", show_default="the largest allowed")] = None,
    norm_sum: Annotated[
        float | None, typer.Option(help="Σ‖z‖ of a run, for the bound of 1 and remark.", show_default=False)
    ] = None,
    repaired: Annotated[
        bool, typer.Option("--repaired", metavar="", help="Use constants with the proofs' slips repaired.")
    ] = False,
) -> None:
    """Print the settings, batches, evaluations, bound and conditions of a theorem."""
    given: dict[str, Any] = {"epsilon": epsilon, "T": T, "L": L, "L_H": L_H, "G": G, "Delta": Delta, "sigma": sigma}
    given |= {"growth": growth, "b": b, "initial_batch": initial_batch, "batch": batch, "lr": lr}
    with reported_errors(resumes=False):
        typer.echo(theorem_settings(theorem, given, norm_sum=norm_sum, repaired=repaired))


@theory_app.command()
def rate(
    method: Annotated[str, typer.Option(help=f"Methods, separated by commas: {', '.join(PROVED)}.")] = ",".join(PROVED),
    problem: Annotated[str, typer.Option(help="double-well, valley, or both with a comma.")] = "double-well",
    epsilon: Epsilons = "0.3,0.03,6",
    runs: Runs = 64,
    max_steps: MaxSteps = 100_000,
    workers: Workers = 2,
    out: Out = Path("theory"),
) -> None:
    """Measure evaluations until E‖∇F‖ ≤ ε, and their slope, with the settings of the theorems."""
    _measure(RateRequest(method, problem, epsilon, runs, max_steps, workers), measure_rates, out)


@theory_app.command()
def table1(
    method: Annotated[str, typer.Option(help=f"Methods, separated by commas: {', '.join(METHODS)}.")] = ",".join(
        METHODS
    ),
    problem: Annotated[str, typer.Option(help=f"Problems, separated by commas: {', '.join(PROBLEMS)}.")] = ",".join(
        PROBLEMS
    ),
    epsilon: Epsilons = "0.4,0.004,7",
    variant_epsilons: Annotated[
        int, typer.Option(help="Number of ε, from the largest, in 100 dimensions and with more noise.")
    ] = 5,
    runs: Runs = 32,
    tuning_runs: Annotated[int, typer.Option(help="Other runs, on which settings are tuned.")] = 16,
    workers: Workers = 2,
    out: Out = Path("theory"),
) -> None:
    """Measure the paper's Table 1 with all methods tuned alike. A killed command continues when it is given again."""
    request = Table1Request(method, problem, epsilon, variant_epsilons, runs, tuning_runs, workers)
    _measure(request, lambda request, report: measure_table1(request, out, report), out)
    remove_parts(out)


@theory_app.command()
def variance(
    seeds: Annotated[int, typer.Option(help="Runs on digits; the double well has ten times as many.")] = 5,
    epochs: Annotated[int, typer.Option(help="Epochs per run on digits.")] = 40,
    steps: Annotated[int, typer.Option(help="Steps per run on the double well.")] = 2000,
    beta: Annotated[float, typer.Option(help="β.")] = 0.1,
    lr: Annotated[str, typer.Option(help="α on the double well and on digits.")] = "1.0,1.0",
    out: Out = Path("theory"),
) -> None:
    """Measure ‖z − ∇F(w)‖² beside ‖g − ∇F‖² in training, with gradients at ŵ and at w."""
    _measure(VarianceRequest(seeds, epochs, steps, beta, lr), measure_variance, out)


@theory_app.command()
def show(folder: Annotated[Path, typer.Argument(help="The --out folder of the other commands.")]) -> None:
    """Make the tables, figures and page of a folder again, from its stored numbers."""
    with reported_errors(resumes=False):
        reports = load_reports(folder)
        if not reports:
            raise InputError(f"{folder} has no reports of `adamplus theory`: pass the --out folder of a measurement")
        for report in reports:
            _write(report, folder)


def _measure(request: Request, measure: Callable[[Request, Callable[[str], None]], dict[str, Any]], out: Path) -> None:
    """Check a request, measure it, write its files, and print its table."""
    with reported_errors(resumes=False):
        request.check()
        _make_folder(out)
        _write(measure(request, lambda line: typer.echo(line, err=True)), out)


def _make_folder(folder: Path) -> None:
    """Make the folder and check that it can be written to, before minutes of measuring."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(f"--out {folder} cannot be written to: {error.strerror or error}") from None


def _write(report: dict[str, Any], folder: Path) -> None:
    """Write a report's files, and print its table."""
    typer.echo(write_report(report, folder))
    typer.echo(f"Written: {folder}/{report['kind']}.json, .md, .csv, .png, .pdf and {folder}/theory.html")
