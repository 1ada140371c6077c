"""A download resumes after an interruption and is renamed into place once it is complete and correct."""

from pathlib import Path

import pytest
from data.servers import CONTENT, DIGEST, QUICK, Server

from adamplus.lab.data.fetching import fetch
from adamplus.lab.errors import InputError


def fetched(server: Server, to: Path, digest: str | None = DIGEST) -> bytes:
    fetch(f"{server.address}/file", to, digest, retry=QUICK)
    assert not to.with_name(f"{to.name}.part").exists()
    return to.read_bytes()


def test_a_file_is_downloaded_once(server: Server, tmp_path: Path):
    seen: list[tuple[str, int, int | None]] = []
    fetch(f"{server.address}/file", tmp_path / "x.tar.gz", DIGEST, lambda *progress: seen.append(progress), QUICK)
    assert (tmp_path / "x.tar.gz").read_bytes() == CONTENT
    assert seen[-1] == ("x.tar.gz", len(CONTENT), len(CONTENT))
    fetched(server, tmp_path / "x.tar.gz")
    assert server.requested == [None]


def test_a_broken_connection_is_resumed(server: Server, tmp_path: Path):
    server.breaks = [200_000, 100_000]
    assert fetched(server, tmp_path / "x") == CONTENT
    assert server.requested == [None, "bytes=200000-", "bytes=300000-"]


def test_a_stopped_download_resumes_in_the_next_call(server: Server, tmp_path: Path):
    server.breaks = [300_000, 0, 0, 0]
    with pytest.raises(InputError, match="the connection ended early, in 3 tries; 300,000 bytes are kept"):
        fetched(server, tmp_path / "x")
    assert not (tmp_path / "x").exists()
    assert fetched(server, tmp_path / "x") == CONTENT
    assert server.requested[-1] == "bytes=300000-"


def test_a_server_without_ranges_sends_the_file_from_the_beginning(server: Server, tmp_path: Path):
    server.ranges, server.breaks = False, [300_000, 400_000]
    assert fetched(server, tmp_path / "x") == CONTENT
    assert server.requested == [None, "bytes=300000-", "bytes=400000-"]


def test_the_whole_file_is_requested_after_a_wrong_range(server: Server, tmp_path: Path):
    server.shift, server.breaks = 7, [300_000]
    assert fetched(server, tmp_path / "x", digest=None) == CONTENT
    assert server.requested == [None, "bytes=300000-", None]


def test_a_part_of_another_file_is_deleted(server: Server, tmp_path: Path):
    (tmp_path / "x.part").write_bytes(b"?" * 1000)
    assert fetched(server, tmp_path / "x") == CONTENT
    assert server.requested == ["bytes=1000-", None]
    (tmp_path / "y.part").write_bytes(b"?" * (len(CONTENT) + 5))
    assert fetched(server, tmp_path / "y") == CONTENT


def test_a_complete_part_is_used(server: Server, tmp_path: Path):
    (tmp_path / "x.part").write_bytes(CONTENT)
    assert fetched(server, tmp_path / "x") == CONTENT
    assert len(server.requested) == 1


def test_a_file_with_another_digest_is_deleted(server: Server, tmp_path: Path):
    server.files["/file"] = CONTENT[:-1]
    with pytest.raises(InputError, match=f"another digest than the known one and was deleted .expected {DIGEST}, got"):
        fetched(server, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [False, "many"])
def test_the_length_and_the_digest_may_be_unknown(length: bool | str, server: Server, tmp_path: Path):
    server.length = length
    assert fetched(server, tmp_path / "x") == CONTENT
    assert fetched(server, tmp_path / "y", digest=None) == CONTENT


def test_a_missing_file_is_reported_at_once(server: Server, tmp_path: Path):
    with pytest.raises(InputError, match=f"{server.address}/nothing: the server answered 404 Not Found"):
        fetch(f"{server.address}/nothing", tmp_path / "x", None, retry=QUICK)
    assert len(server.requested) == 1


def test_a_busy_server_is_tried_again(server: Server, tmp_path: Path):
    server.answers = [503, 429]
    assert fetched(server, tmp_path / "x") == CONTENT
    server.answers = [503] * 3
    with pytest.raises(InputError, match="the server answered 503 Service Unavailable, in 3 tries"):
        fetched(server, tmp_path / "y")


def test_an_unreachable_server_is_reported(server: Server, tmp_path: Path):
    with pytest.raises(InputError, match=r"http://127.0.0.1:1/x: no connection \(.*refused.*\), in 3 tries$"):
        fetch("http://127.0.0.1:1/x", tmp_path / "x", None, retry=QUICK)


def test_a_file_larger_than_its_limit_is_not_downloaded(server: Server, tmp_path: Path):
    for length, problem in (
        (True, "announces 512,000 bytes, and this file may have 100,000"),
        (False, "sends more"),
    ):
        server.length = length
        with pytest.raises(InputError, match=f"the server {problem}"):
            fetch(f"{server.address}/file", tmp_path / "x", None, retry=QUICK, limit=100_000)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_reported(server: Server, tmp_path: Path):
    (tmp_path / "x.part").symlink_to("/dev/full")
    with pytest.raises(InputError, match=r"x.part cannot be written \(No space left on device\)"):
        fetched(server, tmp_path / "x")
