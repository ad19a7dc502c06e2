"""Executes a plan: several requests in flight, each pod checked once more right before its request.

A plan is drawn from a snapshot, and the cluster has moved on since. So right before a pod is asked
to leave, the live cache is asked whether it is still the pod that the plan names. When the right to
act ends (the lease is lost, a stop is requested), no further request is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from resettle.errors import NotNow
from resettle.eviction.in_flight import InFlightMoves
from resettle.eviction.pod_events import EventWriter
from resettle.framework.mover import Mover, MoveResponse, MoveResult, OnMoveResponse, Options
from resettle.framework.plan import Move
from resettle.kube.transport.client import Answer, Client
from resettle.log import Log
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot

AT_ONCE = 32
"""Requests in flight."""


class GatedClient:
    """A client for movers: each request waits for the rate limiter and is checked as it is sent."""

    def __init__(self, client: Client, may_act: Callable[[], None]) -> None:
        self._client = client
        self._may_act = may_act

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = "application/json",
    ) -> Coroutine[Any, Any, Answer]:
        """The API server's answer; raises what `may_act` raises if we may not act any more."""
        return self._client.send(
            method, path, body, content_type=content_type, before=self._may_act
        )


class PlanExecutor:
    """Gives each move to the mover of its profile."""

    def __init__(
        self,
        movers: Mapping[str, Mover],
        *,
        live_pod: Callable[[str, str], Pod | None],
        may_act: Callable[[], None],
        in_flight: InFlightMoves,
        event_writer: EventWriter,
        log: Log,
        on_move: OnMoveResponse = lambda move, response: None,
        grace_period_seconds: int | None = None,
        in_background: bool = True,
        at_once: int = AT_ONCE,
    ) -> None:
        self._movers = movers
        self._live_pod = live_pod
        self._may_act = may_act
        self._in_flight = in_flight
        self._event_writer = event_writer
        self._log = log
        self._report_move = on_move
        self._grace = grace_period_seconds
        self._in_background = in_background
        self._at_once = at_once

    async def execute(self, moves: Sequence[Move], snapshot: Snapshot) -> list[MoveResponse]:
        """Send each move to its mover; return the responses in the order of the moves."""
        responses: list[MoveResponse] = [MoveResponse(MoveResult.UNSENT)] * len(moves)
        locks = BudgetLocks(snapshot)
        todo = iter(enumerate(moves))

        async def work() -> None:
            for index, move in todo:
                async with locks.hold(move.pod):
                    responses[index] = await self._execute_move(move)
                if responses[index].result is MoveResult.UNSENT:
                    return

        workers = min(self._at_once, len(moves))
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
        return responses

    async def _execute_move(self, move: Move) -> MoveResponse:
        try:
            self._may_act()
            response = self._last_check(move.pod) or _checked_response(await self._send(move))
        except NotNow as error:
            return MoveResponse(MoveResult.UNSENT, str(error))
        except Exception as error:
            # A mover from a plugin of others: what it did before it failed cannot be known.
            response = MoveResponse(
                MoveResult.UNKNOWN, f"the mover failed: {type(error).__name__}: {error}"
            )
        self._log_response(move, response)
        self._in_flight.add(move, response)
        self._event_writer.record_move(move, response)
        self._report_move(move, response)
        return response

    def _last_check(self, planned: Pod) -> MoveResponse | None:
        """The response for a pod that need not or must not be moved any more, else None."""
        live = self._live_pod(planned.namespace, planned.name)
        if live is None or live.uid != planned.uid:
            return MoveResponse(MoveResult.GONE, "it went away by itself")
        if live.terminating:
            return MoveResponse(MoveResult.GONE, "it is leaving already")
        if live.template is not planned.template or live.finished != planned.finished:
            return MoveResponse(MoveResult.CHANGED, "it is not what it was when the plan was drawn")
        return None

    def _send(self, move: Move) -> Coroutine[Any, Any, MoveResponse]:
        options = Options(
            initiator=move.plugin,
            profile=move.profile,
            reason=move.reason,
            grace_period_seconds=self._grace,
            in_background=self._in_background,
        )
        return self._movers[move.profile].move(move, options)

    def _log_response(self, move: Move, response: MoveResponse) -> None:
        result = response.result
        write = (
            self._log.warning
            if result in (MoveResult.UNKNOWN, MoveResult.ERROR)
            else self._log.info
        )
        write(
            EVENTS.get(result, str(result)),
            pod=move.pod.key,
            uid=move.pod.uid,
            node=move.pod.node,
            profile=move.profile,
            plugin=move.plugin,
            reason=move.reason,
            said=response.message or None,
        )


def _checked_response(response: object) -> MoveResponse:
    """What a mover answered if it is a response, else the response `unknown`."""
    if isinstance(response, MoveResponse):
        return response
    return MoveResponse(
        MoveResult.UNKNOWN, f"the mover answered {response!r}, which is no MoveResponse"
    )


EVENTS = {
    MoveResult.BACKGROUND: "moving in background",
    MoveResult.BUDGET: "refused by budget",
    MoveResult.WEBHOOK: "refused by webhook",
    MoveResult.GONE: "gone already",
    MoveResult.CHANGED: "left alone",
    MoveResult.UNKNOWN: "answer lost",
    MoveResult.ERROR: "not evicted",
}


class BudgetLocks:
    """One lock a disruption budget: pods under the same budget are asked one after the other.

    The API server debits a budget by an optimistic write; requests at the same time would make it
    fail and try again, and in the end refuse what it would have granted.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._locks: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def hold(self, pod: Pod) -> AsyncIterator[None]:
        """Hold the locks of all budgets over the pod while the block lasts.

        All callers take them in the order of the snapshot, so no two wait for each other. A
        cancellation between two locks releases those that were taken.
        """
        async with AsyncExitStack() as stack:
            for budget in self._snapshot.budgets_of(pod):
                lock = self._locks.setdefault(budget.key, asyncio.Lock())
                await stack.enter_async_context(lock)
            yield
