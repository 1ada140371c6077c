"""Kaldi archives are joined by utterance; inconsistencies are reported, and nothing in them is run."""

import os
import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import kaldiio
import numpy as np
import pytest
import torch
from data.bounds import CHANGES, bounded, changed
from data.writers import speech, write_archives, write_swb300
from hypothesis import given
from hypothesis import strategies as st

from adamplus.lab.data.readers import kaldi
from adamplus.lab.errors import InputError

FRAMES = {"a": 30, "b": 25}


def archives(folder: Path, **changed: dict[str, np.ndarray]) -> kaldi.Archives:
    write_archives(folder, {**speech(FRAMES), **changed})
    return kaldi.Archives(folder, states=9)


@pytest.mark.parametrize("tables", [True, False])
def test_features_of_all_kinds_are_concatenated(tables: bool, tmp_path: Path):
    write_swb300(tmp_path, tables)
    if tables:
        assert list(tmp_path.rglob("*.scp"))
    found = kaldi.read(tmp_path, states=9)
    arrays = speech(FRAMES)
    assert found.train.names == ("a", "b")
    assert (len(found.train), len(found.heldout)) == (2, 1)
    features, states = found.train["b"]
    assert features.shape == (25, 40 + 100 + 6)
    assert features.dtype == torch.float32
    assert np.array_equal(features[:, :40], arrays["fmllr"]["b"])
    assert np.array_equal(features[:, 40:140], np.tile(arrays["ivectors"]["b"], (25, 1)))  # the same for all frames
    assert np.array_equal(features[:, 140:], arrays["logmel"]["b"])
    assert states.tolist() == arrays["alignments"]["b"].tolist()
    assert [len(utterance.states) for utterance in found.train] == [30, 25]


def test_i_vectors_may_change_from_frame_to_frame(tmp_path: Path):
    vectors = {name: np.random.rand(count, 100).astype(np.float32) for name, count in FRAMES.items()}
    assert np.array_equal(archives(tmp_path, ivectors=vectors)["a"].features[:, 40:140], vectors["a"])


def test_compressed_archives_are_read(tmp_path: Path):
    write_archives(tmp_path, speech(FRAMES))
    features = speech(FRAMES)["fmllr"]
    kaldiio.save_ark(str(tmp_path / "fmllr.ark"), features, scp=str(tmp_path / "fmllr.scp"), compression_method=2)
    found = kaldi.Archives(tmp_path, states=9)["a"].features[:, :40]
    assert np.allclose(found, features["a"], atol=0.05)  # one byte per value, over some 7 units


def test_archives_moved_with_their_tables_are_found(tmp_path: Path):
    write_archives(tmp_path / "first", speech(FRAMES))
    for table in (tmp_path / "first").glob("*.scp"):
        table.write_text(table.read_text().replace(f"{tmp_path}/first/", ""))
    (tmp_path / "first").rename(tmp_path / "second")
    assert len(kaldi.Archives(tmp_path / "second", states=9)["a"].states) == 30


def test_reading_does_not_depend_on_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, seed in (("own", 0), ("other", 1)):
        write_archives(tmp_path / name, speech(FRAMES, seed=seed))
        for table in (tmp_path / name).glob("*.scp"):
            table.write_text(table.read_text().replace(f"{tmp_path / name}/", ""))
    monkeypatch.chdir(tmp_path / "other")
    found = kaldi.Archives(tmp_path / "own", states=9)["a"].features[:, :40]
    assert np.array_equal(found, speech(FRAMES)["fmllr"]["a"])


def test_utterances_that_one_kind_lacks_are_reported(tmp_path: Path):
    states = speech(FRAMES)["alignments"]
    message = r"alignments lacks 1 of the 2 utterances of fmllr, b: .*filter_scp.pl alignments.scp fmllr.scp"
    with pytest.raises(InputError, match=message):
        archives(tmp_path / "1", alignments={"a": states["a"]})
    with pytest.raises(InputError, match="fmllr lacks 1 of the 3 utterances of logmel, c"):
        archives(tmp_path / "2", logmel=speech({**FRAMES, "c": 3})["logmel"])


@pytest.mark.parametrize(
    ("stream", "array", "problem"),
    [
        ("alignments", np.zeros(24, np.int32), "utterance b, alignments: 24 frames, but fmllr has 25"),
        ("logmel", np.zeros((26, 6), np.float32), "utterance b, logmel: 26 frames, but fmllr has 25"),
        ("ivectors", np.zeros((3, 100), np.float32), "utterance b, ivectors: 3 frames, but fmllr has 25"),
        ("ivectors", np.zeros(99, np.float32), "utterance b, ivectors: expected 100 values per frame, got 99"),
        ("fmllr", np.zeros((25, 39), np.float32), "fmllr: expected 40 values per frame, got 39"),
        ("logmel", np.zeros((25, 7), np.float32), "logmel: values with two deltas must be a multiple of 3, got 7"),
        ("logmel", np.zeros((25, 9), np.float32), "logmel: 9 values per frame, but 6 in an utterance before"),
        ("logmel", np.zeros((25, 0), np.float32), "logmel: values with two deltas must be a multiple of 3, got 0"),
        ("fmllr", np.full((25, 40), 1e300), "utterance b has features that are not finite"),
        ("fmllr", np.full((25, 40), 0x7FF0000000000001).view(np.float64), "has features that are not finite"),
        ("logmel", np.zeros(25, np.float32), r"logmel: an array of shape \[25\]"),
        ("alignments", np.full(25, 9, np.int32), "states must be whole numbers from 0 to 8, got int32 from 9 to 9"),
        ("alignments", np.full(25, -1, np.int32), "from -1 to -1"),
        ("alignments", np.zeros(25, np.float32), "float32 from 0.0 to 0.0"),
        ("fmllr", np.full((25, 40), np.nan, np.float32), "utterance b has features that are not finite"),
    ],
)
def test_arrays_that_do_not_fit_are_reported(stream: str, array: np.ndarray, problem: str, tmp_path: Path):
    found = archives(tmp_path, **{stream: {**speech(FRAMES)[stream], "b": array}})
    with pytest.raises(InputError, match=problem):
        list(found)


@pytest.mark.parametrize("tables", [True, False])
def test_damaged_archives_are_reported(tables: bool, tmp_path: Path):
    write_archives(tmp_path, speech(FRAMES), tables)
    archive = tmp_path / "logmel.ark"
    archive.write_bytes(archive.read_bytes()[:-7])
    with pytest.raises(InputError, match=r"logmel.ark: .*damaged"):
        kaldi.Archives(tmp_path, states=9)["b"]
    archive.write_bytes(b"")
    with pytest.raises(InputError, match=r"logmel.ark: a of logmel|logmel lacks 2 of the 2 utterances"):
        kaldi.Archives(tmp_path, states=9)["a"]


@pytest.mark.parametrize("tables", [True, False])
@pytest.mark.parametrize(
    "array",
    [
        b"\4\xff\xff\xff\x7f\4",
        b"\4\xff\xff\xff\xff\4",
        b"FM \4\xff\xff\xff\x7f\4\x04\0\0\0",
        b"DV \4\xff\xff\xff\x7f",
        b"CM3 " + bytes(8) + b"\xff\xff\xff\x7f\xff\xff\xff\x7f",
        b"CM " + bytes(8) + b"\xff\xff\xff\x0f\xff\xff\xff\x0f",
        b"FM" * 1000,
    ],
)
def test_arrays_that_claim_much_take_no_memory(array: bytes, tables: bool, tmp_path: Path):
    write_archives(tmp_path, speech({"a": 3}), tables)
    (tmp_path / "alignments.ark").write_bytes(b"a \0B" + array)
    with bounded(), pytest.raises(InputError, match=r"alignments.ark: .*(is damaged|announces)"):
        kaldi.Archives(tmp_path)["a"]


@pytest.mark.parametrize("tables", [True, False])
def test_a_pipe_in_place_of_an_archive_is_refused(tables: bool, tmp_path: Path):
    write_archives(tmp_path, speech({"a": 3}), tables)
    (tmp_path / "logmel.ark").unlink()
    os.mkfifo(tmp_path / "logmel.ark")
    with bounded(), pytest.raises(InputError, match=r"logmel.ark cannot be read \(it is not a file\)"):
        kaldi.Archives(tmp_path, states=9)["a"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archives with tables, without them, and compressed."""
    folder, arrays = tmp_path_factory.mktemp("small"), speech({"a": 3, "b": 2})
    for name in ("tables", "archives", "compressed"):
        write_archives(folder / name, arrays, tables=name == "tables")
    kaldiio.save_ark(str(folder / "compressed" / "logmel.ark"), arrays["logmel"], compression_method=2)
    return folder


@given(which=st.integers(0, 15), changes=CHANGES)
def test_changed_files_are_read_or_refused(which: int, changes: list[tuple[int, bytes, int]], small: Path):
    path = sorted(path for path in small.rglob("*") if path.is_file())[which]
    with changed(path, changes), suppress(InputError):
        list(kaldi.Archives(path.parent, states=9))


def test_empty_archives_are_reported(tmp_path: Path):
    write_archives(tmp_path, {stream: {} for stream in speech(FRAMES)})
    with pytest.raises(InputError, match="the archives have no utterances"):
        kaldi.Archives(tmp_path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a touch /tmp/run |", "logmel.scp, line 1: commands are not run"),
        ("a | touch /tmp/run", "commands are not run"),
        ("a", "line 1 must be NAME ARCHIVE:BYTE, got 'a'"),
        ("a somewhere.ark", "must be NAME ARCHIVE:BYTE"),
        ("a x.ark:2\na x.ark:2", "line 2: a occurs twice"),
        (f"a x.ark:{'9' * 5000}", "line 1 must be NAME ARCHIVE:BYTE"),
        (f"a {'x' * 5000}.ark:2\nb x.ark:2", "cannot be read .File name too long."),
        ("a x\0.ark:2\nb x.ark:2", "is damaged .ValueError: embedded null byte."),
        ("a nowhere.ark:2\nb nowhere.ark:2", "nowhere.ark cannot be read"),
    ],
)
def test_unusable_tables_are_reported(line: str, problem: str, tmp_path: Path):
    write_archives(tmp_path, speech(FRAMES))
    (tmp_path / "logmel.scp").write_text(f"{line}\n")
    with pytest.raises(InputError, match=problem):
        kaldi.Archives(tmp_path, states=9)["a"]


@pytest.mark.parametrize("content", [b"PKL" + pickle.dumps([1]), b" [ 1 2 3 ]\n", b"RIFF", b""])
def test_pickles_and_text_in_archives_are_not_read(content: bytes, tmp_path: Path):
    write_archives(tmp_path, speech({"a": 3}), tables=False)
    (tmp_path / "fmllr.ark").write_bytes(b"a " + content)
    with pytest.raises(InputError, match=r"fmllr.ark: 'a', at byte 2, is not a binary array"):
        kaldi.Archives(tmp_path)
    (tmp_path / "fmllr.scp").write_text(f"a {tmp_path}/fmllr.ark:2\n")
    with pytest.raises(InputError, match=r"fmllr.ark: a of fmllr, at byte 2, is not a binary array of Kaldi"):
        kaldi.Archives(tmp_path)["a"]


def test_missing_speech_is_reported_as_licensed(tmp_path: Path):
    with pytest.raises(InputError, match=r"SWB-300 is not in .*swb300/ with train/fmllr.scp.* licensed .*ali-to-pdf"):
        kaldi.read(tmp_path)


def test_data_is_read_without_kaldiio_typer_plotly_and_ray():
    absent = "import sys; sys.modules.update(kaldiio=None, typer=None, plotly=None, ray=None); "
    code = absent + "from adamplus.lab.data import kaldi; kaldi.read_array(kaldi.Entry('x', 0), 'x')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "InputError: Kaldi archives need kaldiio, which is not installed" in done.stderr
