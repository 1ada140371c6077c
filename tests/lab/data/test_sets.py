"""Data sets are found in their usual folders and checked against their digests."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from data.writers import (
    images,
    pack,
    pickled,
    write_an4,
    write_cifar,
    write_fsdd,
    write_novels,
    write_swb300,
    write_wikitext,
)

from adamplus.lab.data import SETS, DataSet, File, Layout, Tree, data_root, verify, where
from adamplus.lab.data.readers import an4, cifar, fsdd, novels, wikitext
from adamplus.lab.errors import InputError


def statuses(root: Path, *names: str) -> dict[str, str]:
    return {checked.path.name: checked.status for checked in verify(root, names)}


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> DataSet:
    files = (File("a", sha256(b"A")), File("b", "md5:" + hashlib.md5(b"B").hexdigest()), File("c"))
    tree = Tree("d/*.txt", 2, sha256(b"d/1.txt\noned/2.txt\ntwo"))
    toy = DataSet("toy", "Toy", (Layout("plain", ("toy", "."), (*files, tree)),), "free", "https://toy.example")
    monkeypatch.setitem(SETS, "toy", toy)
    return toy


def write_toy(folder: Path) -> Path:
    (folder / "d").mkdir(parents=True)
    for name, content in {"a": "A", "b": "B", "c": "C", "d/1.txt": "one", "d/2.txt": "two"}.items():
        (folder / name).write_text(content)
    return folder


def test_the_root_is_the_argument_the_variable_or_the_default(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ADAMPLUS_DATA", "/big/disk")
    assert data_root("/named") == Path("/named")
    assert data_root() == Path("/big/disk")
    monkeypatch.delenv("ADAMPLUS_DATA")
    assert data_root() == Path.home() / ".cache" / "adamplus"
    assert data_root("~/here") == Path.home() / "here"


READERS: dict[str, tuple[Callable[[Path], Path], str, Callable[[Path], object]]] = {
    "cifar10": (write_cifar, "data_batch_3", lambda root: cifar.read("cifar10", root)),
    "wikitext2": (write_wikitext, "wiki.valid.tokens", wikitext.read),
    "novels": (write_novels, "Author007_*.txt", novels.read),
    "an4": (write_an4, "etc/an4.dic", an4.read),
    "fsdd": (write_fsdd, "*.wav", fsdd.read),
}


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_reported_with_the_command_that_replaces_it(name: str, tmp_path: Path):
    write, file, read = READERS[name]
    folder = write(tmp_path)
    next(folder.glob(file)).write_bytes(b"\xff\xfe no such thing")
    with pytest.raises(InputError, match=re.escape(str(folder))) as error:
        read(tmp_path)
    assert str(error.value).endswith(
        f". To replace it by the official {SETS[name].title}: adamplus data download {name} --data {tmp_path}"
    )


@pytest.mark.usefixtures("toy")
def test_every_file_is_checked_against_its_digest(tmp_path: Path):
    folder = write_toy(tmp_path / "toy")
    right = {"a": "ok", "b": "ok", "c": "unknown digest", "*.txt": "ok"}
    assert statuses(tmp_path, "toy") == right
    (folder / "a").write_text("a")
    (folder / "b").unlink()
    (folder / "d" / "2.txt").write_text("three")
    assert statuses(tmp_path, "toy") == {**right, "a": "wrong digest", "b": "missing", "*.txt": "wrong digest"}
    (folder / "d" / "3.txt").write_text("three")
    assert "3 files, and 2 are expected" in verify(tmp_path, ["toy"])[-1].note


@pytest.mark.usefixtures("toy")
def test_all_files_of_a_missing_set_are_missing(tmp_path: Path):
    assert set(statuses(tmp_path, "toy").values()) == {"missing"}
    assert verify(tmp_path) == []


def test_an_unknown_set_gets_suggestions(tmp_path: Path):
    with pytest.raises(InputError, match=r"unknown data set 'cifar-10': did you mean cifar10"):
        verify(tmp_path, ["cifar-10"])


def test_sets_are_found_in_their_usual_folders(tmp_path: Path):
    write_cifar(tmp_path, "cifar100", "binary")
    write_fsdd(tmp_path / "speech")
    write_wikitext(tmp_path)
    write_novels(tmp_path)
    write_swb300(tmp_path)
    (tmp_path / "an4" / "etc").mkdir(parents=True)
    pack(write_cifar(tmp_path / "elsewhere"), tmp_path / "cifar-10-python.tar.gz")
    found = {one.name: place for one, place in where(tmp_path)}
    folders = {name: place.path.relative_to(tmp_path).as_posix() for name, place in found.items() if place is not None}
    assert folders == {
        "cifar10": "cifar-10-python.tar.gz",
        "cifar100": "cifar-100-binary",
        "wikitext2": "wikitext-2",
        "novels": "100_english_novels/corpus",
        "an4": "an4",
        "fsdd": "speech/fsdd",
        "swb300": "swb300",
    }
    assert found["cifar10"] is not None
    assert found["cifar10"].packed
    assert found["an4"] is not None
    assert "etc/an4.dic" in found["an4"].lacks


def test_a_complete_folder_precedes_an_incomplete_one(tmp_path: Path, toy: DataSet):
    (tmp_path / "toy").mkdir()
    write_toy(tmp_path / "other")
    both = replace(toy, layouts=(replace(toy.layouts[0], folders=("toy", "other")),))
    assert both.locate(tmp_path).path == tmp_path / "other"
    with pytest.raises(InputError, match=r"Toy in .*/toy is incomplete: a, b, c, d/\*.txt missing"):
        toy.locate(tmp_path)


def test_tiny_data_and_its_archive_do_not_have_the_official_digests(tmp_path: Path):
    folder = write_cifar(tmp_path / "a")
    assert set(statuses(tmp_path / "a", "cifar10").values()) == {"wrong digest"}
    pack(folder, tmp_path / "cifar-10-python.tar.gz")
    assert statuses(tmp_path, "cifar10") == {"cifar-10-python.tar.gz": "wrong digest"}


def test_rewritten_pickles_with_the_official_images_are_ok(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    official = SETS["cifar10"].layouts[0]
    data, labels = images(3, 10)
    binary = b"".join(bytes([label]) + row.tobytes() for row, label in zip(data, labels, strict=True))
    file = File("data_batch_1", "md5:0", "md5:" + hashlib.md5(binary).hexdigest())
    tiny = replace(SETS["cifar10"], layouts=(replace(official, files=(file,)),))
    monkeypatch.setitem(SETS, "cifar10", tiny)
    path = write_cifar(tmp_path) / "data_batch_1"
    (checked,) = verify(tmp_path, ["cifar10"])
    assert (checked.status, checked.note) == ("ok", "written anew: its images and labels are the official ones")
    path.write_bytes(pickled(data, labels[::-1]))
    assert statuses(tmp_path, "cifar10") == {"data_batch_1": "wrong digest"}
    path.write_bytes(b"")
    assert "not a complete pickle" in verify(tmp_path, ["cifar10"])[0].note


@pytest.mark.parametrize("one", SETS.values(), ids=SETS)
def test_every_set_has_a_licence_a_home_and_a_source_or_advice(one: DataSet):
    assert one.licence
    assert one.home.startswith("http")
    assert one.ways or one.advice
    for way in one.ways:
        for source in way:
            assert source.address.startswith("https://")
            # an archive without a digest is fine if it has a limit, and all files taken from it have digests
            assert source.digest or (source.limit <= 1 << 27 and all(file.digest for file in one.layouts[0].files))
    for layout in one.layouts:
        for digest in [file.digest for file in layout.files if file.digest]:
            algorithm, _, value = digest.partition(":")
            assert len(value) == {"md5": 32, "sha256": 64}[algorithm]
