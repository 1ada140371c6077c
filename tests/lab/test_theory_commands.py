"""`adamplus theory`: what measures, against what is known, and the commands from end to end."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from adamplus import AdamPlusReference
from adamplus.cli import app
from adamplus.lab.theory._measure import Curve, Limits, walk
from adamplus.lab.theory._methods import METHODS, rows_candidate
from adamplus.lab.theory._points import Asked, measure, measure_all
from adamplus.lab.theory._rows import AdamPlusRows
from adamplus.lab.theory._slope import fit, slope
from adamplus.lab.theory._tables import short
from adamplus.lab.theory._valley import Valley
from adamplus.lab.theory._variance import on_double_well
from adamplus.lab.theory._variance_report import level
from adamplus.theory.problems import DoubleWell

CONSTANTS = ("--L", "1", "--L-H", "1", "--Delta", "1", "--sigma", "1")


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["theory", *(str(a) for a in arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: object) -> str:
    environment = {"COLUMNS": "400", "TERM": "dumb"}
    result = CliRunner().invoke(app, ["theory", *(str(a) for a in arguments)], env=environment)
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize("extrapolate", [True, False])
@pytest.mark.parametrize(("power", "norm_power", "eps"), [(1.0, 0.5, 1e-8), (4 / 3, 2 / 3, 0.7), (1.25, 1.0, 0.0)])
def test_rows_are_runs_of_the_reference(power: float, norm_power: float, eps: float, extrapolate: bool):
    problem, generator = DoubleWell(3), torch.Generator().manual_seed(0)
    start = problem.start(4, generator)
    settings: dict[str, Any] = {"lr": 0.3, "beta": 0.2, "beta_power": power, "norm_power": norm_power, "eps": eps}
    rows = AdamPlusRows(start, **settings, extrapolate=extrapolate)
    ws = [nn.Parameter(w.clone()) for w in start]
    references = [AdamPlusReference([w], **settings) for w in ws]
    for _ in range(20):
        sample = problem.draw(4, 1, generator)
        for w, reference in zip(ws, references, strict=True):
            reference.train(extrapolate)
            w.grad = torch.zeros_like(w)
        at = torch.stack([w.detach() for w in ws])
        for w, g, reference in zip(ws, problem.gradient(at, sample), references, strict=True):
            w.grad = g
            reference.step()
        rows.step(problem.gradient(rows.at, sample))
        expected = torch.stack([reference.state[w]["w"] for w, reference in zip(ws, references, strict=True)])
        torch.testing.assert_close(rows.w, expected, rtol=1e-12, atol=1e-12)  # rounding of the same formula


def test_a_run_that_has_arrived_does_not_become_nan():
    rows = AdamPlusRows(torch.zeros(2, 3, dtype=torch.float64), eps=0.0, norm_power=1.0)
    rows.step(torch.zeros(2, 3, dtype=torch.float64))
    assert torch.equal(rows.w, torch.zeros(2, 3, dtype=torch.float64))


def test_gradients_and_constants_of_the_valley_are_right():
    for epsilon in (0.2, 0.02):
        problem = Valley(epsilon, dim=4)
        w = torch.randn(500, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3
        w.requires_grad_()
        (expected,) = torch.autograd.grad(problem.value(w).sum(), w)
        torch.testing.assert_close(problem.gradient(w.detach()), expected)
        near = w.detach() + 1e-3 * torch.randn_like(w)
        change = (problem.gradient(near) - problem.gradient(w.detach())).norm(dim=1)
        assert bool((change <= problem.L * (near - w.detach()).norm(dim=1)).all())
        start = problem.start(2)
        assert problem.gap(start) == pytest.approx(1.0)  # Δ, whatever ε is
        assert float(problem.gradient(start).norm(dim=1)[0]) == pytest.approx(2 * epsilon, rel=0.2)
        hessian = torch.func.vmap(torch.func.hessian(lambda point, problem=problem: problem.value(point[None])[0]))
        turned = torch.linalg.matrix_norm(hessian(near) - hessian(w.detach()), 2)
        assert bool((turned <= problem.L_H * (near - w.detach()).norm(dim=1)).all())


def test_noise_of_the_valley_is_that_of_the_double_well():
    problem, generator = Valley(0.1, dim=5, sigma=0.7), torch.Generator().manual_seed(0)
    w = problem.start(20_000, generator)
    noise = problem.sample(w, 4, generator)[0] - problem.gradient(w)
    assert float(noise.square().sum(1).mean()) == pytest.approx(0.7**2 / 4, rel=0.02)  # of 20,000 draws


def test_evaluations_are_counted_and_the_first_time_below_is_found():
    problem = DoubleWell(2, sigma=0.0)
    candidate = rows_candidate({"lr": 0.5, "beta": 0.5}, (10, 3))
    curve = walk(candidate.begin, problem, 0.1, 3, 0, Limits(1000, beyond=2.0))
    needed = curve.reached(0.1)[0]
    assert curve.evaluations[0] == 10
    assert all((curve.evaluations - 10) % 3 == 0)
    first = int(np.argmax(curve.norms.mean(1) <= 0.1))
    assert curve.evaluations[first] == needed
    assert curve.norms[first - 1].mean() > 0.1
    assert curve.evaluations[-1] >= 2 * needed - 3  # and on, for the bootstrap
    assert math.isnan(walk(candidate.begin, problem, 1e-9, 3, 0, Limits(5)).reached(1e-9)[0])


def test_a_method_with_two_points_pays_for_both():
    problem = DoubleWell(2)
    candidate = next(iter(METHODS["storm"].candidates(problem, 0.1)))
    curve = walk(candidate.begin, problem, 1e-9, 2, 0, Limits(3))
    batch = curve.evaluations[0]
    assert list(curve.evaluations) == [batch, 3 * batch, 5 * batch]  # one point at first, then two


@pytest.mark.parametrize("method", METHODS)
def test_everybody_chooses_among_as_many(method: str):
    candidates = list(METHODS[method].candidates(DoubleWell(), 0.05))
    assert len(candidates) == 36
    assert len({candidate.words for candidate in candidates}) == 36


def test_the_slope_of_a_power_is_its_exponent():
    epsilons = [0.2, 0.1, 0.05]
    evaluations = np.array([7 * e**-3.5 for e in epsilons])
    assert float(fit(epsilons, evaluations)) == pytest.approx(3.5)
    evaluations[1] = math.nan
    assert float(fit(epsilons, evaluations)) == pytest.approx(3.5)
    assert math.isnan(float(fit(epsilons, np.array([1.0, math.nan, math.nan]))))


def synthetic(epsilon: float, exponent: float, runs: int, random: np.random.Generator) -> Curve:
    """Runs whose ‖∇F‖ falls as N^(−1/exponent), each with a factor of its own whose mean is 1."""
    evaluations = np.exp(np.linspace(0, math.log(4 * epsilon**-exponent), 400))
    factors = random.gamma(20, 1 / 20, runs)
    return Curve(evaluations, evaluations[:, None] ** (-1 / exponent) * factors)


def test_the_interval_covers_the_slope_about_as_often_as_it_says():
    random, epsilons = np.random.default_rng(0), [0.2, 0.1, 0.05, 0.025]
    covered = 0
    for trial in range(40):
        found = slope(epsilons, [synthetic(e, 3.0, 40, random) for e in epsilons], seed=trial)
        assert found is not None
        assert found.low <= found.value <= found.high
        assert found.value == pytest.approx(3.0, abs=0.5)
        covered += found.low <= 3.0 <= found.high
    assert 33 <= covered <= 40  # of 40 at 95 %: fewer than 33 has a probability below 1e-3


def test_a_slope_needs_two_points_that_were_reached():
    random = np.random.default_rng(0)
    curve, short_of_it = synthetic(0.1, 3.0, 8, random), synthetic(0.4, 3.0, 8, random)
    assert slope([0.1, 0.05], [curve, short_of_it]) is None


def test_what_is_told_of_is_not_what_was_chosen_by():
    asked = Asked("double-well", "adam-plus", True, 0.3, runs=6, tuning_runs=6, max_steps=200)
    point = measure(asked)
    tuning = walk(
        next(c for c in METHODS["adam-plus"].candidates(DoubleWell(), 0.3) if c.words == point.settings).begin,
        DoubleWell(),
        0.3,
        6,
        1,
        Limits(200),
    )
    assert point.tried == 36
    assert not np.array_equal(point.curve.norms[0], tuning.norms[0])


def test_table1_from_end_to_end(tmp_path: Path):
    options = ("--epsilon", "0.3,0.15,2", "--runs", 4, "--tuning-runs", 2, "--max-steps", 12, "--workers", 1)
    printed = run("table1", *options, "--out", tmp_path / "made")
    found = json.loads((tmp_path / "made" / "table1.json").read_text())
    assert found["certificate"]["command"].startswith("adamplus theory table1 --problem double-well,valley --epsilon")
    assert {"hardware", "versions", "git", "started", "seconds"} <= set(found["certificate"])
    assert found["seeds"] == {"told": 2, "tuning": 1}
    rows = {(row["problem"], row["method"]) for row in found["rows"]}
    assert rows == {(problem, method) for problem in ("double-well", "valley") for method in METHODS}
    assert {point["candidates"] for row in found["rows"] for point in row["points"]} == {36}
    assert any(row["slope"] is not None for row in found["rows"])
    for name in ("table1.png", "table1.pdf", "table1.csv", "theory.html"):
        assert (tmp_path / "made" / name).stat().st_size > 1000
    assert (tmp_path / "made" / "table1.md").read_text().strip() in printed
    page = (tmp_path / "made" / "theory.html").read_text()
    assert "Nadam⁺" in page
    assert "http://" not in page
    assert "https://" not in page


def test_rate_and_variance_share_a_page_that_show_makes_anew(tmp_path: Path):
    run("rate", "--method", "sgd,nigt", "--epsilon", "0.4,0.3,2", "--runs", 4, "--workers", 1, "--out", tmp_path)
    run("variance", "--seeds", 2, "--epochs", 1, "--steps", 20, "--out", tmp_path)
    before = {path.name: path.read_text() for path in tmp_path.iterdir() if path.suffix in (".md", ".csv", ".html")}
    assert {"rate.md", "rate.csv", "variance.md", "variance.csv", "theory.html"} == set(before)
    run("show", tmp_path)
    assert {name: (tmp_path / name).read_text() for name in before} == before
    assert "proved to be enough" in before["theory.html"]
    assert "How exact z is" in before["theory.html"]


def test_the_stretch_over_which_the_noise_of_g_is_level_ends_where_it_falls_for_good():
    series = {"steps": [0, 3, 9, 27, 81], "g_error2": [1.0, 0.9, 2.0, 0.5, 0.1]}
    assert level(series) == 9  # the dip at step 3 is none
    assert level({**series, "g_error2": [1.0, 1.1, 1.0, 0.9, 1.0]}) == 81


def test_the_page_has_no_signs_of_markdown(tmp_path: Path):
    run("rate", "--method", "sgd", "--epsilon", "0.4,0.3,2", "--runs", 4, "--workers", 1, "--out", tmp_path)
    page = (tmp_path / "theory.html").read_text()
    assert "ε<sup>−3.5</sup>" in page
    assert "<code>adamplus theory rate --method sgd" in page
    assert "`" not in page.partition("<body>")[2]


def test_two_processes_measure_what_one_does():
    asked = [Asked("double-well", "sgd", False, e, runs=4, tuning_runs=0, max_steps=100) for e in (0.3, 0.4)]
    one, two = (list(measure_all(asked, workers)) for workers in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert (a.asked, a.settings) == (b.asked, b.settings)
        assert np.array_equal(a.curve.norms, b.curve.norms)


def test_settings_say_what_the_theorem_gives():
    printed = run("settings", "--theorem", 3, "--epsilon", 0.01, *CONSTANTS)
    assert "T, steps          5,893,887" in printed
    assert "m, other batches  202,009" in printed
    assert "VIOLATED" not in printed
    assert "VIOLATED: α ≤ 1/L: 2 ≤ 1" in run("settings", "--theorem", 3, "--epsilon", 0.01, *CONSTANTS, "--lr", 2)
    printed = run("settings", "--theorem", 1, "--T", 10_000, "--G", 2, *CONSTANTS, "--norm-sum", 100)
    assert "(1/T) Σ E‖∇F(w_t)‖² ≤ 0.5016" in printed  # 0.02 + 0.0016 + 0.18 + 0.3
    assert "--norm-sum" in run("settings", "--theorem", 1, "--T", 10_000, "--G", 2, *CONSTANTS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("settings", "--theorem", "4"), "there are 1, 2, 3, fast, nigt"),
        (("settings", "--theorem", "3", "--L", "1"), "theorem 3 needs --epsilon, --L-H, --Delta, --sigma as well"),
        (("settings", "--theorem", "2", "--T", "9", "--G", "1", *CONSTANTS), "theorem 2 has no --G"),
        (("settings", "--theorem", "3", "--epsilon", "-1", *CONSTANTS), "epsilon must be finite and above 0"),
        (("rate", "--method", "sdg"), "did you mean sgd?"),
        (("rate", "--problem", "vally"), "did you mean valley?"),
        (("table1", "--epsilon", "0.1,0.2,3"), "give the largest, the smallest and how many"),
        (("table1", "--epsilon", "0.1"), "give 3 numbers"),
        (("table1", "--epsilon", "0.2,-0.1,3"), "give the largest, the smallest and how many"),
        (("table1", "--epsilon", "0.2,0.1,inf"), "how many (2 to 100)"),
        (("table1", "--epsilon", "0.9,0.1,2"), "between 0 and 0.5"),
        (("table1", "--runs", "1"), "1 runs, 16 to tune by"),
        (("table1", "--runs", "0"), "0 runs, 16 to tune by"),
        (("table1", "--tuning-runs", "0"), "one of everything else, at least"),
        (("table1", "--max-steps", "0"), "one of everything else, at least"),
        (("table1", "--workers", "0"), "one of everything else, at least"),
        (("rate", "--method", "sgd,sgd"), "'sgd' is there twice"),
        (("settings", "--theorem", "2", "--T", "9", *CONSTANTS, "--norm-sum", "1"), "it is of theorem 1"),
        (("variance", "--seeds", "1"), "at least 2, 1 and 10 are needed"),
        (("variance", "--beta", "0"), "β is in (0, 1]"),
        (("variance", "--lr", "1,-1"), "lr above 0"),
        (("variance", "--lr", "1"), "give 2 numbers"),
        (("show", "nowhere"), "has no numbers of `adamplus theory`"),
    ],
)
def test_what_cannot_be_done_is_said_plainly(
    arguments: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert words in refused(*arguments)
    assert not list(tmp_path.iterdir())  # nothing was begun


@pytest.mark.parametrize("command", ["rate", "table1", "variance"])
def test_a_folder_that_cannot_be_written_to_is_told_before_measuring(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("it measures")

    monkeypatch.setattr("adamplus.lab.theory.commands.report", never)
    monkeypatch.setattr("adamplus.lab.theory._variance_report.variance", never)
    (tmp_path / "file").write_text("")
    assert "cannot be written to: Not a directory" in refused(command, "--out", tmp_path / "file" / "folder")
    assert "cannot be written to: File exists" in refused(command, "--out", tmp_path / "file")


def test_numbers_that_are_none_are_told(tmp_path: Path):
    (tmp_path / "rate.json").write_text("{")
    assert "rate.json is not what `adamplus theory` wrote" in refused("show", tmp_path)


def test_counts_are_said_as_people_say_them():
    assert [short(n) for n in (999, 12_345, 1_234_567, 3.42e9)] == ["999", "12.3 k", "1.23 M", "3.42 · 10^9"]


def test_the_noise_of_z_settles_where_theory_has_it():
    """A moving average of independent noise has β/(2 − β) of its variance; a step this short adds no bias."""
    found = on_double_well(400, 400, lr=1e-3, beta=0.1, extrapolate=True)
    last = np.mean(found["z_error2"][-5:])
    assert last == pytest.approx(0.1 / 1.9, rel=0.1)  # 2,000 errors, of which neighbours depend on each other
    assert np.mean(found["g_error2"][-5:]) == pytest.approx(1.0, rel=0.1)
