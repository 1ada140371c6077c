"""The numbers of results/reproduction/claims.md, computed again from the stored files without the code that made it."""

import json
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "results" / "reproduction"
TITLES = {
    "ResNet18 on CIFAR-10": "cifar10",
    "VGG19 on CIFAR-100": "cifar100",
    "Two-layer LSTM on WikiText-2": "wikitext2",
    "Six-layer BiLSTM on AN4": "an4",
    "Six-layer BiLSTM on SWB-300": "swb300",
}
NAMES = {
    "Adam⁺": "adam-plus",
    "NIGT": "nigt",
    "SGD": "sgd",
    "Momentum SGD": "msgd",
    "AdaGrad": "adagrad",
    "Adam": "adam",
}
METRICS = {"cifar10": "accuracy", "cifar100": "accuracy", "wikitext2": "perplexity", "an4": "loss"}
RESULT = r"(?P<value>[\d.,]+(?: ± [\d.,]+)?) \((?P<notes>n = \d+[^)]*)\)"
PARTS = {"": 0.0, " early": 3 / 7, ", mean over the run": 1.0}
"""The part of a run over which a rule takes a mean. 0: the last epoch alone."""

Line = dict[str, float]
Runs = dict[int, list[Line]]
"""Metrics by seed."""


def higher(experiment: str) -> bool:
    return METRICS[experiment] == "accuracy"


@cache
def stored(folder: str, experiment: str) -> dict[str, dict[str, Runs]]:
    """The newest final runs by optimizer, settings as text, and seed. The newest settings come last."""
    made = []
    for path in (RESULTS / folder / experiment).glob("runs/*/*/final-*"):
        settings, end = (json.loads((path / f"{name}.json").read_text()) for name in ("settings", "end"))
        assert end["status"] == "finished"
        lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
        made.append((settings["started"], settings["spec"], lines))
    found: dict[str, dict[str, Runs]] = defaultdict(dict)
    for _, spec, lines in sorted(made, key=lambda one: one[0]):
        own = found[spec["optimizer"]]
        text = json.dumps(spec["settings"], sort_keys=True)
        own[text] = own.pop(text, {}) | {spec["seed"]: lines}
    return found


def chosen(folder: str, experiment: str, optimizer: str) -> Runs:
    """The runs that count: those of the newest search, or of the best of the paper's settings."""
    own = stored(folder, experiment)[optimizer]
    if folder.startswith("tuned"):
        return list(own.values())[-1]
    metric, sign = METRICS[experiment], -1 if higher(experiment) else 1

    def place(runs: Runs) -> float:
        last = [lines[-1] for lines in runs.values()]
        column = f"validation_{metric}" if f"validation_{metric}" in last[0] else f"test_{metric}"
        return sign * statistics.fmean(line[column] for line in last)

    return min(own.values(), key=place)


def values(runs: Runs, column: str, part: float = 0.0) -> list[float]:
    found = []
    for lines in runs.values():
        some = lines[: max(1, round(part * len(lines)))] if part else lines[-1:]
        found.append(statistics.fmean(line[column] for line in some))
    return found


def agrees(text: str, measured: Sequence[float]) -> bool:
    """Whether a mean, with its standard error if there is one, is printed as it is measured, to its last digit."""
    mean, *error = text.replace(",", "").split(" ± ")
    expected = [statistics.fmean(measured)]
    if error:
        expected.append(statistics.stdev(measured) / math.sqrt(len(measured)))
    else:
        assert len(measured) == 1
    for printed, value in zip([mean, *error], expected, strict=True):
        places = len(printed.partition(".")[2])
        if abs(float(printed) - value) > 0.5001 * 10**-places:
            return False
    return True


def check(text: str, notes: str, runs: Runs, column: str, tried: int = 1, part: float = 0.0) -> None:
    measured = values(runs, column, part)
    assert agrees(text, measured), (text, measured)
    assert notes == f"n = {len(measured)}" + f", best of {tried}" * (tried > 1)


def tried(folder: str, experiment: str, optimizer: str) -> int:
    return 1 if folder.startswith("tuned") else len(stored(folder, experiment)[optimizer])


@pytest.fixture(scope="module")
def page() -> str:
    return (RESULTS / "claims.md").read_text()


def rows(page: str, head: str) -> Iterator[dict[str, str]]:
    """The lines of the table that begins with these cells."""
    lines = iter(page.splitlines())
    columns = next(line for line in lines if line.startswith(head)).strip("| ").split(" | ")
    next(lines)
    for line in lines:
        if not line.startswith("| "):
            return
        yield dict(zip(columns, (cell.replace("\\*", "") for cell in line.strip("| ").split(" | ")), strict=True))


def test_the_table_of_results(page: str):
    found = list(rows(page, "| experiment | runs | epochs | shown |"))
    folders = {(row["runs"], TITLES[row["experiment"]]) for row in found}
    assert folders == {(path.parts[-3], path.parts[-2]) for path in RESULTS.glob("*/*/runs")}
    checked = 0
    for row in found:
        folder, experiment = row["runs"], TITLES[row["experiment"]]
        assert set(stored(folder, experiment)) == {NAMES[name] for name in NAMES if row[name] != "–"}
        for name in filter(lambda name: row[name] != "–", NAMES):
            runs, match = chosen(folder, experiment, NAMES[name]), re.fullmatch(RESULT, row[name])
            assert match is not None
            number = tried(folder, experiment, NAMES[name])
            check(match["value"], match["notes"], runs, f"test_{METRICS[experiment]}", number)
            assert {str(len(lines)) for lines in runs.values()} == {row["epochs"]}
            checked += 1
    assert checked >= 34


def test_the_first_table(page: str):
    found = {TITLES[row["experiment"]]: row for row in rows(page, "| experiment | test metric |")}
    assert set(found) == set(TITLES.values())
    for experiment, metric in METRICS.items():
        for kind in ("word for word", "best reading", "tuned"):
            cell = found[experiment][kind]
            pattern = {"word for word": "paper", "best reading": "paper-*reading*", "tuned": "tuned*"}[kind]
            folders = [path.parts[-2] for path in RESULTS.glob(f"{pattern}/{experiment}")]
            if not folders:
                assert cell == "not run"
                continue
            match = re.fullmatch(
                rf"{RESULT}, (?P<place>\d) of (?P<of>\d); (?P<best>[^\d]+) (?P<other>[^(]+) \((?P<n>[^)]+)\)"
                r"( \((?P<folder>[^,]+), (?P<epochs>\d+) epochs\))?",
                cell,
            )
            assert match is not None
            folder = match["folder"] or "paper"
            assert folder in folders
            ends = {
                name: statistics.fmean(values(chosen(folder, experiment, name), f"test_{metric}"))
                for name in stored(folder, experiment)
            }
            ranked = sorted(ends, key=lambda name, ends=ends: ends[name], reverse=higher(experiment))
            assert (int(match["place"]), int(match["of"])) == (ranked.index("adam-plus") + 1, len(ranked))
            others = [name for name in ranked if name != "adam-plus"]
            assert NAMES[match["best"]] == others[0]
            for name, text, notes in (
                ("adam-plus", match["value"], match["notes"]),
                (others[0], match["other"], match["n"]),
            ):
                number = tried(folder, experiment, name)
                check(text, notes, chosen(folder, experiment, name), f"test_{metric}", number)
    assert set(found["swb300"].values()) >= {"needs licensed data"}


def test_the_conclusion_has_the_places_of_the_first_table(page: str):
    first, second, _ = page.splitlines()[2].split(". ", 2)
    ordinals = {"1": "first", "2": "second", "3": "third", "4": "fourth", "5": "fifth", "6": "sixth"}
    for row in rows(page, "| experiment | test metric |"):
        for kind, sentence in (("word for word", first), ("tuned", second)):
            if (match := re.search(r"\), (\d) of (\d);", row[kind])) is not None:
                assert f"{ordinals[match[1]]} of {match[2]} ({row['experiment']})" in sentence
            else:
                assert row["experiment"] not in sentence


def test_the_conclusion_counts_the_verdicts_of_the_table(page: str):
    outcomes = [row["paper"] for row in rows(page, "| claim | section |")]
    counts = [
        sum(outcome.startswith(f"**{kind}**") for outcome in outcomes) for kind in ("reproduced", "not reproduced")
    ]
    single = sum(outcome.startswith("**") and outcome.endswith("(n = 1)") for outcome in outcomes)
    head = page.splitlines()[2]
    assert f"{counts[0]} reproduced and {counts[1]} not reproduced, {single} of these by single runs" in head
    numbers = [int(number) for number in re.findall(r"(\d+) (?:reproduced|not|open|that|without|more)", head)]
    assert sum(numbers) == len(outcomes)


def test_the_table_of_settings(page: str):
    checked = 0
    for row in rows(page, "| runs | experiment | optimizer | settings |"):
        folder, experiment = row["runs"], row["experiment"]
        text, _, best = row["settings"].partition(" (best of ")
        given = dict(part.split("=") for part in text.split(", "))
        (runs,) = (
            own
            for settings, own in stored(folder, experiment)[NAMES[row["optimizer"]]].items()
            if {key: f"{value:g}" for key, value in json.loads(settings).items()} == given
        )
        match = re.fullmatch(RESULT, row["test metric"])
        assert match is not None
        check(match["value"], match["notes"], runs, f"test_{METRICS[experiment]}")
        assert row["seeds"] == ", ".join(map(str, sorted(runs)))
        if best:
            assert runs == chosen(folder, experiment, NAMES[row["optimizer"]])
        if row["training time a run"] != "–":
            seconds = statistics.fmean(lines[-1]["seconds"] for lines in runs.values())
            value, unit = row["training time a run"].split()
            assert float(value) == pytest.approx(seconds / {"s": 1, "min": 60}[unit], rel=0.01)
        checked += 1
    assert checked >= 43


def test_the_table_of_times(page: str):
    checked = 0
    for row in rows(page, "| experiment | runs | until |"):
        folder, experiment = row["runs"], TITLES[row["experiment"]]
        target = float(row["until"].split()[-1])
        for name in filter(lambda name: row[name] != "–", NAMES):
            column, up = f"test_{METRICS[experiment]}", higher(experiment)
            reached = []
            for lines in chosen(folder, experiment, NAMES[name]).values():
                good = [line for line in lines if (line[column] >= target if up else line[column] <= target)]
                reached += good[:1]
            if not reached:
                assert row[name] == "not reached"
                continue
            epoch = statistics.fmean(line["epoch"] for line in reached)
            assert row[name].endswith(f"epoch {epoch:.0f}")
            if ", " in row[name]:
                seconds = statistics.fmean(line["seconds"] for line in reached)
                assert float(row[name].split(" s,")[0]) == pytest.approx(seconds, rel=0.01)
            checked += 1
    assert checked >= 15


def test_the_numbers_below_the_claims(page: str):
    """Every result of an optimizer at the end, early in the run and over the whole run, in training and test."""
    columns = {"accuracy": "running_accuracy", "perplexity": "train_perplexity", "loss": "train_loss"}
    checked = 0
    experiments: list[str] = []
    for line in page.split("\n## Claim by claim\n")[1].split("\n## ")[0].splitlines():
        if line.startswith("### "):
            experiments = []
        elif line.startswith("- Rule, on "):
            experiments += line.removeprefix("- Rule, on ").split(":")[0].split(", ")
        elif line.startswith("- *"):
            folder = line.split("*")[1]
            parts = re.split(r"\b(cifar100|cifar10|wikitext2|an4|swb300): ", line)
            texts = list(zip(parts[1::2], parts[2::2], strict=True)) or [(experiments[0], line)] if experiments else []
            for experiment, text in texts:
                panel, when = "", ""
                pattern = (
                    rf"(?:(?P<panel>train|test)(?P<dropout> with dropout| without dropout)?(?P<when> early|, mean over "
                    rf"the run)?: )?(?P<name>{'|'.join(sorted(NAMES, key=len, reverse=True))}) {RESULT}"
                )
                for match in re.finditer(pattern, text):
                    if match["panel"]:
                        panel, when = match["panel"] + (match["dropout"] or ""), match["when"] or ""
                    if not panel:
                        continue
                    metric, name = METRICS[experiment], NAMES[match["name"]]
                    column = {"test": f"test_{metric}", "train with dropout": f"running_{metric}"}.get(
                        panel, columns[metric]
                    )
                    number = tried(folder, experiment, name)
                    check(match["value"], match["notes"], chosen(folder, experiment, name), column, number, PARTS[when])
                    checked += 1
    assert checked >= 200


def test_the_gaps_and_grids_below_the_claims(page: str):
    """Gaps between training and test, and results by the values of a setting, which validation decides if it can."""
    checked = {"gap": 0, "grid": 0}
    claims = page.split("\n## Claim by claim\n")[1].split("\n## ")[0].split("\n### ")
    names = "|".join(sorted(NAMES, key=len, reverse=True))
    for claim in claims:
        rule = re.search(r"- Rule, on ([\w, ]+): (.*)", claim)
        for line in claim.splitlines() if rule else ():
            if not line.startswith("- *") or rule is None:
                continue
            folder = line.split("*")[1]
            parts = re.split(r"\b(cifar100|cifar10|wikitext2|an4|swb300): ", line)
            for experiment, text in list(zip(parts[1::2], parts[2::2], strict=True)) or [(rule[1], line)]:
                if "the gap between" in rule[2]:
                    for match in re.finditer(rf"(?P<name>{names}) {RESULT}", text):
                        runs = chosen(folder, experiment, NAMES[match["name"]])
                        assert agrees(match["value"], gaps(runs, experiment)), match[0]
                        checked["gap"] += 1
                optimizer = "adam-plus"
                for match in re.finditer(rf"(?P<name>{names}): |(?P<key>[\w.=;]+=[\w.]+):? {RESULT}", text):
                    if match["name"]:
                        optimizer = NAMES[match["name"]]
                        continue
                    given = {key: float(value) for key, value in (part.split("=") for part in match["key"].split(";"))}
                    (runs,) = (
                        own
                        for settings, own in stored(folder, experiment)[optimizer].items()
                        if given.items() <= {**json.loads(settings), "weight_decay": 0.0}.items()
                    )
                    last = next(iter(runs.values()))[-1]
                    column = f"validation_{METRICS[experiment]}"
                    column = column if column in last else f"test_{METRICS[experiment]}"
                    assert agrees(match["value"], values(runs, column)), match[0]
                    checked["grid"] += 1
    assert checked["gap"] >= 8
    assert checked["grid"] >= 20


def gaps(runs: Runs, experiment: str) -> list[float]:
    """Training accuracy less test accuracy, or test perplexity by training perplexity."""
    last = [lines[-1] for lines in runs.values()]
    if higher(experiment):
        return [line["running_accuracy"] - line["test_accuracy"] for line in last]
    return [line["test_perplexity"] / line["train_perplexity"] for line in last]
