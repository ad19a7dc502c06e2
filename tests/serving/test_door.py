"""Connections: what they may do, and what they may not do to us."""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import Coroutine
from typing import Any

import pytest

from resettle.errors import InputError
from resettle.serving import door as doors
from resettle.serving import visit as visits
from resettle.serving.door import bound
from resettle.serving.http import Answer, Request
from resettle.serving.visit import LONGEST_HEAD

from .asking import SECONDS, Caller, asked, door


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 2 * SECONDS))


def test_one_connection_serves_many_requests() -> None:
    async def story() -> None:
        async with door() as open_door:
            caller = Caller(open_door.port)
            for path in ("/a", "/b", "/c"):
                assert (await caller.ask(path)).text == f"GET {path}\n"
                assert caller.line.sock is not None, "it is kept open"
            caller.close()

    play(story())


def test_a_head_request_gets_no_body_and_a_delete_is_one() -> None:
    async def story() -> None:
        async with door() as open_door:
            caller = Caller(open_door.port)
            told = await caller.ask("/a", "HEAD")
            assert (told.status, told.body, told.headers["Content-Length"]) == (200, b"", "8")
            assert (await caller.ask("/a", "DELETE")).text == "DELETE /a\n"
            caller.close()

    play(story())


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        pytest.param(b"\x00" * (LONGEST_HEAD + 99), b"431", id="no end in sight"),
        pytest.param(
            b"GET / HTTP/1.1\r\nA: " + b"a" * LONGEST_HEAD + b"\r\n\r\n", b"431", id="too long"
        ),
        pytest.param(b"hello\r\n\r\n", b"400", id="not HTTP"),
        pytest.param(
            b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", b"200", id="a body unasked for"
        ),
        pytest.param(b"GET / HTTP/1.0\r\n\r\n", b"200", id="an old one that hangs up"),
    ],
)
def test_an_answer_and_the_end(raw: bytes, status: bytes) -> None:
    async def story() -> None:
        async with door() as open_door:
            caller = Caller(open_door.port)
            heard = await caller.say(raw)
            assert heard.startswith(b"HTTP/1.1 " + status)
            assert b"\r\nConnection: close\r\n" in heard
            caller.close()
            assert (await asked(open_door.port, "/")).status == 200, "others are served"

    play(story())


def test_who_says_nothing_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "HEAD_SECONDS", 0.1)

    async def story() -> None:
        async with door() as open_door:
            caller = Caller(open_door.port)
            assert await caller.say(b"") == b""
            caller.close()

    play(story())


def test_who_rests_too_long_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "REST_SECONDS", 0.1)

    async def story() -> None:
        async with door() as open_door:
            caller = Caller(open_door.port)
            heard = await caller.say(b"GET /a HTTP/1.1\r\n\r\n")
            assert heard.endswith(b"GET /a\n")
            caller.close()

    play(story())


def test_if_there_are_too_many_the_one_that_rests_longest_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doors, "MOST_VISITS", 2)

    async def story() -> None:
        async with door() as open_door:
            first, second, third = (Caller(open_door.port) for _ in range(3))
            await first.ask("/")
            await second.ask("/")
            await first.ask("/")
            assert (await third.ask("/")).status == 200
            assert (await first.ask("/")).status == 200, "it was heard of after the second"
            second.line.auto_open = 0
            with pytest.raises((OSError, http.client.HTTPException)):
                await second.ask("/")
            for it in (first, second, third):
                it.close()

    play(story())


def test_who_does_not_speak_tls_gets_nowhere_and_does_no_harm() -> None:
    async def story() -> None:
        async with door() as open_door:

            def plainly() -> bytes:
                with socket.create_connection(("127.0.0.1", open_door.port), SECONDS) as line:
                    line.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    try:
                        return line.recv(1 << 10)
                    except ConnectionResetError:
                        return b""

            assert b"HTTP" not in await asyncio.to_thread(plainly)
            assert (await asked(open_door.port, "/")).status == 200

    play(story())


def test_an_answer_that_fails_is_told_to_the_log_and_not_to_the_world() -> None:
    async def broken(request: Request) -> Answer:
        raise ArithmeticError("a secret")

    async def story() -> None:
        log: list[str] = []
        async with door(broken, log=log) as open_door:
            told = await asked(open_door.port, "/metrics")
            assert told.status == 500
            assert "secret" not in told.text
        (line,) = [line for line in log if "request failed" in line]
        assert "a secret" in line

    play(story())


def test_a_request_in_the_middle_does_not_keep_the_door_open() -> None:
    async def story() -> None:
        reached = asyncio.Event()

        async def never(request: Request) -> Answer:
            reached.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with door(never) as open_door:
            caller = Caller(open_door.port)
            asking = asyncio.create_task(caller.ask("/"))
            await reached.wait()
        with pytest.raises(OSError, match=r".*"):
            await asking
        caller.close()

    play(story())


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::", ""])
def test_a_port_that_is_taken_is_named_with_what_to_do(address: str) -> None:
    with bound(address, 0) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(InputError) as told:
            bound(address, port)

    assert f"{port}: Address already in use; name another port with --secure-port" in str(
        told.value
    )


def test_an_address_that_is_not_ours_is_told() -> None:
    with pytest.raises(InputError, match=r"203\.0\.113\.7:10258: Cannot assign requested address"):
        bound("203.0.113.7", 10258)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_all_addresses_are_those_of_both_families(address: str) -> None:
    with bound(address, 0) as listener:
        port = listener.getsockname()[1]
        for there in ("127.0.0.1", "::1"):
            socket.create_connection((there, port), SECONDS).close()
