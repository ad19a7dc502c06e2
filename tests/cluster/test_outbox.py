"""Between asking and sending: requests that wait for the next turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from resettle.cluster.access import Access
from resettle.cluster.channel import Channel
from resettle.cluster.client import Client
from resettle.cluster.outbox import Outbox
from resettle.errors import NotNow
from resettle.testing import PocketServer

from .contenders import story

NODES = "/api/v1/nodes"


class Seen(Outbox):
    """One that can be looked at, and in which connections may end while requests wait."""

    def __init__(self, ends: Callable[[int], bool] = lambda nth: False) -> None:
        super().__init__()
        self.asked: list[Channel] = []
        self._ends = ends

    def put(self, channel: Channel, asked: bytes, before: Callable[[], None] | None = None) -> None:
        super().put(channel, asked, before)
        self.asked.append(channel)
        if self._ends(len(self.asked)):
            channel.connection_lost(ConnectionResetError("the server restarts"))


@asynccontextmanager
async def asking(outbox: Outbox) -> AsyncIterator[tuple[PocketServer, Client]]:
    """A client with a connection that was used before."""
    async with PocketServer() as pocket, Client(Access(server=pocket.url)) as client:
        assert (await client.send("GET", NODES)).fine
        client._outbox = outbox
        yield pocket, client


async def until_asked(outbox: Seen) -> None:
    while not outbox.asked:
        await asyncio.sleep(0)


def test_what_may_no_longer_go_out_when_its_turn_comes_stays() -> None:
    async def told() -> None:
        outbox, stopped = Seen(), False

        def before() -> None:
            if stopped:
                raise NotNow("the lease is lost")

        async with asking(outbox) as (pocket, client):
            task = asyncio.create_task(client.send("POST", NODES, b"{}", before=before))
            await until_asked(outbox)
            stopped = True
            with pytest.raises(NotNow):
                await task

            assert [it.verb for it in pocket.asked] == ["list"]

    story(told())


def test_what_nobody_waits_for_any_more_is_not_sent() -> None:
    async def told() -> None:
        outbox = Seen()
        async with asking(outbox) as (pocket, client):
            task = asyncio.create_task(client.send("POST", NODES, b"{}"))
            await until_asked(outbox)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert (await client.send("GET", NODES)).fine

            assert task.cancelled()
            assert [it.verb for it in pocket.asked] == ["list", "list"]

    story(told())


def test_what_was_not_sent_when_its_connection_ended_goes_over_another() -> None:
    async def told() -> None:
        outbox = Seen(ends=lambda nth: nth == 1)
        async with asking(outbox) as (pocket, client):
            answer = await client.send("POST", NODES, b'{"metadata":{"name":"n1"}}')

            assert answer.fine
            assert [it.verb for it in pocket.asked] == ["list", "create"]
            assert len(set(outbox.asked)) == 2

    story(told())


def test_requests_of_one_turn_go_out_together_each_asked_whether_it_may() -> None:
    async def told() -> None:
        outbox, steps = Seen(), list[str]()

        async def ask(name: str) -> None:
            body = f'{{"metadata":{{"name":"{name}"}}}}'.encode()
            await client.send("POST", NODES, body, before=lambda: steps.append(f"sends {name}"))

        async with asking(Outbox()) as (pocket, client):
            # As many connections as requests, all of them there already.
            await asyncio.gather(*[client.send("GET", NODES) for _ in range(3)])
            client._outbox = outbox
            tasks = [asyncio.create_task(ask(name)) for name in ("n1", "n2", "n3")]
            await until_asked(outbox)
            steps.append(f"{len(outbox.asked)} are asked for")
            await asyncio.gather(*tasks)

            assert steps == ["3 are asked for", "sends n1", "sends n2", "sends n3"]
            assert [it.verb for it in pocket.asked].count("create") == 3

    story(told())
