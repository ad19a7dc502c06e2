"""Requests from bytes, answers to bytes."""

from __future__ import annotations

import pytest

from resettle.kube.transport.parser import MalformedResponse
from resettle.serving.http import Answer, parsed, plain, written


def head(first: str, *headers: str) -> bytes:
    return "\r\n".join([first, *headers, "", ""]).encode("latin-1")


def test_a_request_is_taken_apart() -> None:
    request = parsed(
        head(
            "GET /readyz?verbose&exclude=cache&exclude=policy HTTP/1.1",
            "Host: us",
            "AUTHORIZATION: bearer  abc.def",
            "Accept-Encoding: gzip, br",
        )
    )

    assert (request.method, request.path) == ("GET", "/readyz")
    assert request.query == {"verbose": [""], "exclude": ["cache", "policy"]}
    assert (request.token, request.takes_gzip, request.lasts) == ("abc.def", True, True)


@pytest.mark.parametrize(
    ("first", "headers", "lasts"),
    [
        ("GET / HTTP/1.1", [], True),
        ("GET / HTTP/1.1", ["Connection: close"], False),
        ("GET / HTTP/1.0", [], False),
        ("GET / HTTP/1.0", ["Connection: Keep-Alive"], True),
        pytest.param("DELETE / HTTP/1.1", ["Content-Length: 3"], False, id="a body is not read"),
        pytest.param("GET / HTTP/1.1", ["Transfer-Encoding: chunked"], False, id="nor chunks"),
        pytest.param("GET / HTTP/1.1", ["Content-Length: 0"], True, id="an empty body is none"),
    ],
)
def test_whether_another_request_may_follow(first: str, headers: list[str], lasts: bool) -> None:
    assert parsed(head(first, *headers)).lasts is lasts


@pytest.mark.parametrize(
    "bad",
    [
        head("GET / HTTP/2"),
        head("GET /"),
        head("GET  / HTTP/1.1"),
        head("\x16\x03\x01"),
        head("GET / HTTP/1.1", "no colon"),
        head("GET / HTTP/1.1", " folded: x"),
        head("GET / HTTP/1.1", "Host : x"),
        head("GET //[ HTTP/1.1"),
        b"\r\n\r\n",
    ],
)
def test_what_is_no_request_is_told(bad: bytes) -> None:
    with pytest.raises(MalformedResponse):
        parsed(bad)


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer abc", "abc"), ("Basic abc", ""), ("Bearer", ""), ("abc", "")],
)
def test_only_a_bearer_token_is_one(header: str, token: str) -> None:
    assert parsed(head("GET / HTTP/1.1", f"Authorization: {header}")).token == token


def test_an_answer_says_how_long_it_is_and_whether_it_is_the_last() -> None:
    answer = plain(404, "none\n", ("Allow", "GET"))

    first, *headers = written(answer, lasts=False).split(b"\r\n\r\n")[0].split(b"\r\n")

    assert first == b"HTTP/1.1 404 Not Found"
    assert {b"Content-Length: 5", b"Allow: GET", b"Connection: close"} <= set(headers)


def test_a_head_has_the_length_and_not_the_body() -> None:
    told = written(Answer(200, b"12345"), head_only=True)

    assert b"Content-Length: 5\r\n" in told
    assert told.endswith(b"\r\n\r\n")
