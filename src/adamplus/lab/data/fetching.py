"""One file from the network: goes on where it was interrupted, and is in place only when it is whole."""

import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ... import __version__
from ..errors import InputError
from .verification import digest_of

BLOCK = 1 << 16
LIMIT = 4 << 30
AGENT = f"adamplus/{__version__}"  # some servers turn away who says Python-urllib
AGAIN = (408, 425, 429, 500, 502, 503, 504)  # answers that may be another one in a moment

ProgressCallback = Callable[[str, int, int | None], None]
"""A function of a file's name, the number of bytes received, and the total if the server announces it."""


class _BrokenError(Exception):
    """A connection broke while a file came."""


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server, and how often to try again when nothing new comes."""

    timeout: float = 30.0
    tries: int = 5
    wait: float = 1.0
    """Seconds before the second try; doubled before each further one."""


def fetch(
    address: str,
    to: Path,
    digest: str | None,
    progress: ProgressCallback | None = None,
    patience: Patience | None = None,
) -> None:
    """Have the file that the address leads to at `to`, with that digest; what has come so far lies beside it."""
    if to.exists() and (digest is None or digest_of(to, digest) == digest):
        return
    part = to.with_name(to.name + ".part")
    resumed = _size(part) > 0
    _receive(address, part, progress, patience or Patience())
    if resumed and digest is not None and digest_of(part, digest) != digest:
        part.unlink()  # the two parts may be of different files: once more, as a whole
        _receive(address, part, progress, patience or Patience())
    if digest is not None and (found := digest_of(part, digest)) != digest:
        part.unlink()
        raise InputError(
            f"{address}: what came is not the file that is known, so it was not kept (digest {found}, and {digest} "
            "is expected): try again, or from another network"
        )
    part.replace(to)


def _receive(address: str, part: Path, progress: ProgressCallback | None, patience: Patience) -> None:
    """Bring the part to its full length, over as many connections as that takes."""
    most, idle = _size(part), 0
    while True:
        try:
            if _receive_once(address, part, progress, patience.timeout):
                return
            problem = "the connection ended early"
        except urllib.error.HTTPError as error:
            with error:
                if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and part.exists():
                    if error.headers.get("Content-Range") == f"bytes */{_size(part)}":
                        return  # it was whole already
                    part.unlink()  # it is longer than the file, so it is a part of another one
                elif error.code not in AGAIN:
                    raise InputError(f"{address}: the server answers {error.code} {error.reason}") from None
                problem = f"the server answers {error.code} {error.reason}"
        except urllib.error.URLError as error:
            problem = f"no connection ({error.reason})"
        except (_BrokenError, http.client.HTTPException, OSError) as error:
            problem = f"the connection broke ({str(error) or type(error).__name__})"
        size = _size(part)
        most, idle = max(most, size), 0 if size > most else idle + 1
        if idle >= patience.tries:
            kept = f"; {size:,} bytes have come and are kept: the same command goes on from there" if size else ""
            raise InputError(f"{address}: {problem}, in {idle} tries{kept}")
        time.sleep(patience.wait * 2 ** max(idle - 1, 0))


def _receive_once(address: str, part: Path, progress: ProgressCallback | None, timeout: float) -> bool:
    """Add what one connection gives; whether the file is whole then."""
    have = _size(part)
    headers = {"User-Agent": AGENT, "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=timeout) as response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            have = 0  # the server sends the whole file, whatever it was asked for
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink()  # it sends another part than the one that it was asked for: ask for the whole next
            return False
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isascii() and length.isdigit() else None
        if (total or 0) > LIMIT:
            raise InputError(f"{address}: {total:,} bytes are announced, which no known data set has")
        have = _copy(response, part, have, lambda size: progress and progress(part.stem, size, total))
    if have > LIMIT:
        part.unlink()
        raise InputError(f"{address}: more than {LIMIT:,} bytes come, which no known data set has")
    return total is None or have == total


def _copy(response: IO[bytes], part: Path, have: int, received: Callable[[int], object]) -> int:
    try:
        with part.open("r+b" if have else "wb") as file:
            file.seek(have)
            while have <= LIMIT and (block := _read(response)):
                file.write(block)
                have += len(block)
                received(have)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(f"{part}: it cannot be written ({error.strerror or error})") from error
    return have


def _read(response: IO[bytes]) -> bytes:
    """What comes next. What goes wrong has a name of its own: that of the file's own trouble is OSError, too."""
    try:
        return response.read(BLOCK)
    except (http.client.HTTPException, OSError) as error:
        raise _BrokenError(str(error) or type(error).__name__) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
