"""Targets of tests/fuzzing.py that read damaged files of data sets: each is read, or refused with an InputError.

An input that takes more than `SECONDS` of processor time, or raises the memory of the process by more than `BYTES`, is
a failure.
"""

import bz2
import gzip
import io
import lzma
import pickle
import pickletools
import random
import resource
import signal
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

SECONDS, BYTES = 5.0, 256 << 20
NUMBERS = [
    struct.pack(form, number)
    for form, most in (("<i", 31), (">i", 31), ("<q", 63), ("<H", 15))
    for number in (0, 1, 2**most - 1, *([-1] if form != "<H" else []))
]
TEXTS = [
    *(b"", b" ", b"\n", b"\r\n", b"\t", b"\0", b"\0B", b"a", b"..", b"/", b"|", b":", b"(", b")", b"<s>", b"<unk>"),
    *(
        "é".encode(),
        b"\xff",
        b"\xe2\x80\xa8",
        b"FM ",
        b"DV ",
        b"CM ",
        b"FV ",
        b"\4",
        b"RIFF",
        b"data",
        b"fmt ",
        b"9" * 30,
    ),
]
TEXTS += [b"a" * 5000, b"(" * 5000, b"/dev/null:0", b"../../x", b"feat/x", b"x.ark:2", b"touch x |", b"= =", b"SIL"]


class TooSlowError(BaseException):
    """An input takes too much time. No reader catches it and calls the file damaged."""


@contextmanager
def bounded() -> Iterator[None]:
    """Raise if the block takes too much processor time or memory."""

    def interrupt(*_: object) -> None:
        raise TooSlowError(f"more than {SECONDS:g} seconds")

    before = signal.signal(signal.SIGPROF, interrupt)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most) << 10  # Linux counts KiB
    assert grown < BYTES, f"{grown >> 20} MiB more memory"


def is_read(read: Callable[[], object]) -> bool:
    """Whether an input is read, within the bounds; False if it is refused."""
    from adamplus.lab import InputError

    try:
        with bounded():
            read()
    except InputError:
        return False
    return True


def damaged(content: bytes, chance: random.Random, words: Sequence[bytes] = ()) -> bytes:
    """A copy with a few changes, most of them near the beginning and the end, where headers are."""
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(content) + 1)
        if chance.random() < 0.6:
            at = min(at, chance.randrange(200)) if chance.random() < 0.7 else max(at, len(content) - 200)
        length = chance.choice([0, 1, 1, 2, 4, chance.randrange(60), len(content)])
        new = chance.choice(
            [b"", chance.choice([*words, *NUMBERS, *TEXTS]), chance.randbytes(length % 8), content[at:][:length] * 2]
        )
        content = content[:at] + new + content[at + length :]
    return content


def files(write: Callable[[Path], object], read: Callable[[Path, Path], object], words: Sequence[bytes] = ()) -> Any:
    """A target that writes data sets, and reads them with a file damaged or missing.

    `read` gets the folder of the data sets and the file.
    """
    root = Path(tempfile.mkdtemp())
    write(root)
    paths = sorted(path for path in root.rglob("*") if path.is_file())

    def attempt(chance: random.Random) -> bool:
        path = chance.choice(paths)
        before = path.read_bytes()
        path.unlink() if chance.random() < 0.01 else path.write_bytes(damaged(before, chance, words))
        try:
            return is_read(partial(read, root, path))
        finally:
            path.write_bytes(before)

    return attempt


def kaldi() -> Any:
    """Archives of Kaldi: with tables, without, and compressed."""
    import kaldiio
    from lab.data.writers import speech, write_archives

    from adamplus.lab.data.readers import kaldi

    def write(root: Path) -> None:
        arrays = speech({"a": 3, "b": 2})
        for name in ("tables", "archives", "compressed"):
            write_archives(root / name, arrays, tables=name == "tables")
        for method in (2, 3):
            kaldiio.save_ark(str(root / "compressed" / "logmel.ark"), arrays["logmel"], compression_method=method)

    return files(write, lambda _, path: list(kaldi.Archives(path.parent, states=9)))


def wikitext() -> Any:
    """The texts of WikiText-2."""
    from lab.data.writers import write_wikitext

    from adamplus.lab.data.readers import wikitext

    return files(write_wikitext, lambda root, _: len(wikitext.read(root).train))


def an4() -> Any:
    """The tables and features of AN4."""
    from lab.data.writers import write_an4

    from adamplus.lab.data.readers import an4

    return files(partial(write_an4, frames=2), lambda root, _: an4.read(root))


def fsdd() -> Any:
    """The recordings of FSDD, and their names."""
    import numpy
    from lab.data.writers import write_wav

    from adamplus.lab.data.readers import fsdd

    folder = Path(tempfile.mkdtemp())
    write_wav(folder / "7_ann_9.wav", numpy.arange(20))
    whole = (folder / "7_ann_9.wav").read_bytes()

    def attempt(chance: random.Random) -> bool:
        name = "7_ann_9.wav"
        if chance.random() < 0.2:
            name = "".join(chance.choices(["7", "_", "ann", ".wav", "٣", "é", "-1", " ", "\n", "9" * 50], k=6))
        path = folder / name
        path.write_bytes(damaged(whole, chance) if name == "7_ann_9.wav" or chance.random() < 0.5 else whole)
        try:
            return is_read(lambda: fsdd.read_wav(path))
        finally:
            path.unlink()

    return attempt


def cifar() -> Any:
    """The files of both CIFARs in both layouts, and their archives."""
    from lab.data.writers import FOLDERS, pack, write_cifar

    from adamplus.lab.data.readers import cifar

    def write(root: Path) -> None:
        for name, layout in FOLDERS:
            folder = write_cifar(root / f"{name}-{layout}", name, layout, rows=1)
            (root / f"{name}-{layout}-packed").mkdir()
            pack(folder, root / f"{name}-{layout}-packed" / f"cifar-{name.removeprefix('cifar')}-{layout}.tar.gz")

    def read(root: Path, path: Path) -> None:
        folder = path.relative_to(root).parts[0]
        name: Any = folder.partition("-")[0]
        cifar.read(name, root / folder)

    return files(write, read, opcodes())


def opcodes() -> list[bytes]:
    """The instructions of pickles."""
    return [opcode.code.encode("latin1") for opcode in pickletools.opcodes]


def pickles() -> Any:
    """Pickles of random instructions, and damaged ones of arrays."""
    import numpy

    from adamplus.lab.data.readers import pickles

    array = numpy.arange(6, dtype=numpy.uint8).reshape(2, 3)
    wholes = [pickle.dumps({"data": array, "labels": [1, 2]}, protocol) for protocol in (2, 3, 4)]
    words = [
        *opcodes(), b"cnumpy\ndtype\n", b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy\nndarray\n",
        b"c_codecs\nencode\n", b"X\x06\0\0\0latin1", b"X\x01\0\0\0a", b"U\x01a", b"K\x01", b"h\0", b"q\0", b"\x94",
        b"M\xff\xff", b"U\x02u1", b"cos\nsystem\n", b"\x85", b"\x86", b"\x87", b"(", b"t", b"b", b"R", b"]", b"}",
    ]  # fmt: skip

    def attempt(chance: random.Random) -> bool:
        if chance.random() < 0.5:
            content = b"\x80\x02" + b"".join(chance.choices(words, k=chance.randrange(1, 40))) * chance.choice(
                [1, 1, 50]
            )
        else:
            content = damaged(chance.choice(wholes), chance, words)
        return is_read(lambda: pickles.load(content + b"." * chance.randrange(2), "file"))

    return attempt


def archives() -> Any:
    """Tar archives whose headers are damaged and have right sums again, zip archives, and damage in the compression."""
    from adamplus.lab.data.unpack import unpack

    folder, limit = Path(tempfile.mkdtemp()), 1 << 20
    wholes = {form: _tar(form) for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)}
    compressions = {"x.tar.gz": gzip.compress, "x.tar.bz2": bz2.compress, "x.tar.xz": lzma.compress}
    words = [
        *(
            b"../",
            b"/tmp/x",
            b"15 path=set/ab\n",
            b"12 size=9\n",
            b"99999999999",
            b"7777777",
            b"ustar\0",
            b"GNU.sparse",
        ),
        *(b"x", b"g", b"L", b"K", b"1", b"2", b"5", b"S", b"V", b"X", b"PK\1\2", b"PK\5\6"),
    ]

    def attempt(chance: random.Random) -> bool:
        name = chance.choice(["x.tar", "x.zip", *compressions])
        content = _zip() if name == "x.zip" else chance.choice(list(wholes.values()))
        content = damaged(content, chance, words) if chance.random() < 0.9 else content
        if name != "x.zip" and chance.random() < 0.8:
            content = _with_sums(content)
        if name in compressions:
            content = compressions[name](content)
            content = damaged(content, chance) if chance.random() < 0.3 else content
        with tempfile.TemporaryDirectory(dir=folder) as here:
            archive, to = Path(here, name), Path(here, "deep", "to")
            archive.write_bytes(content)
            try:
                return is_read(lambda: unpack(archive, "set", to, limit))
            finally:
                assert {*Path(here).iterdir()} <= {archive, to.parent}, "a file outside of the folder"
                assert sum(path.lstat().st_size for path in to.rglob("*") if path.is_file()) <= limit

    return attempt


def _tar(form: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as packed:
        for name in ("set/a", "set/" + "deep/" * 15 + "b" * 60, "other/c"):
            info = tarfile.TarInfo(name)
            info.size = 700
            packed.addfile(info, io.BytesIO(bytes(700)))
    return file.getvalue()[: 512 * 20]


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("set/a", bytes(700))
        packed.writestr("other/b", b"b")
    return file.getvalue()


def _with_sums(content: bytes) -> bytes:
    """The blocks with the sums of headers, so that changes of headers are not found by these."""
    blocks = bytearray(content)
    for at in range(0, len(blocks) - 511, 512):
        header = blocks[at : at + 512]
        if header.strip(b"\0"):
            blocks[at + 148 : at + 156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:]))
    return bytes(blocks)


READERS: dict[str, Callable[[], Any]] = {
    "kaldi": kaldi,
    "wikitext": wikitext,
    "an4": an4,
    "fsdd": fsdd,
    "cifar": cifar,
    "pickles": pickles,
    "archives": archives,
}
