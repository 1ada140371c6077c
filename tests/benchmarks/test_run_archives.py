"""Archives of runs: what is packed is merged, and nothing else is."""

import hashlib
import io
import json
import random
import tarfile
from pathlib import Path

import pytest
import run_archives
from engine_runs import execute, planned
from run_archives import merge, pack
from small_comparison import here, numbers, write_task

from adamplus.lab._store import write_json
from adamplus.lab.errors import InputError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of results with two runs that have ended, one that has failed, and one that has not ended."""
    store = tmp_path / "source" / "plane"
    ends = "if epoch == 1: raise ValueError('no')"
    specs = planned(write_task(tmp_path / "plane.py"), "sgd", "adam", seeds=1)
    execute(here, [*specs, *planned(write_task(tmp_path / "fails.py", ends), "sgd", seeds=1)], store)
    execute(here, planned(write_task(tmp_path / "killed.py"), "sgd", seeds=1), store)
    next(store.glob("runs/killed/*/*/end.json")).unlink()
    write_json(store / "comparison.json", {"command": "adamplus compare"})
    write_json(store / "data.json", {"data": "the official"})
    (store / "report.html").write_text("made of the runs")
    return tmp_path / "source"


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_runs_that_have_ended_are_packed_and_merged(source: Path, tmp_path: Path):
    (archive,) = pack(source, tmp_path / "nothing", tmp_path / "archives")
    assert merge([archive], tmp_path / "into") == (8, 0)
    found = files(tmp_path / "into")
    assert found == {name: content for name, content in files(source).items() if name in found}
    assert {name.split("/")[2] for name in found if "/runs/" in name} == {"plane"}
    assert numbers(tmp_path / "into" / "plane") == {
        name: lines for name, lines in numbers(source / "plane").items() if "/plane/" in name
    }
    assert merge([archive], tmp_path / "into") == (0, 8)
    assert files(tmp_path / "into") == found
    assert pack(source, tmp_path / "into", tmp_path / "archives") == []
    assert list((tmp_path / "archives").iterdir()) == [archive]


def test_archives_are_small_and_few(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_archives, "LARGEST", 5000)
    archives = pack(source, tmp_path / "nothing", tmp_path / "archives")
    assert len(archives) > 1
    assert max(path.stat().st_size for path in archives) <= 5000
    assert merge(archives, tmp_path / "into") == (8, 0)
    monkeypatch.setattr(run_archives, "MOST_ARCHIVES", 1)
    with pytest.raises(InputError, match="files do not fit into 1 archives of 5,000 bytes: merge these"):
        pack(source, tmp_path / "nothing", tmp_path / "few")
    assert len(list((tmp_path / "few").iterdir())) == 1


def test_archives_of_an_earlier_call_are_kept_and_merged_in_their_order(source: Path, tmp_path: Path):
    (first,) = pack(source, tmp_path / "nothing", tmp_path / "archives")
    write_json(source / "plane" / "comparison.json", {"command": "later"})
    (second,) = pack(source, tmp_path / "nothing", tmp_path / "archives")
    assert sorted((tmp_path / "archives").iterdir()) == [first, second]
    merge([second, first], tmp_path / "into")
    assert json.loads((tmp_path / "into" / "plane" / "comparison.json").read_text())["command"] == "later"


def test_what_is_larger_than_an_archive_is_left_out_and_the_rest_is_packed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_archives, "LARGEST", 5000)
    (source / "a").mkdir()
    write_json(source / "a" / "large.json", {"noise": random.Random(0).randbytes(9000).hex()})
    with pytest.raises(InputError, match="1 files do not fit into 8 archives of 5,000 bytes"):
        pack(source, tmp_path / "nothing", tmp_path / "archives")
    assert merge(list((tmp_path / "archives").iterdir()), tmp_path / "into") == (8, 0)


def test_data_that_has_the_same_content_is_no_conflict_and_remarks_stay(source: Path, tmp_path: Path):
    into = tmp_path / "into" / "plane" / "data.json"
    into.parent.mkdir(parents=True)
    into.write_text('{"data": "the official"}')  # by an earlier version, which wrote no checksum
    write_json(source / "plane" / "remarks.json", {"remark": "shared"})
    assert into.read_bytes() != (source / "plane" / "data.json").read_bytes()
    (archive,) = pack(source, tmp_path / "nothing", tmp_path / "archives")
    assert merge([archive], tmp_path / "into") == (7, 1)
    assert into.read_text() == '{"data": "the official"}'
    assert not into.with_name("remarks.json").exists()
    assert pack(source, tmp_path / "into", tmp_path / "archives") == []


def test_archives_name_no_user(source: Path, tmp_path: Path):
    (archive,) = pack(source, tmp_path / "nothing", tmp_path / "archives")
    with tarfile.open(archive) as opened:
        assert {(one.uid, one.gid, one.uname, one.gname, one.mtime) for one in opened} == {(0, 0, "", "", 0)}


@pytest.mark.parametrize("name", ["end.json", "data.json"])
def test_a_file_that_differs_is_refused_and_nothing_is_written(name: str, source: Path, tmp_path: Path):
    (archive,) = pack(source, tmp_path / "nothing", tmp_path / "archives")
    other = next((source / "plane").rglob(f"plane/*/*/{name}" if name == "end.json" else name)).relative_to(source)
    (tmp_path / "into" / other).parent.mkdir(parents=True)
    (tmp_path / "into" / other).write_text("{}")
    before = files(tmp_path / "into")
    with pytest.raises(InputError, match=rf"{other} in .* differs from the one that is there: nothing was merged"):
        merge([archive], tmp_path / "into")
    assert files(tmp_path / "into") == before


def test_records_of_later_comparisons_replace_earlier_ones(source: Path, tmp_path: Path):
    write_json(source / "campaign.json", {"a": {"complete": False}, "b": {"complete": True, "result": "new"}})
    (source / "runs.jsonl").write_text('{"run": 1}\n{"run": 3}\n')
    into = tmp_path / "into"
    write_json(into.parent / "x.json", {})
    (into / "plane").mkdir(parents=True)
    write_json(into / "plane" / "comparison.json", {"command": "earlier"})
    write_json(into / "campaign.json", {"a": {"complete": True}, "b": {"complete": False}, "c": {"complete": True}})
    (into / "runs.jsonl").write_text('{"run": 1}\n{"run": 2}\n')
    merge(pack(source, tmp_path / "nothing", tmp_path / "archives"), into)
    assert json.loads((into / "plane" / "comparison.json").read_text())["command"] == "adamplus compare"
    assert (into / "runs.jsonl").read_text() == '{"run": 1}\n{"run": 2}\n{"run": 3}\n'
    record = json.loads((into / "campaign.json").read_text())
    assert record == {"a": {"complete": True}, "b": {"complete": True, "result": "new"}, "c": {"complete": True}}


def test_the_record_of_an_entry_is_that_of_its_later_command(source: Path, tmp_path: Path):
    def entries(**other: dict[str, object]) -> dict[str, object]:
        return {name: {"finished": 1, **entry} for name, entry in other.items()}

    (tmp_path / "into").mkdir()
    write_json(
        tmp_path / "into" / "campaign.json",
        entries(
            a={"command": "old", "complete": True, "ended": 1.0},
            b={"command": "new", "complete": True, "ended": 2.0},
            c={"command": "same", "complete": True, "ended": 1.0},
        ),
    )
    write_json(
        source / "campaign.json",
        entries(
            a={"command": "new", "complete": False, "ended": 2.0},
            b={"command": "old", "complete": True, "ended": 1.0},
            c={"command": "same", "complete": False, "ended": 2.0},
        ),
    )
    merge(pack(source, tmp_path / "nothing", tmp_path / "archives"), tmp_path / "into")
    record = json.loads((tmp_path / "into" / "campaign.json").read_text())
    assert [(one["command"], one["complete"]) for one in record.values()] == [
        ("new", False),
        ("new", True),
        ("same", True),
    ]
    (tmp_path / "into" / "campaign.json").write_text('{"a": ')
    with pytest.raises(InputError, match=r"campaign\.json, there or in .*, is damaged"):
        merge(list((tmp_path / "archives").iterdir()), tmp_path / "into")


def archive_of(path: Path, contents: dict[str, bytes], kind: bytes = tarfile.REGTYPE, sums: bool = True) -> Path:
    lines = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items())
    with tarfile.open(path, "w:gz") as archive:
        for name, content in (({"SHA256SUMS": lines.encode()} if sums else {}) | contents).items():
            member = tarfile.TarInfo(name)
            member.size, member.type = len(content), tarfile.REGTYPE if name == "SHA256SUMS" else kind
            member.linkname = "/etc/hosts"
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("name", ["../out.json", "/tmp/out.json", "a/../../out.json"])
def test_a_name_that_leads_out_is_refused(name: str, tmp_path: Path):
    with pytest.raises(InputError, match="leads out of the folder"):
        merge([archive_of(tmp_path / "x.tar.gz", {name: b"{}"})], tmp_path / "deep" / "into")
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar.gz"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(kind: bytes, tmp_path: Path):
    with pytest.raises(InputError, match=r"is a (link|device)"):
        merge([archive_of(tmp_path / "x.tar.gz", {"a.json": b""}, kind)], tmp_path / "into")
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize("name", ["setup.py", ".git/config.json", "a/.hidden.json", "plane/checkpoint.pt"])
def test_what_is_no_file_of_a_run_is_refused(name: str, tmp_path: Path):
    with pytest.raises(InputError, match="which is no file of a run"):
        merge([archive_of(tmp_path / "x.tar.gz", {name: b"{}"})], tmp_path / "into")
    assert not (tmp_path / "into").exists()


def test_a_damaged_archive_is_refused(source: Path, tmp_path: Path):
    good = files(source)
    names = [name for name in good if "/runs/plane/sgd/" in name and Path(name).name in run_archives.RUN_FILES]
    run = {name: good[name] for name in names}
    assert merge([archive_of(tmp_path / "good.tar.gz", run)], tmp_path / "into") == (3, 0)
    changed = {name: content.replace(b"finished", b"diverged") for name, content in run.items()}
    assert changed != run
    for i, (contents, sums, message) in enumerate(
        (
            (run, False, "its files are not those of its SHA256SUMS"),
            (changed, True, "it has changed since it was written"),
            ({name: run[name] for name in names if not name.endswith("metrics.jsonl")}, True, "is damaged"),
            ({name.replace("/sgd/", "/adam/"): one for name, one in run.items()}, True, "the folder of another run"),
        )
    ):
        with pytest.raises(InputError, match=message):
            merge([archive_of(tmp_path / f"{i}.tar.gz", contents, sums=sums)], tmp_path / "other")
        assert not (tmp_path / "other").exists()
    whole = (tmp_path / "good.tar.gz").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="cannot be read"):
        merge([tmp_path / "cut.tar.gz"], tmp_path / "other")
    (tmp_path / "changed.tar.gz").write_bytes(whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
    with pytest.raises(InputError):
        merge([tmp_path / "changed.tar.gz"], tmp_path / "other")
    assert not (tmp_path / "other").exists()
