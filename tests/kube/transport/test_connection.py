"""Requests of one turn of the event loop, written together; responses that are out of order."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from resettle.errors import AnswerLost, NotNow
from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client
from resettle.kube.transport.connection import AsyncConnection, WriteBatch
from resettle.testing import ApiServer
from tests.kube.auth.fakes import Authority
from tests.kube.leader_election.harness import run_with_timeout

NODES = "/api/v1/nodes"


class ObservedBatch(WriteBatch):
    """One that can be looked at, and in which connections may end while requests wait."""

    def __init__(self, ends: Callable[[int], bool] = lambda nth: False) -> None:
        super().__init__()
        self.added_to: list[AsyncConnection] = []
        self._ends = ends

    def add(
        self,
        connection: AsyncConnection,
        request: bytes,
        check: Callable[[], None] | None = None,
    ) -> None:
        super().add(connection, request, check)
        self.added_to.append(connection)
        if self._ends(len(self.added_to)):
            connection.connection_lost(ConnectionResetError("the server restarts"))


@asynccontextmanager
async def asking(batch: WriteBatch) -> AsyncIterator[tuple[ApiServer, Client]]:
    """A client with a connection that was used before."""
    async with ApiServer() as server, Client(Access(server=server.url)) as client:
        assert (await client.send("GET", NODES)).is_success
        client._batch = batch
        yield server, client


async def until_asked(batch: ObservedBatch) -> None:
    while not batch.added_to:
        await asyncio.sleep(0)


def test_what_may_no_longer_go_out_when_its_turn_comes_stays() -> None:
    async def run_scenario() -> None:
        batch, stopped = ObservedBatch(), False

        def before() -> None:
            if stopped:
                raise NotNow("the lease is lost")

        async with asking(batch) as (server, client):
            task = asyncio.create_task(client.send("POST", NODES, b"{}", before=before))
            await until_asked(batch)
            stopped = True
            with pytest.raises(NotNow):
                await task

            assert [asked.verb for asked in server.requests] == ["list"]

    run_with_timeout(run_scenario())


def test_a_request_whose_caller_was_cancelled_is_not_sent() -> None:
    async def run_scenario() -> None:
        batch = ObservedBatch()
        async with asking(batch) as (server, client):
            task = asyncio.create_task(client.send("POST", NODES, b"{}"))
            await until_asked(batch)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert (await client.send("GET", NODES)).is_success

            assert task.cancelled()
            assert [asked.verb for asked in server.requests] == ["list", "list"]

    run_with_timeout(run_scenario())


def test_what_was_not_sent_when_its_connection_ended_goes_over_another() -> None:
    async def run_scenario() -> None:
        batch = ObservedBatch(ends=lambda nth: nth == 1)
        async with asking(batch) as (server, client):
            answer = await client.send("POST", NODES, b'{"metadata":{"name":"n1"}}')

            assert answer.is_success
            assert [asked.verb for asked in server.requests] == ["list", "create"]
            assert len(set(batch.added_to)) == 2

    run_with_timeout(run_scenario())


def test_requests_of_one_turn_go_out_together_each_asked_whether_it_may() -> None:
    async def run_scenario() -> None:
        batch, steps = ObservedBatch(), list[str]()

        async def ask(name: str) -> None:
            body = f'{{"metadata":{{"name":"{name}"}}}}'.encode()
            await client.send("POST", NODES, body, before=lambda: steps.append(f"sends {name}"))

        async with asking(WriteBatch()) as (server, client):
            # As many connections as requests, all of them there already.
            await asyncio.gather(*[client.send("GET", NODES) for _ in range(3)])
            client._batch = batch
            tasks = [asyncio.create_task(ask(name)) for name in ("n1", "n2", "n3")]
            await until_asked(batch)
            steps.append(f"{len(batch.added_to)} are asked for")
            await asyncio.gather(*tasks)

            assert steps == ["3 are asked for", "sends n1", "sends n2", "sends n3"]
            assert [asked.verb for asked in server.requests].count("create") == 3

    run_with_timeout(run_scenario())


def test_a_response_that_comes_before_the_request_is_sent_is_not_taken_for_its_own() -> None:
    late = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"

    class Interrupted(ObservedBatch):
        def add(self, connection: AsyncConnection, *rest: Any) -> None:
            super().add(connection, *rest)
            if len(self.added_to) == 1:
                connection.get_buffer(-1)[: len(late)] = late
                connection.buffer_updated(len(late))

    async def run() -> None:
        batch = Interrupted()
        async with asking(batch) as (server, client):
            answer = await client.send("POST", NODES, b'{"metadata":{"name":"n1"}}')

            assert answer.status == 201
            assert [asked.verb for asked in server.requests] == ["list", "create"]
            assert len(set(batch.added_to)) == 2

    run_with_timeout(run())


# -- responses -----------------------------------------------------------------------------------

FINE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class RawServer:
    """Sends the given bytes for each request, whatever they are, and counts connections."""

    def __init__(self, *, greeting: bytes = b"") -> None:
        self._greeting = greeting
        self.replies: list[bytes] = []
        self.hangs_up = False
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.write(self._greeting)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(self.replies.pop(0))
                await writer.drain()
                if self.hangs_up:
                    break
        writer.close()


@asynccontextmanager
async def raw(server: RawServer, authority: Authority | None = None) -> AsyncIterator[Client]:
    """A client of a server that sends bytes of our choice, over TLS if there is an authority."""
    tls = trust = None
    if authority is not None:
        tls = authority.guarding(authority.issued("server", "127.0.0.1"))
        trust = ssl.create_default_context(cafile=authority.certificate)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    url = f"{'https' if tls else 'http'}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening, Client(Access(server=url, trust=trust)) as client:
        yield client


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        pytest.param(b"SSH-2.0-OpenSSH_9\r\n", r"the answer is not HTTP: .*SSH-2\.0", id="SSH"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "the answer is not HTTP: ", id="length"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut", "closed", id="cut off"),
    ],
)
def test_a_response_that_cannot_be_read_is_a_lost_answer(reply: bytes, why: str) -> None:
    async def run() -> None:
        server = RawServer()
        server.replies, server.hangs_up = [reply], True
        async with raw(server) as client:
            with pytest.raises(AnswerLost, match=why):
                await client.send("POST", NODES, b"{}")

    run_with_timeout(run())


def test_a_server_that_sends_before_it_is_asked_is_reported() -> None:
    async def run() -> None:
        async with raw(RawServer(greeting=b"220 mail ready\r\n")) as client:
            with pytest.raises(AnswerLost, match="220 mail ready"):
                await client.send("POST", NODES, b"{}")

    run_with_timeout(run())


@pytest.mark.parametrize(
    ("reply", "hangs_up", "body", "connections"),
    [
        pytest.param(FINE, False, b"ok", 1, id="as expected: kept"),
        pytest.param(FINE + FINE, False, b"ok", 2, id="a response too many"),
        pytest.param(FINE + b"HTTP/1", False, b"ok", 2, id="the beginning of another"),
        pytest.param(FINE + b"garbage", False, b"ok", 2, id="garbage behind it"),
        pytest.param(
            FINE.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), False, b"ok", 2, id="closing"
        ),
        pytest.param(
            FINE.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n") + b"more",
            False,
            b"ok",
            2,
            id="closing, and more behind it",
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nall", True, b"all", 2, id="until it is closed"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + FINE, False, b"ok", 1, id="100 first"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", False, b"", 1, id="no content"),
    ],
)
def test_a_connection_is_used_again_only_if_its_response_was_in_order(
    reply: bytes, hangs_up: bool, body: bytes, connections: int
) -> None:
    async def run() -> None:
        server = RawServer()
        server.replies, server.hangs_up = [reply, FINE], hangs_up
        async with raw(server) as client:
            assert (await client.send("GET", NODES)).body == body
            assert (await client.send("GET", NODES)).body == b"ok"

            assert server.connections == connections

    run_with_timeout(run())


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
def test_large_bodies_arrive_whole_over_connections_that_share_a_buffer(
    secure: bool, tmp_path: Path
) -> None:
    async def run() -> None:
        authority = Authority(tmp_path, "of this test") if secure else None
        bodies = [bytes([letter]) * size for letter, size in ((97, 3_000_000), (98, 1_000_001))]
        server = RawServer()
        server.replies = [
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            for body in bodies
        ]
        async with raw(server, authority) as client:
            answers = await asyncio.gather(*[client.send("GET", NODES) for _ in bodies])

            assert server.connections == 2
            assert sorted(answer.body for answer in answers) == bodies

    run_with_timeout(run())


def test_a_watch_that_is_not_read_holds_back_its_sender_and_loses_nothing() -> None:
    async def run() -> None:
        lines = [b"%07d" % number + b"x" * 1000 for number in range(8000)]
        server = RawServer()
        body = b"\n".join([*lines, b""])
        server.replies, server.hangs_up = [b"HTTP/1.1 200 OK\r\n\r\n" + body], True
        async with raw(server) as client:
            arrived = []
            async for line in client.watch(NODES, {}, quiet_for=10):
                arrived.append(line)
                if len(arrived) % 500 == 1:
                    await asyncio.sleep(0.01)

            assert arrived == lines

    run_with_timeout(run())
