"""The paper's claims beside stored runs: which runs count, the rules that decide, and the page."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from stores import add_run

from adamplus.lab._store.files import write_json
from adamplus.lab.errors import InputError
from adamplus.lab.reproduce import EXPERIMENTS
from adamplus.lab.reproduce.claims import CLAIMS
from adamplus.lab.reproduce.experiments import NAMES
from adamplus.lab.reproduce.figures import figures
from adamplus.lab.reproduce.findings import Finding, together
from adamplus.lab.reproduce.page import page
from adamplus.lab.reproduce.rules import Versus
from adamplus.lab.reproduce.stored_runs import Stored, folders, read

ABOUT = {"metric": "accuracy", "better": "higher"}


def store(
    root: Path,
    name: str = "cifar10",
    statuses: str = "finished",
    first: int = 1,
    **values: list[float] | list[list[float]],
) -> Stored:
    """Stored runs with these accuracies, one list per seed. The accuracy in training is the same."""
    about = ABOUT if name.startswith("cifar") else {"metric": "perplexity", "better": "lower"}
    for optimizer, seeds in values.items():
        for seed, curve in enumerate(seeds, first):
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
    def test_a_relation_needs_the_margin_and_with_several_seeds_the_intervals(
        self, plus: list[float], sgd: list[float], better: str, level: str, worse: str, tmp_path: Path
    ):
        found = store(tmp_path, adam_plus=plus, sgd=sgd)
        assert [rule.judge(found).verdict for rule in (BETTER, LEVEL, WORSE)] == [better, level, worse]

    @pytest.mark.parametrize(
        ("plus", "sgd", "verdict"),
        [
            ([0.9], [0.8], "reproduced"),
            ([0.9], [0.897], "reproduced"),
            ([0.8], [0.9], "not reproduced"),
            ([0.85, 0.95, 0.90], [0.80, 0.88, 0.83], "reproduced"),
            ([0.80, 0.88, 0.83], [0.85, 0.95, 0.90], "open"),
        ],
    )
    def test_no_worse_is_level_or_ahead(self, plus: list[float], sgd: list[float], verdict: str, tmp_path: Path):
        found = store(tmp_path, adam_plus=plus, sgd=sgd)
        assert Versus("test", "no worse than", ("sgd",)).judge(found).verdict == verdict

    def test_one_optimizer_ahead_decides_even_if_others_have_not_run(self, tmp_path: Path):
        found = store(tmp_path, adam_plus=[0.8], sgd=[0.9])
        assert Versus("test", "better than", ("sgd", "adam")).judge(found).verdict == "not reproduced"

    def test_less_perplexity_is_better_and_its_margin_relative(self, tmp_path: Path):
        found = store(tmp_path, "wikitext2", adam_plus=[100.0], sgd=[101.0], adam=[110.0])
        assert LEVEL.judge(found).verdict == "reproduced"
        assert Versus("test", "better than", ("adam",)).judge(found).verdict == "reproduced"
        assert Versus("train", "better than", ("adam-plus",), "adam").judge(found).verdict == "not reproduced"

    def test_a_relative_margin_is_of_the_smaller_of_the_two(self, tmp_path: Path):
        found = store(tmp_path, "wikitext2", adam_plus=[100.0], sgd=[102.02], adam=[101.98])
        assert LEVEL.judge(found).verdict == "not reproduced"  # 2 % of 102.02 would be more than 2.02
        assert Versus("test", "comparable to", ("adam",)).judge(found).verdict == "reproduced"

    def test_diverged_optimizers_are_behind_and_missing_ones_not_run_yet(self, tmp_path: Path):
        store(tmp_path, statuses="diverged", sgd=[0.95])
        found = store(tmp_path, adam_plus=[0.5])
        assert BETTER.judge(found) == Finding("reproduced", "test: Adam⁺ 0.5000 (n = 1), SGD diverged", seeds=1)
        missing = Versus("test", "better than", ("adam",)).judge(found)
        assert missing == Finding("not run yet", "test: Adam⁺ 0.5000 (n = 1); no run of Adam has ended")

    def test_an_optimizer_that_lost_runs_is_never_ahead(self, tmp_path: Path):
        store(tmp_path, statuses="diverged", adam_plus=[0.1])
        found = store(tmp_path, first=2, adam_plus=[0.9, 0.9], sgd=[0.8, 0.8], adam=[0.95, 0.95])
        assert BETTER.judge(found).verdict == "open"
        assert "Adam⁺ 0.9000 ± 0 (n = 2, 1 diverged)" in BETTER.judge(found).measured
        assert Versus("test", "no worse than", ("sgd",)).judge(found).verdict == "open"
        # and behind an optimizer that is ahead of its best runs
        assert Versus("test", "better than", ("adam",)).judge(found).verdict == "not reproduced"
        assert Versus("test", "worse than", ("adam",)).judge(found).verdict == "reproduced"

    def test_level_with_an_optimizer_that_lost_runs_is_open(self, tmp_path: Path):
        store(tmp_path, statuses="diverged", sgd=[0.1])
        found = store(tmp_path, first=2, adam_plus=[0.9], sgd=[0.9])
        assert LEVEL.judge(found).verdict == "open"

    @pytest.mark.parametrize(
        ("sgd", "better", "level"), [(0.997, "open", "reproduced"), (0.99, "reproduced", "not reproduced")]
    )
    def test_no_optimizer_can_be_ahead_of_a_nearly_perfect_one(
        self, sgd: float, better: str, level: str, tmp_path: Path
    ):
        found = store(tmp_path, adam_plus=[1.0], sgd=[sgd])
        assert [rule.judge(found).verdict for rule in (BETTER, LEVEL)] == [better, level]
        assert WORSE.judge(found).verdict == ("open" if sgd == 0.997 else "not reproduced")

    def test_unequal_numbers_of_settings_are_open_unless_all_optimizers_have_had_all(self, tmp_path: Path):
        root, about = tmp_path / "paper" / "cifar10", {"metric": "accuracy", "better": "higher"}

        def add(name: str, value: float, **settings: float) -> Stored:
            given = ";".join(f"{key}={value}" for key, value in settings.items())
            add_run(root, f"{name}:{given}", [0.1, value], about=about, task="cifar10-paper")
            return read(tmp_path, "paper", EXPERIMENTS["cifar10"])

        ahead, adam = Versus("test", "better than", ("adam",)), Versus("test", "better than", ("adagrad",), "adam")
        add("adam-plus", 0.9, lr=0.1, beta=0.1)
        assert ahead.judge(add("adam", 0.7, lr=0.001)).verdict == "reproduced"
        two = ahead.judge(add("adam", 0.8, lr=0.01))
        assert two.verdict == "open"
        assert two.measured == (
            "test: Adam⁺ 0.9000 (n = 1), Adam 0.8000 (n = 1, best of 2); "
            "some have had more of the paper's settings than others"
        )
        assert ahead.judge(add("adam", 0.6, lr=0.1)).verdict == "reproduced"  # all three, and Adam⁺'s only one
        assert adam.judge(add("adagrad", 0.5, lr=0.01)).verdict == "open"
        add("adagrad", 0.5, lr=0.001)
        assert adam.judge(add("adagrad", 0.5, lr=0.1)).verdict == "reproduced"
        assert Versus("test", "better than", ("sgd",)).judge(add("adagrad", 0.5, lr=0.1)).verdict == "not run yet"

    @pytest.mark.parametrize("status", ["failed", None])
    def test_equal_numbers_of_settings_are_compared_and_unfinished_runs_do_not_count(
        self, status: str | None, tmp_path: Path
    ):
        root, given = tmp_path / "paper" / "cifar10", {"about": ABOUT, "task": "cifar10-paper"}
        for rate in (0.1, 0.01):
            add_run(root, f"adam:lr={rate}", [0.8], **given)
            add_run(root, f"adagrad:lr={rate}", [0.7], **given)
        add_run(root, "adam:lr=0.001", [0.9], status=status, **given)
        verdict = Versus("test", "better than", ("adagrad",), "adam").judge(
            read(tmp_path, "paper", EXPERIMENTS["cifar10"])
        )
        assert verdict.verdict == "reproduced"
        assert verdict.measured == "test: Adam 0.8000 (n = 1, best of 2), AdaGrad 0.7000 (n = 1, best of 2)"

    def test_two_diverged_optimizers_show_nothing(self, tmp_path: Path):
        found = store(tmp_path, statuses="diverged", adam_plus=[0.1], sgd=[0.1])
        assert {rule.judge(found).verdict for rule in (BETTER, LEVEL, WORSE)} == {"not reproduced"}

    def test_runs_without_a_panels_metric_have_not_diverged(self, tmp_path: Path):
        add_run(tmp_path / "paper" / "cifar10", "adam-plus:lr=0.1", [0.9], about={"metric": "other"})
        found = store(tmp_path, sgd=[0.8])
        assert BETTER.judge(found).verdict == "not run yet"
        assert Versus("test", "better than", ("sgd",), when="early").judge(found).verdict == "not run yet"

    def test_early_is_before_the_first_drop(self, tmp_path: Path):
        found = store(tmp_path, adam_plus=[[0.5, 0.6, 0.7, 0, 0, 0, 0.1]], sgd=[[0.1, 0.1, 0.1, 1, 1, 1, 1]])
        assert Versus("test", "better than", ("sgd",), when="early").judge(found).verdict == "reproduced"
        assert "Adam⁺ 0.6000" in Versus("test", "better than", ("sgd",), when="early").judge(found).measured

    @pytest.mark.parametrize(
        ("verdicts", "together_"),
        [
            (["reproduced", "reproduced"], "reproduced"),
            (["reproduced", "not run yet"], "not run yet"),
            (["not run yet", "cannot be run"], "not run yet"),  # it can still be refuted
            (["reproduced", "cannot be run"], "cannot be run"),
            (["reproduced", "open", "cannot be run"], "open"),
            (["open", "not reproduced", "reproduced"], "not reproduced"),
        ],
    )
    def test_a_claim_with_several_rules_needs_all_of_them(self, verdicts: list[Any], together_: str):
        assert together(Finding(verdict, "") for verdict in verdicts).verdict == together_

    def test_the_page_follows_from_the_runs(self, tmp_path: Path):
        values: dict[str, Any] = {name.replace("-", "_"): [0.8] for name in NAMES}
        store(tmp_path, **{**values, "adam_plus": [0.9]})
        store(tmp_path, "cifar100", **values)
        assert folders(tmp_path) == ["paper"]
        text = page_text(tmp_path, figures=[Path("figures/paper-cifar10.png")])
        verdicts = verdicts_of(text)
        assert verdicts["CIFAR-10: best in test accuracy"] == "reproduced"
        assert verdicts["CIFAR-100: best in test accuracy"] == "not reproduced"
        assert verdicts["CIFAR-100: Adam⁺ ends where NIGT ends"] == "reproduced"
        assert verdicts["WikiText-2, test: level with SGD"] == "not run yet"
        assert verdicts["SWB-300: level with momentum SGD, ahead of the rest"] == "cannot be run"
        assert verdicts["Ahead of Adam on all tasks"] == "not reproduced"
        assert "![paper-cifar10](figures/paper-cifar10.png)" in text

    def test_every_claim_shows_its_rules(self):
        texts = [rule.text for claim in CLAIMS for _, rule in claim.rules]
        assert all(len(text) > 30 for text in texts)
        assert len({claim.title for claim in CLAIMS}) == len(CLAIMS)

    def test_the_page_begins_with_results(self, tmp_path: Path):
        store(tmp_path, adam_plus=[0.9, 0.92], sgd=[0.8])
        store(tmp_path, statuses="diverged", adam=[0.1])
        text = page_text(tmp_path)
        row = "ResNet18 on CIFAR-10 | paper | 2 | test accuracy | 0.910 ± 0.010 (n = 2) | – | 0.8000 (n = 1) | – | – |"
        assert f"| {row} diverged |" in text
        assert text.index(row) < text.index("| claim |") < text.index("### 1.")

    def test_the_time_to_a_target_is_reported(self, tmp_path: Path):
        store(tmp_path, adam_plus=[[0.5, 0.9, 0.92], [0.9, 0.8, 0.95]], sgd=[[0.5, 0.6, 0.89]], nigt=[[0.95], [0.1]])
        store(tmp_path, statuses="diverged", adam=[[0.95]])
        row = next(line for line in page_text(tmp_path).splitlines() if "| test accuracy 0.9 |" in line)
        # two seconds an epoch; runs that diverged reach nothing
        cells = ["3.00 s, epoch 2", "2.00 s, epoch 1 (1 of 2 runs)", "not reached", "–", "–", "–"]
        assert row == f"| ResNet18 on CIFAR-10 | paper | test accuracy 0.9 | {' | '.join(cells)} |"
        assert "test perplexity 120" not in page_text(tmp_path)

    def test_each_group_of_runs_has_a_line_with_its_origin(self, tmp_path: Path):
        store(tmp_path, adam_plus=[0.9, 0.92], sgd=[0.8])
        (line,) = (line for line in page_text(tmp_path).splitlines() if line.startswith("- *paper*, ResNet18"))
        assert (
            "3 of 3 runs finished; a machine; 2026-01-01; python 3.11, torch 2.13, commit 0123456789; data: not" in line
        )
        words = "--protocol paper --seeds 2 --optimizers adam-plus,sgd --device cpu --precision float32"
        assert f"`adamplus reproduce cifar10 --data DIR --out {tmp_path.name} {words}`" in line

    def test_a_remark_on_runs_is_shown_below_the_times_and_marks_them(self, tmp_path: Path):
        store(tmp_path, adam_plus=[0.9], sgd=[0.8])
        assert "\\*" not in page_text(tmp_path)
        assert "test accuracy 0.9 | 4.00 s, epoch 2 |" in page_text(tmp_path)
        remarks = tmp_path / "paper" / "cifar10" / "remarks.json"
        remarks.write_text('{"remark": "The GPU was shared.", "untimed": ["adam-plus"]}')
        text = page_text(tmp_path)
        assert "test accuracy 0.9 | epoch 2 |" in text
        assert "\n\\* *paper*, ResNet18 on CIFAR-10: The GPU was shared.\n" in text
        assert "| ResNet18 on CIFAR-10 | paper\\* | " in text
        remarks.write_text('["The GPU was shared."]')
        with pytest.raises(InputError, match=r"remarks.json cannot be read .* write \{"):
            page_text(tmp_path)

    def test_runs_on_other_data_do_not_answer_the_paper(self, tmp_path: Path):
        store(tmp_path, adam_plus=[0.7], adam=[0.8])
        (row,) = (line for line in page_text(tmp_path).splitlines() if line.startswith("| 2. CIFAR-10: best in test"))
        assert row.endswith("| **not reproduced** (n = 1) |")
        (tmp_path / "paper" / "cifar10" / "data.json").write_text('{"data": "not the official CIFAR-10 (a)"}')
        (row,) = (line for line in page_text(tmp_path).splitlines() if line.startswith("| 2. CIFAR-10: best in test"))
        assert row.endswith("| does not hold (n = 1) |")

    def test_settings_that_are_not_the_best_are_listed_with_their_results(self, tmp_path: Path):
        root = tmp_path / "paper" / "cifar10"
        for rate, value in (("0.001", 0.7), ("0.01", 0.8), ("0.1", 0.6)):
            add_run(root, f"adam:lr={rate}", [0.1, value], about=ABOUT, lr=float(rate), task="cifar10-paper")
        lines = [line for line in page_text(tmp_path).splitlines() if line.startswith("| paper | cifar10 | Adam |")]
        assert [line.split(" | ")[3:5] for line in lines] == [
            ["lr=0.01 (best of 3)", "0.8000 (n = 1)"],
            ["lr=0.001", "0.7000 (n = 1)"],
            ["lr=0.1", "0.6000 (n = 1)"],
        ]

    def test_runs_without_a_commit_are_counted(self, tmp_path: Path):
        store(tmp_path, adam_plus=[0.9], sgd=[0.8, 0.7])
        path = next((tmp_path / "paper" / "cifar10" / "runs").glob("*/adam-plus/*/settings.json"))
        write_json(path, {**json.loads(path.read_text()), "git": {"commit": None, "dirty": None}})
        assert "commit 0123456789, 1 of them by an unknown commit; data" in page_text(tmp_path)

    def test_missing_data_is_listed_once_and_only_if_it_cannot_be_downloaded(self, tmp_path: Path):
        store(tmp_path, adam_plus=[0.9], adam=[0.8])
        text = page_text(tmp_path, absent=EXPERIMENTS)
        verdicts = verdicts_of(text)
        assert verdicts["WikiText-2, test: level with SGD"] == "not run yet"
        assert verdicts["SWB-300: level with momentum SGD, ahead of the rest"] == "cannot be run"
        assert verdicts["Ahead of Adam on all tasks"] == "not run yet"
        assert text.count("the data was not there") == 1  # others have only not been run
        alone = sum(claim.experiments == ("swb300",) for claim in CLAIMS)
        assert text.count("LDC97S62, Switchboard") == 1 + alone  # there, and in the claims about it
        assert "cifar100: not run yet; wikitext2: not run yet; swb300: cannot be run" in text

    def test_a_run_that_cannot_be_read_is_named(self, tmp_path: Path):
        store(tmp_path, adam_plus=[0.9], sgd=[0.8])
        path = next((tmp_path / "paper" / "cifar10" / "runs").glob("*/sgd/*/end.json"))
        path.write_text("{")
        text = page_text(tmp_path)
        assert f"- cannot be read: paper/cifar10/runs/cifar10-paper/sgd/{path.parent.name}: end.json" in text


class TestRunsThatCount:
    def runs(self, root: Path, *made: dict[str, Any], protocol: str = "paper") -> Stored:
        for one in made:
            add_run(root / protocol / "cifar10", **{"label": "adam-plus", "about": ABOUT, **one})
        return read(root, protocol, EXPERIMENTS["cifar10"])

    def test_the_newest_run_of_each_seed_counts_for_any_version_of_the_code(self, tmp_path: Path):
        found = self.runs(
            tmp_path,
            {"values": [0.7], "seed": 1, "started": "2026-01-03", "task_digest": "new"},
            {"values": [0.5], "seed": 1, "started": "2026-01-02", "task_digest": "old"},
            {"values": [0.6], "seed": 2, "started": "2026-01-01", "task_digest": "old"},
        ).contenders["adam-plus"]
        assert [run.last("test_accuracy") for run in found.runs] == [0.7, 0.6]

    @pytest.mark.parametrize("held_out", [True, False])
    def test_the_best_settings_on_validation_data_count_or_on_test_data_if_there_is_no_other(
        self, held_out: bool, tmp_path: Path
    ):
        root = tmp_path / "paper" / "cifar10"
        for rate, test, validation in (("0.1", 0.7, 0.9), ("0.2", 0.8, 0.6), ("0.3", 0.5, 0.7)):
            run = add_run(root, f"adam-plus:lr={rate}", [0.1, test], about=ABOUT)
            lines = [line | {"validation_accuracy": validation} for line in run.metrics()]
            (run.folder / "metrics.jsonl").unlink()
            for line in lines:
                run.append({k: v for k, v in line.items() if held_out or not k.startswith("validation")})
        one = read(tmp_path, "paper", EXPERIMENTS["cifar10"]).contenders["adam-plus"]
        assert (one.label, one.tried) == (f"adam-plus:lr={0.1 if held_out else 0.2}", 3)

    def test_a_run_that_was_killed_or_failed_does_not_hide_one_that_ended(self, tmp_path: Path):
        found = self.runs(
            tmp_path,
            {"values": [0.5, 0.6], "started": "2026-01-01", "task_digest": "old"},
            {"values": [0.9], "epochs": 2, "started": "2026-01-02", "task_digest": "new", "status": None},
            {"values": [0.9], "epochs": 2, "started": "2026-01-03", "task_digest": "newer", "status": "failed"},
        ).contenders["adam-plus"]
        assert found.last("test_accuracy").mean == 0.6

    def test_seeds_of_two_searches_are_not_mixed(self, tmp_path: Path):
        found = self.runs(
            tmp_path,
            *({"values": [0.9], "seed": seed, "lr": 1.0, "started": "2026-01-01"} for seed in (1, 2, 3)),
            *({"values": [0.8], "seed": seed, "lr": 2.0, "started": "2026-01-02"} for seed in (1, 2)),
            *({"values": [0.1], "phase": "search", "trial": trial} for trial in (1, 2, 3, 4)),
            protocol="tuned",
        )
        one = found.contenders["adam-plus"]
        assert (one.last("test_accuracy").mean, len(one.runs), one.tried) == (pytest.approx(0.8), 2, 1)
        assert one.trials == 4
        assert "--protocol tuned --seeds 2 --tune 4" in page_text(tmp_path)

    def test_the_newer_of_two_searches_counts_and_unequal_searches_leave_claims_open(self, tmp_path: Path):
        fixed = {"label": "adam-plus:beta=0.1", "started": "2026-01-01"}
        found = self.runs(
            tmp_path,
            *({"values": [0.9], **fixed, **phase} for phase in ({"phase": "search", "trial": 1}, {})),
            *({"values": [0.8], "started": "2026-01-02", "phase": "search", "trial": trial} for trial in (1, 2, 3)),
            {"values": [0.8], "started": "2026-01-02"},
            *({"values": [0.7], "label": "msgd", **phase} for phase in ({"phase": "search", "trial": 1}, {})),
            protocol="tuned",
        )
        one = found.contenders["adam-plus"]
        assert (one.label, one.tried, one.trials, one.last("test_accuracy").mean) == ("adam-plus", 1, 3, 0.8)
        text = page_text(tmp_path)
        assert "tuned*: open. searches of different lengths: Adam⁺ 3 trials, Momentum SGD 1 trials" in text
        assert "--tune 3 --optimizers adam-plus --" in text
        assert "--tune 1 --optimizers msgd --" in text
        assert "--grid --" not in text

    def test_the_command_names_the_points_of_the_grid_that_were_run(self, tmp_path: Path):
        labels = ("adam-plus:lr=0.1;beta=0.1;weight_decay=0", "nigt:lr=0.1;momentum=0.1;weight_decay=0")
        self.runs(tmp_path, *({"values": [0.9], "label": label} for label in labels))
        assert "--optimizers adam-plus,nigt:momentum=0.1 --" in page_text(tmp_path)

    def test_figures_show_runs_that_have_ended(self, tmp_path: Path):
        only_begun = self.runs(tmp_path, {"values": [0.9], "epochs": 2, "status": None})
        assert figures([only_begun], tmp_path / "figures") == []


def page_text(root: Path, absent: Any = ("swb300",), figures: Any = ()) -> str:
    """The page."""
    stored = {f: {name: read(root, f, one) for name, one in EXPERIMENTS.items()} for f in folders(root)}
    return page(stored, absent, figures, root)


def verdicts_of(text: str) -> dict[str, str]:
    """Verdicts for the paper's own budget, by the titles of claims."""
    return dict(re.findall(r"^\| \d+\. (.*?) \| [\w.]+ \| \**(.*?)\**(?: \(n = 1\))? \|", text, flags=re.MULTILINE))
