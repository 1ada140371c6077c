"""Fuzzing: feed a target with random inputs for some time. Run by hand, for ten minutes a target.

    python tests/fuzzing.py labels 600

Prints how many inputs were tried and refused. An exception that the target does not expect is printed with the seed of
its input, which `python tests/fuzzing.py labels 0 SEED` repeats. Targets that read data sets are in reader_fuzzing.py.
"""

import copy
import json
import math
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from reader_fuzzing import READERS

Target = Callable[[random.Random], bool]
"""Tries one input. Returns whether it was accepted; raises what no user should see."""

TOKENS = [
    *("adam-plus", "sgd", "msgd", "nigt", "muon", "digits", "pydoc", "tones", "an4", ":", "=", ",", "[", "]", "(", ")"),
    *("lr", "beta", "momentum", "betas", "foreach", "norm_scope", "weight_decay", "params", "self", "lr=0.1", "=1e-3"),
    *("1e400", "-1", "0", "nan", "inf", "True", "None", "0x10", "1_000", "'a'", '"', "é", "𝛼", "\0", "\n", " ", "~"),
    *(
        ";",
        ";lr=",
        "-" * 9000,
        "1+" * 9000,
        "(" * 300,
        "/",
        "..",
        ".",
        ".py",
        "\\",
        "a" * 300,
        "{",
        "}",
        "%s",
        "lambda: 0",
        "__import__('os')",
        "task.py",
        "/dev/null",
    ),
]
SCALARS = [None, True, -1, 0, 1, 10**400, 0.5, math.nan, math.inf, -math.inf, "", "nan", "é\0", [], {}, [[]], {"": {}}]


def words(chance: random.Random) -> str:
    """A few tokens without anything between them."""
    return "".join(chance.choices(TOKENS, k=chance.randrange(1, 6)))


def mutated(content: Any, chance: random.Random) -> Any:
    """A copy of JSON with another value, key or length somewhere."""
    content = copy.deepcopy(content)
    place, parent = content, None
    while isinstance(place, (dict, list)) and place and (parent is None or chance.random() < 0.7):
        parent = place, chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
        place = parent[0][parent[1]]
    if parent is None:
        return chance.choice(SCALARS)
    inside, at = parent
    how = chance.randrange(4)
    if how == 0:
        del inside[at]
    elif how == 1 and isinstance(inside, dict):
        inside[words(chance)] = inside.pop(at)
    elif how == 2 and isinstance(place, (int, float)):
        inside[at] = chance.choice([-place, 0, 10**400, 10**9, 1e300, 1e-300])
    else:
        inside[at] = chance.choice(SCALARS)
    return content


def labels() -> Target:
    """Labels of contenders, as in --optimizers."""
    from adamplus.lab import InputError
    from adamplus.lab.optimizers import find, parse, try_out

    def attempt(chance: random.Random) -> bool:
        label = chance.choice(["adam-plus:", "sgd:", "muon:", "adam:", ""]) + words(chance)
        try:
            name, given = parse(label)
            contender, _ = find(name)
            try_out(contender, given, label, "cpu")
        except InputError:
            return False
        return True

    return attempt


def tasks() -> Target:
    """Names of tasks, and small files of Python."""
    from adamplus.lab import InputError
    from adamplus.lab.tasks import find

    folder = Path(tempfile.mkdtemp())
    lines = [
        "from adamplus.lab.tasks import Task", "import torch", "class Mine(Task):", "    epochs = 1", "    batch = 1j",
        "    def data(self): return {}", "    def model(self): return None", "class Other(Task): pass", "1/0", "(",
        "\0", "raise SystemExit", "x = 1", "Task = None", "import nothing",
        "é = 1", "\tpass", "class Mine(Mine): pass", "del Mine", "from . import this", "Mine = Mine()",
    ]  # fmt: skip

    def attempt(chance: random.Random) -> bool:
        name = words(chance)
        if chance.random() < 0.5:
            path = folder / f"task{chance.randrange(10**9)}.py"
            path.write_bytes("\n".join(chance.choices(lines, k=chance.randrange(8))).encode())
            name = str(path)
        try:
            find(name)
        except InputError:
            return False
        finally:
            if name.startswith(str(folder)):
                Path(name).unlink()
        return True

    return attempt


def runs() -> Target:
    """Files of stored runs with valid JSON and other content, as `adamplus report` reads them."""
    from lab.stores import three_contenders

    from adamplus.lab import InputError
    from adamplus.lab.report import read, report

    folder = Path(tempfile.mkdtemp())
    root = folder / "runs"
    three_contenders(root)
    files = [path for path in sorted(root.rglob("*")) if path.suffix in (".json", ".jsonl")]

    def attempt(chance: random.Random) -> bool:
        path = chance.choice(files)
        before = path.read_text()
        contents = [json.loads(line) for line in (before.splitlines() if path.suffix == ".jsonl" else [before])]
        for content in contents:
            content.pop("checksum", None)
        for _ in range(chance.randrange(1, 4)):
            i = chance.randrange(len(contents))
            contents[i] = mutated(contents[i], chance)
        path.write_text("".join(json.dumps(content) + "\n" for content in contents))
        try:
            report(root) if chance.random() < 0.005 else read(root)
        except InputError:
            return False
        finally:
            path.write_text(before)
        return True

    return attempt


def state() -> Target:
    """State dicts of Adam⁺."""
    from adamplus import AdamPlus

    def optimizer() -> Any:
        params = [torch.nn.Parameter(torch.ones(shape)) for shape in ((2, 3), (3,), ())]
        return AdamPlus([{"params": params[:2]}, {"params": params[2:], "lr": 0.3}], lr=0.1)

    return _states(optimizer)


def spectral() -> Target:
    """State dicts of SpectralPlus, with one buffer, with kept directions, and of signs."""
    from adamplus import SpectralPlus

    def optimizer() -> Any:
        params = [torch.nn.Parameter(torch.ones(shape)) for shape in ((2, 3), (2, 3), (3,))]
        matrices, kept, vectors = ({"params": [p]} for p in params)
        return SpectralPlus([matrices, {**kept, "keep_direction": True}, {**vectors, "geometry": "sign"}], lr=0.1)

    return _states(optimizer)


def _states(make: Callable[[], Any]) -> Target:
    """State dicts: one that is loaded can take a step, and one that is refused has changed nothing."""

    def optimizer() -> Any:
        made = make()
        for group in made.param_groups:
            for p in group["params"]:
                p.grad = torch.full_like(p, 0.5)
        return made

    first = optimizer()
    first.step()
    whole = first.state_dict()
    values = [
        *SCALARS, torch.zeros(()), torch.zeros(2, 3), torch.zeros(3, dtype=torch.int64), torch.full((3,), math.nan),
        torch.zeros(2, 3, dtype=torch.bool), torch.zeros(3).to_sparse(), torch.zeros(3, dtype=torch.complex64),
        torch.zeros(1), torch.tensor(-1.0), torch.tensor(math.inf), torch.zeros(3, device="meta"), torch.zeros(0),
    ]  # fmt: skip

    def attempt(chance: random.Random) -> bool:
        saved = copy.deepcopy(whole)
        for _ in range(chance.randrange(1, 3)):
            kind: Any = chance.choice(["state", "param_groups", "value", "whole"])
            if kind == "state" and saved["state"]:
                number = chance.choice(list(saved["state"]))
                saved["state"][number] = chance.choice([*values, {}, {"z": torch.zeros(2, 3)}])
            elif kind == "param_groups":
                group = chance.choice(saved["param_groups"])
                name = chance.choice([*group, "other"])
                if chance.random() < 0.2:
                    group.pop(name, None)
                else:
                    group[name] = chance.choice(values)
            elif kind == "value":
                number = chance.choice(list(whole["state"]))
                if isinstance(saved["state"].get(number), dict):
                    saved["state"][number][chance.choice(["z", "offset", "step", "direction", "other"])] = (
                        chance.choice(values)
                    )
            else:
                saved["state"][chance.choice([7, "0", None, -1])] = {}
        loaded = optimizer()
        loaded.step()
        before = json.dumps([str(loaded.state_dict()), str(loaded.param_groups)])
        try:
            with warnings.catch_warnings(action="ignore"):  # of another method's powers
                loaded.load_state_dict(saved)
        except (ValueError, TypeError, KeyError, RuntimeError):
            now = json.dumps([str(loaded.state_dict()), str(loaded.param_groups)])
            assert now == before, "a refused state has changed the optimizer"
            return False
        loaded.train()
        loaded.step()
        loaded.eval()
        return True

    return attempt


TARGETS: dict[str, Callable[[], Target]] = {
    "labels": labels,
    "tasks": tasks,
    "runs": runs,
    "state": state,
    "spectral": spectral,
    **READERS,
}


def fuzz(name: str, inputs: int, seconds: float, first: int = 0) -> tuple[Counter[str], dict[str, str]]:
    """Try inputs until their number or the time is reached. Returns how many were accepted and refused, and failures.

    The failures are the first of each exception and line, with the seed of the input.
    """
    attempt, did, failures, end = TARGETS[name](), Counter[str](), {}, time.monotonic() + seconds
    for seed in range(first, first + inputs):
        try:
            did["accepted" if attempt(random.Random(seed)) else "refused"] += 1
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
            failures.setdefault(where, f"seed {seed}: {str(error)[:300]}")
        if time.monotonic() >= end:
            break
    return did, failures


def main(name: str, seconds: str, seed: str | None = None) -> None:
    """Fuzz one target for some seconds, or with one seed."""
    if seed is not None:
        print("accepted" if TARGETS[name]()(random.Random(int(seed))) else "refused")
        return
    did, failures = fuzz(name, sys.maxsize, float(seconds))
    for where, what in failures.items():
        print(f"{where}: {what}")
    print(f"{name}: {dict(did)}, {len(failures)} failures")


if __name__ == "__main__":
    main(*sys.argv[1:])
