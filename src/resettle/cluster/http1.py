"""HTTP/1.1 as much as an API server speaks it to us: requests to bytes, answers from bytes.

Written by hand because of what it saves: a request costs a fifth of what it costs through a client
library, and evictions come in thousands (docs/reference/performance.md). Only bytes here, no
sockets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST_HEAD = 64 << 10
_LONGEST_CHUNK_LINE = 1024
_END = b"\r\n\r\n"
_FRAMING = re.compile(
    rb"\r\n(connection|content-length|transfer-encoding):[ \t]*([^\r]*)", re.IGNORECASE
)
"""The headers that say where an answer ends, and whether another may follow."""
_NO_BODY = (204, 304)


class Garbled(Exception):
    """What came is not HTTP."""


def written(headers: Iterable[tuple[str, str]]) -> bytes:
    """Headers as they go into a request; the same bytes do for many."""
    return b"".join([_line(f"{name}: {value}\r\n") for name, value in headers])


def request(method: str, target: str, headers: bytes, body: bytes | None) -> bytes:
    """A request, ready to be sent."""
    first = _line(f"{method} {target} HTTP/1.1\r\n")
    if body is None:
        return b"%b%b\r\n" % (first, headers)
    return b"%b%bContent-Length: %d\r\n\r\n%b" % (first, headers, len(body), body)


def _line(text: str) -> bytes:
    if text.count("\n") != 1:
        raise ValueError("a line break within a header or an address")
    return text.encode()


class Incoming:
    """An answer on its way in."""

    __slots__ = ("_headers", "_left", "_step", "done", "lasts", "status")

    def __init__(self) -> None:
        self.status = 0
        self.done = False
        self.lasts = True
        """Whether the connection can be used again afterwards."""
        self._headers = b""
        self._left = 0
        # The function itself, not bound: an answer that held itself would have to be collected.
        self._step = Incoming._head

    @property
    def begun(self) -> bool:
        """Whether status and headers are known."""
        return bool(self.status)

    def header(self, name: bytes) -> bytes:
        """What a header says, in lower case like its name; empty if it is not there."""
        _, _, after = self._headers.lower().partition(b"\r\n%b:" % name)
        return after.partition(b"\r\n")[0].strip()

    def feed(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Takes in what has come from `at` on, adds to the pieces of the body, and says how far.

        What is left is to be fed again with what follows it, or belongs to the next answer.
        """
        while not self.done and at < len(data):
            reached = self._step(self, data, at, pieces)
            if reached == at:
                break
            at = reached
        return at

    def closed(self) -> bool:
        """Whether the answer is complete now that the connection has ended."""
        if self._step is Incoming._until_closed:
            self.done = True
        return self.done

    def _head(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        end = data.find(_END, at)
        if end < 0:
            if len(data) - at > LONGEST_HEAD:
                raise Garbled("its headers have no end")
            return at
        headers, end = data[at : end + 2], end + len(_END)
        code = headers[9:12]
        if not headers.startswith(b"HTTP/1.") or not code.isdigit():
            raise Garbled(f"it begins with {headers[:40].decode('latin-1')!r}")
        status = int(code)
        if status < 200:
            return end  # a word in between, such as 100 Continue
        self.status, self._headers = status, headers
        self.lasts = headers[7:8] == b"1"
        length, chunked = b"", False
        for name, told in _FRAMING.findall(headers):
            match name.lower():
                case b"content-length":
                    length = told.strip()
                case b"transfer-encoding":
                    chunked = b"chunked" in told.lower()
                case _:
                    closes = told.strip().lower()
                    self.lasts = closes == b"keep-alive" if not self.lasts else closes != b"close"
        if status in _NO_BODY:
            self.done = True
        elif chunked:
            self._step = Incoming._chunk_size
        elif length:
            if not length.isdigit():
                raise Garbled(f"its length is {length.decode('latin-1')!r}")
            self._left = int(length)
            self._step = Incoming._sized
            return self._sized(data, end, pieces)  # nearly always there already
        else:
            self._step, self.lasts = Incoming._until_closed, False
        return end

    def _sized(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        piece = data[at : at + self._left]
        pieces.append(piece)
        self._left -= len(piece)
        self.done = not self._left
        return at + len(piece)

    def _chunk_size(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        end = data.find(b"\r\n", at)
        if end < 0:
            if len(data) - at > _LONGEST_CHUNK_LINE:
                raise Garbled("a chunk has no size")
            return at
        size = data[at:end].split(b";", 1)[0]
        try:
            self._left = int(size, 16)
        except ValueError:
            raise Garbled(f"a chunk has the size {size[:20]!r}") from None
        self._step = Incoming._chunk if self._left else Incoming._trailer
        return end + 2

    def _chunk(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        piece = data[at : at + self._left]
        pieces.append(piece)
        self._left -= len(piece)
        if not self._left:
            self._step = Incoming._chunk_end
        return at + len(piece)

    def _chunk_end(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        if len(data) - at < len(b"\r\n"):
            return at
        if not data.startswith(b"\r\n", at):
            raise Garbled("a chunk is longer than it says")
        self._step = Incoming._chunk_size
        return at + 2

    def _trailer(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        end = data.find(b"\r\n", at)
        if end < 0:
            return at
        self.done = end == at
        return end + 2

    def _until_closed(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        pieces.append(data[at:])
        return len(data)
