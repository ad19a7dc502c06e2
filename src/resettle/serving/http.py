"""HTTP/1.1 as much as probes and Prometheus speak it: requests from bytes, answers to bytes."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from resettle.kube.transport.parser import MalformedResponse

PLAIN = "text/plain; charset=utf-8"
_FORMS = ("HTTP/1.0", "HTTP/1.1")


class Request(Struct, frozen=True):
    """What is asked for; a body is never waited for, nothing here has a use for one."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    """By name in lower case."""
    lasts: bool
    """Whether another request may follow over the same connection."""

    @property
    def token(self) -> str:
        """The bearer token it shows, if any."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    @property
    def takes_gzip(self) -> bool:
        """Whether the answer may be compressed."""
        return "gzip" in self.headers.get("accept-encoding", "")


class Answer(Struct, frozen=True):
    """What is answered."""

    status: int
    body: bytes = b""
    content_type: str = PLAIN
    headers: tuple[tuple[str, str], ...] = ()


def plain(status: int, text: str, *headers: tuple[str, str]) -> Answer:
    """An answer in words."""
    return Answer(status, text.encode(), headers=headers)


def parsed(head: bytes) -> Request:
    """The request with this head; raises `MalformedResponse` if it is none."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or words[2] not in _FORMS or not words[1]:
        raise MalformedResponse(f"it begins with {first[:40]!r}")
    method, target, form = words
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise MalformedResponse(f"it has a header {line[:40]!r}")
        headers[name.lower()] = value.strip()
    try:
        where = urlsplit(target)
    except ValueError:
        raise MalformedResponse(f"it asks for {target[:40]!r}") from None
    connection = headers.get("connection", "").lower()
    lasts = connection == "keep-alive" if form == _FORMS[0] else connection != "close"
    # Whatever body follows is not read, so nothing can be heard behind it.
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    query = parse_qs(where.query, keep_blank_values=True)
    return Request(method, where.path, query, headers, lasts and not has_body)


def written(answer: Answer, *, head_only: bool = False, lasts: bool = True) -> bytes:
    """The answer, ready to be sent."""
    status = HTTPStatus(answer.status)
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "X-Content-Type-Options: nosniff",
        "Cache-Control: no-store",
        *(f"{name}: {value}" for name, value in answer.headers),
        f"Connection: {'keep-alive' if lasts else 'close'}",
    ]
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    return head if head_only else head + answer.body
