"""The choice from the paper's grid by validation after a few epochs, as `--choose-after` stores it beside the runs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .._store import read_json, write_json
from ..errors import InputError

FILE = "choice.json"


@dataclass(frozen=True)
class Choice:
    """The chosen settings of each optimizer."""

    epochs: int
    """The number of epochs of the runs that the settings were chosen by."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The label of the chosen contender, by optimizer."""
    tried: Mapping[str, int] = field(default_factory=dict)
    """The number of points of the grid among which it was chosen, by optimizer."""


def save(root: Path, choice: Choice) -> None:
    """Store a choice. Earlier choices of other optimizers are kept if they were made after as many epochs."""
    before = load(root)
    if before is not None and before.epochs == choice.epochs:
        labels, tried = {**before.labels, **choice.labels}, {**before.tried, **choice.tried}
        choice = Choice(choice.epochs, labels, tried)
    root.mkdir(parents=True, exist_ok=True)
    write_json(root / FILE, asdict(choice))


def load(root: Path) -> Choice | None:
    """The stored choice; None if there is none."""
    if not (root / FILE).exists():
        return None
    try:
        content = read_json(root / FILE)
        labels = {str(name): str(label) for name, label in content["labels"].items()}
        return Choice(int(content["epochs"]), labels, {str(name): int(n) for name, n in content["tried"].items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{root / FILE} cannot be read ({type(error).__name__}: {error}): remove it, or choose again"
        ) from error
