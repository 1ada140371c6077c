"""Readings of what the paper leaves open, and the choice from its grids: settings, folders, runs and tables."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from reproduce_command import run_command, trained
from small_comparison import here
from stores import add_run
from tiny_sets import make_small, write_all

from adamplus.lab import tasks
from adamplus.lab._compare import Request, comparison, plan
from adamplus.lab._store.store import Store
from adamplus.lab.engines import local
from adamplus.lab.errors import InputError
from adamplus.lab.reproduce import EXPERIMENTS, NAMES, READINGS, choice, reproduction
from adamplus.lab.reproduce.readings import applies, effective, under
from adamplus.lab.reproduce.request import ReproduceRequest
from adamplus.lab.reproduce.stored_runs import folders, read, read_all
from adamplus.lab.tasks import Moment
from adamplus.lab.tasks.schedules import Experiment


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Tiny data sets, and comparisons without processes, pages and figures."""
    make_small(monkeypatch, tmp_path / "nowhere")
    monkeypatch.setattr(local, "start", here)
    monkeypatch.setattr(comparison, "show", lambda root, console, alone: None)
    monkeypatch.setattr(reproduction, "figures", lambda stored, folder: [])
    return write_all(tmp_path / "data")


def labels(name: str, *readings: str, grid: bool = False) -> dict[str, list[str]]:
    experiment = under(EXPERIMENTS[name], readings)
    return {optimizer: experiment.labels(optimizer, "paper", grid) for optimizer in NAMES}


class TestSettings:
    def test_each_reading_changes_what_it_says(self):
        def changed(name: str, reading: str) -> dict[str, str]:
            before, after = labels(name), labels(name, reading)
            return {optimizer: after[optimizer][0] for optimizer in NAMES if before[optimizer] != after[optimizer]}

        assert changed("cifar10", "tensor-norm") == {
            "adam-plus": "adam-plus:lr=0.1;beta=0.1;norm_scope=tensor;weight_decay=0",
            "nigt": "nigt:lr=0.1;momentum=0.9;norm_scope=tensor;weight_decay=0",
        }
        assert changed("cifar10", "no-beta-power") == {
            "adam-plus": "adam-plus:lr=0.1;beta=0.1;beta_power=0;weight_decay=0"
        }
        decayed = changed("cifar10", "decay")
        assert list(decayed) == list(NAMES)
        assert all(label.endswith(";weight_decay=0.0005") for label in decayed.values())
        assert changed("wikitext2", "beta-as-momentum") == {"adam-plus": "adam-plus:lr=10;beta=0.1;weight_decay=0"}
        assert changed("wikitext2", "beta-as-weight") == {"nigt": "nigt:lr=0.5;momentum=0.1;weight_decay=0"}
        assert changed("an4", "beta-as-momentum") == {"adam-plus": "adam-plus:lr=0.1;beta=0.99;weight_decay=0"}
        assert changed("cifar10", "decayed-adam") == {}  # the task is another one

    def test_grids_follow_the_letters(self):
        grid = labels("wikitext2", "beta-as-momentum", grid=True)["adam-plus"]
        assert len(grid) == 18
        assert {label.split(";")[1] for label in grid} == {"beta=0.99", "beta=0.9", "beta=0.1"}

    def test_readings_combine(self):
        (label,) = labels("cifar10", "decay", "tensor-norm", "no-beta-power")["adam-plus"]
        assert label == "adam-plus:lr=0.1;beta=0.1;norm_scope=tensor;beta_power=0;weight_decay=0.0005"

    def test_only_the_readings_that_change_an_optimizer_are_effective(self):
        every = ("decay", "tensor-norm", "no-beta-power", "decayed-adam")
        assert effective(every, "sgd") == ("decay",)
        assert effective(every, "adam") == ("decay", "decayed-adam")
        assert effective(every, "adam-plus") == ("decay", "tensor-norm", "no-beta-power")
        assert effective(every[1:], "msgd") == ()

    @pytest.mark.parametrize("name", EXPERIMENTS)
    def test_every_optimizer_can_be_planned_under_every_reading(
        self, name: str, data: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("ADAMPLUS_DATA", str(data))
        for reading in READINGS:
            if applies((reading,), name):
                experiment = under(EXPERIMENTS[name], (reading,))
                every = [label for own in labels(name, reading).values() for label in own]
                planned = plan(
                    Request([experiment.task("paper")], every, seeds=1, epochs=1, tune=0, device="cpu", out=data)
                )
                assert [one.name for one in planned.contenders] == list(NAMES)

    @pytest.mark.parametrize("name", EXPERIMENTS)
    def test_adam_and_adagrad_follow_the_schedule_in_the_reading_alone(self, name: str):
        history = [{"validation_loss": 1.0}, {"validation_loss": 2.0}]
        for decayed in (False, True):
            experiment = under(EXPERIMENTS[name], ("decayed-adam",) if decayed else ())
            task = tasks.find(experiment.task("paper"))[0]
            assert isinstance(task, Experiment)
            assert task.paper
            factors = {
                optimizer: task.schedule(Moment(task.epochs - 1, task.epochs, optimizer, history)).get("lr", 1.0)
                for optimizer in NAMES
            }
            assert len({factors["adam"], factors["adagrad"]}) == 1
            assert (factors["adam"] == factors["sgd"] < 1) is decayed
            assert factors["sgd"] < 1

    def test_whether_a_task_has_validation_data_is_declared(self, data: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("ADAMPLUS_DATA", str(data))
        for experiment in EXPERIMENTS.values():
            assert ("validation" in tasks.find(experiment.task("paper"))[0].data()) is experiment.validates


class TestFolders:
    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_the_name_of_a_folder_gives_the_readings_whatever_their_order(self, count: int):
        for names in itertools.permutations(READINGS, count):
            request = ReproduceRequest((), reading=names, epochs=35)
            again = ReproduceRequest.of_folder(request.folder)
            assert again is not None
            assert (again.readings, again.epochs, again.folder) == (request.readings, 35, request.folder)

    def test_readings_are_named_and_in_the_command(self):
        request = ReproduceRequest((), reading=["tensor-norm", "decay"], quick=True)
        assert request.folder == "paper-reading-decay+tensor-norm-quick"
        assert "--reading decay,tensor-norm --quick" in request.command("cifar10", ["sgd"])
        assert "--reading" not in ReproduceRequest(()).command("cifar10", ["sgd"])

    @pytest.mark.parametrize(
        ("request_", "message"),
        [
            ({"reading": ["decays"]}, "unknown reading 'decays': did you mean decay"),
            ({"reading": ["decay", "decay"]}, "the reading decay is given twice"),
            ({"reading": ["decay"], "weight_decay": 0.1}, "leave out --weight-decay"),
            (
                {"reading": ["beta-as-weight"]},
                "the reading beta-as-weight is not about cifar10: it is about wikitext2,",
            ),
            ({"reading": ["decay"], "protocol": "tuned"}, "--reading and --weight-decay need --protocol paper"),
            ({"reading": ["beta-as-weight", "beta-as-momentum"]}, "exclude each other"),
            ({"choose_after": 6}, "--choose-after needs validation data, which cifar10 has not: use it with wikitext2"),
            (
                {"experiments": ["wikitext2"], "choose_after": 40},
                "must be less than the 40 epochs of wikitext2, got 40",
            ),
            ({"experiments": ["wikitext2"], "choose_after": 6, "grid": True}, "leave out --grid and --quick"),
            ({"experiments": ["wikitext2"], "choose_after": 0}, "--choose-after must be at least 1, got 0"),
        ],
    )
    def test_requests_that_cannot_be_carried_out(self, request_: dict[str, Any], message: str, tmp_path: Path):
        given: dict[str, Any] = {"experiments": ["cifar10"], "out": tmp_path, **request_}
        with pytest.raises(InputError, match=message.replace("(", r"\(")):
            ReproduceRequest(**given).check()

    def test_all_leaves_out_experiments_that_a_reading_is_not_about(self):
        request = ReproduceRequest(["all"], reading=["beta-as-weight"])
        assert [name for name, _ in request.comparisons()] == ["wikitext2", "an4", "swb300"]


class TestRuns:
    def test_runs_of_a_reading_are_recorded_and_kept_apart(self, data: Path, tmp_path: Path):
        words = ("--seeds", 1, "--epochs", 1, "--data", data, "--out", tmp_path, "--optimizers", "adam-plus,nigt,adam")
        assert trained(run_command("cifar10", *words)) == [3]
        before = (tmp_path / "claims.md").read_text()
        output = run_command("cifar10", "--reading", "tensor-norm", *words)
        assert trained(output) == [2]
        assert "cifar10: adam is as in paper-1-epochs, whose runs the page shows" in output
        runs = Store(tmp_path / "paper-reading-tensor-norm-1-epochs" / "cifar10").runs()
        assert [run.settings()["spec"]["settings"]["norm_scope"] for run in runs] == ["tensor", "tensor"]
        text = (tmp_path / "claims.md").read_text()
        words_for_word, readings = text.partition("## Results")[2].split("## Readings")
        row = next(line for line in before.splitlines() if line.startswith("| ResNet18 on CIFAR-10 | paper-1-epochs"))
        assert row in words_for_word  # unchanged
        assert "reading-tensor-norm" not in words_for_word
        (row,) = (line for line in readings.splitlines() if line.startswith("| ResNet18"))
        assert row.count("†") == 1
        assert row.endswith(" of 3 |")
        assert "- `tensor-norm`: ‖z‖ of each tensor alone" in readings
        assert "--reading tensor-norm --epochs 1 --seeds 1 --optimizers adam-plus,nigt --" in readings

    def test_a_combination_needs_runs_only_where_it_differs_from_what_is_stored(self, data: Path, tmp_path: Path):
        words = ("--seeds", 1, "--epochs", 1, "--data", data, "--out", tmp_path, "--optimizers", "adam-plus,sgd,adam")
        assert trained(run_command("an4", "--reading", "decay", *words)) == [3]
        assert trained(run_command("an4", "--reading", "decayed-adam,decay", *words)) == [1]
        (run,) = Store(tmp_path / "paper-reading-decay+decayed-adam-1-epochs" / "an4").runs()
        spec = run.settings()["spec"]
        assert (spec["task"], spec["optimizer"]) == ("an4-paper-decayed-adam", "adam")
        assert spec["settings"]["weight_decay"] == 5e-4
        stored = read_all(tmp_path)["paper-reading-decay+decayed-adam-1-epochs"]["an4"]
        assert {name: one.borrowed for name, one in stored.contenders.items()} == {
            "adam-plus": "paper-reading-decay-1-epochs",
            "sgd": "paper-reading-decay-1-epochs",
            "adam": "",
        }
        # another seed of Adam⁺ is not stored
        more = ("--seeds", 2, *words[2:-1], "adam-plus")
        assert trained(run_command("an4", "--reading", "decayed-adam,decay", *more)) == [2]
        # of this combination, both are stored: nothing is left to run, and the page shows it
        output = run_command("an4", "--reading", "decayed-adam,decay", *words[:-1], "sgd")
        assert trained(output) == []
        assert "paper-reading-decay+decayed-adam-1-epochs" in (tmp_path / "claims.md").read_text()

    def test_readings_get_verdicts_in_a_table_of_their_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("ADAMPLUS_DATA", str(tmp_path / "nowhere"))
        monkeypatch.setattr(reproduction, "figures", lambda stored, folder: [])
        about = {"metric": "accuracy", "better": "higher"}
        for folder, value in (("paper", 0.7), ("paper-reading-decay", 0.95)):
            for name in NAMES:
                add_run(
                    tmp_path / folder / "cifar10",
                    name,
                    [0.1, value if name == "adam-plus" else 0.9],
                    about=about,
                    task="cifar10-paper",
                )
        reproduction.reproduce([], out=tmp_path)
        text = (tmp_path / "claims.md").read_text()
        rows = [line for line in text.splitlines() if line.startswith("| 2. CIFAR-10: best in test accuracy |")]
        assert [row.split(" | ")[2:] for row in rows] == [["**not reproduced** (n = 1) |"], ["holds (n = 1) |"]]
        assert sum(line.startswith("| 14. WikiText-2") for line in text.splitlines()) == 1  # no reading has such runs
        assert text.index(rows[0]) < text.index("## Readings") < text.index(rows[1])
        assert folders(tmp_path) == ["paper", "paper-reading-decay"]


class TestChoice:
    def test_validation_after_a_few_epochs_chooses_what_is_trained_in_full(self, data: Path, tmp_path: Path):
        words = ("--seeds", 2, "--epochs", 2, "--data", data, "--out", tmp_path, "--optimizers", "adagrad,msgd")
        output = run_command("wikitext2", "--choose-after", 1, *words)
        assert trained(output) == [10, 4]  # grids of 4 and 6 with one seed, and then two seeds of the chosen ones
        chosen = choice.load(tmp_path / "paper-2-epochs" / "wikitext2")
        assert chosen is not None
        assert (chosen.epochs, chosen.tried) == (1, {"adagrad": 4, "msgd": 6})
        for optimizer, label in chosen.labels.items():
            losses = {
                run.settings()["spec"]["label"]: run.metrics()[-1]["validation_loss"]
                for run in Store(tmp_path / "paper-1-epochs" / "wikitext2").runs()
                if run.settings()["spec"]["optimizer"] == optimizer
            }
            assert label == min(losses, key=lambda one, losses=losses: losses[one])
        stored = read(tmp_path, "paper-2-epochs", EXPERIMENTS["wikitext2"])
        assert {name: (one.label, one.tried) for name, one in stored.contenders.items()} == {
            name: (chosen.labels[name], chosen.tried[name]) for name in ("adagrad", "msgd")
        }
        assert trained(run_command("wikitext2", "--choose-after", 1, *words)) == [0, 0]
        assert (
            "settings chosen from the paper's grid by validation after 1 epochs" in (tmp_path / "claims.md").read_text()
        )

    def test_choices_of_other_optimizers_are_kept_and_those_after_other_epochs_are_not(self, tmp_path: Path):
        choice.save(tmp_path, choice.Choice(6, {"adam": "adam:lr=0.1"}, {"adam": 4}))
        choice.save(tmp_path, choice.Choice(6, {"sgd": "sgd:lr=5"}, {"sgd": 6}))
        found = choice.load(tmp_path)
        assert found == choice.Choice(6, {"adam": "adam:lr=0.1", "sgd": "sgd:lr=5"}, {"adam": 4, "sgd": 6})
        choice.save(tmp_path, choice.Choice(3, {"sgd": "sgd:lr=5"}, {"sgd": 6}))
        assert choice.load(tmp_path) == choice.Choice(3, {"sgd": "sgd:lr=5"}, {"sgd": 6})
        (tmp_path / choice.FILE).write_text("[]")
        with pytest.raises(InputError, match=r"choice.json cannot be read .*: remove it, or choose again"):
            choice.load(tmp_path)

    def test_nothing_is_chosen_from_a_grid_that_has_not_ended(
        self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(reproduction, "compare", lambda **request: comparison.Outcome(request["out"], {}))
        words = ("--seeds", 1, "--epochs", 2, "--data", data, "--out", tmp_path, "--optimizers", "adagrad")
        output = run_command("wikitext2", "--choose-after", 1, *words, status=2)
        assert "wikitext2: 4 of 4 settings of adagrad have not ended, so none can be chosen: adagrad:lr=0.001" in output
