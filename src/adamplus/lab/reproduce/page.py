"""The page that compares every claim of the paper with what was measured."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ..data import SETS
from . import tables
from .claims import CLAIMS, Claim
from .experiments import EXPERIMENTS, NAMES
from .rules import Finding, together
from .stored_runs import PAPER, Stored
from .tables import Everything, table

HEAD = """# The paper's experiments: results, and its claims beside them

Made by `adamplus reproduce` from the runs that are stored, the newest of each. *paper* is the paper's settings word
for word and its budget; endings say what differs: `quick` a tenth of the epochs, `N-epochs` that many, `decay-X` a
weight decay, of which the paper says nothing. *tuned* gives every optimizer the same search on held-out data first.
Numbers are means after the last epoch, ± standard error, over the n runs that finished; test metrics are of the point
that one ships (w), and so is training perplexity and loss; training accuracy is the running mean of an epoch, at ŵ.
Adam⁺ and NIGT have two points: w is an average of ŵ, with BatchNorm statistics measured there, and often far ahead of ŵ
while rates are large; the others have one, and nobody averaged theirs.
"""
RULES = """The claims are of the paper's settings and budget: there they are **reproduced** or **not reproduced**. Other
runs say whether they hold with those settings and epochs. Outcomes follow from the runs by the rule below each claim.
*Better* and *worse*: means over seeds differ by more than the margin, {margins}; and, where both have several seeds,
95 % intervals do not overlap; where these do, or where some runs diverged and others did not, the claim is *open* until
there are more seeds. *Comparable*: means differ by no more than the margin. With one seed, means are single runs. A
claim that names several optimizers, metrics or data sets holds where it holds for each. Who diverged in every run is
behind. Of several settings of the paper that were run, those with the best validation metric count; where there is no
validation data, as in the paper's protocol for images and speech, those with the best test metric. Where some have had
more settings than others, and not everybody all of the paper's, the claim is *open*; and so it is where accuracies are
so high that nobody can be ahead by the margin.
"""


def page(stored: Everything, absent: Collection[str], figures: Sequence[Path], out: Path) -> str:
    """The page as Markdown.

    Args:
        stored: runs by folder and experiment.
        absent: names of experiments whose data is not there.
        figures: paths of the figures.
        out: folder of the reproduction.
    """
    findings = {
        folder: [_finding(claim, experiments, absent) for claim in CLAIMS] for folder, experiments in stored.items()
    }
    margins = ", ".join(sorted({_margin(name) for name in EXPERIMENTS}))
    parts = [HEAD, tables.results(stored)]
    if times := tables.times(stored):
        parts += [
            "Training time (evaluation excluded) and epoch until a target is first reached, means over seeds:",
            times,
        ]
    parts += [tables.remarks(stored)]
    if missing := tables.missing(stored, absent):
        parts += ["## What is missing", missing]
    parts += ["## The claims", RULES.format(margins=margins), _summary(findings, stored)]
    if images := [f"![{path.stem}](figures/{path.name})" for path in figures if path.suffix == ".png"]:
        parts += ["## Figures", *images]
    parts += ["## Claim by claim", *(_claim(i, claim, findings, stored) for i, claim in enumerate(CLAIMS))]
    parts += ["## The runs", tables.groups(stored, out), tables.settings(stored), _declared()]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _finding(claim: Claim, experiments: Mapping[str, Stored], absent: Collection[str]) -> Finding:
    """The finding on a claim. Missing runs are named only if the claim is about one experiment: the page lists them."""
    found: dict[str, Finding] = {}
    for name in claim.experiments:
        if experiments[name].contenders:
            rules = [rule for experiment, rule in claim.rules if experiment == name]
            found[name] = together(rule.judge(experiments[name]) for rule in rules)
            if unequal := _unequal(experiments[name]):
                found[name] = Finding("open", f"{unequal}; {found[name].measured}")
        elif name in absent and not SETS[name].ways:
            found[name] = Finding("cannot be run", tables.licensed(name))
        else:
            found[name] = Finding("not run yet", "")
    if len(found) == 1:
        return found[claim.experiments[0]]
    texts = {name: one.measured if experiments[name].contenders else one.verdict for name, one in found.items()}
    text = "; ".join(f"{name}: {part}" for name, part in texts.items() if part)
    some = any(one.measured and experiments[name].contenders for name, one in found.items())
    return together(found.values())._replace(measured=text if some else "")


def _summary(findings: Mapping[str, Sequence[Finding]], stored: Everything) -> str:
    lines = [["claim", "section", *findings]]
    for i, claim in enumerate(CLAIMS):
        verdicts = [_verdict_text(claim, own[i].verdict, folder, stored[folder]) for folder, own in findings.items()]
        lines.append([f"{i + 1}. {claim.title}", claim.section, *verdicts])
    return table(lines)


def _verdict_text(claim: Claim, verdict: str, folder: str, experiments: Mapping[str, Stored]) -> str:
    """The verdict as text, in bold if it answers the paper, which claims nothing of other data, settings and epochs."""
    if verdict not in ("reproduced", "not reproduced"):
        return verdict
    others = any(experiments[name].unofficial for name in claim.experiments)
    if folder == PAPER and not claim.ours and not others:
        return f"**{verdict}**"
    return "holds" if verdict == "reproduced" else "does not hold"


def _unequal(stored: Stored) -> str:
    """The reason why a tuned comparison is not fair; empty if it is."""
    trials = {NAMES[name]: one.trials for name, one in stored.contenders.items()}
    if not stored.tuned or len(set(trials.values())) < 2:
        return ""
    return "searches of different lengths: " + ", ".join(f"{name} {number} trials" for name, number in trials.items())


def _claim(i: int, claim: Claim, findings: Mapping[str, Sequence[Finding]], stored: Everything) -> str:
    rules = list(dict.fromkeys(f"{', '.join(_about(claim, rule.text))}: {rule.text}" for _, rule in claim.rules))
    lines = [f"### {i + 1}. {claim.title}", f"> {claim.sentence} (section {claim.section})", claim.note]
    lines.append("\n".join(f"- Rule, on {rule}." for rule in rules))
    results = [
        f"- *{folder}*: {_verdict_text(claim, own[i].verdict, folder, stored[folder])}. {own[i].measured}".rstrip()
        for folder, own in findings.items()
    ]
    return "\n\n".join(filter(None, [*lines, "\n".join(results)]))


def _about(claim: Claim, text: str) -> list[str]:
    return [name for name, rule in claim.rules if rule.text == text]


def _declared() -> str:
    """List of the settings that the paper leaves open."""
    declared = [
        f"- {experiment.title}, {NAMES[optimizer]}: {settings.declared}."
        for experiment in EXPERIMENTS.values()
        for optimizer, settings in experiment.settings.items()
        if settings.declared
    ]
    return "What the paper leaves open, and is declared here (`docs/reproduce.md` has the rest):\n\n" + "\n".join(
        declared
    )


def _margin(name: str) -> str:
    experiment = EXPERIMENTS[name]
    if experiment.higher:
        return f"{100 * experiment.margin:g} points of accuracy"
    return f"{100 * experiment.margin:g} % of {experiment.panels['test'].column.removeprefix('test_')}"
