"""A file from the network goes on where it broke off, and is in place only when it is whole and right."""

from pathlib import Path

import pytest
from data.servers import CONTENT, DIGEST, QUICK, Server

from adamplus.lab.data import fetching
from adamplus.lab.data.fetching import fetch
from adamplus.lab.errors import InputError


def fetched(server: Server, to: Path, digest: str | None = DIGEST) -> bytes:
    fetch(f"{server.address}/file", to, digest, patience=QUICK)
    assert not to.with_name(f"{to.name}.part").exists()
    return to.read_bytes()


def test_a_file_comes_whole_and_is_not_asked_for_again(server: Server, tmp_path: Path):
    seen: list[tuple[str, int, int | None]] = []
    fetch(f"{server.address}/file", tmp_path / "x.tar.gz", DIGEST, lambda *told: seen.append(told), QUICK)
    assert (tmp_path / "x.tar.gz").read_bytes() == CONTENT
    assert seen[-1] == ("x.tar.gz", len(CONTENT), len(CONTENT))
    fetched(server, tmp_path / "x.tar.gz")
    assert server.asked == [None]


def test_a_broken_connection_goes_on_where_it_broke(server: Server, tmp_path: Path):
    server.breaks = [200_000, 100_000]
    assert fetched(server, tmp_path / "x") == CONTENT
    assert server.asked == [None, "bytes=200000-", "bytes=300000-"]


def test_a_stopped_download_goes_on_in_the_next_one(server: Server, tmp_path: Path):
    server.breaks = [300_000, 0, 0, 0]
    with pytest.raises(
        InputError, match="the connection ended early, in 3 tries; 300,000 bytes have come and are kept"
    ):
        fetched(server, tmp_path / "x")
    assert not (tmp_path / "x").exists()
    assert fetched(server, tmp_path / "x") == CONTENT
    assert server.asked[-1] == "bytes=300000-"


def test_a_server_that_knows_no_ranges_starts_from_the_beginning(server: Server, tmp_path: Path):
    server.ranges, server.breaks = False, [300_000, 400_000]
    assert fetched(server, tmp_path / "x") == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=400000-"]


def test_a_server_that_sends_another_range_is_asked_for_the_whole(server: Server, tmp_path: Path):
    server.shift, server.breaks = 7, [300_000]
    assert fetched(server, tmp_path / "x", digest=None) == CONTENT
    assert server.asked == [None, "bytes=300000-", None]


def test_a_part_of_another_file_is_dropped(server: Server, tmp_path: Path):
    (tmp_path / "x.part").write_bytes(b"?" * 1000)
    assert fetched(server, tmp_path / "x") == CONTENT
    assert server.asked == ["bytes=1000-", None]
    (tmp_path / "y.part").write_bytes(b"?" * (len(CONTENT) + 5))
    assert fetched(server, tmp_path / "y") == CONTENT


def test_a_part_that_is_whole_already_is_taken(server: Server, tmp_path: Path):
    (tmp_path / "x.part").write_bytes(CONTENT)
    assert fetched(server, tmp_path / "x") == CONTENT
    assert len(server.asked) == 1


def test_a_file_that_is_shorter_on_the_server_is_not_kept(server: Server, tmp_path: Path):
    server.files["/file"] = CONTENT[:-1]
    with pytest.raises(InputError, match=f"not the file that is known, so it was not kept .*{DIGEST} is expected"):
        fetched(server, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [False, "many"])
def test_servers_without_lengths_and_digests_that_nobody_knows_will_do(
    length: bool | str, server: Server, tmp_path: Path
):
    server.length = length
    assert fetched(server, tmp_path / "x") == CONTENT
    assert fetched(server, tmp_path / "y", digest=None) == CONTENT


def test_a_file_that_is_not_there_is_told_at_once(server: Server, tmp_path: Path):
    with pytest.raises(InputError, match=f"{server.address}/nothing: the server answers 404 Not Found"):
        fetch(f"{server.address}/nothing", tmp_path / "x", None, patience=QUICK)
    assert len(server.asked) == 1


def test_a_server_that_is_busy_is_asked_again(server: Server, tmp_path: Path):
    server.answers = [503, 429]
    assert fetched(server, tmp_path / "x") == CONTENT
    server.answers = [503] * 3
    with pytest.raises(InputError, match="the server answers 503 Service Unavailable, in 3 tries"):
        fetched(server, tmp_path / "y")


def test_a_server_that_is_not_there_is_told(server: Server, tmp_path: Path):
    with pytest.raises(InputError, match=r"http://127.0.0.1:1/x: no connection \(.*refused.*\), in 3 tries$"):
        fetch("http://127.0.0.1:1/x", tmp_path / "x", None, patience=QUICK)


def test_more_than_any_set_has_is_not_taken(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetching, "LIMIT", 100_000)
    with pytest.raises(InputError, match="512,000 bytes are announced, which no known data set has"):
        fetched(server, tmp_path / "x")
    server.length = False
    with pytest.raises(InputError, match="more than 100,000 bytes come"):
        fetched(server, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told(server: Server, tmp_path: Path):
    (tmp_path / "x.part").symlink_to("/dev/full")
    with pytest.raises(InputError, match=r"x.part: it cannot be written \(No space left on device\)"):
        fetched(server, tmp_path / "x")
