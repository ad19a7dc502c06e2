"""The HTTPS server: requests, limits, and what clients cannot do to it."""

from __future__ import annotations

import asyncio
import http.client
import socket

import pytest
from aiohttp import web

from resettle.clock import SYSTEM
from resettle.errors import InputError
from resettle.https import ServingCertificate, Tls
from resettle.https.server import HttpsServer, ServerLimits, listen
from resettle.log import Log

from .harness import SECONDS, HttpsClient, echo, get, play, serving

HEADER_BYTES = ServerLimits().header_bytes


def test_one_connection_serves_many_requests() -> None:
    async def run_scenario() -> None:
        async with serving() as server:
            client = HttpsClient(server.port)
            for path in ("/a", "/b", "/c"):
                assert (await client.request(path)).text == f"GET {path}\n"
                assert client.connection.sock is not None, "it is kept open"
            client.close()

    play(run_scenario())


def test_a_head_request_gets_no_body_and_a_delete_is_one() -> None:
    async def run_scenario() -> None:
        async with serving() as server:
            client = HttpsClient(server.port)
            response = await client.request("/a", "HEAD")
            assert (response.status, response.body) == (200, b"")
            assert response.headers["Content-Length"] == "8"
            assert (await client.request("/a", "DELETE")).text == "DELETE /a\n"
            client.close()

    play(run_scenario())


def test_every_response_has_the_headers_that_keep_browsers_safe_and_names_no_version() -> None:
    async def run_scenario() -> None:
        async with serving() as server:
            headers = (await get(server.port, "/a")).headers
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == "no-store"
            assert headers["Content-Type"] == "text/plain; charset=utf-8"
            assert headers["Server"] == "resettle"
            client = HttpsClient(server.port)
            bad = await client.send(b"not HTTP\r\n\r\n")
            assert b"\r\nX-Content-Type-Options: nosniff\r\n" in bad
            assert b"aiohttp" not in bad
            client.close()

    play(run_scenario())


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        pytest.param(b"\x00" * 20_000, b"400", id="no end in sight"),
        pytest.param(
            b"GET / HTTP/1.1\r\nA: " + b"a" * HEADER_BYTES + b"a\r\n\r\n", b"431", id="too long"
        ),
        pytest.param(
            b"GET /" + b"a" * HEADER_BYTES + b" HTTP/1.1\r\n\r\n", b"431", id="a path too long"
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\n" + b"A: a\r\n" * 200 + b"\r\n", b"400", id="too many headers"
        ),
        pytest.param(b"hello\r\n\r\n", b"400", id="not HTTP"),
        pytest.param(b"\x16\x03\x01\r\n\r\n", b"400", id="TLS within TLS"),
        pytest.param(b"GET / HTTP/2\r\n\r\n", b"400", id="another version"),
        pytest.param(b"GET /\r\n\r\n", b"400", id="no version"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", b"400", id="no host"),
        pytest.param(b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"400", id="no header"),
        pytest.param(b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", b"400", id="a folded header"),
        pytest.param(b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", b"400", id="a space in a name"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: us\r\nContent-Length: 5\r\n\r\nhello",
            b"200",
            id="an unwanted body",
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: us\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            b"200",
            id="unwanted chunks without an end",
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: us\r\nConnection: close\r\n\r\n", b"200", id="asked to close"
        ),
        pytest.param(b"GET / HTTP/1.0\r\n\r\n", b"200", id="HTTP/1.0"),
    ],
)
def test_a_response_and_the_end_of_the_connection(raw: bytes, status: bytes) -> None:
    async def run_scenario() -> None:
        log: list[str] = []
        async with serving(log=log) as server:
            client = HttpsClient(server.port)
            received = await client.send(raw)
            version, code = received.split(b" ")[:2]
            assert (version[:5], code) == (b"HTTP/", status)
            assert (b"\r\nConnection: close\r\n" in received) == (version == b"HTTP/1.1")
            client.close()
            assert (await get(server.port, "/")).status == 200, "others are served"
        assert log == [], "strangers cannot fill the log"

    play(run_scenario())


def test_a_client_that_sends_nothing_is_disconnected() -> None:
    async def run_scenario() -> None:
        async with serving(limits=ServerLimits(first_request_seconds=0.1)) as server:
            for begun in (b"", b"GET / HTTP/1.1\r\nHost: "):
                client = HttpsClient(server.port)
                assert await client.send(begun) == b""
                client.close()

    play(run_scenario())


def test_a_client_that_sends_no_handshake_is_disconnected() -> None:
    async def run_scenario() -> None:
        async with serving(limits=ServerLimits(handshake_seconds=0.1)) as server:

            def connect() -> bytes:
                with socket.create_connection(("127.0.0.1", server.port), SECONDS) as line:
                    return line.recv(1 << 10)

            assert await asyncio.to_thread(connect) == b""

    play(run_scenario())


def test_a_connection_that_is_idle_too_long_is_closed() -> None:
    async def run_scenario() -> None:
        limits = ServerLimits(keep_alive_seconds=0.1, first_request_seconds=SECONDS)
        async with serving(limits=limits) as server:
            for more in (b"", b"GET /b HTTP/1.1\r\nHost: "):
                client = HttpsClient(server.port)
                received = await client.send(b"GET /a HTTP/1.1\r\nHost: us\r\n\r\n" + more)
                assert received.endswith(b"GET /a\n")
                client.close()

    play(run_scenario())


def test_if_there_are_too_many_the_connection_that_is_idle_longest_is_closed() -> None:
    async def run_scenario() -> None:
        async with serving(limits=ServerLimits(connections=2)) as server:
            first, second, third = (HttpsClient(server.port) for _ in range(3))
            await first.request("/")
            await second.request("/")
            await first.request("/")
            assert (await third.request("/")).status == 200
            assert (await first.request("/")).status == 200, "it was active after the second"
            second.connection.auto_open = 0
            with pytest.raises((OSError, http.client.HTTPException)):
                await second.request("/")
            for client in (first, second, third):
                client.close()

    play(run_scenario())


def test_handshakes_count_as_connections() -> None:
    async def run_scenario() -> None:
        async with serving(limits=ServerLimits(connections=2)) as server:
            lines = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(5)]
            assert (await get(server.port, "/")).status == 200
            for line in lines:
                line.close()

    play(run_scenario())


def test_a_client_that_speaks_no_tls_gets_nothing_and_does_no_harm() -> None:
    async def run_scenario() -> None:
        async with serving() as server:

            def send_plain() -> bytes:
                with socket.create_connection(("127.0.0.1", server.port), SECONDS) as line:
                    line.sendall(b"GET / HTTP/1.1\r\nHost: us\r\n\r\n")
                    try:
                        return line.recv(1 << 10)
                    except ConnectionResetError:
                        return b""

            assert b"HTTP" not in await asyncio.to_thread(send_plain)
            assert (await get(server.port, "/")).status == 200

    play(run_scenario())


def test_a_handler_that_fails_is_described_in_the_log_and_not_to_the_client() -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        raise ArithmeticError("a secret")

    async def run_scenario() -> None:
        log: list[str] = []
        async with serving(broken, log=log) as server:
            response = await get(server.port, "/metrics")
            assert response.status == 500
            assert "secret" not in response.text
        (line,) = [line for line in log if "request failed" in line]
        assert "a secret" in line

    play(run_scenario())


def test_a_response_that_fails_in_the_middle_ends_the_connection() -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"the first part\n")
        raise ConnectionRefusedError("no database")

    async def run_scenario() -> None:
        log: list[str] = []
        async with serving(broken, log=log) as server:
            client = HttpsClient(server.port)
            with pytest.raises((OSError, http.client.HTTPException)):
                await client.request("/")
            client.close()
        assert log == ['ERROR request failed path=/ reason="ConnectionRefusedError: no database"']

    play(run_scenario())


def test_a_handler_that_takes_too_long_is_given_up() -> None:
    async def never(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async def run_scenario() -> None:
        log: list[str] = []
        async with serving(never, log=log, limits=ServerLimits(request_seconds=0.1)) as server:
            assert (await get(server.port, "/slow")).status == 503
        assert log == ["WARNING request took too long path=/slow"]

    play(run_scenario())


def test_a_response_that_has_begun_may_go_on() -> None:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(3):
            await asyncio.sleep(0.1)
            await response.write(b"event\n")
        return response

    async def run_scenario() -> None:
        async with serving(stream, limits=ServerLimits(request_seconds=0.1)) as server:
            assert (await get(server.port, "/events")).text == "event\n" * 3

    play(run_scenario())


@pytest.mark.parametrize(
    ("requests", "limits"),
    [
        pytest.param(
            1, ServerLimits(keep_alive_seconds=0.2), id="a response that waits in a buffer"
        ),
        pytest.param(3, ServerLimits(send_seconds=0.2), id="responses that cannot all be buffered"),
    ],
)
def test_a_client_that_does_not_read_is_disconnected(requests: int, limits: ServerLimits) -> None:
    async def large(request: web.Request) -> web.StreamResponse:
        return web.Response(body=bytes(20 << 20))

    async def run_scenario() -> None:
        async with serving(large, limits=limits) as server:
            client = HttpsClient(server.port)

            def send() -> None:
                client.connection.connect()
                client.connection.sock.sendall(b"GET / HTTP/1.1\r\nHost: us\r\n\r\n" * requests)

            await asyncio.to_thread(send)
            while server.connections:
                await asyncio.sleep(0.01)
            client.close()

    play(run_scenario())


@pytest.mark.parametrize(("size", "status"), [(1000, 200), (1001, 413)])
def test_a_body_has_a_largest_size(size: int, status: int) -> None:
    async def read(request: web.Request) -> web.StreamResponse:
        return web.Response(text=f"{len(await request.read())}\n")

    async def run_scenario() -> None:
        async with serving(read, limits=ServerLimits(body_bytes=1000)) as server:
            client = HttpsClient(server.port)
            response = await client.request("/", "POST", body=bytes(size))
            assert response.status == status
            client.close()

    play(run_scenario())


def test_a_stop_lets_a_request_finish() -> None:
    async def run_scenario() -> None:
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def slow(request: web.Request) -> web.StreamResponse:
            reached.set()
            await go_on.wait()
            return web.Response(text="done\n")

        async with serving(slow) as server:
            requesting = asyncio.create_task(get(server.port, "/"))
            await reached.wait()
            asyncio.get_running_loop().call_later(0.1, go_on.set)
        assert (await requesting).text == "done\n"

    play(run_scenario())


def test_a_request_that_does_not_end_does_not_hold_up_a_stop() -> None:
    async def run_scenario() -> None:
        reached = asyncio.Event()

        async def never(request: web.Request) -> web.StreamResponse:
            reached.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with serving(never, limits=ServerLimits(stop_seconds=0.1)) as server:
            client = HttpsClient(server.port)
            requesting = asyncio.create_task(client.request("/"))
            await reached.wait()
        with pytest.raises(OSError, match=r".*"):
            await requesting
        client.close()

    play(run_scenario())


def test_what_is_not_routed_is_refused_with_what_there_is() -> None:
    async def run_scenario() -> None:
        log = Log.to([])
        certificate = ServingCertificate(Tls(), "127.0.0.1", SYSTEM, log)

        async def missing(request: web.Request) -> web.StreamResponse:
            raise web.HTTPNotFound(text="no such pod\n")

        async def moved(request: web.Request) -> web.StreamResponse:
            raise web.HTTPFound("/a")

        routes = [web.get("/a", echo), web.get("/a/{name}", missing), web.get("/b", moved)]
        server = HttpsServer(listen("127.0.0.1", 0), certificate, log, public=routes)
        async with server.run():
            response = await get(server.port, "/c")
            assert response.status == 404
            assert response.text == "nothing is served here; there is /a, /b\n"
            assert (await get(server.port, "/a/x")).text == "no such pod\n"
            response = await get(server.port, "/a", "POST")
            assert (response.status, response.headers["Allow"]) == (405, "GET,HEAD")
            response = await get(server.port, "/b")
            assert (response.status, response.headers["Location"]) == (302, "/a")

    play(run_scenario())


def test_protected_routes_are_checked_by_the_authorizer() -> None:
    class Closed:
        async def refusal(self, request: web.Request) -> web.Response | None:
            return web.Response(status=403, text=f"not {request.path}\n")

    async def run_scenario() -> None:
        log = Log.to([])
        certificate = ServingCertificate(Tls(), "127.0.0.1", SYSTEM, log)
        server = HttpsServer(
            listen("127.0.0.1", 0),
            certificate,
            log,
            public=[web.get("/open", echo)],
            protected=[web.get("/closed", echo), web.delete("/closed", echo)],
            authorizer=Closed(),
        )
        async with server.run():
            assert (await get(server.port, "/open")).status == 200
            for method in ("GET", "HEAD", "DELETE"):
                assert (await get(server.port, "/closed", method)).status == 403
            for path in ("/%63losed", "//closed", "/open/../closed", "/closed/"):
                assert (await get(server.port, path)).status in (403, 404)

    play(run_scenario())


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::", ""])
def test_a_port_that_is_taken_is_named_with_what_to_do(address: str) -> None:
    with listen(address, 0) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(InputError) as error:
            listen(address, port)

    assert f"{port}: Address already in use; name another port with --secure-port" in str(
        error.value
    )


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(InputError, match=r"203\.0\.113\.7:10258: Cannot assign requested address"):
        listen("203.0.113.7", 10258)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_all_addresses_are_those_of_both_families(address: str) -> None:
    with listen(address, 0) as listener:
        port = listener.getsockname()[1]
        for target in ("127.0.0.1", "::1"):
            socket.create_connection((target, port), SECONDS).close()
