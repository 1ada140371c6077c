"""Pickles that are built to do harm, or to take time or memory without end, are refused at once."""

import pickle
import struct
from contextlib import suppress

import pytest
from data.bounds import bounded
from hypothesis import example, given
from hypothesis import strategies as st

from adamplus.lab.data.readers import pickles
from adamplus.lab.data.readers.cifar_formats import KINDS, from_pickle
from adamplus.lab.errors import InputError

HEAD = b"\x80\x02"
DTYPE = b"cnumpy\ndtype\n"
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"


def nested(pair: bytes, depth: int = 60) -> bytes:
    """Values inside of each other, where each occurs twice in the next: 2^60 values in a few hundred bytes."""
    return HEAD + b"K\x01" + b"".join(b"q%c%b" % (i, pair.replace(b"?", b"h%c" % i)) for i in range(depth))


def shaped(*shape: int) -> bytes:
    """An array of one byte, with a shape of more."""
    sizes = b"".join(b"\x8a\x08" + struct.pack("<q", size) for size in shape)
    number = DTYPE + b"U\x02u1K\x00K\x01\x87R"
    return HEAD + ARRAY + b"(K\x01(" + sizes + b"t" + number + b"\x89U\x01xtb."


EVIL = {
    "nested dictionaries": (nested(b"0}(U\x01a?U\x01b?u") + b".", "uses the instruction POP"),
    "nested shared lists": (nested(b"](??e") + b".", "must hold a dictionary, got list"),
    "nested shared dictionaries": (nested(b"}(U\x01a?U\x01b?u") + b".", "has no 'data'; it has a, b"),
    "nested tuples as a key": (nested(b"(??t") + b"}h\x3bNs.", "must be texts"),
    "nested tuples as a codec": (
        nested(b"(??t") + b"c_codecs\nencode\nX\x01\x00\x00\x00ah\x3b\x86R.",
        "calls _codecs.encode for another codec",
    ),
    "a list in itself": (HEAD + b"]q\x00h\x00a.", "must hold a dictionary, got list"),
    "a large index of the memo": (HEAD + b"Nr\xff\xff\xff\xff.", "must hold a dictionary, got NoneType"),
    "a long number": (HEAD + b"\x8b\xff\xff\xff\x7f1.", "uses the instruction LONG4"),
    "a number of 255 bytes": (HEAD + b"\x8a\xff" + bytes(255) + b".", "a number has 255 bytes"),
    "a number in digits": (b"I" + b"9" * 100_000 + b"\n.", "uses the instruction INT"),
    "a long text": (HEAD + b"X\xff\xff\xff\xffa.", "it is cut off"),
    "long bytes": (HEAD + b"\x8e" + b"\xff" * 7 + b"\x7fa.", "it is cut off"),
    "long bytes of Python 2": (HEAD + b"T\xff\xff\xff\x7fa.", "it is cut off"),
    "a long frame": (b"\x80\x04\x95" + b"\xff" * 8 + b"N.", "must hold a dictionary, got NoneType"),
    "a large array": (shaped(1 << 31, 1 << 31), "has other bytes than it needs"),
    "an array of a negative size": (shaped(-1), "must be up to 8 whole numbers"),
    "an array of many dimensions": (shaped(*[1] * 1000), "must be up to 8 whole numbers"),
    "an array of no bytes": (shaped(1 << 62, 0), "has other bytes than it needs"),
    "a dtype with fields": (HEAD + DTYPE + b"U\x05u1,u1K\x00K\x01\x87R.", "imports numpy.dtype"),
    "a dtype of large rows": (HEAD + DTYPE + b"U\x0f(1000000000,)u1K\x00K\x01\x87R.", "imports numpy.dtype"),
    "the same text again and again": (
        HEAD
        + b"c_codecs\nencode\nq\x00X\x10\x27\x00\x00%bq\x01X\x06\x00\x00\x00latin1q\x02" % (b"a" * 10_000)
        + b"h\x00h\x01h\x02\x86R" * 50_000
        + b".",
        "makes more bytes than it has",
    ),
    "attributes of a function": (HEAD + DTYPE + b"}U\x04evilK\x01sb.", "sets attributes of numpy.dtype"),
    "attributes of a list": (HEAD + b"]}U\x04evilK\x01sb.", "sets attributes of list"),
    "a call of an array": (HEAD + b"cnumpy\nndarray\nK\x03\x85R.", "calls numpy.ndarray"),
    "a call of a number": (HEAD + b"K\x03)R.", "calls int"),
    "an instance": (b"(ios\nsystem\n.", "uses the instruction INST"),
    "a new object": (HEAD + b"cnumpy\nndarray\n)\x81.", "uses the instruction NEWOBJ"),
    "a code of the registry": (HEAD + b"\x82\x01.", "uses the instruction EXT1"),
    "an object elsewhere": (b"P1\n.", "uses the instruction PERSID"),
    "a long name": (HEAD + b"c" + b"a" * 1_000_000 + b"\nb\n.", "imports a{80}.b,"),
    "a name without an end": (HEAD + b"c" + b"a" * 1_000_000, "is not a complete pickle"),
    "an array without content": (HEAD + ARRAY + b".", "an array has no content"),
    "nothing on the stack": (HEAD + b".", "is not a complete pickle"),
    "a mark that is not there": (HEAD + b"t.", "is not a complete pickle"),
    "a memo that is not there": (HEAD + b"h\x07.", "is not a complete pickle"),
}


@pytest.mark.parametrize("name", EVIL)
def test_malicious_pickles_are_refused_at_once(name: str):
    content, problem = EVIL[name]
    with bounded(), pytest.raises(InputError, match=f"^file.*({problem})"):
        from_pickle(content, KINDS["cifar10"], "file")


def test_the_number_of_instructions_is_limited(monkeypatch: pytest.MonkeyPatch):
    assert pickles.INSTRUCTIONS <= 1 << 20  # this many take about a second
    monkeypatch.setattr(pickles, "INSTRUCTIONS", 10_000)
    with bounded(), pytest.raises(InputError, match="has more than 10,000 instructions"):
        pickles.load(HEAD + b"]" * 2_000_000 + b".", "file")


def test_labels_that_are_lists_in_each_other_are_refused_at_once():
    """numpy would make an array of 2^40 numbers of them."""
    labels: list[object] = [1]
    for _ in range(40):
        labels = [labels, labels]
    with bounded(), pytest.raises(InputError, match="must be a list of whole numbers, got a list in it"):
        from_pickle(array_and_labels(pickle.dumps(labels, 2)[2:-1]), KINDS["cifar10"], "file")


def array_and_labels(labels: bytes) -> bytes:
    """A pickle of CIFAR-10 with one black image."""
    number = DTYPE + b"U\x02u1K\x00K\x01\x87R"
    image = ARRAY + b"(K\x01(K\x01M\x00\x0ct" + number + b"\x89T\x00\x0c\x00\x00" + bytes(3072) + b"tb"
    return HEAD + b"}(U\x04data" + image + b"U\x06labels" + labels + b"u."


WHOLE = array_and_labels(b"]K\x03a")


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(max_size=6), st.integers(0, 6)), max_size=5))
@example([])
def test_changed_pickles_are_read_or_refused(changes: list[tuple[int, bytes, int]]):
    content = WHOLE.replace(bytes(3072), b"")  # so that most changes meet instructions
    for place, new, dropped in changes:
        at = place % len(content)
        content = content[:at] + new + content[at + dropped :]
    for made in (content, WHOLE):
        try:
            assert from_pickle(made, KINDS["cifar10"], "file").labels.tolist() == [3]
        except InputError:
            assert made != WHOLE


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_read_or_refused(content: bytes):
    for made in (content, HEAD + content + b"."):
        with suppress(InputError):
            pickles.load(made, "file")
