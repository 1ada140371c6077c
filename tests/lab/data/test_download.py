"""A data set is downloaded, checked and moved into place as a whole, or not at all."""

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
    """A data set in an archive of the server."""
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
def test_a_set_is_unpacked_into_the_folder_that_its_reader_uses(server: Server, tmp_path: Path):
    root = tmp_path / "new" / "root"
    assert download("toy", root, retry=QUICK) == root / "toy" / "here"
    assert [p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()] == ["toy/here/file"]
    requested = len(server.requested)
    assert download("toy", root, retry=QUICK) == root / "toy" / "here"
    assert len(server.requested) == requested  # the set was found


@pytest.mark.usefixtures("toy")
def test_wrong_files_are_replaced_and_other_files_stay(tmp_path: Path):
    folder = tmp_path / "toy" / "here"
    folder.mkdir(parents=True)
    (folder / "file").write_text("wrong")
    (folder / "notes").write_text("mine")
    download("toy", tmp_path, retry=QUICK)
    assert (folder / "file").read_bytes() == CONTENT
    assert (folder / "notes").read_text() == "mine"


def test_foreign_files_that_change_the_digest_are_reported(toy: DataSet, tmp_path: Path, monkeypatch: Any):
    """For example a user's recording among those of FSDD: all files of a pattern have one digest."""
    made = tmp_path / "made" / "set"
    digest = digest_of_tree(made, [made / "file"])
    with_tree = Layout("plain", ("toy/here",), (Tree("f*", 1, digest),))
    monkeypatch.setitem(SETS, "toy", DataSet(**{**vars(toy), "layouts": (with_tree,)}))
    folder = tmp_path / "toy" / "here"
    folder.mkdir(parents=True)
    (folder / "foreign").write_text("mine")
    message = r" has Toy and files that are not part of it \(f\*: 2 files, and 1 are expected\): move these away$"
    with pytest.raises(InputError, match=message):
        download("toy", tmp_path, retry=QUICK)
    (folder / "foreign").unlink()
    assert download("toy", tmp_path, retry=QUICK) == folder


def test_an_archive_without_a_digest_may_not_exceed_its_limit(
    server: Server, toy: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Neither what is sent nor what it unpacks to."""
    for limit, problem in ((1000, "the server announces"), (len(CONTENT), "has more than 512,000 bytes of content")):
        source = Source(f"{server.address}/x.tar.gz", "x.tar.gz", inside="set", limit=limit)
        changed(toy, monkeypatch, source)
        with pytest.raises(InputError, match=problem):
            download("toy", tmp_path, retry=QUICK)


def test_fetched_files_are_kept_if_a_later_one_fails(
    server: Server, toy: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    names = ("one", "two", "three")
    server.files = {"/one": CONTENT, "/two": CONTENT}
    layout = Layout("plain", ("toy",), tuple(File(name, DIGEST) for name in names))
    way = tuple(Source(f"{server.address}/{name}", name, DIGEST) for name in names)
    monkeypatch.setitem(SETS, "toy", DataSet(**{**vars(toy), "layouts": (layout,), "ways": (way,)}))
    with pytest.raises(InputError, match="three"):
        download("toy", tmp_path, retry=QUICK)
    requested, server.files = len(server.requested), {"/three": CONTENT}  # the server no longer has the others
    assert download("toy", tmp_path, retry=QUICK) == tmp_path / "toy"
    assert len(server.requested) == requested + 1
    assert not (tmp_path / "toy.download").exists()


@pytest.mark.usefixtures("toy")
def test_an_interrupted_download_resumes(server: Server, tmp_path: Path):
    server.breaks = [500, 0, 0, 0]
    with pytest.raises(InputError, match=r"Toy could not be downloaded: .* 500 bytes are kept"):
        download("toy", tmp_path, retry=QUICK)
    assert (tmp_path / "toy.download" / "x.tar.gz.part").stat().st_size == 500
    download("toy", tmp_path, retry=QUICK)
    assert server.requested[-1] == "bytes=500-"
    assert not (tmp_path / "toy.download").exists()


@pytest.mark.usefixtures("toy")
def test_an_archive_with_another_digest_leaves_nothing_behind(server: Server, tmp_path: Path):
    server.files["/x.tar.gz"] += b"x"
    with pytest.raises(InputError, match="another digest than the known one and was deleted"):
        download("toy", tmp_path / "root", retry=QUICK)
    assert list((tmp_path / "root").iterdir()) == []


def test_an_archive_that_leads_out_leaves_nothing_behind(
    server: Server, toy: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    evil = tar_with(tmp_path / "evil.tar.gz", member("set/good"), member("set/../../../escaped"))
    server.files["/x.tar.gz"] = evil.read_bytes()
    changed(toy, monkeypatch, Source(f"{server.address}/x.tar.gz", "x.tar.gz", None, inside="set"))
    with pytest.raises(InputError, match="leads out of the folder"):
        download("toy", tmp_path / "root", retry=QUICK)
    assert list((tmp_path / "root").iterdir()) == []
    assert not list(tmp_path.rglob("escaped"))


def test_an_archive_with_other_files_is_not_put_in_place(
    server: Server, toy: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    server.files["/x.tar.gz"] = tar_with(tmp_path / "y.tar.gz", member("set/file")).read_bytes()
    changed(toy, monkeypatch, Source(f"{server.address}/x.tar.gz", "x.tar.gz", None, inside="set"))
    with pytest.raises(InputError, match=r"x.tar.gz is not Toy \(file: wrong digest\)"):
        download("toy", tmp_path / "root", retry=QUICK)
    changed(toy, monkeypatch, Source(f"{server.address}/x.tar.gz", "x.tar.gz", None, inside="elsewhere"))
    with pytest.raises(InputError, match=r"is not Toy \(file: missing\)"):
        download("toy", tmp_path / "root", retry=QUICK)
    assert list((tmp_path / "root").iterdir()) == []


def test_the_next_source_is_used_if_the_first_fails(
    server: Server, toy: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    closed = Source(f"{server.address}/gone.zip", "gone.zip", None, inside="set")
    changed(toy, monkeypatch, closed, Source(f"{server.address}/file", "file", DIGEST))
    assert (download("toy", tmp_path, retry=QUICK) / "file").read_bytes() == CONTENT
    changed(toy, monkeypatch, closed, closed)
    with pytest.raises(InputError, match=r"404 Not Found; .*404 Not Found. See https://toy.example"):
        download("toy", tmp_path / "other", retry=QUICK)


@pytest.mark.usefixtures("toy")
def test_a_second_download_at_the_same_time_is_refused(server: Server, tmp_path: Path):
    refused = []

    def meanwhile(*_: object) -> None:
        with pytest.raises(InputError, match="another download is writing to"):
            download("toy", tmp_path, retry=QUICK)
        refused.append(True)

    download("toy", tmp_path, meanwhile, QUICK)
    assert refused


def test_licensed_speech_is_not_downloaded(tmp_path: Path):
    with pytest.raises(InputError, match=r"SWB-300 cannot be downloaded. It is licensed speech"):
        download("swb300", tmp_path)


@pytest.mark.usefixtures("toy")
def test_a_root_that_cannot_be_written_to_is_reported(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written to .*: pass another folder as --data"):
        download("toy", tmp_path / "file" / "root")
