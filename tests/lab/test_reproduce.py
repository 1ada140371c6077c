"""`adamplus reproduce`: from data to figures and claims, and the rules that decide."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_comparison import here, record
from stores import add_run
from tiny_sets import make_small, write_all
from typer.testing import CliRunner

from adamplus.cli import app
from adamplus.lab import comparison
from adamplus.lab._store import Store
from adamplus.lab.engines import local
from adamplus.lab.optimizers import CONTENDERS
from adamplus.lab.report import report
from adamplus.lab.reproduce import EXPERIMENTS, _reproduce
from adamplus.lab.reproduce._claims import CLAIMS
from adamplus.lab.reproduce._experiments import BETAS, NAMES, Complement
from adamplus.lab.reproduce._figures import figures
from adamplus.lab.reproduce._growth import growth
from adamplus.lab.reproduce._judge import FarFromIdeal, Flattens, Verdict, Versus, together
from adamplus.lab.reproduce._page import page
from adamplus.lab.reproduce._stored import Stored, folder_of, folders, read


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No processes, and no page of each comparison: both have tests of their own."""
    monkeypatch.setattr(local, "opened", here)
    monkeypatch.setattr(comparison, "show", lambda root, console: None)


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    make_small(monkeypatch, tmp_path / "nowhere")  # the command names another
    monkeypatch.setattr(_reproduce, "figures", lambda stored, folder: [])  # a second each; one test draws them all
    return tmp_path / "data"


def said(*arguments: object, status: int = 0) -> str:
    """What the command says, on one line."""
    words = ["reproduce", *map(str, arguments), "--device", "cpu"]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "400", "TERM": "dumb"})
    assert result.exit_code == status, result.output
    return " ".join(result.output.split())


def trained(output: str) -> list[int]:
    return [int(number) for number in re.findall(r"(\d+) to train", output)]


class TestCommand:
    def test_everything_ends_in_figures_and_claims_and_a_second_call_trains_nothing(
        self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        write_all(data)
        monkeypatch.setattr(_reproduce, "figures", figures)
        out = tmp_path / "out"
        words = ("all", "--data", data, "--out", out, "--seeds", 1, "--epochs", 1)
        assert trained(said(*words)) == [6] * 5
        stems = [f"paper-1-epochs-{name}" for name in (*EXPERIMENTS, "growth")]
        assert {path.name for path in (out / "figures").iterdir()} == {
            f"{s}.{e}" for s in stems for e in ("png", "pdf")
        }
        text = (out / "claims.md").read_text()
        for claim in CLAIMS:
            assert claim.sentence in text
        row = next(line for line in text.splitlines() if line.startswith("| 1. CIFAR-10: best in train"))
        # nothing was run with the paper's own budget; what was run has an outcome
        assert re.fullmatch(r"\| .* \| 4\.1 \| not run yet \| (\*\*(not )?reproduced\*\*) \|", row)
        runs = record(out / "paper-1-epochs" / "cifar10")
        assert runs["command"].startswith(f"adamplus reproduce cifar10 --data {data} --out {out} --protocol paper")
        assert runs["labels"][0] == "adam-plus:lr=0.1;beta=0.1;weight_decay=0"
        monkeypatch.setattr(_reproduce, "figures", lambda stored, folder: [])
        assert trained(said(*words)) == [0] * 5
        # a store without validation data is reported like any other
        assert report(out / "paper-1-epochs" / "cifar10").exists()

    def test_what_is_licensed_and_not_there_cannot_be_run_and_stops_nobody(self, data: Path, tmp_path: Path):
        write_all(data, licensed=False)
        out = tmp_path / "out"
        few = ("--optimizers", "adam-plus,msgd", "--seeds", 1, "--epochs", 1, "--data", data, "--out", out)
        output = said("all", *few)
        assert trained(output) == [2] * 4
        assert "swb300 is left out: SWB-300 is not in" in output
        row = next(line for line in (out / "claims.md").read_text().splitlines() if "SWB-300: level" in line)
        assert row.count("cannot be run") == 2
        assert "is not in" in said("swb300", *few, status=2)

    def test_what_was_run_before_stays_in_the_comparison(self, data: Path, tmp_path: Path):
        write_all(data)
        words = ("--seeds", 1, "--epochs", 1, "--data", data, "--out", tmp_path)
        assert trained(said("cifar10", "--optimizers", "msgd,adam", *words)) == [2]
        assert trained(said("growth", *words)) == [1, 1]
        labels = record(tmp_path / "paper-1-epochs" / "cifar10")["labels"]
        assert [label.partition(":")[0] for label in labels] == ["adam-plus", "msgd", "adam"]

    def test_a_grid_runs_all_that_the_paper_chose_from_and_shows_the_best(self, data: Path, tmp_path: Path):
        write_all(data)
        words = ("--seeds", 1, "--epochs", 1, "--data", data, "--out", tmp_path, "--optimizers", "adagrad,nigt")
        assert trained(said("cifar10", "--grid", *words)) == [6]
        stored = read(tmp_path, "paper-1-epochs", EXPERIMENTS["cifar10"])
        best = stored.contestants["adagrad"]
        assert best.tried == 3
        every = [run.metrics()[-1]["test_accuracy"] for run in Store(tmp_path / "paper-1-epochs" / "cifar10").runs()]
        assert best.last("test_accuracy").mean in every
        assert "(best of 3)" in (tmp_path / "claims.md").read_text()

    def test_the_tuned_protocol_searches_rate_decay_and_beta_on_held_out_data(self, data: Path, tmp_path: Path):
        write_all(data)
        words = ("--seeds", 2, "--tune", 2, "--data", data, "--out", tmp_path, "--optimizers", "adam-plus,nigt,sgd")
        assert trained(said("wikitext2", "--protocol", "tuned", "--epochs", 1, *words)) == [6, 6]
        told = record(tmp_path / "tuned-1-epochs" / "wikitext2")
        assert told["tasks"] == ["wikitext2"]
        assert {label: set(ranges) for label, ranges in told["search"].items()} == {
            "adam-plus": {"lr", "weight_decay", "beta"},
            "nigt": {"lr", "weight_decay", "momentum"},
            "sgd": {"lr", "weight_decay"},
        }
        assert told["search"]["sgd"]["lr"] == "log-uniform, 0.3 to 90"
        assert "--tune 2" in told["command"]
        assert "tuned-1-epochs" in (tmp_path / "claims.md").read_text()

    def test_quick_is_a_tenth_of_the_epochs_in_a_folder_of_its_own(self, data: Path, tmp_path: Path):
        write_all(data)
        said("an4", "--quick", "--seeds", 1, "--optimizers", "msgd", "--data", data, "--out", tmp_path)
        (run,) = Store(tmp_path / "paper-quick" / "an4").runs()
        assert [line["lr"] for line in run.metrics()] == pytest.approx([0.1, 0.1 * 0.5**0.5])
        assert {"train_loss", "test_loss", "test_frame_error"} <= set(run.metrics()[0])

    def test_without_experiments_there_are_claims_that_nobody_has_looked_at(self, data: Path, tmp_path: Path):
        said("--out", tmp_path / "none", "--data", write_all(data))
        rows = [line for line in (tmp_path / "none" / "claims.md").read_text().splitlines() if line.startswith("| ")]
        assert sum("not run yet" in row for row in rows) == len(CLAIMS)

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("cifar11",), "unknown experiment 'cifar11': did you mean cifar10"),
            (("cifar10", "--protocol", "paperr"), "unknown protocol 'paperr': did you mean paper?"),
            (("cifar10", "--optimizers", "adamw"), "'adamw' is none of the paper's optimizers: did you mean adam"),
            (("cifar10", "--optimizers", ","), "no optimizers to run"),
            (("cifar10", "--protocol", "tuned", "--grid"), "are of --protocol paper"),
            (("cifar10", "--weight-decay", "-1"), "a weight decay of -1 is none"),
            (("cifar10", "--epochs", "0"), "0 epochs train nothing"),
            (("cifar10", "--seeds", "0"), "0 seeds are no comparison"),
        ],
    )
    def test_bad_input_is_said_plainly(self, words: tuple[str, ...], message: str, data: Path, tmp_path: Path):
        write_all(data)
        assert message in said(*words, "--data", data, "--out", tmp_path, status=2)


class TestProtocol:
    def test_the_papers_words_are_those_of_its_table(self):
        def labels(name: str) -> dict[str, str]:
            return {one: EXPERIMENTS[name].labels(one, "paper")[0] for one in EXPERIMENTS[name].words}

        end = ";weight_decay=0"
        assert (
            labels("cifar10")
            == labels("cifar100")
            == {
                "adam-plus": f"adam-plus:lr=0.1;beta=0.1{end}",
                "nigt": f"nigt:lr=0.1;momentum=0.9{end}",
                "sgd": f"sgd:lr=0.1{end}",
                "msgd": f"msgd:lr=0.1{end}",
                "adagrad": f"adagrad:lr=0.01{end}",
                "adam": f"adam:lr=0.001{end}",
            }
        )
        assert labels("an4")["adam-plus"] == labels("swb300")["adam-plus"] == f"adam-plus:lr=0.1;beta=0.01{end}"
        assert (labels("wikitext2")["adam"], labels("wikitext2")["adagrad"]) == (
            f"adam:lr=0.001{end}",
            f"adagrad:lr=0.01{end}",
        )

    def test_the_papers_grids_contain_what_it_calls_best(self):
        for experiment in EXPERIMENTS.values():
            for optimizer in experiment.words:
                grid = experiment.labels(optimizer, "paper", grid=True)
                assert experiment.labels(optimizer, "paper")[0] in grid
        sizes = [len(EXPERIMENTS["wikitext2"].labels(name, "paper", grid=True)) for name in NAMES]
        assert sizes == [18, 18, 6, 6, 4, 4]

    def test_everybody_searches_ranges_of_the_same_width(self):
        for experiment in EXPERIMENTS.values():
            for optimizer, ranges in experiment.searched().items():
                lr = ranges.get("lr", CONTENDERS[optimizer].search["lr"])
                assert lr.high / lr.low == pytest.approx(300)
                assert ranges["weight_decay"].high / ranges["weight_decay"].low == pytest.approx(300)

    def test_momenta_are_one_less_a_beta(self):
        momenta = Complement(BETAS.low, BETAS.high)
        assert (momenta.at(0), momenta.at(1)) == (0.99, 0.1)
        assert str(momenta) == "1 − log-uniform, 0.01 to 0.9"

    def test_what_is_no_ones_figure_is_apart(self):
        def folder(**changes: Any) -> str:
            return folder_of("paper", **{"quick": False, "epochs": None, "weight_decay": 0.0, **changes})

        assert folder() == "paper"
        assert folder(quick=True) == "paper-quick"
        assert folder(quick=True, epochs=6, weight_decay=5e-4) == "paper-decay-0.0005-6-epochs"


ABOUT = {"metric": "accuracy", "better": "higher"}


def store(
    root: Path, name: str = "cifar10", statuses: str = "finished", **values: list[float] | list[list[float]]
) -> Stored:
    """Runs whose accuracies are these, a list a seed; accuracy while training is the same."""
    about = ABOUT if name.startswith("cifar") else {"metric": "perplexity", "better": "lower"}
    for optimizer, seeds in values.items():
        for seed, curve in enumerate(seeds, 1):
            curve = curve if isinstance(curve, list) else [0.1, curve]
            label = f"{optimizer.replace('_', '-')}:lr=0.1"
            run = add_run(
                root / "paper" / name, label, curve, seed=seed, task=f"{name}-paper", about=about, status=None
            )
            lines = [{**line, f"running_{about['metric']}": line[f"test_{about['metric']}"]} for line in run.metrics()]
            (run.folder / "metrics.jsonl").unlink()
            for line in lines:
                run.append(line)
            run.finish({"status": statuses, "reason": None, "seconds": 1.0, "steps_per_second": 1.0})
    return read(root, "paper", EXPERIMENTS[name])


BETTER = Versus("test", "better than", ("sgd",))
LEVEL = Versus("test", "comparable to", ("sgd",))
WORSE = Versus("test", "worse than", ("sgd",))


class TestRules:
    @pytest.mark.parametrize(
        ("plus", "sgd", "better", "level", "worse"),
        [
            ([0.9], [0.8], "reproduced", "not reproduced", "not reproduced"),
            ([0.8], [0.9], "not reproduced", "not reproduced", "reproduced"),
            ([0.9], [0.897], "not reproduced", "reproduced", "not reproduced"),  # within half a point
            ([0.90, 0.91, 0.90], [0.80, 0.81, 0.80], "reproduced", "not reproduced", "not reproduced"),
            ([0.85, 0.95, 0.90], [0.80, 0.88, 0.83], "open", "open", "not reproduced"),  # intervals overlap
            ([0.80, 0.88, 0.83], [0.85, 0.95, 0.90], "not reproduced", "open", "open"),
        ],
    )
    def test_a_relation_needs_the_margin_and_where_there_are_seeds_the_intervals(
        self, plus: list[float], sgd: list[float], better: str, level: str, worse: str, tmp_path: Path
    ):
        found = store(tmp_path, adam_plus=plus, sgd=sgd)
        assert [rule.judge(found).outcome for rule in (BETTER, LEVEL, WORSE)] == [better, level, worse]

    @pytest.mark.parametrize(
        ("plus", "sgd", "outcome"),
        [
            ([0.9], [0.8], "reproduced"),
            ([0.9], [0.897], "reproduced"),
            ([0.8], [0.9], "not reproduced"),
            ([0.85, 0.95, 0.90], [0.80, 0.88, 0.83], "reproduced"),
            ([0.80, 0.88, 0.83], [0.85, 0.95, 0.90], "open"),
        ],
    )
    def test_no_worse_is_level_or_ahead(self, plus: list[float], sgd: list[float], outcome: str, tmp_path: Path):
        found = store(tmp_path, adam_plus=plus, sgd=sgd)
        assert Versus("test", "no worse than", ("sgd",)).judge(found).outcome == outcome

    def test_one_rival_ahead_is_enough_and_those_to_come_do_not_matter(self, tmp_path: Path):
        found = store(tmp_path, adam_plus=[0.8], sgd=[0.9])
        assert Versus("test", "better than", ("sgd", "adam")).judge(found).outcome == "not reproduced"

    def test_less_perplexity_is_better_and_its_margin_relative(self, tmp_path: Path):
        found = store(tmp_path, "wikitext2", adam_plus=[100.0], sgd=[101.0], adam=[110.0])
        assert LEVEL.judge(found).outcome == "reproduced"
        assert Versus("test", "better than", ("adam",)).judge(found).outcome == "reproduced"
        assert Versus("train", "better than", ("adam-plus",), "adam").judge(found).outcome == "not reproduced"

    def test_who_diverged_is_behind_and_who_is_missing_was_not_run_yet(self, tmp_path: Path):
        store(tmp_path, statuses="diverged", sgd=[0.95])
        found = store(tmp_path, adam_plus=[0.5])
        assert BETTER.judge(found) == Verdict("reproduced", "test: Adam⁺ 0.5000 (n = 1), SGD diverged")
        missing = Versus("test", "better than", ("adam",)).judge(found)
        assert missing == Verdict("not run yet", "test: Adam⁺ 0.5000 (n = 1); no run of Adam has ended")

    def test_early_is_before_the_first_drop(self, tmp_path: Path):
        found = store(tmp_path, adam_plus=[[0.5, 0.6, 0.7, 0, 0, 0, 0.1]], sgd=[[0.1, 0.1, 0.1, 1, 1, 1, 1]])
        assert Versus("test", "better than", ("sgd",), early=True).judge(found).outcome == "reproduced"
        assert "Adam⁺ 0.6000" in Versus("test", "better than", ("sgd",), early=True).judge(found).measured

    @pytest.mark.parametrize(
        ("outcomes", "together_"),
        [
            (["reproduced", "reproduced"], "reproduced"),
            (["reproduced", "not run yet"], "not run yet"),
            (["not run yet", "cannot be run"], "cannot be run"),
            (["reproduced", "open", "cannot be run"], "open"),
            (["open", "not reproduced", "reproduced"], "not reproduced"),
        ],
    )
    def test_a_claim_of_several_things_needs_all(self, outcomes: list[Any], together_: str):
        assert together(Verdict(outcome, "") for outcome in outcomes).outcome == together_

    @pytest.mark.parametrize(
        ("knee", "slope", "flat", "place"),
        [
            (0.44, 0.05, "reproduced", "reproduced"),
            (0.80, 0.05, "reproduced", "not reproduced"),
            (0.44, 0.60, "not reproduced", "reproduced"),
        ],
    )
    def test_a_plateau_is_found_where_it_is(self, knee: float, slope: float, flat: str, place: str, tmp_path: Path):
        lines = sums(knee, slope)
        found = growth(lines)
        assert found is not None
        assert found.part == pytest.approx(knee, abs=0.03)  # an epoch is a fiftieth
        assert found.slowed == pytest.approx(slope, abs=0.03)
        run = add_run(tmp_path / "paper" / "cifar10", "adam-plus:lr=0.1", [0.0], about=ABOUT, epochs=50, status=None)
        (run.folder / "metrics.jsonl").unlink()
        for line in lines:
            run.append(line)
        run.finish({"status": "finished", "reason": None, "seconds": 1.0})
        stored = read(tmp_path, "paper", EXPERIMENTS["cifar10"])
        assert [Flattens(where).judge(stored).outcome for where in (False, True)] == [flat, place]
        assert FarFromIdeal().judge(stored).outcome == "reproduced"

    def test_growth_as_a_power_of_the_iterations_is_measured(self):
        steps = np.arange(1, 51) * 10
        found = growth([{"step": int(t), "norm_sum": float(t**0.7)} for t in steps])
        assert found is not None
        assert (found.exponent, found.later) == (pytest.approx(0.7), pytest.approx(0.7))
        assert growth([{"step": 1, "norm_sum": 1.0}] * 5) is None

    def test_the_page_follows_from_the_runs(self, tmp_path: Path):
        values: dict[str, Any] = {name.replace("-", "_"): [0.8] for name in NAMES}
        store(tmp_path, **{**values, "adam_plus": [0.9]})
        store(tmp_path, "cifar100", **values)
        assert folders(tmp_path) == ["paper"]
        stored = {"paper": {name: read(tmp_path, "paper", one) for name, one in EXPERIMENTS.items()}}
        text = page(stored, lambda name: "licensed" if name == "swb300" else None, [Path("figures/paper-cifar10.png")])
        outcomes = dict(re.findall(r"^\| \d+\. (.*?) \| [\d.]+ \| \**(.*?)\** \|$", text, flags=re.MULTILINE))
        assert outcomes["CIFAR-10: best in test accuracy"] == "reproduced"
        assert outcomes["CIFAR-100: best in test accuracy"] == "not reproduced"
        assert outcomes["CIFAR-100: Adam⁺ ends where NIGT ends"] == "reproduced"
        assert outcomes["WikiText-2, test: level with SGD"] == "not run yet"
        assert outcomes["SWB-300: level with momentum SGD, ahead of the rest"] == "cannot be run"
        assert outcomes["Ahead of Adam on all tasks"] == "not reproduced"
        assert "![paper-cifar10](figures/paper-cifar10.png)" in text

    def test_every_claim_says_its_rules(self):
        texts = [rule.text for claim in CLAIMS for _, rule in claim.rules]
        assert all(len(text) > 30 for text in texts)
        assert len({claim.title for claim in CLAIMS}) == len(CLAIMS)


def sums(knee: float, slope: float) -> list[dict[str, Any]]:
    """Fifty epochs of a growth that slows down, and of an accuracy that rises."""
    parts = np.arange(1, 51) / 50
    totals = np.where(parts <= knee, parts, knee + slope * (parts - knee))
    return [
        {"epoch": i, "step": 10 * i, "norm_sum": float(total), "running_accuracy": i / 50, "test_accuracy": i / 50}
        for i, total in enumerate(totals, 1)
    ]
