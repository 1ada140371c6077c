"""Download of one file, which resumes after an interruption and is renamed into place once it is complete."""

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
from .data_set import LIMIT
from .verification import digest_of

BLOCK = 1 << 16
AGENT = f"adamplus/{__version__}"  # some servers reject Python-urllib
AGAIN = (408, 425, 429, 500, 502, 503, 504)  # status codes that are worth another try

ProgressCallback = Callable[[str, int, int | None], None]
"""A function of a file's name, the number of bytes received, and the total if the server announces it."""


class _BrokenError(Exception):
    """The connection broke during a download."""


@dataclass(frozen=True)
class RetryPolicy:
    """How long to wait for a server, and how often to try again if no new bytes arrive."""

    timeout: float = 30.0
    """Seconds to wait for a server to answer."""
    tries: int = 5
    """Tries in a row without new bytes before giving up."""
    wait: float = 1.0
    """Seconds before the second try; doubled before each further try."""


def fetch(
    address: str,
    to: Path,
    digest: str | None,
    progress: ProgressCallback | None = None,
    retry: RetryPolicy | None = None,
    limit: int = LIMIT,
) -> None:
    """Download a file to `to` and check its digest; until it is complete, it is in a `.part` file beside it.

    A file of more than `limit` bytes is refused.
    """
    if to.exists() and (digest is None or digest_of(to, digest) == digest):
        return
    part = to.with_name(to.name + ".part")
    resumed = _size(part) > 0
    _receive(address, part, progress, retry or RetryPolicy(), limit)
    if resumed and digest is not None and digest_of(part, digest) != digest:
        part.unlink()  # the two parts may be of different files: fetch the whole file again
        _receive(address, part, progress, retry or RetryPolicy(), limit)
    if digest is not None and (found := digest_of(part, digest)) != digest:
        part.unlink()
        raise InputError(
            f"{address}: the file has another digest than the known one and was deleted (expected {digest}, got "
            f"{found}): try again, or from another network"
        )
    part.replace(to)


def _receive(address: str, part: Path, progress: ProgressCallback | None, retry: RetryPolicy, limit: int) -> None:
    """Complete the part, over as many connections as necessary."""
    most, idle = _size(part), 0
    while True:
        try:
            if _receive_once(address, part, progress, retry.timeout, limit):
                return
            problem = "the connection ended early"
        except urllib.error.HTTPError as error:
            with error:
                if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and part.exists():
                    if error.headers.get("Content-Range") == f"bytes */{_size(part)}":
                        return  # the part was complete already
                    part.unlink()  # it is longer than the file, so it is a part of another file
                elif error.code not in AGAIN:
                    raise InputError(f"{address}: the server answered {error.code} {error.reason}") from None
                problem = f"the server answered {error.code} {error.reason}"
        except urllib.error.URLError as error:
            problem = f"no connection ({error.reason})"
        except (_BrokenError, http.client.HTTPException, OSError) as error:
            problem = f"the connection broke ({str(error) or type(error).__name__})"
        size = _size(part)
        most, idle = max(most, size), 0 if size > most else idle + 1
        if idle >= retry.tries:
            kept = f"; {size:,} bytes are kept: run the same command again to resume" if size else ""
            raise InputError(f"{address}: {problem}, in {idle} tries{kept}")
        time.sleep(retry.wait * 2 ** max(idle - 1, 0))


def _receive_once(address: str, part: Path, progress: ProgressCallback | None, timeout: float, limit: int) -> bool:
    """Append what one connection sends; return whether the file is complete."""
    have = _size(part)
    headers = {"User-Agent": AGENT, "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=timeout) as response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            have = 0  # the server ignores the range and sends the whole file
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink()  # the server sends another range: request the whole file next
            return False
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isascii() and length.isdigit() else None
        if (total or 0) > limit:
            raise InputError(f"{address}: the server announces {total:,} bytes, and this file may have {limit:,}")
        have = _copy(response, part, have, limit, lambda size: progress and progress(part.stem, size, total))
    if have > limit:
        part.unlink()
        raise InputError(f"{address}: the server sends more than the {limit:,} bytes that this file may have")
    return total is None or have == total


def _copy(response: IO[bytes], part: Path, have: int, limit: int, received: Callable[[int], object]) -> int:
    try:
        with part.open("r+b" if have else "wb") as file:
            file.seek(have)
            while have <= limit and (block := _read(response)):
                file.write(block)
                have += len(block)
                received(have)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(f"{part} cannot be written ({error.strerror or error})") from error
    return have


def _read(response: IO[bytes]) -> bytes:
    """The next block. Network errors become `_BrokenError`, because errors of the file are OSError, too."""
    try:
        return response.read(BLOCK)
    except (http.client.HTTPException, OSError) as error:
        raise _BrokenError(str(error) or type(error).__name__) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
