"""Writers of tiny data sets in the real formats."""

import io
import struct
import tarfile
import wave
from pathlib import Path

import kaldiio
import numpy as np

PIXELS = 3072
FOLDERS = {
    ("cifar10", "python"): "cifar-10-batches-py",
    ("cifar10", "binary"): "cifar-10-batches-bin",
    ("cifar100", "python"): "cifar-100-python",
    ("cifar100", "binary"): "cifar-100-binary",
}
DIGIT_NAMES = [f"{digit}_{speaker}_{number}.wav" for digit in (0, 7) for speaker in ("ann", "bob") for number in (4, 5)]
SENTENCES = {"train": {"an1-fash-b": "GO YES", "an2-fash-b": "YES"}, "test": {"an3-fcaw-b": "<s> GO </s>"}}


def images(rows: int, classes: int, seed: int = 0) -> tuple[np.ndarray, list[int]]:
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (rows, PIXELS), dtype=np.uint8), generator.integers(0, classes, rows).tolist()


def pickled(data: np.ndarray, labels: list[int], key: str = "labels") -> bytes:
    """A pickle with the opcodes of the official files, which Python 2 wrote."""
    rows, columns = data.shape
    text = b"U%c%b" % (len(key), key.encode())
    head = b"\x80\x02}q\x01(" + text + b"q\x04]q\x05(" + b"".join(b"K%c" % label for label in labels) + b"e"
    head += b"U\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\t"
    head += b"(K\x01M" + struct.pack("<H", rows) + b"M" + struct.pack("<H", columns)
    head += b"\x86cnumpy\ndtype\nq\nU\x02u1K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    return head + b"\x89T" + struct.pack("<i", data.nbytes) + data.tobytes() + b"tbu."


def write_cifar(root: Path, name: str = "cifar10", layout: str = "python", rows: int = 3) -> Path:
    """Write a complete set with `rows` images per file; return its folder."""
    ten = name == "cifar10"
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"] if ten else ["train", "test"]
    folder = root / FOLDERS[name, layout]
    folder.mkdir(parents=True)
    for seed, file in enumerate(names):
        data, labels = images(rows, 10 if ten else 100, seed)
        if layout == "python":
            (folder / file).write_bytes(pickled(data, labels, "labels" if ten else "fine_labels"))
        else:
            before = [labels] if ten else [[label // 5 for label in labels], labels]
            columns = [np.array(column, np.uint8)[:, None] for column in before]
            (folder / f"{file}.bin").write_bytes(np.concatenate([*columns, data], axis=1).tobytes())
    return folder


def pack(folder: Path, archive: Path) -> Path:
    """Pack a folder into an archive."""
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, folder.name)
    return archive


def tar_with(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as packed:
        for member in members:
            packed.addfile(member, io.BytesIO(bytes(member.size)) if member.isreg() else None)
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 3, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size if kind == tarfile.REGTYPE else 0, link
    return info


def write_wikitext(root: Path, **texts: str) -> Path:
    folder = root / "wikitext-2"
    folder.mkdir(parents=True)
    usual = {"train": " \n = A title = \n \n the <unk> cat sat \n", "valid": " the cat \n", "test": " a cat \n"}
    for split, text in {**usual, **texts}.items():
        (folder / f"wiki.{split}.tokens").write_text(text, encoding="utf-8")
    return folder


def write_novels(root: Path, count: int = 20, length: int = 200) -> Path:
    """Write novels that differ, of `length` bytes each, in the official folder."""
    folder = root / "100_english_novels" / "corpus"
    folder.mkdir(parents=True)
    for number in range(count):
        sentence = f"Chapter {number}. It was a truth, universally acknowledged — and forgotten.\r\n".encode()
        whole = sentence * (length // len(sentence))
        (folder / f"Author{number:03}_Title_1900.txt").write_bytes(whole.ljust(length, b"."))
    return folder


def mfc(features: np.ndarray) -> bytes:
    return struct.pack(">i", features.size) + features.astype(">f4").tobytes()


def write_an4(root: Path, frames: int = 20) -> Path:
    folder = root / "an4"
    (folder / "etc").mkdir(parents=True)
    (folder / "etc" / "an4.phone").write_text("G\nOW\nY\nEH\nS\nSIL\n")
    (folder / "etc" / "an4.dic").write_text("GO   G OW\nYES  Y EH S\nYES(2) Y S\n")
    generator = np.random.default_rng(0)
    for split, sentences in SENTENCES.items():
        identifiers = {name: f"an4_clstk/{name.split('-')[1]}/{name}" for name in sentences}
        (folder / "etc" / f"an4_{split}.fileids").write_text("".join(f"{i}\n" for i in identifiers.values()))
        (folder / "etc" / f"an4_{split}.transcription").write_text(
            "".join(f"{w} ({n})\n" for n, w in sentences.items())
        )
        for identifier in identifiers.values():
            path = folder / "feat" / f"{identifier}.mfc"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(mfc(generator.standard_normal((frames, 13))))
    return folder


def write_wav(path: Path, samples: np.ndarray, channels: int = 1, width: int = 2, rate: int = 8000) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())


def write_fsdd(root: Path) -> Path:
    folder = root / "fsdd"
    folder.mkdir(parents=True)
    for i, name in enumerate(DIGIT_NAMES):
        write_wav(folder / name, 100 * np.arange(10 + i))
    return folder


def speech(frames: dict[str, int], states: int = 9, seed: int = 0) -> dict[str, dict[str, np.ndarray]]:
    """Arrays of every kind by utterance, as in SWB-300."""
    generator = np.random.default_rng(seed)

    def matrix(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape).astype(np.float32)

    return {
        "fmllr": {name: matrix(count, 40) for name, count in frames.items()},
        "ivectors": {name: matrix(100) for name in frames},
        "logmel": {name: matrix(count, 6) for name, count in frames.items()},
        "alignments": {name: generator.integers(0, states, count, dtype=np.int32) for name, count in frames.items()},
    }


def write_archives(folder: Path, arrays: dict[str, dict[str, np.ndarray]], tables: bool = True) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for stream, entries in arrays.items():
        table = str(folder / f"{stream}.scp") if tables else None
        kaldiio.save_ark(str(folder / f"{stream}.ark"), entries, scp=table)


def write_swb300(root: Path, tables: bool = True) -> Path:
    write_archives(root / "swb300" / "train", speech({"a": 30, "b": 25}), tables)
    write_archives(root / "swb300" / "heldout", speech({"c": 22}, seed=1), tables)
    return root / "swb300"
