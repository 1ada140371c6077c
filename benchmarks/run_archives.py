"""Archives of stored runs: from the machine that trained them into a folder of results.

`pack` writes what a results folder has and another has not, and `merge` brings it into the other. Every archive has
SHA256SUMS of its files. Nothing is merged unless everything is whole and fits.
"""

import hashlib
import json
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from adamplus.lab._store import CHECKPOINT, COMPARISON, CorruptError, Run, Spec, parse_json, replace_file
from adamplus.lab.data.unpack import unpack
from adamplus.lab.errors import InputError

LARGEST = 16 << 20
MOST_ARCHIVES = 8
MOST_FILES = 9_000
"""The most files of an archive; `unpack` reads 10,000."""
UNPACKED = 1 << 30
SUMS = "SHA256SUMS"
RUN_FILES = {"settings.json", "metrics.jsonl", "end.json"}
RECORDS = {COMPARISON, "choice.json"}
"""Files that a later comparison in the same folder replaces."""
LINES = "runs.jsonl"
"""A file to which every run adds a line."""
ENTRIES = "campaign.json"
"""The record of a campaign, by entry."""
DATA = "data.json"
"""Whether the data was the official one. Every call writes it again; files of earlier versions have no checksum."""
REMARKS = "remarks.json"
"""Remarks about runs, which are written by hand where the archives are merged."""


def pack(source: Path, known: Path, to: Path, copied: Mapping[str, str] | None = None) -> list[Path]:
    """Archive the files of `source` that `known` has not, or has otherwise. Returns the archives.

    Runs that have not ended, or have failed, are left out, and so are figures and pages, which are made of the runs.
    The names of the archives begin with the time, so that they sort by it and those of earlier calls are kept.

    Args:
        source: folder of results.
        known: folder of results that the archives will be merged into, or a copy of it.
        to: folder of the archives.
        copied: digests of files that were copied into `source`. Files that still have them are left out: those in
            `known` may be newer.

    Raises:
        InputError: if files do not fit into the most and the largest archives that are allowed. The others are written.
    """
    to.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    left = 0
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    for group in _groups(source, list(_new(source, known, copied or {}))):
        if len(made) == MOST_ARCHIVES:
            left += len(group)
            continue
        path = to / f"runs-{now}-{len(made) + 1}.tar.gz"
        sums = "".join(f"{digest_of((source / name).read_bytes())}  {name}\n" for name in group)
        with tempfile.NamedTemporaryFile("w", suffix=SUMS) as file, tarfile.open(path, "x:gz") as archive:
            file.write(sums)
            file.flush()
            archive.add(file.name, SUMS, filter=_anonymous)
            for name in group:
                archive.add(source / name, name, filter=_anonymous)
        if path.stat().st_size > LARGEST:
            path.unlink()
            left += len(group)
        else:
            made.append(path)
    if left:
        most = f"{MOST_ARCHIVES} archives of {LARGEST:,} bytes"
        raise InputError(f"{left} files do not fit into {most}: merge these, then pack again")
    return made


def merge(archives: Sequence[Path], into: Path) -> tuple[int, int]:
    """Unpack archives into a folder of results. Returns the numbers of files written, and of those it had already.

    Archives are read in the order of their names, which is that of their times.

    Raises:
        InputError: if an archive is damaged or holds anything but files of runs, or a file differs from one that is
            there. Nothing is written then.
    """
    written: dict[str, bytes] = {}
    same = 0
    for archive in sorted(archives, key=lambda path: path.name):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in _whole(archive, Path(folder)).items():
                before = written.get(name)
                if before is None and (into / name).exists():
                    before = (into / name).read_bytes()
                if before is not None and _equal(name, before, content):
                    same += 1
                else:
                    written[name] = content if before is None else _combined(name, before, content, archive)
    for name, content in written.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        replace_file(into / name, content)
    return len(written), same


def _new(source: Path, known: Path, copied: Mapping[str, str]) -> Iterator[str]:
    """Names of the files to archive, those of each run together."""
    for path in sorted(path for path in source.rglob("*") if path.suffix in (".json", ".jsonl")):
        name = path.relative_to(source)
        if any(part.startswith(".") or part == "aside" for part in name.parts) or path.name == REMARKS:
            continue
        if path.name in RUN_FILES and not _is_whole(path.parent):
            continue
        content = path.read_bytes()
        if copied.get(name.as_posix()) == digest_of(content):
            continue
        if not (known / name).exists() or not _equal(path.name, (known / name).read_bytes(), content):
            yield name.as_posix()


def _equal(name: str, before: bytes, content: bytes) -> bool:
    """Whether a file has not changed. Checksums in a `data.json` do not count."""
    if before != content and PurePosixPath(name).name == DATA:
        with suppress(ValueError):
            return parse_json(before) == parse_json(content)
    return before == content


def has_ended(folder: Path) -> bool:
    """Whether a run has ended without a failure."""
    with suppress(CorruptError):
        return (Run(folder).end() or {}).get("status") in ("finished", "diverged")
    return False


def _is_whole(folder: Path) -> bool:
    """Whether a run has ended without a failure, and its files are undamaged."""
    with suppress(CorruptError):
        Run(folder).check()
        return has_ended(folder) and not (folder / CHECKPOINT).exists()
    return False


def _groups(source: Path, names: Sequence[str]) -> Iterator[list[str]]:
    """Names in their order, as many at a time as an archive can hold for certain: all files of a run, or none."""
    group: list[str] = []
    size = 0
    runs: dict[str, list[str]] = {}
    for name in names:
        runs.setdefault(str(PurePosixPath(name).parent), []).append(name)
    for own in runs.values():
        more = sum(_packed_bytes(source / name) for name in own)
        if group and (size + more > LARGEST or len(group) + len(own) > MOST_FILES):
            yield group
            group, size = [], 0
        group, size = [*group, *own], size + more
    if group:
        yield group


def _packed_bytes(path: Path) -> int:
    """An upper estimate of a file's share of an archive: compressed alone, with its header and its checksum."""
    return len(zlib.compress(path.read_bytes(), 9)) + 512


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A member without the user and the times of this machine."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member


def _whole(archive: Path, folder: Path) -> dict[str, bytes]:
    """The files of an archive, by name, after all checks."""
    unpack(archive, ".", folder, UNPACKED)
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    sums = found.pop(SUMS).read_text() if SUMS in found else ""
    stated = {name: one for one, _, name in (line.partition("  ") for line in sums.splitlines())}
    if stated != {name: digest_of(path.read_bytes()) for name, path in found.items()}:
        raise InputError(f"{archive} is damaged: its files are not those of its {SUMS}")
    for name, path in found.items():
        if path.suffix not in (".json", ".jsonl") or any(part.startswith(".") for part in PurePosixPath(name).parts):
            raise InputError(f"{archive} has {name!r}, which is no file of a run: nothing was merged")
    for run in {path.parent for path in found.values() if path.name in RUN_FILES}:
        try:
            Run(run).check()
            spec = Spec.from_json(Run(run).settings()["spec"])
            if not run.as_posix().endswith(f"runs/{spec.folder().as_posix()}") or not _is_whole(run):
                raise CorruptError("it has not ended, or it is in the folder of another run")
        except CorruptError as error:
            raise InputError(f"{archive}: the run {run.relative_to(folder)} is damaged: {error}") from error
    return {name: path.read_bytes() for name, path in sorted(found.items())}


def _combined(name: str, before: bytes, content: bytes, archive: Path) -> bytes:
    """The content of a file that is there already, with another content."""
    last = PurePosixPath(name).name
    if last in RECORDS:
        return content
    if last == LINES:
        old = before.splitlines(keepends=True)
        return b"".join([*old, *(line for line in content.splitlines(keepends=True) if line not in old)])
    if last == ENTRIES:
        try:
            old, new = parse_json(before), parse_json(content)
        except ValueError as error:
            raise InputError(f"{name}, there or in {archive.name}, is damaged: {error}. Nothing was merged") from error
        kept = {entry: _later(old[entry], one) if entry in old else one for entry, one in new.items()}
        return json.dumps({**old, **kept}, indent=1, ensure_ascii=False).encode() + b"\n"
    raise InputError(
        f"{name} in {archive.name} differs from the one that is there: nothing was merged. Remove one of the two"
    )


def _later(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The record of an entry that is kept: the complete one of the same command, else the later one."""
    if old.get("command") == new.get("command") and old.get("complete") != new.get("complete"):
        return old if old.get("complete") else new
    return old if old.get("ended", 0.0) > new.get("ended", 0.0) else new


def digest_of(content: bytes) -> str:
    """Digest of a file's content."""
    return hashlib.sha256(content).hexdigest()
