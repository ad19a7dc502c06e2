"""Requests and watches against the test API server: what is tried again, and what is logged."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from resettle.errors import AnswerLost, ClusterUnreachable, NotNow
from resettle.kube.auth.access import Access, TokenFile
from resettle.kube.transport.client import Answer, Client
from resettle.kube.transport.pacing import RateLimiter
from resettle.testing import ApiServer, Fault, ManualClock, namespace
from tests.kube.fakes import Listener, at_work
from tests.kube.leader_election.harness import run_with_timeout

NODES = "/api/v1/nodes"
BUSY = Fault(status=429, retry_after_seconds=2)


def steady() -> float:
    """No jitter."""
    return 0.0


async def served(clock: ManualClock, waiting: Coroutine[Any, Any, Answer], pauses: int) -> Answer:
    """The answer, after winding the clock for as many pauses."""
    task = asyncio.create_task(waiting)
    for _ in range(pauses):
        await clock.wait_for_sleepers()
        clock.advance(timedelta(seconds=2))
    return await task


# -- tried again ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "body"),
    [pytest.param("GET", None, id="a read"), pytest.param("POST", b"{}", id="a write")],
)
def test_an_overloaded_server_is_asked_again_when_it_says(method: str, body: bytes | None) -> None:
    async def run_scenario() -> None:
        clock = ManualClock()
        async with (
            ApiServer(faults=[Fault(status=429, retry_after_seconds=2, times=2)]) as server,
            Client(Access(server=server.url), clock=clock, jitter=steady) as client,
        ):
            answer = await served(clock, client.send(method, NODES, body), pauses=2)

            assert answer.status != 429
            assert len(server.requests) == 3

    run_with_timeout(run_scenario())


def test_patience_ends_and_the_last_answer_comes_back() -> None:
    async def run_scenario() -> None:
        clock = ManualClock()
        async with (
            ApiServer(faults=[Fault(status=429, retry_after_seconds=2, times=99)]) as server,
            Client(Access(server=server.url), clock=clock, jitter=steady) as client,
        ):
            answer = await served(clock, client.send("GET", NODES, patience=5), pauses=2)

            assert (answer.status, len(server.requests)) == (429, 3)

    run_with_timeout(run_scenario())


def test_every_try_takes_its_turn_and_asks_first_whether_it_may_go_out() -> None:
    async def run_scenario() -> None:
        clock, calls = ManualClock(), 0

        def before() -> None:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise NotNow("asked to stop")

        async with (
            ApiServer(faults=[Fault(status=429, retry_after_seconds=2, times=99)]) as server,
            Client(Access(server=server.url), clock=clock, jitter=steady) as client,
        ):
            with pytest.raises(NotNow):
                await served(clock, client.send("POST", NODES, b"{}", before=before), pauses=1)

            assert len(server.requests) == 1

    run_with_timeout(run_scenario())


def test_requests_are_paced() -> None:
    async def run_scenario() -> None:
        clock = ManualClock()
        async with (
            ApiServer() as server,
            Client(
                Access(server=server.url), RateLimiter(1, 2, clock), clock, jitter=steady
            ) as client,
        ):
            tasks = [asyncio.create_task(client.send("GET", NODES)) for _ in range(3)]
            await asyncio.gather(*tasks[:2])
            await clock.wait_for_sleepers()
            assert len(server.requests) == 2
            clock.advance(timedelta(seconds=1))

            assert (await tasks[2]).is_success

    run_with_timeout(run_scenario())


def test_a_server_that_restarts_is_found_again_by_a_read() -> None:
    async def run_scenario() -> None:
        clock = ManualClock()
        with socket.create_server(("127.0.0.1", 0)) as once:
            port = once.getsockname()[1]
        async with Client(
            Access(server=f"http://127.0.0.1:{port}"), clock=clock, jitter=steady
        ) as client:
            task = asyncio.create_task(client.send("GET", NODES))
            await clock.wait_for_sleepers()
            with at_work(Listener(port)):
                clock.advance(timedelta(seconds=1))

                assert (await task).is_success

    run_with_timeout(run_scenario())


# -- no answer -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_address_without_a_server_is_unreachable_and_nothing_was_done(method: str) -> None:
    async def run_scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as once:
            server = f"http://127.0.0.1:{once.getsockname()[1]}"
        async with Client(Access(server=server)) as client:
            with pytest.raises(ClusterUnreachable) as caught:
                await client.send(method, NODES, patience=0)
        assert type(caught.value) is ClusterUnreachable
        assert str(caught.value) == (
            f"{server} cannot be reached: Connection refused; check the kubeconfig and network"
        )

    run_with_timeout(run_scenario())


@pytest.mark.parametrize(
    ("fault", "within"),
    [
        pytest.param(Fault(hang_up=True), 30, id="the server hangs up"),
        pytest.param(Fault(delay_seconds=20), 0.1, id="the server takes too long"),
    ],
)
def test_an_answer_that_never_comes_is_lost_and_not_asked_for_again(
    fault: Fault, within: float
) -> None:
    async def run_scenario() -> None:
        async with (
            ApiServer(faults=[fault]) as server,
            Client(Access(server=server.url)) as client,
        ):
            with pytest.raises(AnswerLost, match=r"gave no answer: "):
                await client.send("POST", NODES, b"{}", within=within)
            assert len(server.requests) == 1

    run_with_timeout(run_scenario())


def test_connections_are_kept_open() -> None:
    async def run_scenario() -> None:
        async with ApiServer() as server, Client(Access(server=server.url)) as client:
            for _ in range(3):
                assert (await client.send("GET", NODES)).is_success
            assert len({asked.client for asked in server.requests}) == 1

    run_with_timeout(run_scenario())


# -- signing in ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rotated", "status", "shown"),
    [
        pytest.param("new", 200, ["old", "new"], id="a newer token is shown"),
        pytest.param("bad", 401, ["old", "bad"], id="once only"),
        pytest.param("old", 401, ["old"], id="the same token is not"),
    ],
)
def test_a_token_that_is_turned_down_is_read_again(
    rotated: str, status: int, shown: list[str], tmp_path: Path
) -> None:
    async def run_scenario() -> None:
        file = tmp_path / "token"
        file.write_text("old")
        access_by = TokenFile(file.read_text, ManualClock())
        file.write_text(rotated)
        async with ApiServer(token="new") as server:
            access = Access(server=server.url, credentials=access_by)
            async with Client(access) as client:
                answer = await client.send("GET", NODES)

            assert answer.status == status
            assert [asked.token for asked in server.requests] == shown

    run_with_timeout(run_scenario())


def test_a_watch_renews_credentials_too(tmp_path: Path) -> None:
    async def run_scenario() -> None:
        file = tmp_path / "token"
        file.write_text("old")
        rotating = TokenFile(file.read_text, ManualClock())
        file.write_text("new")
        async with ApiServer([namespace("team")], token="new") as server:
            access = Access(server=server.url, credentials=rotating)
            async with Client(access) as client:
                path = "/api/v1/namespaces"
                lines = client.watch(path, {"watch": "1", "timeoutSeconds": "1"}, quiet_for=10)
                first = await anext(lines)
                assert isinstance(first, bytes)
                assert b'"ADDED"' in first
                async for _ in lines:
                    pass
            assert [asked.token for asked in server.requests] == ["old", "new"]

    run_with_timeout(run_scenario())


def test_a_watch_that_is_refused_gives_the_refusal() -> None:
    async def run_scenario() -> None:
        async with (
            ApiServer(faults=[Fault(status=410)]) as server,
            Client(Access(server=server.url)) as client,
        ):
            received = [answer async for answer in client.watch(NODES, {"watch": "1"}, quiet_for=5)]

            assert [answer.status for answer in received if isinstance(answer, Answer)] == [410]

    run_with_timeout(run_scenario())


def test_a_watch_that_falls_silent_is_an_error() -> None:
    async def run_scenario() -> None:
        async with ApiServer() as server, Client(Access(server=server.url)) as client:
            with pytest.raises(ClusterUnreachable, match="ended a watch: "):
                async for _ in client.watch(NODES, {"watch": "1"}, quiet_for=0.1):
                    pass

    run_with_timeout(run_scenario())


def test_a_redirect_is_an_answer_and_no_invitation() -> None:
    """Credentials are for the server that the kubeconfig names, not for one it redirects to."""

    async def run_scenario() -> None:
        with at_work(Listener()) as other, at_work(Listener(sends_to=other.url)) as first:
            async with Client(Access(server=first.url, token="secret")) as client:
                assert (await client.send("GET", NODES)).status == 307
            assert other.request_headers == []

    run_with_timeout(run_scenario())


def test_a_server_that_speaks_no_tls_cannot_be_reached_by_it() -> None:
    async def run_scenario() -> None:
        async with ApiServer() as server:
            trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            access = Access(server=server.url.replace("http", "https"), trust=trust)
            async with Client(access) as client:
                with pytest.raises(ClusterUnreachable, match="cannot be reached: "):
                    await client.send("GET", NODES, patience=0)

    run_with_timeout(run_scenario())


# -- several at once -------------------------------------------------------------------------------


def leases(count: int) -> list[tuple[str, bytes]]:
    """Posts of so many leases."""
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    names = [f"l{i:02}" for i in range(count)]
    return [(path, json.dumps({"metadata": {"name": name}}).encode()) for name in names]


def test_posts_go_out_over_one_connection_and_come_back_in_order() -> None:
    async def run_scenario() -> None:
        async with ApiServer() as server, Client(Access(server=server.url)) as client:
            answers = await client.post_all(leases(40))
            again = await client.post_all(leases(3))

            assert [answer.status for answer in answers] == [201] * 40
            assert [json.loads(answer.body)["metadata"]["name"] for answer in answers] == [
                f"l{i:02}" for i in range(40)
            ]
            assert [answer.status for answer in again] == [409] * 3
            assert len({request.client for request in server.requests}) == 1

    run_with_timeout(run_scenario())


def test_posts_whose_connection_breaks_are_lost() -> None:
    async def run_scenario() -> None:
        fault = Fault(verbs=("create",), hang_up=True)
        async with (
            ApiServer(faults=[fault]) as server,
            Client(Access(server=server.url)) as client,
        ):
            with pytest.raises(AnswerLost):
                await client.post_all(leases(5))

            assert [answer.status for answer in await client.post_all(leases(2))] == [201, 201]

    run_with_timeout(run_scenario())


def test_posts_take_a_turn_each() -> None:
    async def run_scenario() -> None:
        clock = ManualClock()
        async with (
            ApiServer() as server,
            Client(Access(server=server.url), RateLimiter(1, 5, clock), clock) as client,
        ):
            assert client.at_once() == 5
            await client.post_all(leases(4))
            assert client.at_once() == 1

    run_with_timeout(run_scenario())
