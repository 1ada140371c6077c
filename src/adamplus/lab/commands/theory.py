"""`adamplus theory …`: theorems as settings, measured rates, the measured Table 1, the exactness of z."""

import math
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer

from .._compare import split
from ..errors import InputError
from ..measured_theory import (
    METHODS,
    PROVED,
    Measurement,
    check,
    damaged,
    describe,
    draw_rates,
    report,
    save,
    settings_of,
    stored,
    variance_report,
    write_page,
)
from ..measured_theory import tables as _tables
from ..measured_theory import variance as _variance
from .errors import said_plainly

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
        if norm_sum is not None and (theorem != "1" or not 0 <= norm_sum < math.inf):
            raise InputError(f"--norm-sum {norm_sum}: it is of theorem 1, and at least 0")
        try:
            typer.echo(describe(settings_of(theorem, given, repaired), norm_sum))
        except ArithmeticError as error:
            problem = str(error.args[-1])  # the first may be a number of the system's
            raise InputError(f"with these numbers the theorem's are beyond what a float holds ({problem})") from None


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
    command = f"adamplus theory rate --method {method} --problem {problem} --epsilon {epsilon} --runs {runs} "
    command += f"--max-steps {max_steps} --workers {workers}"
    with said_plainly(kept=False):
        _rates("rate", command, problem, method, epsilon, runs, 0, max_steps, workers, out)


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
    command = "adamplus theory table1" + ("" if method == ",".join(METHODS) else f" --method {method}")
    command += f" --problem {problem} --epsilon {epsilon} --runs {runs} --tuning-runs {tuning_runs} "
    command += f"--max-steps {max_steps} --workers {workers}"
    with said_plainly(kept=False):
        _rates("table1", command, problem, method, epsilon, runs, tuning_runs, max_steps, workers, out)


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
    command = f"adamplus theory variance --seeds {seeds} --epochs {epochs} --steps {steps} --beta {beta} --lr {lr}"
    with said_plainly(kept=False):
        well, digits = _numbers(lr, 2, "lr")
        _variance.check(seeds, epochs, steps, beta, (well, digits))
        _make(out)
        found = _variance.variance(
            command=command,
            seeds=seeds,
            epochs=epochs,
            steps=steps,
            beta=beta,
            lr={"double-well": well, "digits": digits},
            told=lambda way: typer.echo(f"gradients: {way}", err=True),
        )
        _keep(found, out)


@theory_app.command()
def show(folder: Annotated[Path, typer.Argument(help="What --out of the other commands was.")]) -> None:
    """Tables, figures and page anew, from the numbers that a folder has."""
    with said_plainly(kept=False):
        found = stored(folder)
        if not found:
            raise InputError(f"{folder} has no numbers of `adamplus theory`: give what --out was")
        for one in found:
            try:
                _texts(one)
            except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
                raise InputError(damaged(folder / f"{one['kind']}.json", error)) from error
        for one in found:
            _keep(one, folder)


def _rates(
    kind: str,
    command: str,
    problem: str,
    method: str,
    epsilon: str,
    runs: int,
    tuning_runs: int,
    max_steps: int,
    workers: int,
    out: Path,
) -> None:
    problems, methods = split(problem), split(method)
    first, last, count = _numbers(epsilon, 3, "epsilon")
    if count not in range(2, 101) or not 0 < last < first:
        raise InputError(f"--epsilon {epsilon}: give the largest, the smallest and how many (2 to 100), as 0.2,0.02,5")
    steps = int(count) - 1
    epsilons = [float(f"{first * (last / first) ** (i / steps):.4g}") for i in range(steps + 1)]
    total = len(problems) * len(methods) * len(epsilons)
    done: list[Measurement] = []

    def tell(point: Measurement) -> None:
        done.append(point)
        case, needed = point.case, point.curve.reached(point.case.epsilon)[0]
        words = f"{needed:,.0f} evaluations; {point.settings}" if math.isfinite(needed) else "not reached"
        typer.echo(f"{len(done)}/{total} {case.problem}, {case.method}, ε = {case.epsilon:g}: {words}", err=True)

    check(kind, problems, methods, epsilons, runs, tuning_runs, max_steps, workers)
    _make(out)
    found = report(
        kind,
        command=command,
        problems=problems,
        methods=methods,
        epsilons=epsilons,
        runs=runs,
        tuning_runs=tuning_runs,
        max_steps=max_steps,
        workers=workers,
        told=tell,
    )
    _keep(found, out)


def _numbers(text: str, count: int, name: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        raise InputError(f"--{name} {text}: give {count} numbers, separated by commas")
    return numbers


def _make(folder: Path) -> None:
    """The folder, and whether it can be written to: to be told before minutes of measuring, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(f"--out {folder} cannot be written to: {error.strerror or error}") from None


def _keep(found: dict[str, Any], folder: Path) -> None:
    """Write everything, and print the table."""
    save(found, folder)
    text, table = _texts(found)
    (folder / f"{found['kind']}.md").write_text(text, encoding="utf-8")
    (folder / f"{found['kind']}.csv").write_text(table, encoding="utf-8")
    draw = variance_report.draw if found["kind"] == "variance" else draw_rates
    draw(found, folder)
    page = write_page(folder)
    typer.echo(text)
    typer.echo(f"Written: {folder}/{found['kind']}.json, .md, .csv, .png, .pdf and {page}")


def _texts(found: dict[str, Any]) -> tuple[str, str]:
    """What a report says, as Markdown and as CSV."""
    about = variance_report if found["kind"] == "variance" else _tables
    return about.markdown(found), about.to_csv(found)
