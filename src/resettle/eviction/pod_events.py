"""Kubernetes events on the pods that were moved: by which plugin, and why.

They are written at their own rate and never delay an eviction: where the API server is too slow, or
refuses them, events are dropped and the log says so once.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import count

import msgspec
from msgspec import Struct

from resettle.clock import Clock, to_the_second
from resettle.errors import ResettleError
from resettle.eviction.eviction_api import REQUESTED_BY
from resettle.framework.mover import MoveResponse, MoveResult
from resettle.framework.plan import HeldBack, Move
from resettle.framework.verdict import Limit, Refusal
from resettle.kube.failures import role_rule
from resettle.kube.status import is_overload, status_of
from resettle.kube.transport.client import Answer, Client
from resettle.log import Log

CONTROLLER = "sigs.k8s.io.descheduler"
GROUP = "events.k8s.io"
_FORBIDDEN = 403
_NOT_ALLOWED = "cannot create resource"
_QUEUE_LIMIT = 20_000
_BATCH_LIMIT = 64
"""How many events are sent together."""
_BATCH_SECONDS = 0.02
"""How long to wait for more events before a batch is sent."""
_FLUSH_SECONDS = 5.0
_LONGEST_NOTE = 1024
"""In bytes; the API server refuses a longer one."""
_LONGEST_NAME = 230
_PROCESS_ID = os.urandom(6).hex()
_serial = count(0x1000)
"""Names of events end with an id of this process and a serial number, so they are unique."""


class EventWriter:
    """Writes events from a queue."""

    def __init__(
        self, client: Client, instance: str, clock: Clock, log: Log, *, failures: bool = False
    ) -> None:
        self._client = client
        self._instance = instance
        self._clock = clock
        self._log = log
        self.failures = failures
        """Whether moves that fail get an event too."""
        self._waiting: deque[tuple[Move, str, datetime]] = deque()
        self._is_pending = asyncio.Event()
        self._is_drained = asyncio.Event()
        """Whether every event of the queue is written."""
        self._is_drained.set()

    def record_move(self, move: Move, response: MoveResponse) -> None:
        """Queue the event for the response to a move, if there is to be one."""
        result = response.result
        if result is MoveResult.EVICTED or (self.failures and result.declined):
            self._put(move, "" if result is MoveResult.EVICTED else response.message or str(result))

    def record_held_back(self, moves: Iterable[HeldBack]) -> None:
        """Queue events for moves that a limit or a budget did not allow, if `failures` is set.

        Upstream tries each of them and is refused; the plan knows beforehand.
        """
        for held_back in moves if self.failures else ():
            refusal = held_back.refusal
            self._put(held_back.move, _upstream_limit_note(refusal) or refusal.sentence)

    def _put(self, move: Move, failure: str) -> None:
        if len(self._waiting) >= _QUEUE_LIMIT:
            self._log_dropped("too many are waiting")
            return
        self._waiting.append((move, failure, self._clock.now()))
        if len(self._waiting) == 1:
            self._is_drained.clear()
            self._is_pending.set()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Write events while the block lasts, then for a few seconds those still in the queue."""
        writer = asyncio.create_task(self._write())
        try:
            yield
            try:
                async with asyncio.timeout(_FLUSH_SECONDS):
                    await self._is_drained.wait()
            except TimeoutError:
                self._log_dropped("no time was left for them")
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _write(self) -> None:
        waiting = self._waiting
        while True:
            await self._is_pending.wait()
            most = max(1, min(_BATCH_LIMIT, self._client.at_once()))
            if len(waiting) < most:
                await asyncio.sleep(_BATCH_SECONDS)
            events = [waiting.popleft() for _ in range(min(int(most), len(waiting)))]
            try:
                await self._post_together(events)
            except ResettleError as error:
                self._log_dropped(str(error))
            if not waiting:
                self._is_pending.clear()
                self._is_drained.set()

    async def _post_together(self, events: list[tuple[Move, str, datetime]]) -> None:
        """Write events together; those that a busy server refused are sent again one by one."""
        posts = [self._post(*event) for event in events]
        answers: list[Answer | None] = [None]
        if len(posts) > 1:
            answers = [*await self._client.post_all(posts)]
        for (path, event), answer in zip(posts, answers, strict=True):
            if answer is None or is_overload(answer):
                answer = await self._client.send("POST", path, event)
            if not answer.is_success:
                self._log_dropped(_why_not(answer))

    def _post(self, move: Move, failure: str, at: datetime) -> tuple[str, bytes]:
        event = msgspec.json.encode(event_of(move, failure, self._instance, at))
        return f"/apis/{GROUP}/v1/namespaces/{move.pod.namespace}/events", event

    def _log_dropped(self, why: str) -> None:
        self._log.only_when_new("events").warning("events dropped", reason=why)


def _why_not(answer: Answer) -> str:
    """Why the API server refuses events, in a sentence that is equal for all of them."""
    message = status_of(answer).message
    if answer.status == _FORBIDDEN and _NOT_ALLOWED in message:
        return f"we may not create them; add to our role: {role_rule('create', 'events', GROUP)}"
    return f"the API server answered {answer.status}"


def _upstream_limit_note(refusal: Refusal) -> str:
    """Upstream's message for the limits that it has; empty for others."""
    match refusal.limit:
        case Limit.TOTAL | Limit.NODE | Limit.NAMESPACE:
            return f"{refusal.limit} eviction limit exceeded ({refusal.facts['count']})"
    return ""


class _Meta(Struct, gc=False):
    name: str
    namespace: str


class _Regarding(Struct, gc=False, rename="camel"):
    namespace: str
    name: str
    uid: str
    api_version: str = "v1"
    kind: str = "Pod"


class PodEvent(Struct, gc=False, rename="camel"):
    """An `events.k8s.io/v1` Event about a pod."""

    metadata: _Meta
    event_time: str
    reporting_instance: str
    reason: str
    regarding: _Regarding
    note: str
    type: str
    api_version: str = f"{GROUP}/v1"
    kind: str = "Event"
    reporting_controller: str = CONTROLLER
    action: str = "Descheduled"


def event_of(move: Move, failure: str, instance: str, at: datetime) -> PodEvent:
    """The event for a move; without a `failure` the pod was evicted."""
    pod = move.pod
    name, namespace = pod.name, pod.namespace
    by = f"{move.plugin} in profile {move.profile}: {move.reason}"
    what = f"pod eviction from {pod.node} node by {REQUESTED_BY}"
    note = f"{what} failed: {failure}; {by}" if failure else f"{what}; {by}"
    if len(note) > _LONGEST_NOTE // 4:  # a character has at most four bytes
        note = note.encode()[:_LONGEST_NOTE].decode(errors="ignore")
    return PodEvent(
        _Meta(f"{name[:_LONGEST_NAME].rstrip('-.')}.{_PROCESS_ID}{next(_serial):x}", namespace),
        f"{to_the_second(at)}.{at.microsecond:06}Z",
        instance,
        "EvictionFailed" if failure else move.plugin,
        _Regarding(namespace, name, pod.uid),
        note,
        "Warning" if failure else "Normal",
    )
