"""Answers come in pieces of any size, and requests cannot be broken open by what is in them."""

from __future__ import annotations

import gc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resettle.cluster.http1 import LONGEST_HEAD, Garbled, Incoming, request, written

SIZED = b"HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nhel\r\n2;ext=1\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
)
CASES = [
    pytest.param(SIZED, 201, b"hello", True, id="with its length"),
    pytest.param(CHUNKED, 200, b"hello", True, id="in chunks"),
    pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True, id="without a body"),
    *(
        pytest.param(
            b"HTTP/1.1 200 OK\r\n%b\r\n5\r\nhello\r\n0\r\n\r\n" % b"".join(headers),
            200,
            b"hello",
            True,
            id="in chunks, whatever a length says " + side,
        )
        for side, headers in (
            ("before", (b"content-length:3\r\n", b"TRANSFER-ENCODING:\tChunked \r\n")),
            ("behind", (b"Transfer-Encoding: chunked\r\n", b"Content-Length: 3\r\n")),
        )
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nX-Connection: close\r\nCONTENT-LENGTH:  5 \r\n\r\nhello",
        200,
        b"hello",
        True,
        id="with headers that only look alike",
    ),
    pytest.param(
        b"HTTP/1.1 409 Conflict\r\ncontent-length: 0\r\n\r\n", 409, b"", True, id="an empty body"
    ),
    pytest.param(
        b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED, 201, b"hello", True, id="a word in between"
    ),
    pytest.param(
        b"HTTP/1.1 429 Too Many\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
        429,
        b"no",
        False,
        id="the last one over this connection",
    ),
    pytest.param(
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", False, id="of an old server"
    ),
]


@pytest.mark.parametrize(("sent", "status", "body", "lasts"), CASES)
@given(cuts=st.lists(st.integers(0, 120), max_size=6))
def test_an_answer_is_the_same_however_it_is_cut(
    sent: bytes, status: int, body: bytes, lasts: bool, cuts: list[int]
) -> None:
    incoming, heard, rest = Incoming(), list[bytes](), b""
    for piece in _cut(sent, cuts):
        assert not incoming.done
        rest += piece
        rest = rest[incoming.feed(rest, 0, heard) :]

    assert (incoming.done, incoming.status, rest, incoming.lasts) == (True, status, b"", lasts)
    assert b"".join(heard) == body


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    incoming, heard = Incoming(), list[bytes]()
    incoming.feed(b"HTTP/1.1 200 OK\r\n\r\nall of", 0, heard)

    assert (heard, incoming.done) == ([b"all of"], False)
    assert incoming.closed()
    assert not incoming.lasts


@pytest.mark.parametrize("sent", [SIZED, CHUNKED])
def test_an_answer_that_was_cut_off_is_not_complete(sent: bytes) -> None:
    for end in range(len(sent)):
        incoming = Incoming()
        incoming.feed(sent[:end], 0, [])
        assert not incoming.closed()


def test_what_comes_behind_an_answer_is_left_for_the_next() -> None:
    first, second, heard = Incoming(), Incoming(), list[bytes]()
    end = first.feed(SIZED + CHUNKED, 0, heard)

    assert (first.done, end, heard) == (True, len(SIZED), [b"hello"])
    assert second.feed(SIZED + CHUNKED, end, heard) == len(SIZED + CHUNKED)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 OK\r\n\r\n", id="no status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", id="no such length"),
        pytest.param(b"x" * (LONGEST_HEAD + 1), id="a head without an end"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", id="no such chunk"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n",
            id="a chunk longer than it says",
        ),
    ],
)
def test_what_is_not_http_is_an_error(sent: bytes) -> None:
    with pytest.raises(Garbled):
        Incoming().feed(sent, 0, [])


def test_a_request_is_written_out() -> None:
    asked = request("POST", "/apis/x", written([("Host", "h"), ("A", "b")]), b"{}")

    assert asked == b"POST /apis/x HTTP/1.1\r\nHost: h\r\nA: b\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("broken", ["/x\r\nEvil: 1", "/x\nEvil: 1"])
def test_a_line_break_cannot_smuggle_in_a_header(broken: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        request("GET", broken, b"", None)
    with pytest.raises(ValueError, match="line break"):
        written([("Host", broken)])


def _cut(sent: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    return [sent[a:b] for a, b in pairwise(edges) if a < b]


def test_answers_leave_no_garbage_behind() -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            Incoming().feed(SIZED, 0, [])
        assert gc.collect() == 0
    finally:
        gc.enable()
