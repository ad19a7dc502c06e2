"""Responses and lines cut anywhere, what is not HTTP, and requests that cannot be broken open."""

from __future__ import annotations

import gc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resettle.errors import ClusterError
from resettle.kube.transport.parser import (
    LONGEST_HEAD,
    LineSplitter,
    MalformedResponse,
    ResponseParser,
    encode_headers,
    encode_request,
)

SIZED = b"HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nhel\r\n2;ext=1\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
)
LAST = b"HTTP/1.1 429 Too Many\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"
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
    pytest.param(LAST, 429, b"no", False, id="the last one over its connection"),
    pytest.param(
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", False, id="of an old server"
    ),
]


@pytest.mark.parametrize(("sent", "status", "body", "allows_reuse"), CASES)
@given(cuts=st.lists(st.integers(0, 120), max_size=6))
def test_a_response_is_the_same_wherever_it_is_cut(
    sent: bytes, status: int, body: bytes, allows_reuse: bool, cuts: list[int]
) -> None:
    parser = ResponseParser()
    for piece in _cut(sent, cuts):
        assert parser.complete == []
        parser.feed(piece)

    (response,) = parser.complete
    assert (response.status, response.body) == (status, body)
    assert (response.is_complete, response.allows_reuse) == (True, allows_reuse)
    assert (parser.latest, parser.in_head) == (response, False)


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    parser = ResponseParser()
    parser.feed(b"HTTP/1.1 200 OK\r\n\r\nall of")
    parser.feed(b" it")

    assert parser.complete == []
    parser.finish()
    (response,) = parser.complete
    assert (response.body, response.is_complete, response.allows_reuse) == (
        b"all of it",
        True,
        False,
    )


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(SIZED, id="with its length"),
        pytest.param(CHUNKED, id="in chunks"),
        pytest.param(LAST, id="the last one over its connection"),
    ],
)
def test_a_response_that_was_cut_off_is_not_complete(sent: bytes) -> None:
    for end in range(len(sent)):
        parser = ResponseParser()
        parser.feed(sent[:end])
        parser.finish()
        assert parser.complete == []


def test_responses_follow_one_another() -> None:
    parser = ResponseParser()
    parser.feed(SIZED + CHUNKED + SIZED[:20])

    assert [(answer.status, answer.body) for answer in parser.complete] == [
        (201, b"hello"),
        (200, b"hello"),
    ]
    assert parser.in_head


def test_after_a_clear_only_later_responses_are_kept() -> None:
    parser = ResponseParser()
    parser.feed(SIZED)
    parser.clear()

    assert (parser.latest, parser.complete) == (None, [])
    parser.feed(CHUNKED)
    assert [answer.status for answer in parser.complete] == [200]


def test_headers_are_found_whatever_their_case_and_trailers_are_none() -> None:
    parser = ResponseParser()
    parser.feed(b"HTTP/1.1 429 Busy\r\nRETRY-after:  7 \r\n" + CHUNKED.partition(b"\r\n")[2])
    (response,) = parser.complete

    assert response.header(b"retry-after") == b"7"
    assert (response.header(b"trailer"), response.header(b"other")) == (b"", b"")


def test_a_body_in_one_piece_is_not_copied_again() -> None:
    parser = ResponseParser()
    parser.feed(SIZED)
    (response,) = parser.complete

    assert response.body is response.pieces[0]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 OK\r\n\r\n", id="no status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", id="no such length"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", id="two lengths"
        ),
        pytest.param(b"x" * (LONGEST_HEAD + 1), id="a head without an end"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA: " + b"x" * LONGEST_HEAD, id="a header without an end"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", id="no such chunk"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n",
            id="a chunk longer than it says",
        ),
        pytest.param(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
            id="another protocol from here on",
        ),
    ],
)
def test_what_is_not_http_is_an_error(sent: bytes) -> None:
    with pytest.raises(MalformedResponse):
        ResponseParser().feed(sent)
    with pytest.raises(MalformedResponse):
        _feed_in_small_pieces(ResponseParser(), sent)


def test_an_error_shows_how_the_bytes_begin() -> None:
    with pytest.raises(MalformedResponse, match=r"it begins with b'SSH-2\.0-OpenSSH"):
        ResponseParser().feed(b"SSH-2.0-OpenSSH\r\n")


def _feed_in_small_pieces(parser: ResponseParser, sent: bytes) -> None:
    for start in range(0, len(sent), 7):
        parser.feed(sent[start : start + 7])


def test_a_request_is_written_out() -> None:
    headers = encode_headers([("Host", "h"), ("A", "b")])
    request = encode_request("POST", "/apis/x", headers, b"{}")

    assert request == b"POST /apis/x HTTP/1.1\r\nHost: h\r\nA: b\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("broken", ["/x\r\nEvil: 1", "/x\nEvil: 1"])
def test_a_line_break_cannot_smuggle_in_a_header(broken: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        encode_request("GET", broken, b"", None)
    with pytest.raises(ValueError, match="line break"):
        encode_headers([("Host", broken)])


def _cut(sent: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    return [sent[a:b] for a, b in pairwise(edges) if a < b]


def test_responses_and_finished_parsers_leave_no_garbage_behind() -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            parser = ResponseParser()
            parser.feed(SIZED)
            parser.feed(CHUNKED)
            parser.finish()
        assert gc.collect() == 0
    finally:
        gc.enable()


# -- lines ---------------------------------------------------------------------------------------


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_lines_do_not_depend_on_where_the_stream_is_cut(whole: bytes, cuts: list[int]) -> None:
    lines = LineSplitter()
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    chunks = [whole[start:end] for start, end in pairwise(edges)]

    split = [line for chunk in chunks for line in lines.split(chunk)]

    assert split == [line for line in whole.split(b"\n")[:-1] if line]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"x" * 11], id="at once"),
        pytest.param([b"x" * 6, b"x" * 5], id="in pieces"),
        pytest.param([b"short\n" + b"x" * 6, b"x" * 5], id="after a shorter one"),
    ],
)
def test_a_line_without_end_is_an_error(chunks: list[bytes]) -> None:
    lines = LineSplitter(longest=10)

    with pytest.raises(ClusterError, match="more than 10 bytes"):
        [list(lines.split(chunk)) for chunk in chunks]


def test_many_small_responses_in_large_reads_are_not_one_long_head() -> None:
    response = b"HTTP/1.1 200 OK\r\nX-Filler: " + b"x" * 1000 + b"\r\nContent-Length: 2\r\n\r\n{}"
    sent = response * 300
    for offset in range(0, len(response), 97):
        parser = ResponseParser()
        pieces = [sent[:offset], *(sent[i : i + 65536] for i in range(offset, len(sent), 65536))]
        for piece in pieces:
            parser.feed(piece)
        assert len(parser.complete) == 300
        parser.finish()
