"""Requests that go out together.

A request that is sent by itself wakes the server for itself, which costs both sides more than the
request does. So all that is asked for in one turn of the event loop goes out in one go at the next,
and whether it still may is asked right before each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from resettle.cluster.channel import Channel

Before = Callable[[], None]
"""Called as a request goes out; raises to stop it."""


class Outbox:
    """What waits for the next turn."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Channel, bytes, Before | None]] = []

    def put(self, channel: Channel, asked: bytes, before: Before | None = None) -> None:
        """Has a request sent whose answer the channel expects."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._empty)
        self._waiting.append((channel, asked, before))

    def _empty(self) -> None:
        waiting, self._waiting = self._waiting, []
        for channel, asked, before in waiting:
            try:
                if before is not None:
                    before()
            except Exception as error:
                channel.give_up(error)
            else:
                channel.send(asked)
