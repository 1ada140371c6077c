"""CIFAR is read from either layout, packed or not; damaged files are told by name and problem."""

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
def test_the_official_archive_alone_will_do(name: Name, layout: str, tmp_path: Path):
    folder = write_cifar(tmp_path / "a", name, layout)
    (tmp_path / "b").mkdir()
    pack(folder, tmp_path / "b" / ARCHIVES[name, layout])
    assert same(cifar.read(name, tmp_path / "a"), cifar.read(name, tmp_path / "b"))


def test_the_folder_itself_may_be_named(tmp_path: Path):
    folder = write_cifar(tmp_path)
    assert same(cifar.read("cifar10", tmp_path), cifar.read("cifar10", folder))


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_batches_that_python_3_wrote_anew_are_read(protocol: int, tmp_path: Path):
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
def test_pickles_that_ask_for_more_than_arrays_are_refused_by_name(thing: object, name: str, tmp_path: Path):
    folder = write_cifar(tmp_path)
    (folder / "data_batch_3").write_bytes(pickle.dumps({"data": thing}))
    with pytest.raises(InputError, match=f"data_batch_3: this pickle asks for {name}"):
        cifar.read("cifar10", tmp_path)


def test_codecs_and_object_arrays_are_no_way_around(tmp_path: Path):
    folder = write_cifar(tmp_path)
    codec = b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R."
    for content, asked in (
        (codec, "_codecs.encode"),
        (pickle.dumps(np.array([None])), "numpy.dtype"),
        (b"\x80\x02cnumpy\nndarray\nK\x03\x85R.", "no whole pickle"),  # nothing that can be called
    ):
        (folder / "data_batch_3").write_bytes(content)
        with pytest.raises(InputError, match=asked):
            cifar.read("cifar10", tmp_path)


class Flagged:
    """An array of bytes whose type claims, in its state, to hold Python objects or other sizes."""

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
def test_what_a_pickle_says_of_numpys_memory_is_not_taken_over(state: tuple[Any, ...]):
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
        (pickled(DATA, LABELS)[:-2000], "no whole pickle"),
        (b"", "no whole pickle"),
        (b"<html>Not found</html>", "no whole pickle"),
        (pickle.dumps([1, 2]), "holds a list"),
        (pickle.dumps({"data": DATA}), "no 'labels'; it has data"),
        (pickle.dumps({"labels": LABELS}), "no 'data'; it has labels"),
        (pickled(DATA, [1, 2, 10]), "image 2 has the label 10, and labels are 0 to 9"),
        (pickle.dumps({"data": DATA, "labels": [0, -1, 0]}), "image 1 has the label -1"),
        (pickled(DATA, [1, 2]), r"3 images, and labels of the shape \[2\]"),
        (pickle.dumps({"data": DATA, "labels": ["cat", "dog", "cow"]}), "list of whole numbers"),
        (pickle.dumps({"data": DATA, "labels": [0.5, 1.0, 2.0]}), "list of whole numbers, and holds float64"),
        (pickle.dumps({"data": DATA, "labels": None}), "list of whole numbers"),
        (pickle.dumps({"data": DATA, "labels": [[1], [2, 3], [4]]}), "list of whole numbers"),
        (pickle.dumps({"data": DATA[:, :-1], "labels": LABELS}), r"\[images, 3072\], and is uint8, \(3, 3071\)"),
        (pickle.dumps({"data": DATA.astype(np.float32), "labels": LABELS}), "is float32"),
        (pickle.dumps({"data": DATA.tolist(), "labels": LABELS}), "is list"),
        (pickled(DATA[:0], []), "there is no image"),
    ],
)
def test_damaged_pickles_are_told(content: bytes, problem: str, tmp_path: Path):
    folder = write_cifar(tmp_path)
    (folder / "data_batch_2").write_bytes(content)
    with pytest.raises(InputError, match=f"data_batch_2: .*{problem}"):
        cifar.read("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (bytes(3073)[:-1], "3,072 bytes are no whole number of images of 3,073 bytes: the file is cut off"),
        (b"", "there is no image"),
        (bytes([10]) + bytes(3072), "image 0 has the label 10"),
    ],
)
def test_damaged_binary_files_are_told(content: bytes, problem: str, tmp_path: Path):
    folder = write_cifar(tmp_path, layout="binary")
    (folder / "test_batch.bin").write_bytes(content)
    with pytest.raises(InputError, match=f"test_batch.bin: .*{problem}"):
        cifar.read("cifar10", tmp_path)


def test_the_other_cifar_is_noticed(tmp_path: Path):
    folder = write_cifar(tmp_path, "cifar100")
    data, _labels = images(3, 100)
    (folder / "train").write_bytes(pickled(data, [3, 4, 100], "fine_labels"))
    with pytest.raises(InputError, match=r"label 100, and labels are 0 to 99\. If this is to be the official"):
        cifar.read("cifar100", tmp_path)
    folder = write_cifar(tmp_path)
    (folder / "data_batch_1").write_bytes(pickled(data, [3, 4, 99], "labels"))
    with pytest.raises(InputError, match=r"label 99, and labels are 0 to 9 \(those of CIFAR-100 go on to 99\)\. If"):
        cifar.read("cifar10", tmp_path)


def test_damaged_archives_are_told(tmp_path: Path):
    folder = write_cifar(tmp_path / "a")
    archive = pack(folder, tmp_path / "cifar-10-python.tar.gz")
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz: this archive cannot be read"):
        cifar.read("cifar10", tmp_path)
    (folder / "data_batch_4").unlink()
    pack(folder, archive)
    with pytest.raises(InputError, match="this archive has no data_batch_4"):
        cifar.read("cifar10", tmp_path)
    for content in (b"", b"\xfd7zXZ\0" + bytes(64), b"BZh9" + bytes(64)):
        archive.write_bytes(content)
        with pytest.raises(InputError, match="cannot be read"):
            cifar.read("cifar10", tmp_path)


def test_of_an_archive_only_the_sets_own_folder_is_read(tmp_path: Path):
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


def test_a_file_of_an_archive_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pack(write_cifar(tmp_path / "a"), tmp_path / "cifar-10-python.tar.gz")
    monkeypatch.setattr(cifar, "LIMIT", 100)
    with pytest.raises(InputError, match="which no file of CIFAR has"):
        cifar.read("cifar10", tmp_path)
