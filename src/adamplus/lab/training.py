"""One run: trains a model as a specification says, and keeps what happens in its folder."""

from ._spec import Spec
from ._store import Run


def train(spec: Spec, run: Run, checkpoint_every: float = 5.0) -> None:
    """Train from the run's checkpoint, if it has one, to the end that `run.end()` tells of."""
    raise NotImplementedError
