"""A web server with the failures of real ones."""

import hashlib
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from adamplus.lab.data import RetryPolicy

QUICK = RetryPolicy(timeout=2, tries=3, wait=0)
CONTENT = bytes(range(256)) * 2000  # eight blocks
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


@dataclass
class Server:
    """A web server that can be made to fail; `requested` records the requested ranges."""

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    shift: int = 0
    """By how many bytes a range begins later than requested."""
    breaks: list[int] = field(default_factory=list)
    """The numbers of bytes after which the next connections break."""
    answers: list[int] = field(default_factory=list)
    """Status codes of the next answers, before the correct ones."""
    length: bool | str = True
    """Whether Content-Length is sent; a string is sent instead of the length."""
    requested: list[str | None] = field(default_factory=list)
    address: str = ""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers["Range"]
        self.requested.append(wanted)
        assert request.headers["User-Agent"].startswith("adamplus/")
        content = self.files.get(request.path)
        if self.answers or content is None:
            request.send_error(self.answers.pop(0) if self.answers else 404)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.ranges else 0
        start += self.shift if start else 0
        if start and start >= len(content):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(content)}")
            request.end_headers()
            return
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if self.length:
            length = self.length if isinstance(self.length, str) else str(len(content) - start)
            request.send_header("Content-Length", length)
        request.end_headers()
        end = start + self.breaks.pop(0) if self.breaks else len(content)
        request.wfile.write(content[start:end])
