"""`adamplus data` prints the state of data sets, and its exit code can be used by scripts."""

import hashlib
import re
from pathlib import Path

import pytest
from data.writers import write_wikitext
from typer.testing import CliRunner, Result

from adamplus.lab.commands.data import data_app
from adamplus.lab.data import SETS, DataSet, File, Layout, ProgressCallback, Source, downloads
from adamplus.lab.errors import InputError


def run(*arguments: object) -> Result:
    return CliRunner().invoke(data_app, [str(a) for a in arguments], env={"COLUMNS": "400", "TERM": "dumb"})


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set of one file, which is fetched without a network."""
    digest = f"sha256:{hashlib.sha256(b'x').hexdigest()}"
    way = (Source("https://toy.example/file", "file", digest),)
    layout = Layout("plain", ("toy",), (File("file", digest),))
    monkeypatch.setitem(SETS, "toy", DataSet("toy", "Toy", (layout,), "free", "https://toy.example", (way,)))

    def fetch(address: str, to: Path, digest: str, progress: ProgressCallback, retry: object, limit: int) -> None:
        if to.parent.parent.name == "offline":
            raise InputError(f"{address}: no connection")
        to.write_bytes(b"x")
        progress("file", 1, 1)

    monkeypatch.setattr(downloads, "fetch", fetch)


@pytest.mark.usefixtures("toy")
def test_where_lists_every_data_set(tmp_path: Path):
    folder = write_wikitext(tmp_path)
    (folder / "wiki.test.tokens").unlink()
    printed = run("where", "--data", tmp_path).output
    assert f"wikitext2  {folder} (tokens), which lacks wiki.test.tokens" in printed
    assert f"cifar10    not there. To get it: adamplus data download cifar10 --data {tmp_path}." in printed
    assert "swb300     not there. It is licensed speech (LDC97S62) and cannot be downloaded." in printed


@pytest.mark.usefixtures("toy")
def test_verify_exits_with_1_if_a_file_is_wrong(tmp_path: Path):
    nothing = run("verify", "--data", tmp_path)
    assert (nothing.exit_code, nothing.output) == (1, f"{tmp_path} has no data set\n")
    missing = run("verify", "toy", "--data", tmp_path)
    assert (missing.exit_code, missing.output.split()[:2]) == (1, ["missing", "toy"])
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "file").write_text("x")
    right = run("verify", "--data", tmp_path)
    assert (right.exit_code, right.output.split()[:2]) == (0, ["ok", "toy"])
    (tmp_path / "toy" / "file").write_text("y")
    wrong = run("verify", "--data", tmp_path)
    assert wrong.exit_code == 1
    assert wrong.output.startswith("wrong digest   toy")
    assert re.search(rf"To get the official files: \S*adamplus data download toy --data {tmp_path}\n$", wrong.output)


@pytest.mark.usefixtures("toy")
def test_download_prints_the_folder_and_the_licence(tmp_path: Path):
    done = run("download", "toy", "--data", tmp_path)
    assert done.exit_code == 0, done.output
    assert f"toy is in {tmp_path / 'toy'}; free" in done.output
    assert (tmp_path / "toy" / "file").read_text() == "x"


@pytest.mark.usefixtures("toy")
def test_errors_are_reported_without_a_traceback(tmp_path: Path):
    for arguments, message in (
        (("download", "toy", "--data", tmp_path / "offline"), "https://toy.example/file: no connection"),
        (("download", "tay"), "unknown data set 'tay': did you mean toy"),
        (("verify", "tay"), "unknown data set 'tay'"),
        (("download", "swb300", "--data", tmp_path), "SWB-300 cannot be downloaded"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert message in " ".join(result.output.split())
        assert "Traceback" not in result.output


@pytest.mark.parametrize("command", [("where",), ("verify",), ("download", "wikitext2")])
def test_a_file_as_the_folder_of_data_is_an_error(command: tuple[str, ...], tmp_path: Path):
    (tmp_path / "file").write_text("")
    result = run(*command, "--data", tmp_path / "file")
    assert result.exit_code == 2
    assert "file is not a folder: name the folder of data sets by --data or $ADAMPLUS_DATA" in result.output
