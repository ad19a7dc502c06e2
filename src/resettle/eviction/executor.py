"""Executes a plan: several requests in flight, each pod checked as its request is written.

A plan is drawn from a snapshot, and the cluster has moved on since. So when the request for a pod
is written, after it has waited for the rate limiter, the live cache is asked whether this is still
the pod that the plan names, and the filters whether it may still leave. When the right to act ends
(the lease is lost, a stop is requested), no further request is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from resettle.errors import AnswerLost, NotNow, NotThisPod
from resettle.eviction.in_flight import InFlightMoves
from resettle.eviction.pod_events import EventWriter
from resettle.framework.mover import (
    Evictor,
    Mover,
    MoveResponse,
    MoveResult,
    OnMoveResponse,
    Options,
)
from resettle.framework.plan import Move
from resettle.kube.transport.client import Answer, Client
from resettle.log import Log
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot

AT_ONCE = 32
"""Requests in flight."""


class GatedClient:
    """A client whose requests wait for the rate limiter, and are checked as they are written."""

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

    def for_move(self, check: Callable[[], None]) -> MoveClient:
        """A client for the requests of one move; `check` raises if the move must not be made."""
        return MoveClient(self._client, self._may_act, check)


class MoveClient:
    """Requests for one move: until one has changed something, each write is checked.

    A request that is repeated, because a busy server refused it, is checked again each time. Those
    after the first that was carried out follow from it: what it changed must not stop them.
    """

    def __init__(
        self, client: Client, may_act: Callable[[], None], check: Callable[[], None]
    ) -> None:
        self._client = client
        self._may_act = may_act
        self._check = check
        self._has_begun = False

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = "application/json",
    ) -> Answer:
        """The API server's answer; raises `NotThisPod` if the pod must not be moved any more."""
        is_first = not (method == "GET" or self._has_begun)
        before = self._check_before_writing if is_first else self._may_act
        try:
            answer = await self._client.send(
                method, path, body, content_type=content_type, before=before
            )
        except AnswerLost:
            self._has_begun = True
            raise
        if is_first and not 300 <= answer.status < 500:
            self._has_begun = True  # a server that failed may have done it before
        return answer

    def _check_before_writing(self) -> None:
        self._may_act()
        self._check()


def check_pod(
    planned: Pod,
    evictor: Evictor,
    moving: frozenset[str] | None = None,
    *,
    place_held: bool = False,
) -> None:
    """Raise `NotThisPod` if the pod is not as the plan saw it, or may not leave any more.

    `moving` are the uids of the pods that count as moving, if not all that are known to move;
    `place_held` says that a place is held for its replacement.
    """
    live = evictor.live_pod(planned.namespace, planned.name)
    if live is None or live.uid != planned.uid:
        raise NotThisPod("it went away by itself", has_left=True)
    if live.terminating:
        raise NotThisPod("it is leaving already", has_left=True)
    # Labels, owners, priority and the annotations that are read are all part of the template.
    if (
        live.template is not planned.template
        or live.node != planned.node
        or live.finished != planned.finished
    ):
        raise NotThisPod("it is not what it was when the plan was drawn")
    try:
        refusal = evictor.refusal(live, moving, place_held=place_held)
    except Exception as error:
        # A plugin of others could not say: nothing was sent, and nothing is.
        raise NotThisPod(f"it could not be checked: {type(error).__name__}: {error}") from error
    if refusal is not None:
        raise NotThisPod(f"{refusal.by} does not let it leave any more: {refusal.clause}")


class PlanExecutor:
    """Gives each move to the mover of its profile."""

    def __init__(
        self,
        movers: Mapping[str, Mover],
        *,
        evictors: Mapping[str, Evictor],
        client: GatedClient,
        may_act: Callable[[], None],
        in_flight: InFlightMoves,
        event_writer: EventWriter,
        log: Log,
        on_move: OnMoveResponse = lambda move, response: None,
        delete_options: Mapping[str, Any] | None = None,
        in_background: bool = True,
        at_once: int = AT_ONCE,
    ) -> None:
        self._movers = movers
        self._evictors = evictors
        self._client = client
        self._may_act = may_act
        self._in_flight = in_flight
        self._event_writer = event_writer
        self._log = log
        self._report_move = on_move
        self._delete_options = delete_options or {}
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
            # Checked again as the request is written; here so that it does not wait in vain.
            check = self._check(move)
            check()
            response = _checked_response(await self._send(move, check))
        except NotNow as error:
            return MoveResponse(MoveResult.UNSENT, str(error))
        except NotThisPod as error:
            result = MoveResult.GONE if error.has_left else MoveResult.CHANGED
            response = MoveResponse(result, str(error))
        except Exception as error:
            # A mover from a plugin of others: what it did before it failed cannot be known.
            response = MoveResponse(
                MoveResult.UNKNOWN, f"the mover failed: {type(error).__name__}: {error}"
            )
        self.report(move, response)
        return response

    def report(self, move: Move, response: MoveResponse) -> None:
        """Log the response to a move, follow the move, write its event and count it."""
        self._log_response(move, response)
        self._in_flight.add(move, response)
        self._event_writer.record_move(move, response)
        self._report_move(move, response)

    def _check(self, move: Move) -> Callable[[], None]:
        pod, evictor = move.pod, self._evictors[move.profile]
        return lambda: check_pod(pod, evictor)

    def _send(self, move: Move, check: Callable[[], None]) -> Coroutine[Any, Any, MoveResponse]:
        options = Options(
            initiator=move.plugin,
            profile=move.profile,
            reason=move.reason,
            delete_options=self._delete_options,
            in_background=self._in_background,
        )
        requests = self._client.for_move(check)
        return self._movers[move.profile].move(move, options, requests)

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
    MoveResult.REQUESTED: "move requested",
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
