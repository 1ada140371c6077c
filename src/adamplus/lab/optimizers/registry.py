"""The optimizers that comparisons know by name: one line of registration for each."""

import hashlib
import inspect
from collections.abc import Iterable
from pathlib import Path

from torch.optim import SGD, Adagrad, Adam, AdamW, RAdam, RMSprop

from adamplus import NIGT, AdamPlus, NAdamPlus

from .._store import digest, load_file, own_digest
from ..errors import InputError, nearest
from .contender import Contender, LogUniform
from .lion import Lion
from .muon import MuonAdamW
from .schedule_free import schedule_free_adamw, schedule_free_sgd
from .spectral import spectral_plus

CAPTURABLE = {"capturable": True}
FUSED = {"fused": True}
BOTH, RATE = ("lr", "beta"), ("lr",)
SPECTRAL = {"lr": LogUniform(0.0012, 0.36)}

CONTENDERS: dict[str, Contender] = {
    contender.name: contender
    for contender in (
        Contender("adam-plus", AdamPlus, {"lr": LogUniform(0.1, 30)}, {"beta": 0.1}, {}, BOTH),
        Contender("nadam-plus", NAdamPlus, {"lr": LogUniform(0.2, 60)}, {"beta": 0.1}, {}, BOTH),
        Contender("nigt", NIGT, {"lr": LogUniform(0.005, 1.5)}, {"momentum": 0.9}, {}, BOTH),
        Contender("sgd", SGD, {"lr": LogUniform(0.05, 15)}, {}, FUSED, RATE),
        Contender("msgd", SGD, {"lr": LogUniform(0.01, 3)}, {"momentum": 0.9}, FUSED, RATE),
        Contender("adagrad", Adagrad, {"lr": LogUniform(0.001, 0.3)}),
        Contender("adam", Adam, {"lr": LogUniform(2e-4, 0.06)}, {}, FUSED | CAPTURABLE, RATE),
        Contender("adamw", AdamW, {"lr": LogUniform(2e-4, 0.06)}, {}, FUSED | CAPTURABLE, RATE),
        Contender("amsgrad", Adam, {"lr": LogUniform(2e-4, 0.06)}, {"amsgrad": True}, FUSED | CAPTURABLE, RATE),
        Contender("rmsprop", RMSprop, {"lr": LogUniform(1e-4, 0.03)}, {}, CAPTURABLE, RATE),
        Contender("radam", RAdam, {"lr": LogUniform(5e-4, 0.15)}, {}, CAPTURABLE, RATE),
        Contender("lion", Lion, {"lr": LogUniform(3e-5, 0.009)}, {}, {}, RATE),
        Contender("muon", MuonAdamW, {"lr": LogUniform(2e-4, 0.06)}, of_model=True),
        Contender("spectral-plus", spectral_plus, SPECTRAL, {}, CAPTURABLE, BOTH, of_model=True),
        Contender("scion", spectral_plus, SPECTRAL, {"lookahead": 0.0}, CAPTURABLE, BOTH, of_model=True),
        Contender("schedule-free-sgd", schedule_free_sgd, {"lr": LogUniform(0.2, 60)}),
        Contender("schedule-free-adamw", schedule_free_adamw, {"lr": LogUniform(3e-4, 0.1)}),
    )
}
"""All known contenders, by name."""


HERE = Path(__file__).parent
SHARED = (HERE / "contender.py", HERE / "routing.py")
"""Code of every optimizer. Other files are those of single optimizers, or choose among them."""


def find(name: str) -> tuple[Contender, str]:
    """The contender of that name or in that file, with the digest of the code that it is built, stepped and run by."""
    if name.endswith(".py"):
        module = load_file(Path(name), "an optimizer")
        contender = getattr(module, "contender", None)
        if not isinstance(contender, Contender):
            raise InputError(
                f"{name} must define `contender`: write contender = Contender(name, build, search), "
                "as in docs/extending.md"
            )
        files = sorted({*HERE.glob("*.py")} - {Path(__file__), HERE / "parsing.py"})  # it may use any of them
        return contender, _digest(digest(Path(name)), files)
    if name not in CONTENDERS:
        raise InputError(f"unknown optimizer {name!r}: {nearest(name, CONTENDERS)}")
    contender = CONTENDERS[name]
    files = [Path(inspect.getfile(contender.build)), *SHARED]
    how = (contender.build.__qualname__, contender.captured, contender.tensors, contender.of_model)
    return contender, _digest(repr(how), [file for file in files if file.parent == HERE])


def _digest(definition: str, files: Iterable[Path]) -> str:
    """Digest of an optimizer's definition, of files of this folder, and of the code that decides the numbers of all."""
    return hashlib.sha256("".join([definition, *map(digest, files), own_digest()]).encode()).hexdigest()
