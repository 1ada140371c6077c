"""The page that compares every claim of the paper with what was measured."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ..data import SETS
from . import tables
from .claims import CLAIMS, Claim
from .experiments import EXPERIMENTS, NAMES
from .findings import Finding, together
from .readings import READINGS
from .request import ReproduceRequest
from .stored_runs import PAPER, Stored
from .tables import Everything, table

HEAD = """# The paper's experiments: results and claims

{conclusion}

{overview}

Each cell has the result of Adam⁺, its place among the optimizers that were run, and the best of the others. *Word for
word* is the paper's settings and budget. A *reading* is another choice of what the paper leaves open. *Tuned* gives
every optimizer the same search on held-out data. The [method](#method) is at the end.
"""
METHOD = """The page is made by `adamplus reproduce` from the newest stored run of each optimizer, setting and seed.

- **Protocols.** *paper* has the paper's settings and budget, and what the paper leaves open as declared at the end of
  this page. *tuned* first gives every optimizer the same search on held-out data. Endings name the budget:
  `quick` has a tenth of the epochs, and `N-epochs` has N.
- **Numbers** are means after the last epoch, ± standard error, over the n runs that finished. Test metrics, training
  perplexity and training loss are measured at w, the point that is shipped. Training accuracy is the running mean of
  an epoch, at ŵ.
- **Two points.** Adam⁺ and NIGT have w, an average of ŵ with BatchNorm statistics of its own, which is often far
  ahead of ŵ while rates are large. The other optimizers have one point, which is not averaged.
- **Figures** show means over seeds, with a band of one standard error. A single run has no band.
"""
RULES = """A claim is **reproduced** or **not reproduced** by runs with the paper's settings and budget, in the column
*paper*. Other columns say whether it holds with their settings. Outcomes follow from the runs by the rule below each
claim.

- *Better* and *worse*: means over seeds differ by more than the margin, {margins}. If both have several seeds, their
  95 % intervals must not overlap, either. An optimizer that diverged in every run is behind.
- *Comparable*: means differ by no more than the margin.
- (n = 1): an optimizer behind the outcome has one seed. Its mean is a single run.
- Runs with fewer epochs than the paper's get no verdict. Their numbers are below each claim.
- An outcome that is not in bold is about other data than the paper's, or by a rule that was made after measuring. Such
  rules are named below each claim.
- A claim that names several optimizers, metrics or data sets holds if it holds for each. One that names training
  perplexity must hold for both measurements of it, with dropout and without.
- If several settings of the paper were run, those with the best validation metric count. Without validation data, as
  in the paper's protocol for images and speech, those with the best test metric count.
- A claim is *open* if intervals overlap, or if some runs diverged and others did not, until there are more seeds. It
  is also open if some optimizers were run with more settings than others, and not all with all of the paper's
  settings, or if accuracies are so high that no optimizer can be ahead by the margin. A claim about a cause is open
  unless runs refute it.
- *No measure*: no measurement follows from the sentence, for the reason below the claim.
"""
READINGS_HEAD = """What the paper leaves open can be read in other ways. Each reading is a named option,
`adamplus reproduce --reading NAME`, whose runs are kept apart from those above. Readings in these tables:

{listed}

† The reading does not change this optimizer. The run is that of the protocol, or of those readings that change it.
"""


def page(stored: Everything, absent: Collection[str], figures: Sequence[Path], out: Path) -> str:
    """The page as Markdown.

    Args:
        stored: runs by folder and experiment.
        absent: names of experiments whose data is not there.
        figures: paths of the figures.
        out: folder of the reproduction.
    """
    words = {folder: experiments for folder, experiments in stored.items() if not _request(folder).is_reading}
    elsewhere = {claim: claim.elsewhere.judge(out) for claim in CLAIMS if claim.elsewhere is not None}
    findings = {
        folder: [_finding(claim, experiments, absent, elsewhere) for claim in CLAIMS]
        for folder, experiments in stored.items()
    }
    margins = ", ".join(sorted({_margin(name) for name in EXPERIMENTS}))
    conclusion = _conclusion(findings[PAPER], stored)
    parts = [HEAD.format(conclusion=conclusion, overview=tables.overview(stored, absent))]
    if images := [f"![{path.stem}](figures/{path.name})" for path in figures if path.suffix == ".png"]:
        parts += ["## Figures", *images]
    parts += ["## Results", tables.results(words)]
    if times := tables.times(words):
        parts += [
            "Training time (evaluation excluded) and epoch until a target is first reached, means over seeds:",
            times,
        ]
    parts += [tables.remarks(words)]
    if missing := tables.missing(stored, absent):
        parts += ["## What is missing", missing]
    judged = {folder: found for folder, found in findings.items() if _is_judged(folder)}
    parts += ["## The claims", RULES.format(margins=margins)]
    parts += [_summary({folder: found for folder, found in judged.items() if folder in words}, stored)]
    if other := {folder: experiments for folder, experiments in stored.items() if folder not in words}:
        parts += ["## Readings", READINGS_HEAD.format(listed=_readings(other)), tables.readings(other)]
        parts += [tables.remarks(other)]
        if full := {folder: found for folder, found in judged.items() if folder in other}:
            parts += [_summary(full, stored, with_runs=True)]
    parts += ["## Claim by claim", *(_claim(i, claim, findings, stored) for i, claim in enumerate(CLAIMS))]
    parts += ["## Method", METHOD, "## The runs", tables.groups(stored, out), tables.settings(stored), _declared()]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _request(folder: str) -> ReproduceRequest:
    request = ReproduceRequest.of_folder(folder)
    assert request is not None  # other folders are not read
    return request


def _is_judged(folder: str) -> bool:
    """Whether runs have the paper's budget."""
    return not _request(folder).shortened


def _readings(folders: Collection[str]) -> str:
    """List of the readings that some folder has."""
    names = [name for name in READINGS if any(name in _request(folder).reading for folder in folders)]
    lines = [f"- `{name}`: {READINGS[name].text}" for name in names]
    decays = sorted({_request(folder).weight_decay for folder in folders} - {0.0})
    return "\n".join([*lines, *(f"- `--weight-decay {decay:g}`: for every optimizer." for decay in decays)])


def _finding(
    claim: Claim, experiments: Mapping[str, Stored], absent: Collection[str], elsewhere: Mapping[Claim, Finding]
) -> Finding:
    """The finding on a claim. Missing runs are named only if the claim is about one experiment: the page lists them."""
    if claim in elsewhere:
        return elsewhere[claim]
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


def _conclusion(found: Sequence[Finding], stored: Everything) -> str:
    """The place of Adam⁺ word for word, its place otherwise, and the verdicts on the claims."""
    count = {"reproduced": 0, "not reproduced": 0, "open": 0, "not run yet": 0, "cannot be run": 0, "no measure": 0}
    single = 0
    for claim, finding in zip(CLAIMS, found, strict=True):
        text = _verdict_text(claim, finding, PAPER, stored[PAPER])
        if not claim.ours and not claim.post_hoc and (text.startswith("**") or text in count):
            count[finding.verdict] += 1
            single += text.startswith("**") and finding.seeds == 1
    rest = sum(claim.post_hoc for claim in CLAIMS)
    shown = tables.shown(stored)
    places = [tables.places({name: kinds[i] for name, kinds in shown.items()}) for i in range(3)]
    paper, reading, tuned = (f"Adam⁺ comes {text}" if text else "nothing has been compared" for text in places)
    return (
        f"With the paper's settings, {paper}, by the test metric. With the best of the other readings of the paper, "
        f"{reading}; after the same search for every optimizer, {tuned}. "
        f"The paper's claims: {count['reproduced']} reproduced and {count['not reproduced']} not reproduced, "
        f"{single} of these by single runs; {count['open']} open, {count['not run yet']} not run yet, "
        f"{count['cannot be run']} that need licensed data or other hardware, {count['no measure']} without anything "
        f"to measure, and {rest} without a verdict, because their rules were made after the measurements. "
        f"{sum(claim.ours for claim in CLAIMS)} more are about experiments that the paper does not have."
    )


def _summary(findings: Mapping[str, Sequence[Finding]], stored: Everything, *, with_runs: bool = False) -> str:
    """Table of the outcomes, of all claims or of those about experiments with runs."""
    lines = [["claim", "section", *findings]]
    for i, claim in enumerate(CLAIMS):
        if with_runs and not any(_has_runs(claim, stored[folder]) for folder in findings):
            continue
        verdicts = [_verdict_text(claim, own[i], folder, stored[folder]) for folder, own in findings.items()]
        lines.append([f"{i + 1}. {claim.title}", claim.section, *verdicts])
    return table(lines)


def _verdict_text(claim: Claim, finding: Finding, folder: str, experiments: Mapping[str, Stored]) -> str:
    """The verdict as text, in bold if it answers the paper, which makes no claim about other data and settings."""
    if not _answers(claim, folder):
        return "–"
    if finding.verdict not in ("reproduced", "not reproduced"):
        return finding.verdict
    single = " (n = 1)" if finding.seeds == 1 else ""
    others = any(experiments[name].unofficial for name in claim.experiments)
    if folder == PAPER and not claim.ours and not claim.post_hoc and not others:
        return f"**{finding.verdict}**{single}"
    return ("holds" if finding.verdict == "reproduced" else "does not hold") + single


def _unequal(stored: Stored) -> str:
    """The reason why a tuned comparison is not fair; empty if it is."""
    trials = {NAMES[name]: one.trials for name, one in stored.contenders.items()}
    if not stored.tuned or len(set(trials.values())) < 2:
        return ""
    return "searches of different lengths: " + ", ".join(f"{name} {number} trials" for name, number in trials.items())


def _claim(i: int, claim: Claim, findings: Mapping[str, Sequence[Finding]], stored: Everything) -> str:
    rules = list(dict.fromkeys(f"{', '.join(_about(claim, rule.text))}: {rule.text}" for _, rule in claim.rules))
    place = claim.section if claim.section == "abstract" else f"section {claim.section}"
    lines = [f"### {i + 1}. {claim.title}", f"> {claim.sentence} ({place})", claim.note]
    lines += [f"- Rule: {claim.elsewhere.text}."] if claim.elsewhere is not None else []
    lines.append("\n".join(f"- Rule, on {rule}." for rule in rules))
    results = []
    for folder, own in findings.items():
        verdict = _verdict_text(claim, own[i], folder, stored[folder]) if _is_judged(folder) else "no verdict"
        if folder == PAPER or (own[i].measured and _answers(claim, folder) and _has_runs(claim, stored[folder])):
            results.append(f"- *{folder}*: {verdict}. {own[i].measured}".rstrip())
    return "\n\n".join(filter(None, [*lines, "\n".join(results)]))


def _answers(claim: Claim, folder: str) -> bool:
    """Whether runs of a folder can say anything about a claim."""
    return folder == PAPER or not (claim.elsewhere is not None or (claim.of_settings and _request(folder).tuned))


def _has_runs(claim: Claim, experiments: Mapping[str, Stored]) -> bool:
    return any(experiments[name].contenders for name in claim.experiments)


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
