"""The page that sets every claim of the paper beside what was measured."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..report._text import seconds
from ._claims import CLAIMS, Claim
from ._experiments import EXPERIMENTS, NAMES
from ._judge import Verdict, together
from ._stored import Stored

HEAD = """# The paper's claims, and what was measured

Made by `adamplus reproduce` from the runs that are stored; outcomes follow from them by the rule below each claim.
*paper* is the paper's settings word for word and its budget; endings say what differs: `quick` a tenth of the epochs,
`N-epochs` that many, `decay-X` a weight decay, of which the paper says nothing. *tuned* gives every optimizer the same
search on held-out data first.

*Better* and *worse*: means over seeds differ by more than the margin, {margins}; and,
where both have several seeds, 95 % intervals do not overlap; where these do, the claim is *open* until there are more
seeds. *Comparable*: means differ by no more than the margin. With one seed, means are single runs. A claim that names
several optimizers or data sets holds where it holds for each. Of several settings that were tried, those with the best
validation metric count; where there is no validation data, as in the paper's protocol, those with the best test metric.
"""


def page(
    stored: Mapping[str, Mapping[str, Stored]], absent: Callable[[str], str | None], figures: Sequence[Path]
) -> str:
    """Markdown; `stored` by folder and experiment, `absent` says why data is not there, if it is not."""
    verdicts = {
        folder: [_verdict(claim, experiments, absent) for claim in CLAIMS] for folder, experiments in stored.items()
    }
    margins = ", ".join(sorted({_margin(name) for name in EXPERIMENTS}))
    parts = [HEAD.format(margins=margins), _summary(verdicts)]
    parts += [f"![{path.stem}](figures/{path.name})" for path in figures if path.suffix == ".png"]
    parts += ["## Claim by claim", *(_claim(i, claim, verdicts) for i, claim in enumerate(CLAIMS))]
    parts += ["## The runs", _runs(stored), _declared()]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _verdict(claim: Claim, experiments: Mapping[str, Stored], absent: Callable[[str], str | None]) -> Verdict:
    found = []
    for name in claim.experiments:
        rules = [rule for experiment, rule in claim.rules if experiment == name]
        stored, reason = experiments[name], absent(name)
        if not stored.contestants and reason is not None:
            found.append(Verdict("cannot be run", reason))
            continue
        one = together(rule.judge(stored) for rule in rules)
        prefix = f"{name}: " if len(claim.experiments) > 1 else ""
        found.append(Verdict(one.outcome, f"{prefix}{one.measured}"))
    return together(found)


def _summary(verdicts: Mapping[str, Sequence[Verdict]]) -> str:
    lines = [["claim", "section", *verdicts], ["---"] * (2 + len(verdicts))]
    for i, claim in enumerate(CLAIMS):
        lines.append([f"{i + 1}. {claim.title}", claim.section, *(_bold(own[i].outcome) for own in verdicts.values())])
    return _table(lines)


def _bold(outcome: str) -> str:
    return f"**{outcome}**" if outcome in ("reproduced", "not reproduced") else outcome


def _claim(i: int, claim: Claim, verdicts: Mapping[str, Sequence[Verdict]]) -> str:
    rules = list(dict.fromkeys(f"{', '.join(_about(claim, rule.text))}: {rule.text}" for _, rule in claim.rules))
    lines = [f"### {i + 1}. {claim.title}", f"> {claim.sentence} (section {claim.section})", claim.note]
    lines.append("\n".join(f"- Rule, on {rule}." for rule in rules))
    said = [f"- *{folder}*: {_bold(own[i].outcome)}. {own[i].measured}" for folder, own in verdicts.items()]
    return "\n\n".join(filter(None, [*lines, "\n".join(said)]))


def _about(claim: Claim, text: str) -> list[str]:
    return [name for name, rule in claim.rules if rule.text == text]


def _runs(stored: Mapping[str, Mapping[str, Stored]]) -> str:
    """Where the numbers come from."""
    head = ["protocol", "experiment", "optimizer", "settings", "finished", "epochs", "time a run", "hardware", "torch"]
    lines = [head, ["---"] * len(head)]
    for folder, experiments in stored.items():
        for name, one in experiments.items():
            for optimizer, contestant in one.contestants.items():
                finished, first = contestant.ended("finished"), contestant.runs[0].settings
                best = f" (best of {contestant.tried})" if contestant.tried > 1 else ""
                seeds = f"{len(finished)} of {len(contestant.runs)}"
                took = seconds(sum(r.end["seconds"] for r in finished) / len(finished)) if finished else "–"
                settings = ", ".join(f"{key} {_plain(value)}" for key, value in first["spec"]["settings"].items())
                about = [first.get("hardware", "–"), first.get("versions", {}).get("torch", "–")]
                line = [folder, name, NAMES[optimizer], settings + best, seeds, one.epochs, took, *about]
                lines.append([str(cell) for cell in line])
    return _table(lines) if len(lines) > 2 else "None yet."


def _declared() -> str:
    """What had to be decided here, as the paper does not say."""
    said = [
        f"- {experiment.title}, {NAMES[optimizer]}: {words.declared}."
        for experiment in EXPERIMENTS.values()
        for optimizer, words in experiment.words.items()
        if words.declared
    ]
    return "What the paper leaves open, and is declared here ([docs/reproduce.md] has the rest):\n\n" + "\n".join(said)


def _margin(name: str) -> str:
    experiment = EXPERIMENTS[name]
    if experiment.higher:
        return f"{100 * experiment.margin:g} points of accuracy"
    return f"{100 * experiment.margin:g} % of {experiment.panels['test'].column.removeprefix('test_')}"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _table(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cell.replace('|', '∣') for cell in line)} |" for line in lines)
