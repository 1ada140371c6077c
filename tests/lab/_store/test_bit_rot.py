"""A bit that flips in a stored file is found, or changes nothing that is read."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from blob_runs import spec
from torch import Tensor

from adamplus.lab._store.checksums import parse_json, read_json, signed
from adamplus.lab._store.files import write_json
from adamplus.lab._store.store import CHECKPOINT, END, METRICS, SETTINGS, CorruptError, Run
from adamplus.lab.engines.training import train


def flipped(content: bytes, place: int, bit: int) -> bytes:
    changed = bytearray(content)
    changed[place] ^= 1 << bit
    return bytes(changed)


def same(one: Any, other: Any) -> bool:
    """Whether two checkpoints are equal, with bits of tensors compared as they are."""
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def undetected(path: Path, read: Callable[[], Any]) -> list[tuple[int, int]]:
    """The flips, one in each byte of a file, after which something else is read, as places and bits."""
    content, before, missed = path.read_bytes(), read(), []
    for place in range(len(content)):
        path.write_bytes(flipped(content, place, bit := place % 8))
        try:
            if not same(read(), before):
                missed.append((place, bit))
        except CorruptError:
            pass
    path.write_bytes(content)
    return missed


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run(tmp_path_factory.mktemp("store") / "run")
    train(spec(), run)
    return run


@pytest.mark.parametrize("name", [SETTINGS, END, METRICS])
def test_no_flipped_bit_changes_what_is_read_of_a_finished_run(finished: Run, name: str):
    def read() -> Any:
        end, lines = finished.result(spec())
        return [finished.settings(), end, *lines]

    assert undetected(finished.folder / name, read) == []


def test_no_flipped_bit_changes_what_is_read_of_a_diverged_run(tmp_path: Path):
    run = Run(tmp_path)
    run.begin({"spec": spec().to_json()})
    run.append({"epoch": 1, "test_loss": 0.5})
    run.append({"epoch": 2, "test_loss": math.inf})
    run.finish({"status": "diverged", "reason": "test_loss is inf in epoch 2"})
    assert undetected(tmp_path / METRICS, lambda: run.result(spec())[1]) == []


def test_no_flipped_bit_changes_what_is_read_of_a_checkpoint(tmp_path: Path):
    """The checksums inside of the file would not do: torch reads zeros for a tensor that is marked as a folder."""
    run = Run(tmp_path)
    run.save({"epoch": 1, "learner": {"weight": torch.arange(3.0), "step": torch.tensor(1.0), "seconds": 0.5}})
    assert undetected(tmp_path / CHECKPOINT, run.checkpoint) == []


def test_what_an_earlier_version_wrote_has_no_checksum_and_is_read(tmp_path: Path):
    run = Run(tmp_path)
    (tmp_path / SETTINGS).write_text(json.dumps({"spec": {**spec().to_json(), "epochs": 1}}))
    (tmp_path / METRICS).write_text('{"epoch": 1, "test_loss": NaN}\n')
    (tmp_path / END).write_text('{"status": "finished"}')
    torch.save({"epoch": 1}, tmp_path / CHECKPOINT)
    end, (line,) = run.result(spec(epochs=1))
    assert (end, list(line), run.checkpoint()) == ({"status": "finished"}, ["epoch", "test_loss"], {"epoch": 1})


def test_an_earlier_version_reads_what_is_written_now(tmp_path: Path):
    run = Run(tmp_path)
    run.append({"epoch": 1})
    run.save({"epoch": 1})
    assert torch.load(tmp_path / CHECKPOINT, weights_only=True) == {"epoch": 1}
    assert json.loads((tmp_path / METRICS).read_text())["epoch"] == 1


def test_a_checksum_does_not_depend_on_layout_or_types_that_json_lacks(tmp_path: Path):
    content = {"b": (1, 2.5), "a": {1: None, "ü": math.inf}, "n": math.nan}
    write_json(tmp_path / "file.json", content)
    kept = read_json(tmp_path / "file.json")
    assert repr(kept) == repr({"b": [1, 2.5], "a": {"1": None, "ü": math.inf}, "n": math.nan})
    assert parse_json(json.dumps(kept := signed({"b": 1, "a": 2}), sort_keys=True)) == {"a": 2, "b": 1} != kept
    write_json(tmp_path / "again.json", signed(content))  # a checksum that is there already is not part of the content
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "file.json").read_bytes()


NESTED = "[" * 100_000


@pytest.mark.parametrize("name", [SETTINGS, END, METRICS])
@pytest.mark.parametrize("content", [NESTED, '{"a": ' + NESTED, '{"epoch": 1}' + NESTED])
def test_deeply_nested_json_is_damage(finished: Run, name: str, content: str):
    path = finished.folder / name
    before = path.read_bytes()
    path.write_text(content + "\n")
    with pytest.raises(CorruptError, match=f"{name} cannot be read"):
        finished.result(spec())
    path.write_bytes(before)
