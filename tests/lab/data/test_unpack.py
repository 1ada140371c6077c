"""Archives are unpacked into one folder; suspicious archives are refused."""

import io
import os
import random
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from data.writers import member, pack, tar_with

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
