"""HTTP/1.1 in bytes: responses parsed by llhttp (httptools), requests written, lines of a watch.

No sockets here. One parser serves a connection for its whole life, because creating one for each
response would cost more than the parsing does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from resettle.errors import ClusterError

LONGEST_HEAD = 64 << 10
LONGEST_LINE = 64 << 20
"""No object comes near this: etcd itself takes 1.5 MiB."""
_FRAMING = (b"content-length", b"transfer-encoding")


class MalformedResponse(Exception):
    """The bytes received are not an HTTP response."""


class Response:
    """A response whose status and headers are known; its body may still be arriving."""

    __slots__ = ("allows_reuse", "ends_at_close", "headers", "is_complete", "pieces", "status")

    def __init__(
        self, status: int, headers: list[tuple[bytes, bytes]], *, allows_reuse: bool
    ) -> None:
        self.status = status
        self.headers = headers
        self.allows_reuse = allows_reuse
        """Whether another request can be sent over the connection afterwards."""
        self.ends_at_close = not (allows_reuse or any(map(self.header, _FRAMING)))
        """Whether the end of the connection is the only sign that the body is complete."""
        self.pieces: list[bytes] = []
        self.is_complete = False

    @property
    def body(self) -> bytes:
        """The body as far as it has arrived and was not taken."""
        return b"".join(self.pieces)

    def header(self, name: bytes) -> bytes:
        """The value of the header with this lower-case name; empty if there is none."""
        for key, value in self.headers:
            if key.lower() == name:
                return value.strip()
        return b""


class ResponseParser:
    """Reads the responses that arrive over one connection, in order."""

    def __init__(self) -> None:
        self.latest: Response | None = None
        """The newest response whose head is known."""
        self.complete: list[Response] = []
        """Responses that are wholly there, oldest first."""
        self.in_head = False
        """Whether a response has begun whose head is not complete."""
        self._head_size = 0
        """Bytes of the head that is being read, without a read in which another response ended."""
        self._headers: list[tuple[bytes, bytes]] = []
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        # Some proxies send a length beside chunks; like Go's client we follow the chunks.
        self._parser.set_dangerous_leniencies(lenient_chunked_length=True)

    def clear(self) -> None:
        """Forget the responses so far, before the next request is sent."""
        self.latest = None
        self.complete = []

    def feed(self, data: bytes | memoryview) -> None:
        """Parse what has arrived; raise `MalformedResponse` if it is not HTTP."""
        assert self._parser is not None
        before = len(self.complete)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            raise MalformedResponse("it switches to another protocol") from None
        except HttpParserError as error:
            raise MalformedResponse(_describe(error, bytes(data[:40]))) from None
        if not self.in_head or len(self.complete) > before:
            self._head_size = 0
            return
        self._head_size += len(data)
        if self._head_size > LONGEST_HEAD:
            raise MalformedResponse("its headers have no end")

    def finish(self) -> None:
        """Complete a body that ends with its connection; nothing can be fed afterwards."""
        response = self.latest
        if response is not None and response.ends_at_close and not response.is_complete:
            self.on_message_complete()
        # llhttp's object holds our methods, and we hold it: the garbage collector need not look.
        self._parser = None

    # -- called by llhttp ------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Start with a new head."""
        self.in_head = True
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; those behind a chunked body are dropped."""
        if self.in_head:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Make a response of the head, unless it only announces another (100 Continue)."""
        assert self._parser is not None
        self.in_head = False
        status = self._parser.get_status_code()
        if status >= 200:
            reuse = self._parser.should_keep_alive()
            self.latest = Response(status, self._headers, allows_reuse=reuse)

    def on_body(self, piece: bytes) -> None:
        """Keep a piece of the body."""
        if self.latest is not None:
            self.latest.pieces.append(piece)

    def on_message_complete(self) -> None:
        """Mark the response as complete."""
        if self.latest is not None and not self.latest.is_complete:
            self.latest.is_complete = True
            self.complete.append(self.latest)


def _describe(error: HttpParserError, beginning: bytes) -> str:
    shown = "" if beginning.startswith(b"HTTP/1.") else f"; it begins with {beginning!r}"
    return f"{error}{shown}"


def encode_headers(headers: Iterable[tuple[str, str]]) -> bytes:
    """Headers as bytes, which can be used for many requests."""
    return b"".join([_line(f"{name}: {value}\r\n") for name, value in headers])


def encode_request(method: str, target: str, headers: bytes, body: bytes | None) -> bytes:
    """A whole request as bytes."""
    first = _line(f"{method} {target} HTTP/1.1\r\n")
    if body is None:
        return b"%b%b\r\n" % (first, headers)
    return b"%b%bContent-Length: %d\r\n\r\n%b" % (first, headers, len(body), body)


def _line(text: str) -> bytes:
    if text.count("\n") != 1:
        raise ValueError("a line break within a header or an address")
    return text.encode()


class LineSplitter:
    """Splits a stream into lines; a line that has not ended is kept for the next chunk."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    def split(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that end in this chunk, without line ends; empty lines are left out."""
        first, *rest = chunk.split(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if self._size > self._longest:
            raise ClusterError(
                f"a watch sent a line of more than {self._longest} bytes; is this an API server?"
            )
        if not rest:
            return
        *lines, pending = [b"".join(self._parts), *rest]
        self._parts, self._size = [pending], len(pending)
        yield from filter(None, lines)
