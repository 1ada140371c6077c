"""`adamplus reproduce`: from data to figures and claims, and the rules that decide."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from reproduce_command import run_command, trained
from small_comparison import here, record
from tiny_sets import make_small, write_all

from adamplus.lab import tasks
from adamplus.lab._compare import comparison
from adamplus.lab._store.store import Store
from adamplus.lab.engines import local
from adamplus.lab.errors import InputError
from adamplus.lab.optimizers import CONTENDERS
from adamplus.lab.report import report
from adamplus.lab.reproduce import EXPERIMENTS, reproduction
from adamplus.lab.reproduce.claims import CLAIMS
from adamplus.lab.reproduce.experiments import BETAS, NAMES, Complement
from adamplus.lab.reproduce.figures import figures
from adamplus.lab.reproduce.request import ReproduceRequest
from adamplus.lab.reproduce.stored_runs import folders, read


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use no processes and make no page of each comparison: other tests cover both."""
    monkeypatch.setattr(local, "start", here)
    monkeypatch.setattr(comparison, "show", lambda root, console, alone: None)


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    make_small(monkeypatch, tmp_path / "nowhere")  # the command names another
    monkeypatch.setattr(reproduction, "figures", lambda stored, folder: [])  # a second each; one test draws them all
    return tmp_path / "data"


class TestCommand:
    def test_everything_ends_in_figures_and_claims_and_a_second_call_trains_nothing(
        self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        write_all(data)
        monkeypatch.setattr(reproduction, "figures", figures)
        out = tmp_path / "out"
        words = ("all", "--data", data, "--out", out, "--seeds", 1, "--epochs", 1)
        assert trained(run_command(*words)) == [6] * 5
        stems = [f"paper-1-epochs-{name}" for name in (*EXPERIMENTS, "growth")]
        assert {path.name for path in (out / "figures").iterdir()} == {
            f"{s}.{e}" for s in stems for e in ("png", "pdf")
        }
        text = (out / "claims.md").read_text()
        for claim in CLAIMS:
            assert claim.sentence in text
        row = next(line for line in text.splitlines() if line.startswith("| 1. CIFAR-10: best in train"))
        # nothing was run with the paper's own budget, and shorter runs get no verdict
        assert row == "| 1. CIFAR-10: best in train accuracy | 3.1 | not run yet |"
        assert "- *paper-1-epochs*: no verdict. train, mean over the run: Adam⁺ " in text
        runs = record(out / "paper-1-epochs" / "cifar10")
        assert runs["command"].startswith(
            "adamplus reproduce cifar10 --data DIR --out out --protocol paper --epochs 1 "
        )
        assert runs["labels"][0] == "adam-plus:lr=0.1;beta=0.1;weight_decay=0"
        monkeypatch.setattr(reproduction, "figures", lambda stored, folder: [])
        assert trained(run_command(*words)) == [0] * 5
        # a store without validation data is reported like any other
        assert report(out / "paper-1-epochs" / "cifar10").exists()

    def test_a_toy_checks_data_and_training_and_makes_no_claims(self, data: Path, tmp_path: Path):
        write_all(data, licensed=False)
        out = tmp_path / "out"
        words = ("all", "--toy", "--data", data, "--out", out, "--optimizers", "adam-plus,adam")
        output = run_command(*words)
        assert trained(output) == [2] * 4
        assert "The set-up works for cifar10, cifar100, wikitext2 and an4: data, training, figures and page." in output
        assert not (out / "claims.md").exists()
        for name in ("cifar10", "cifar100", "wikitext2", "an4"):
            folder = out / "toy" / name
            assert record(folder)["command"].startswith(
                f"adamplus reproduce {name} --data DIR --out out --protocol pap"
            )
            for run in Store(folder).runs():
                assert run.settings()["parameters"] < 30_000
                assert (run.end() or {})["status"] == "finished"
                assert len(run.metrics()) == 2
        assert trained(run_command(*words)) == [0] * 4
        assert folders(out) == ["paper"]  # a page of claims leaves toys out

    def test_a_toy_whose_data_is_damaged_does_not_say_that_the_set_up_works(self, data: Path, tmp_path: Path):
        write_all(data)
        next(data.rglob("train.bin")).write_bytes(b"no images")
        few = ("--optimizers", "adam", "--data", data, "--out", tmp_path / "out")
        output = run_command("cifar100", "cifar10", "--toy", *few, status=1)
        assert "The set-up works" not in output

    def test_missing_licensed_data_is_reported_and_the_other_experiments_run(self, data: Path, tmp_path: Path):
        write_all(data, licensed=False)
        out = tmp_path / "out"
        few = ("--optimizers", "adam-plus,msgd", "--seeds", 1, "--epochs", 1, "--data", data, "--out", out)
        output = run_command("all", *few)
        assert trained(output) == [2] * 4
        assert "swb300 is left out: SWB-300 is not in" in output
        row = next(line for line in (out / "claims.md").read_text().splitlines() if "SWB-300: level" in line)
        assert row.count("cannot be run") == 1
        assert (
            next(line for line in (out / "claims.md").read_text().splitlines() if "2. CIFAR-10" in line).count("cannot")
            == 0
        )
        assert "is not in" in run_command("swb300", *few, status=2)

    def test_earlier_runs_stay_in_the_comparison(self, data: Path, tmp_path: Path):
        write_all(data)
        words = ("--seeds", 1, "--epochs", 1, "--data", data, "--out", tmp_path)
        assert trained(run_command("cifar10", "--optimizers", "msgd,adam", *words)) == [2]
        assert trained(run_command("growth", *words)) == [1, 1]
        labels = record(tmp_path / "paper-1-epochs" / "cifar10")["labels"]
        assert [label.partition(":")[0] for label in labels] == ["adam-plus", "msgd", "adam"]

    def test_a_grid_runs_all_that_the_paper_chose_from_and_shows_the_best(self, data: Path, tmp_path: Path):
        write_all(data)
        words = ("--seeds", 1, "--epochs", 1, "--data", data, "--out", tmp_path, "--optimizers", "adagrad,nigt")
        assert trained(run_command("cifar10", "--grid", *words)) == [6]
        stored = read(tmp_path, "paper-1-epochs", EXPERIMENTS["cifar10"])
        best = stored.contenders["adagrad"]
        assert best.tried == 3
        every = [run.metrics()[-1]["test_accuracy"] for run in Store(tmp_path / "paper-1-epochs" / "cifar10").runs()]
        assert best.last("test_accuracy").mean in every
        assert "(best of 3)" in (tmp_path / "claims.md").read_text()

    def test_a_single_point_of_the_grid_can_be_run(self, data: Path, tmp_path: Path):
        write_all(data)
        words = ("--seeds", 1, "--epochs", 1, "--data", data, "--out", tmp_path)
        assert trained(run_command("wikitext2", "--optimizers", "adam-plus:lr=5,sgd", *words)) == [2]
        stored = read(tmp_path, "paper-1-epochs", EXPERIMENTS["wikitext2"])
        assert stored.contenders["adam-plus"].label == "adam-plus:lr=5;beta=0.9;weight_decay=0"
        assert "--optimizers adam-plus:lr=5,sgd --" in (tmp_path / "claims.md").read_text()
        assert trained(run_command("wikitext2", "--optimizers", "adam-plus", *words)) == [1]
        assert read(tmp_path, "paper-1-epochs", EXPERIMENTS["wikitext2"]).contenders["adam-plus"].tried == 2

    def test_the_tuned_protocol_searches_rate_decay_and_beta_on_held_out_data(self, data: Path, tmp_path: Path):
        write_all(data)
        words = ("--seeds", 2, "--tune", 2, "--data", data, "--out", tmp_path, "--optimizers", "adam-plus,nigt,sgd")
        assert trained(run_command("wikitext2", "--protocol", "tuned", "--epochs", 1, *words)) == [6, 6]
        written = record(tmp_path / "tuned-1-epochs" / "wikitext2")
        assert written["tasks"] == ["wikitext2"]
        assert {label: set(ranges) for label, ranges in written["search"].items()} == {
            "adam-plus": {"lr", "weight_decay", "beta"},
            "nigt": {"lr", "weight_decay", "momentum"},
            "sgd": {"lr", "weight_decay"},
        }
        assert written["search"]["sgd"]["lr"] == "log-uniform, 0.3 to 90"
        assert "--tune 2" in written["command"]
        assert "tuned-1-epochs" in (tmp_path / "claims.md").read_text()

    def test_fixed_settings_are_not_searched_and_stay_in_the_command(self, data: Path, tmp_path: Path):
        write_all(data)
        words = ("--seeds", 1, "--tune", 2, "--data", data, "--out", tmp_path)
        words += ("--optimizers", "adam-plus:beta=0.1,msgd")
        assert trained(run_command("cifar10", "--protocol", "tuned", "--epochs", 1, *words)) == [4, 2]
        written = record(tmp_path / "tuned-1-epochs" / "cifar10")
        assert set(written["search"]["adam-plus:beta=0.1"]) == set(written["search"]["msgd"]) == {"lr", "weight_decay"}
        stored = read(tmp_path, "tuned-1-epochs", EXPERIMENTS["cifar10"])
        assert stored.contenders["adam-plus"].runs[0].spec["settings"]["beta"] == 0.1
        assert "--optimizers adam-plus:beta=0.1,msgd" in (tmp_path / "claims.md").read_text()

    def test_quick_is_a_tenth_of_the_epochs_in_a_separate_folder(self, data: Path, tmp_path: Path):
        write_all(data)
        run_command("an4", "--quick", "--seeds", 1, "--optimizers", "msgd", "--data", data, "--out", tmp_path)
        (run,) = Store(tmp_path / "paper-quick" / "an4").runs()
        assert [line["lr"] for line in run.metrics()] == pytest.approx([0.1, 0.1 * 0.5**0.5])
        assert {"train_loss", "test_loss", "test_frame_error"} <= set(run.metrics()[0])

    def test_without_runs_every_claim_that_needs_some_is_not_run_yet(self, data: Path, tmp_path: Path):
        (tmp_path / "none").mkdir()
        run_command("--out", tmp_path / "none", "--data", write_all(data))
        rows = [line for line in (tmp_path / "none" / "claims.md").read_text().splitlines() if line.startswith("| ")]
        without_runs = {"44. The size of the speech model", "46. Deep networks are trained efficiently"}
        claims = {row.split(" | ")[0].removeprefix("| "): row for row in rows if row[2].isdigit()}
        assert len(claims) == len(CLAIMS)
        assert {title for title, row in claims.items() if "not run yet" not in row} == without_runs

    def test_runs_of_older_code_stay_on_the_page_and_out_of_the_comparison(
        self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        words = ("--seeds", 1, "--epochs", 1, "--data", write_all(data), "--out", tmp_path)
        run_command("cifar10", "--optimizers", "msgd", *words)
        monkeypatch.setattr(tasks.registry, "digest", lambda path: "newer")
        assert trained(run_command("cifar10", "--optimizers", "sgd", *words)) == [1]
        assert record(tmp_path / "paper-1-epochs" / "cifar10")["labels"] == ["sgd:lr=0.1;weight_decay=0"]
        found = read(tmp_path, "paper-1-epochs", EXPERIMENTS["cifar10"])
        assert list(found.contenders) == ["sgd", "msgd"]

    def test_a_failed_run_is_tried_again_only_on_request(self, data: Path, tmp_path: Path):
        write_all(data)
        words = ("--seeds", 1, "--epochs", 1, "--data", data, "--out", tmp_path)
        run_command("cifar10", "--optimizers", "msgd", *words)
        (run,) = Store(tmp_path / "paper-1-epochs" / "cifar10").runs()
        run.finish({**(run.end() or {}), "status": "failed", "reason": "a reason"})
        assert trained(run_command("cifar10", "--optimizers", "sgd", *words)) == [1]

    def test_stored_runs_are_enough_for_figures_and_claims(self, data: Path, tmp_path: Path, monkeypatch: Any):
        """The runs are as they are committed: without data and without the files that only a comparison needs."""
        monkeypatch.setattr(reproduction, "figures", figures)
        out = tmp_path / "out"
        run_command(
            "cifar10", "--seeds", 1, "--epochs", 1, "--data", write_all(data), "--out", out, "--optimizers", "msgd"
        )
        start = r"| ResNet18 on CIFAR-10 | paper-1-epochs\* | 1 |"
        (before,) = (line for line in (out / "claims.md").read_text().splitlines() if line.startswith(start))
        kept = ("settings.json", "metrics.jsonl", "end.json")
        for path in sorted(out.rglob("*"), reverse=True):
            path.unlink() if path.is_file() and path.name not in kept else None
        run_command("--out", out, "--data", tmp_path / "nowhere")
        assert before.replace(r"\*", "") in (out / "claims.md").read_text()  # what the data was is not known any more
        left = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
        figure = "figures/paper-1-epochs-cifar10"
        assert {path for path in left if Path(path).name not in kept} == {"claims.md", f"{figure}.png", f"{figure}.pdf"}

    def test_written_files_name_no_path_host_or_user(self, data: Path, tmp_path: Path, monkeypatch: Any):
        for name in ("USER", "LOGNAME"):
            monkeypatch.setenv(name, "a-user-here")
        monkeypatch.setattr("platform.node", lambda: "host-of-theirs")
        monkeypatch.setattr("socket.gethostname", lambda: "host-of-theirs")
        out = tmp_path / "out"
        run_command(
            "cifar10", "--seeds", 1, "--epochs", 1, "--data", write_all(data), "--out", out, "--optimizers", "adam-plus"
        )
        assert report(out / "paper-1-epochs" / "cifar10").exists()
        written = [path for path in out.rglob("*") if path.is_file() and not path.name.startswith("events.")]
        assert {"claims.md", "comparison.json", "settings.json", "report.html", "table.csv", "table.tex"} <= {
            path.name for path in written
        }
        own = [
            str(tmp_path),
            str(Path.home()),
            str(Path(reproduction.__file__).parents[3]),
            "host-of-theirs",
            "a-user-here",
        ]
        for path in written:
            content = path.read_bytes()
            assert [word for word in own if word.encode() in content] == [], path

    def test_data_that_is_not_official_is_reported_and_stays_on_the_page(self, data: Path, tmp_path: Path):
        words = ("--seeds", 1, "--epochs", 1, "--data", write_all(data), "--out", tmp_path, "--optimizers", "msgd")
        assert "cifar10: the data is not the official CIFAR-10 (data_batch_1, " in run_command("cifar10", *words)
        assert "wikitext2: the data is not the official WikiText-2 (wiki.train" in run_command("wikitext2", *words)
        assert "swb300: the data is SWB-300, whose digests are not known" in run_command("swb300", *words)
        run_command("--out", tmp_path, "--data", tmp_path / "nowhere")
        text = (tmp_path / "claims.md").read_text()
        assert "data: not the official CIFAR-10 (" in text
        assert "| ResNet18 on CIFAR-10 | paper-1-epochs\\* |" in text
        assert "so nothing here is an answer to the paper." in text
        assert "SWB-300 | paper-1-epochs |" in text
        assert "data: SWB-300, whose digests are not known" in text

    def test_runs_of_other_data_are_not_reused(self, data: Path, tmp_path: Path):
        words = ("--seeds", 1, "--epochs", 1, "--data", write_all(data), "--optimizers", "msgd")
        for name in ("wikitext2", "swb300"):
            run_command(name, *words, "--out", tmp_path / "out")
            path = tmp_path / "out" / "paper-1-epochs" / name / "data.json"
            path.write_text(
                json.dumps({"data": "as another version words it", "mark": json.loads(path.read_text())["mark"]})
            )
            assert trained(run_command(name, *words, "--out", tmp_path / "out")) == [0]
        tokens = data / "wikitext-2" / "wiki.train.tokens"
        tokens.write_text(tokens.read_text() + " the cat \n")
        archive = data / "swb300" / "train" / "logmel.ark"  # of which the table, the .scp, says nothing
        archive.write_bytes(archive.read_bytes() + b"more")
        for name in ("wikitext2", "swb300"):
            refused = run_command(name, *words, "--out", tmp_path / "out", status=2)
            assert "were made of other data (" in refused
            assert "pass another --out, or use the same data" in refused
            run_command(name, *words, "--out", tmp_path / "other")
        (tmp_path / "out" / "paper-1-epochs" / "wikitext2" / "data.json").write_text("")  # which says nothing
        assert trained(run_command("wikitext2", *words, "--out", tmp_path / "out")) == [0]

    def test_a_damaged_data_set_does_not_stop_the_other_experiments(self, data: Path, tmp_path: Path):
        archive = write_all(data) / "swb300" / "heldout" / "logmel.ark"
        archive.write_bytes(archive.read_bytes()[:-7])
        (data / "cifar-10-batches-py" / "data_batch_3").write_bytes(b"nonsense")
        words = ("--seeds", 1, "--epochs", 1, "--data", data, "--out", tmp_path, "--optimizers", "adam-plus")
        output = run_command("all", *words, status=1)
        assert trained(output) == [1] * 3
        assert "cifar10 is left out: " in output
        assert re.search(r"swb300 is left out: .*logmel is damaged", output)
        assert "VGG19 on CIFAR-100 | paper-1-epochs\\* | 1 | test accuracy |" in (tmp_path / "claims.md").read_text()
        assert "logmel is damaged" in run_command("swb300", *words, status=2)

    def test_all_without_any_data_is_an_error(self, data: Path, tmp_path: Path):
        assert "no experiment has its data in" in run_command(
            "all", "--data", data, "--out", tmp_path / "out", status=2
        )
        assert not (tmp_path / "out").exists()

    def test_the_number_of_trials_is_that_of_the_search_that_chose(self, data: Path, tmp_path: Path):
        words = ("wikitext2", "--protocol", "tuned", "--seeds", 1, "--epochs", 1, "--data", write_all(data))
        words += ("--out", tmp_path)
        run_command(*words, "--tune", 3, "--optimizers", "msgd,adam")
        stored = read(tmp_path, "tuned-1-epochs", EXPERIMENTS["wikitext2"])
        assert {name: one.trials for name, one in stored.contenders.items()} == {"msgd": 3, "adam": 3}
        run_command(*words, "--tune", 1, "--optimizers", "adam")
        stored = read(tmp_path, "tuned-1-epochs", EXPERIMENTS["wikitext2"])
        assert {name: one.trials for name, one in stored.contenders.items()} == {"msgd": 3, "adam": 1}
        assert "searches of different lengths" in (tmp_path / "claims.md").read_text()

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("cifar11",), "unknown experiment 'cifar11': did you mean cifar10"),
            (("cifar10", "--protocol", "paperr"), "unknown protocol 'paperr': did you mean paper?"),
            (("cifar10", "--optimizers", "adamw"), "'adamw' is not one of the paper's optimizers: did you mean adam"),
            (("cifar10", "--optimizers", ","), "no optimizers to run"),
            (
                ("cifar10", "--optimizers", "msgd:lr=1"),
                "'msgd:lr=1' is not the paper's on cifar10: use lr=0.1, or --protocol tuned",
            ),
            (("an4", "--optimizers", "adam-plus:beta=0.2"), "use lr=0.1, beta=0.01|0.1|0.9, or --protocol tuned"),
            (("cifar10", "--optimizers", "msgd:nesterov=True"), "'msgd:nesterov=True' is not the paper's on cifar10"),
            (("cifar10", "--protocol", "tuned", "--optimizers", "msgd:rate=1"), "msgd has no setting 'rate'"),
            (("cifar10", "--protocol", "tuned", "--grid"), "need --protocol paper"),
            (
                ("cifar10", "--protocol", "tuned", "--optimizers", "adam-plus:norm_scope=tensor"),
                "'adam-plus:norm_scope=tensor' is another optimizer than the paper's: fix only beta, lr, weight_decay",
            ),
            (("cifar10", "--weight-decay", "-1"), "--weight-decay must be at least 0, got -1"),
            (("cifar10", "--weight-decay", "nan"), "--weight-decay must be at least 0, got nan"),
            (("cifar10", "--quick", "--epochs", "2"), "--quick and --epochs cannot be given together"),
            (("cifar10", "--engine", "dask"), "unknown engine 'dask'"),
            (("growth", "--optimizers", "sgd"), "growth needs Adam⁺: add adam-plus to --optimizers"),
            (("cifar10", "--epochs", "0"), "--epochs must be at least 1, got 0"),
            (("cifar10", "--seeds", "0"), "--seeds must be at least 1, got 0"),
            (
                ("cifar10", "--protocol", "tuned", "--tune", "0"),
                "--tune must be at least 1 with --protocol tuned, got 0",
            ),
            (("cifar10", "--tune", "-1"), "--tune must be at least 0, got -1"),
            (("cifar10", "--toy", "--quick"), "--toy is a check with two epochs: leave out"),
            (("--toy",), "--toy needs experiments to check"),
            (("cifar10", "--workers", "0"), "--workers must be at least 1, got 0"),
        ],
    )
    def test_bad_input_is_reported_without_a_traceback(
        self, words: tuple[str, ...], message: str, data: Path, tmp_path: Path
    ):
        write_all(data)
        assert message in run_command(*words, "--data", data, "--out", tmp_path / "out", status=2)
        assert not (tmp_path / "out").exists()


class TestProtocol:
    def test_settings_are_those_of_the_papers_table(self):
        def labels(name: str) -> dict[str, str]:
            return {one: EXPERIMENTS[name].labels(one, "paper")[0] for one in EXPERIMENTS[name].settings}

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
            for optimizer in experiment.settings:
                grid = experiment.labels(optimizer, "paper", grid=True)
                assert experiment.labels(optimizer, "paper")[0] in grid
        sizes = [len(EXPERIMENTS["wikitext2"].labels(name, "paper", grid=True)) for name in NAMES]
        assert sizes == [18, 18, 6, 6, 4, 4]

    def test_all_optimizers_search_ranges_of_the_same_width(self):
        for experiment in EXPERIMENTS.values():
            for optimizer, ranges in experiment.searched().items():
                lr = ranges.get("lr", CONTENDERS[optimizer].search["lr"])
                assert lr.high / lr.low == pytest.approx(300)
                assert ranges["weight_decay"].high / ranges["weight_decay"].low == pytest.approx(300)

    def test_momenta_are_one_minus_beta(self):
        momenta = Complement(BETAS.low, BETAS.high)
        assert (momenta.at(0), momenta.at(1)) == (0.99, 0.1)
        assert str(momenta) == "1 − log-uniform, 0.01 to 0.9"

    def test_each_protocol_and_budget_has_its_own_folder(self):
        def folder(**changes: Any) -> str:
            return ReproduceRequest((), **changes).folder

        assert folder() == "paper"
        assert folder(quick=True) == "paper-quick"
        assert folder(quick=True, epochs=6, weight_decay=5e-4) == "paper-decay-0.0005-6-epochs"

    @pytest.mark.parametrize(
        ("folder", "options"),
        [
            ("paper", "--protocol paper"),
            ("tuned-quick", "--protocol tuned --quick"),
            ("paper-decay-5e-05-6-epochs", "--protocol paper --weight-decay 5e-05 --epochs 6"),
        ],
    )
    def test_the_name_of_a_folder_gives_the_options_of_its_runs(self, folder: str, options: str):
        request = ReproduceRequest.of_folder(folder)
        assert request is not None
        assert request.folder == folder
        assert f"--data DIR --out reproduction {options} --seeds 3 " in request.command("cifar10", ["sgd"])

    def test_folders_with_other_names_are_ignored(self, tmp_path: Path):
        for name in ("paper-quick", "papers", "tuned-6-epochs", "figures"):
            (tmp_path / name / "cifar10").mkdir(parents=True)
        assert folders(tmp_path) == ["paper", "paper-quick", "tuned-6-epochs"]


def test_a_missing_folder_is_an_error_and_is_not_made(tmp_path: Path):
    with pytest.raises(InputError, match="there is no folder"):
        reproduction.reproduce([], out=tmp_path / "misspelt")
    assert not (tmp_path / "misspelt").exists()
