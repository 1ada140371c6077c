"""CIFAR is read from either layout, packed or not; damaged files are reported with their name and problem."""

import os
import pickle
import tarfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from data.writers import images, pack, pickled, write_cifar

from adamplus.lab.data.readers import cifar, pickles
from adamplus.lab.errors import InputError

Name = Literal["cifar10", "cifar100"]
ARCHIVES = {
    ("cifar10", "python"): "cifar-10-python.tar.gz",
    ("cifar10", "binary"): "cifar-10-binary.tar.gz",
    ("cifar100", "python"): "cifar-100-python.tar.gz",
    ("cifar100", "binary"): "cifar-100-binary.tar.gz",
}


def same(a: cifar.ImageSet, b: cifar.ImageSet) -> bool:
    return all(torch.equal(x, y) for one, other in zip(a, b, strict=True) for x, y in zip(one, other, strict=True))


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_both_layouts_hold_the_same_images_and_labels(name: Name, tmp_path: Path):
    write_cifar(tmp_path / "a", name, "python")
    write_cifar(tmp_path / "b", name, "binary")
    found = cifar.read(name, tmp_path / "a")
    batches, classes = (5, 10) if name == "cifar10" else (1, 100)
    assert found.train.images.shape == (3 * batches, 3, 32, 32)
    assert (found.train.images.dtype, found.train.labels.dtype) == (torch.uint8, torch.int64)
    data, labels = images(3, classes, seed=0)
    assert found.train.images[:3].flatten(1).tolist() == data.tolist()
    assert found.train.labels[:3].tolist() == labels
    data, labels = images(3, classes, seed=batches)
    assert found.test.images.flatten(1).tolist() == data.tolist()
    assert same(found, cifar.read(name, tmp_path / "b"))


@pytest.mark.parametrize(("name", "layout"), ARCHIVES)
def test_the_official_archive_alone_is_enough(name: Name, layout: str, tmp_path: Path):
    folder = write_cifar(tmp_path / "a", name, layout)
    (tmp_path / "b").mkdir()
    pack(folder, tmp_path / "b" / ARCHIVES[name, layout])
    assert same(cifar.read(name, tmp_path / "a"), cifar.read(name, tmp_path / "b"))


def test_the_folder_of_the_files_may_be_the_root(tmp_path: Path):
    folder = write_cifar(tmp_path)
    assert same(cifar.read("cifar10", tmp_path), cifar.read("cifar10", folder))


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_pickles_rewritten_by_python_3_are_read(protocol: int, tmp_path: Path):
    folder = write_cifar(tmp_path)
    data, labels = images(3, 10)
    (folder / "data_batch_1").write_bytes(pickle.dumps({"data": data, "labels": labels}, protocol))
    assert cifar.read("cifar10", tmp_path).train.images[:3].flatten(1).tolist() == data.tolist()


class Command:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, ("echo run > /dev/null",)


class Evaluated:
    """Runs Python when it is unpickled."""

    def __reduce__(self) -> Any:
        return eval, ("1 + 1",)


@pytest.mark.parametrize(
    ("thing", "name"),
    [(Command(), f"{os.name}.system"), (Evaluated(), "builtins.eval"), (np.random.default_rng(0), "numpy.random")],
)
def test_pickles_that_import_more_than_arrays_are_refused_by_name(thing: object, name: str, tmp_path: Path):
    folder = write_cifar(tmp_path)
    (folder / "data_batch_3").write_bytes(pickle.dumps({"data": thing}))
    with pytest.raises(InputError, match=f"data_batch_3: this pickle imports {name}"):
        cifar.read("cifar10", tmp_path)


def test_codecs_and_object_arrays_are_refused(tmp_path: Path):
    folder = write_cifar(tmp_path)
    codec = b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R."
    for content, problem in (
        (codec, "_codecs.encode"),
        (pickle.dumps(np.array([None])), "numpy.dtype"),
        (b"\x80\x02cnumpy\nndarray\nK\x03\x85R.", "this pickle calls numpy.ndarray"),
    ):
        (folder / "data_batch_3").write_bytes(content)
        with pytest.raises(InputError, match=problem):
            cifar.read("cifar10", tmp_path)


class Flagged:
    """An array of bytes whose dtype state claims Python objects or other sizes."""

    def __init__(self, *state: Any) -> None:
        self.state = state

    def __reduce__(self) -> Any:
        made = np.zeros(3, np.uint8).__reduce__()
        return made[0], made[1], (1, (8,), FlaggedType(self.state), False, bytes(8))


class FlaggedType:
    def __init__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def __reduce__(self) -> Any:
        return np.dtype, ("u1", False, True), self.state


@pytest.mark.parametrize("state", [(3, "|", None, None, None, -1, -1, 63), (3, "|", None, None, None, 800, 8, 0)])
def test_memory_flags_in_a_pickle_are_ignored(state: tuple[Any, ...]):
    read = pickles.load(pickle.dumps(Flagged(*state)), "somewhere")
    assert read.dtype == np.uint8
    assert read.tolist() == [0] * 8
    assert not read.dtype.hasobject


@pytest.mark.parametrize("dtype", ["<i8", ">i8", ">u2", "|u1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_either_byte_order_and_layout_are_read(dtype: str, order: Any):
    array = np.arange(6).astype(dtype).reshape(2, 3, order=order)
    assert pickles.load(pickle.dumps(array, 2), "somewhere").tolist() == array.tolist()


DATA, LABELS = images(3, 10)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (pickled(DATA, LABELS)[:-2000], " is not a complete pickle"),
        (b"", " is not a complete pickle"),
        (b"<html>Not found</html>", " is not a complete pickle"),
        (pickle.dumps([1, 2]), ": the pickle must hold a dictionary, got list"),
        (pickle.dumps({"data": DATA}), " has no 'labels'; it has data"),
        (pickle.dumps({"labels": LABELS}), " has no 'data'; it has labels"),
        (pickled(DATA, [1, 2, 10]), r": labels must be 0 to 9 \(up to 99 in CIFAR-100\), got 10 for image 2"),
        (pickle.dumps({"data": DATA, "labels": [0, -1, 0]}), ": .*, got -1 for image 1"),
        (pickled(DATA, [1, 2]), r" has 3 images, but labels of shape \[2\]"),
        (pickle.dumps({"data": DATA, "labels": ["cat", "dog", "cow"]}), ": 'labels' must be a list of whole numbers"),
        (
            pickle.dumps({"data": DATA, "labels": [0.5, 1.0, 2.0]}),
            ": .*a list of whole numbers, got a float in it",
        ),
        (pickle.dumps({"data": DATA, "labels": None}), ": 'labels' must be a list of whole numbers"),
        (pickle.dumps({"data": DATA, "labels": [[1], [2, 3], [4]]}), ": 'labels' must be a list of whole numbers"),
        (
            pickle.dumps({"data": DATA[:, :-1], "labels": LABELS}),
            r": .*\[images, 3072\], got uint8, \(3, 3071\)",
        ),
        (pickle.dumps({"data": DATA.astype(np.float32), "labels": LABELS}), ": .*, got float32"),
        (pickle.dumps({"data": DATA.tolist(), "labels": LABELS}), ": .*, got list"),
        (pickled(DATA[:0], []), " has no images"),
    ],
)
def test_damaged_pickles_are_reported(content: bytes, problem: str, tmp_path: Path):
    folder = write_cifar(tmp_path)
    (folder / "data_batch_2").write_bytes(content)
    with pytest.raises(InputError, match=f"data_batch_2{problem}"):
        cifar.read("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (bytes(3073)[:-1], " is cut off: an image has 3,073 bytes, and 3,072 are not a multiple of that"),
        (b"", " has no images"),
        (bytes([10]) + bytes(3072), ": .*, got 10 for image 0"),
    ],
)
def test_damaged_binary_files_are_reported(content: bytes, problem: str, tmp_path: Path):
    folder = write_cifar(tmp_path, layout="binary")
    (folder / "test_batch.bin").write_bytes(content)
    with pytest.raises(InputError, match=f"test_batch.bin{problem}"):
        cifar.read("cifar10", tmp_path)


def test_labels_of_the_other_cifar_are_reported(tmp_path: Path):
    folder = write_cifar(tmp_path, "cifar100")
    data, _labels = images(3, 100)
    (folder / "train").write_bytes(pickled(data, [3, 4, 100], "fine_labels"))
    with pytest.raises(InputError, match=r"must be 0 to 99, got 100 for image 2\. To replace it by the official"):
        cifar.read("cifar100", tmp_path)
    folder = write_cifar(tmp_path)
    (folder / "data_batch_1").write_bytes(pickled(data, [3, 4, 99], "labels"))
    with pytest.raises(InputError, match=r"must be 0 to 9 \(up to 99 in CIFAR-100\), got 99 for image 2\. To"):
        cifar.read("cifar10", tmp_path)


def test_damaged_archives_are_reported(tmp_path: Path):
    folder = write_cifar(tmp_path / "a")
    archive = pack(folder, tmp_path / "cifar-10-python.tar.gz")
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz cannot be read as an archive"):
        cifar.read("cifar10", tmp_path)
    (folder / "data_batch_4").unlink()
    pack(folder, archive)
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz has no data_batch_4"):
        cifar.read("cifar10", tmp_path)
    for content in (b"", b"\xfd7zXZ\0" + bytes(64), b"BZh9" + bytes(64)):
        archive.write_bytes(content)
        with pytest.raises(InputError, match="cannot be read"):
            cifar.read("cifar10", tmp_path)


def test_only_the_official_folder_of_an_archive_is_read(tmp_path: Path):
    folder = write_cifar(tmp_path / "a")
    archive = tmp_path / "cifar-10-python.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, folder.name)
        packed.add(folder / "test_batch", "elsewhere/data_batch_1")
        packed.add(folder / "test_batch", f"elsewhere/{folder.name}/data_batch_1")
        packed.add(folder / "test_batch", "data_batch_1")
    assert torch.equal(cifar.read("cifar10", tmp_path).train.images, cifar.read("cifar10", tmp_path / "a").train.images)


def test_an_archive_whose_names_begin_with_a_dot_is_read(tmp_path: Path):
    folder = write_cifar(tmp_path / "a")
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as packed:
        packed.add(folder.parent, ".")
    assert same(cifar.read("cifar10", tmp_path), cifar.read("cifar10", tmp_path / "a"))


def test_too_large_files_of_an_archive_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pack(write_cifar(tmp_path / "a"), tmp_path / "cifar-10-python.tar.gz")
    monkeypatch.setattr(cifar, "LARGEST", 100)
    with pytest.raises(InputError, match="more than any file of CIFAR"):
        cifar.read("cifar10", tmp_path)
