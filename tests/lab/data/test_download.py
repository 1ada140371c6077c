"""Data sets are downloaded as a whole, checked, and put where their readers look; or nothing is put anywhere."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from data.servers import CONTENT, DIGEST, QUICK, Server
from data.writers import member, pack, tar_with

from adamplus.lab.data import SETS, DataSet, File, Layout, Source, download
from adamplus.lab.data.data_set import Tree
from adamplus.lab.data.verification import digest_of_tree
from adamplus.lab.errors import InputError


@pytest.fixture
def toy(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataSet:
    """A set in an archive of the server."""
    (tmp_path / "made" / "set").mkdir(parents=True)
    (tmp_path / "made" / "set" / "file").write_bytes(CONTENT)
    content = pack(tmp_path / "made" / "set", tmp_path / "made" / "x.tar.gz").read_bytes()
    server.files = {"/x.tar.gz": content, "/file": CONTENT}
    digest = f"md5:{hashlib.md5(content).hexdigest()}"
    packed = Source(f"{server.address}/x.tar.gz", "x.tar.gz", digest, inside="set")
    layout = Layout("plain", ("toy/here",), (File("file", DIGEST),))
    toy = DataSet("toy", "Toy", (layout,), "free", "https://toy.example", ((packed,),))
    monkeypatch.setitem(SETS, "toy", toy)
    return toy


def changed(toy: DataSet, monkeypatch: pytest.MonkeyPatch, *ways: Source) -> None:
    monkeypatch.setitem(SETS, "toy", DataSet(**{**vars(toy), "ways": tuple((source,) for source in ways)}))


@pytest.mark.usefixtures("toy")
def test_a_set_is_unpacked_where_its_reader_looks_for_it(server: Server, tmp_path: Path):
    root = tmp_path / "new" / "root"
    assert download("toy", root, patience=QUICK) == root / "toy" / "here"
    assert [p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()] == ["toy/here/file"]
    asked = len(server.asked)
    assert download("toy", root, patience=QUICK) == root / "toy" / "here"
    assert len(server.asked) == asked  # it is there


@pytest.mark.usefixtures("toy")
def test_what_is_wrong_is_replaced_and_the_rest_stays(tmp_path: Path):
    folder = tmp_path / "toy" / "here"
    folder.mkdir(parents=True)
    (folder / "file").write_text("wrong")
    (folder / "notes").write_text("mine")
    download("toy", tmp_path, patience=QUICK)
    assert (folder / "file").read_bytes() == CONTENT
    assert (folder / "notes").read_text() == "mine"


def test_files_that_are_not_of_the_set_and_spoil_it_are_told(toy: DataSet, tmp_path: Path, monkeypatch: Any):
    """As a recording of one's own among those of FSDD: all that match the pattern have one digest."""
    made = tmp_path / "made" / "set"
    digest = digest_of_tree(made, [made / "file"])
    with_tree = Layout("plain", ("toy/here",), (Tree("f*", 1, digest),))
    monkeypatch.setitem(SETS, "toy", DataSet(**{**vars(toy), "layouts": (with_tree,)}))
    folder = tmp_path / "toy" / "here"
    folder.mkdir(parents=True)
    (folder / "foreign").write_text("mine")
    told = r"^Toy is in .*, and so are files that are not of it \(f\*: 2 files, and 1 are expected\): move these away$"
    with pytest.raises(InputError, match=told):
        download("toy", tmp_path, patience=QUICK)
    (folder / "foreign").unlink()
    assert download("toy", tmp_path, patience=QUICK) == folder


def test_files_that_have_come_are_not_asked_for_again_where_a_later_one_fails(
    server: Server, toy: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    names = ("one", "two", "three")
    server.files = {"/one": CONTENT, "/two": CONTENT}
    layout = Layout("plain", ("toy",), tuple(File(name, DIGEST) for name in names))
    way = tuple(Source(f"{server.address}/{name}", name, DIGEST) for name in names)
    monkeypatch.setitem(SETS, "toy", DataSet(**{**vars(toy), "layouts": (layout,), "ways": (way,)}))
    with pytest.raises(InputError, match="three"):
        download("toy", tmp_path, patience=QUICK)
    asked, server.files = len(server.asked), {"/three": CONTENT}  # the others are gone
    assert download("toy", tmp_path, patience=QUICK) == tmp_path / "toy"
    assert len(server.asked) == asked + 1
    assert not (tmp_path / "toy.download").exists()


@pytest.mark.usefixtures("toy")
def test_a_set_that_breaks_off_goes_on(server: Server, tmp_path: Path):
    server.breaks = [500, 0, 0, 0]
    with pytest.raises(InputError, match=r"Toy could not be downloaded: .* 500 bytes have come and are kept"):
        download("toy", tmp_path, patience=QUICK)
    assert (tmp_path / "toy.download" / "x.tar.gz.part").stat().st_size == 500
    download("toy", tmp_path, patience=QUICK)
    assert server.asked[-1] == "bytes=500-"
    assert not (tmp_path / "toy.download").exists()


@pytest.mark.usefixtures("toy")
def test_an_archive_with_another_digest_leaves_nothing_behind(server: Server, tmp_path: Path):
    server.files["/x.tar.gz"] += b"x"
    with pytest.raises(InputError, match="not the file that is known"):
        download("toy", tmp_path / "root", patience=QUICK)
    assert list((tmp_path / "root").iterdir()) == []


def test_an_archive_that_leads_out_leaves_nothing_behind(
    server: Server, toy: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    evil = tar_with(tmp_path / "evil.tar.gz", member("set/good"), member("set/../../../escaped"))
    server.files["/x.tar.gz"] = evil.read_bytes()
    changed(toy, monkeypatch, Source(f"{server.address}/x.tar.gz", "x.tar.gz", None, inside="set"))
    with pytest.raises(InputError, match="leads out of the folder"):
        download("toy", tmp_path / "root", patience=QUICK)
    assert list((tmp_path / "root").iterdir()) == []
    assert not list(tmp_path.rglob("escaped"))


def test_an_archive_with_other_files_is_not_put_in_place(
    server: Server, toy: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    server.files["/x.tar.gz"] = tar_with(tmp_path / "y.tar.gz", member("set/file")).read_bytes()
    changed(toy, monkeypatch, Source(f"{server.address}/x.tar.gz", "x.tar.gz", None, inside="set"))
    with pytest.raises(InputError, match=r"x.tar.gz gives is not Toy \(file: wrong digest\)"):
        download("toy", tmp_path / "root", patience=QUICK)
    changed(toy, monkeypatch, Source(f"{server.address}/x.tar.gz", "x.tar.gz", None, inside="elsewhere"))
    with pytest.raises(InputError, match=r"is not Toy \(file: missing\)"):
        download("toy", tmp_path / "root", patience=QUICK)
    assert list((tmp_path / "root").iterdir()) == []


def test_the_next_way_is_taken_where_the_first_is_closed(
    server: Server, toy: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    closed = Source(f"{server.address}/gone.zip", "gone.zip", None, inside="set")
    changed(toy, monkeypatch, closed, Source(f"{server.address}/file", "file", DIGEST))
    assert (download("toy", tmp_path, patience=QUICK) / "file").read_bytes() == CONTENT
    changed(toy, monkeypatch, closed, closed)
    with pytest.raises(InputError, match=r"404 Not Found; .*404 Not Found. See https://toy.example"):
        download("toy", tmp_path / "other", patience=QUICK)


@pytest.mark.usefixtures("toy")
def test_two_downloads_at_once_are_told_of_each_other(server: Server, tmp_path: Path):
    told = []

    def meanwhile(*_: object) -> None:
        with pytest.raises(InputError, match="another download is writing to"):
            download("toy", tmp_path, patience=QUICK)
        told.append(True)

    download("toy", tmp_path, meanwhile, QUICK)
    assert told


def test_licensed_speech_is_not_downloaded(tmp_path: Path):
    with pytest.raises(InputError, match=r"SWB-300 cannot be downloaded. It is licensed speech"):
        download("swb300", tmp_path)


@pytest.mark.usefixtures("toy")
def test_a_root_that_cannot_be_written_to_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written to .*: pass another folder as --data"):
        download("toy", tmp_path / "file" / "root")
