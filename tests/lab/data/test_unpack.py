"""Archives are unpacked into one folder; suspicious archives are refused."""

import gzip
import io
import os
import random
import stat
import tarfile
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from data.bounds import bounded
from data.writers import member, pack, tar_with
from hypothesis import given
from hypothesis import strategies as st

from adamplus.lab.data.unpack import unpack
from adamplus.lab.errors import InputError

GOOD = member("set/good")


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (member("../escaped"), r"'\.\./escaped' leads out of the folder"),
        (member("set/../../escaped"), "leads out of the folder"),
        (member("/tmp/escaped"), "leads out of the folder"),
        (member("set/link", tarfile.SYMTYPE, link="/etc/passwd"), "'set/link' is a link"),
        (member("set/link", tarfile.SYMTYPE, link="good"), "is a link"),
        (member("set/link", tarfile.LNKTYPE, link="set/good"), "is a link"),
        (member("set/device", tarfile.CHRTYPE), "is a device"),
        (member("set/pipe", tarfile.FIFOTYPE), "is a device"),
        (member("set/good"), "has 'good' twice"),
        (member("set/large", size=5000), "has more than 4,000 bytes of content"),
    ],
)
def test_suspicious_archives_are_refused(bad: tarfile.TarInfo, problem: str, tmp_path: Path):
    archive = tar_with(tmp_path / "x.tar.gz", GOOD, bad)
    with pytest.raises(InputError, match=f"x.tar.gz.*{problem}"):
        unpack(archive, "set", tmp_path / "deep" / "to", limit=4000)
    assert not list(tmp_path.rglob("*escaped*"))
    assert not Path("/tmp/escaped").exists()


def test_only_the_wanted_folder_is_unpacked(tmp_path: Path):
    archive = tar_with(tmp_path / "x.tar.gz", member("set/a/b"), member("other/c"), member("other/d", tarfile.SYMTYPE))
    unpack(archive, "set", tmp_path / "to")
    assert [p.relative_to(tmp_path / "to").as_posix() for p in (tmp_path / "to").rglob("*") if p.is_file()] == ["a/b"]


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "set/../../escaped"])
def test_suspicious_zip_files_are_refused(name: str, tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr(name, "x")
    with pytest.raises(InputError, match="leads out of the folder"):
        unpack(tmp_path / "x.zip", "set", tmp_path / "deep" / "to")
    assert not list(tmp_path.rglob("*escaped*"))


def test_links_in_zip_files_are_refused(tmp_path: Path):
    link = zipfile.ZipInfo("set/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr("set/good", "x")
        packed.writestr(link, "/etc/passwd")
    with pytest.raises(InputError, match="'set/link' is a link"):
        unpack(tmp_path / "x.zip", "set", tmp_path / "to")


@pytest.mark.parametrize("name", ["x.zip", "x.tar.xz", "x.tar.bz2", "x.tar"])
def test_archives_with_flipped_bytes_raise_input_errors_only(name: str, tmp_path: Path):
    """zip, tar and their compressions raise IndexError, UnicodeDecodeError and lzma's own errors, for example."""
    path = tmp_path / name
    if name == "x.zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("set/fïle", bytes(range(256)) * 8)
    else:
        mode: Any = f"w:{name.rpartition('.')[2].replace('tar', '')}"
        with tarfile.open(path, mode) as packed:
            packed.addfile(member("set/fïle", size=512), io.BytesIO(bytes(512)))
    whole, generator = path.read_bytes(), random.Random(0)
    refused = 0
    for i in range(300):
        content = bytearray(whole)
        for _ in range(generator.randint(1, 4)):
            content[generator.randrange(len(content))] = generator.randrange(256)
        path.write_bytes(content)
        try:
            unpack(path, "set", tmp_path / f"to{i}")
        except InputError:
            refused += 1
    assert refused > 30


@pytest.mark.parametrize("cut", [0, 1, 40, 300])
def test_archives_that_are_cut_off_are_reported(cut: int, tmp_path: Path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file").write_bytes(os.urandom(1000))
    archive = pack(tmp_path / "set", tmp_path / "x.tar.gz")
    archive.write_bytes(archive.read_bytes()[:cut])
    with pytest.raises(InputError, match=r"x.tar.gz cannot be (read|unpacked)"):
        unpack(archive, "set", tmp_path / "to")


def block(name: str, kind: bytes, size: int) -> bytes:
    """A header of 512 bytes, with any size."""
    info = member(name, kind)
    info.size = max(size, 0)
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT)[:512])
    if size < 0:
        header[124:136] = b"\xff" * 8 + size.to_bytes(4, "big", signed=True)
        header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:]))
    return bytes(header)


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 512)


def extended(kind: bytes, content: bytes) -> bytes:
    return block("././@LongLink", kind, len(content)) + padded(content)


def record(key: str, value: str) -> bytes:
    """An attribute in an extended header."""
    rest = f" {key}={value}\n"
    length = next(n for n in range(len(rest), len(rest) + 9) if n == len(str(n)) + len(rest))
    return f"{length}{rest}".encode()


MB = 1 << 20
END = bytes(1024)
SMALL = block("set/good", tarfile.REGTYPE, 3) + padded(b"abc")
HUGE = {
    "a long name": (lambda: extended(b"L", b"a" * 80 * MB) + SMALL, "bytes of names and attributes"),
    "a long name of a link": (lambda: extended(b"K", b"a" * 80 * MB) + SMALL, "bytes of names and attributes"),
    "attributes": (lambda: extended(b"x", record("path", "a" * 80 * MB)) + SMALL, "bytes of names and attributes"),
    "global attributes": (lambda: extended(b"g", record("path", "a" * 80 * MB)) + SMALL, "bytes of names and attr"),
    "attributes of Solaris": (lambda: extended(b"X", record("path", "a" * 80 * MB)) + SMALL, "bytes of names and attr"),
    "many long names": (lambda: (extended(b"L", b"a" * MB) * 80) + SMALL, "bytes of names and attributes"),
    "many global attributes": (
        lambda: b"".join(extended(b"g", record(f"{i}", "a" * MB)) for i in range(80)) + SMALL,
        "bytes of names and attributes",
    ),
    "a name that no disk takes": (lambda: extended(b"L", b"set/" + b"a/" * MB) + SMALL, "a name has 2,097,156 char"),
    "a chain of headers": (lambda: extended(b"L", b"a") * 20_000 + SMALL, "has more than 10,000 members"),
    "a negative size": (lambda: block("set/x", tarfile.REGTYPE, -1024) + SMALL, "is not an octal number"),
    "a negative size of a name": (lambda: block("x", b"L", -1) + bytes(80 * MB), "is not an octal number"),
    "a negative size in attributes": (lambda: extended(b"x", record("size", "-512")) + SMALL, "header is damaged"),
    "a size in attributes": (
        lambda: extended(b"x", record("size", "9" * 12)) + SMALL,
        "has more than 50,000,000 bytes",
    ),
    "a size of digits": (lambda: extended(b"x", record("size", "9" * 9000)) + SMALL, "header is damaged"),
    "a length of digits": (lambda: extended(b"x", b"9" * MB) + SMALL, "header is damaged"),
    "a length of nothing": (lambda: extended(b"x", b"0 a=b\n") + SMALL, "header is damaged"),
    "attributes that end early": (lambda: extended(b"x", b"99 path=b\n") + SMALL, "header is damaged"),
    "a file of 8 GiB": (lambda: block("set/x", tarfile.REGTYPE, (8 << 30) - 1), "has more than 50,000,000 bytes"),
    "an unknown member of 8 GiB": (lambda: block("x", b"V", (8 << 30) - 1), "has more than 50,000,000 bytes"),
    "a sparse file": (lambda: block("set/x", tarfile.GNUTYPE_SPARSE, 512) + bytes(512), "'set/x' is a device"),
    "many empty files": (
        lambda: block("elsewhere", tarfile.REGTYPE, 0) * 100_000,
        "has more than 10,000 members",
    ),
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", HUGE)
def test_headers_that_claim_much_take_no_memory_or_time(name: str, compressed: bool, tmp_path: Path):
    make, problem = HUGE[name]
    archive = tmp_path / "x.tar"
    archive.write_bytes(gzip.compress(make() + END, 1) if compressed else make() + END)
    with bounded(), pytest.raises(InputError, match=problem):
        unpack(archive, "set", tmp_path / "to", limit=50_000_000)
    assert not list(tmp_path.rglob("good"))


def test_headers_of_members_count_as_content(tmp_path: Path):
    archive = tar_with(tmp_path / "x.tar.gz", *[member(f"set/{i}", size=0) for i in range(20)])
    with pytest.raises(InputError, match="has more than 4,000 bytes of content"):
        unpack(archive, "set", tmp_path / "to", limit=4000)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("kind", ["", "gz", "bz2", "xz"])
def test_the_forms_of_tar_archives_are_unpacked(form: int, kind: str, tmp_path: Path):
    names = ["set/short", "set/" + "folder/" * 20 + "x" * 90, "other/file"]
    names += [] if form == tarfile.USTAR_FORMAT else ["set/" + "x" * 240, "set/fïle", "set/" + "deep/" * 200 + "y"]
    mode: Any = f"w:{kind}"
    with tarfile.open(tmp_path / "x", mode, format=form, pax_headers={"comment": "z" * 2000}) as packed:
        packed.addfile(member("set", tarfile.DIRTYPE))
        for size, name in enumerate(names, 510):
            packed.addfile(member(name, size=size), io.BytesIO(name[:1].encode() * size))
        packed.addfile(member("other/link", tarfile.SYMTYPE, link="y" * 90))
    unpack(tmp_path / "x", "set", tmp_path / "to")
    found = {f"set/{p.relative_to(tmp_path / 'to').as_posix()}": p for p in (tmp_path / "to").rglob("*") if p.is_file()}
    assert set(found) == {name for name in names if name.startswith("set/")}
    for size, name in enumerate(names, 510):
        if name in found:
            assert found[name].read_bytes() == b"s" * size


@given(st.lists(st.tuples(st.integers(0, 4000), st.binary(max_size=4)), max_size=4), st.booleans())
def test_changed_tar_archives_are_unpacked_or_refused(changes: list[tuple[int, bytes]], sums: bool):
    content = bytearray(extended(b"x", record("path", "set/a")) + SMALL + extended(b"L", b"set/b") + SMALL + END)
    for place, new in changes:
        at = place % len(content)
        content[at : at + len(new)] = new
    if sums:  # of all headers, so that changes in them are not found by these
        for at in range(0, len(content) - 512, 512):
            header = content[at : at + 512]
            content[at + 148 : at + 156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:]))
    with tempfile.TemporaryDirectory() as folder:
        archive, to = Path(folder, "x"), Path(folder, "deep", "to")
        archive.write_bytes(content)
        with suppress(InputError):
            unpack(archive, "set", to, limit=1 << 20)
        assert set(Path(folder).iterdir()) <= {archive, to.parent}
