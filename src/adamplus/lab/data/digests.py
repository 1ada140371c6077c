"""Digests of files, and of folders of files."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def digest_of(path: Path, like: str) -> str:
    """A file's digest by the algorithm of another one, both as "md5:…" or "sha256:…"."""
    algorithm = like.partition(":")[0]
    with path.open("rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


def digest_of_bytes(content: bytes, like: str) -> str:
    """The same, of what is in memory."""
    algorithm = like.partition(":")[0]
    return f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"


def digest_of_tree(folder: Path, paths: Iterable[Path]) -> str:
    """SHA-256 over name, newline and bytes of all files, in the order of their names."""
    total = hashlib.sha256()
    for name, path in sorted((path.relative_to(folder).as_posix(), path) for path in paths):
        total.update(name.encode() + b"\n" + path.read_bytes())
    return f"sha256:{total.hexdigest()}"
