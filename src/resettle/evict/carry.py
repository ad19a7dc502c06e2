"""Carrying out a plan: several requests in flight, none of them without a last look.

A plan is drawn from a snapshot, and the cluster has moved on since. So right before a pod is asked
to leave, the live cache is asked whether it is still the pod that the plan speaks of. Whatever ends
our right to act (a lost lease, a stop) ends the carrying out before the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from resettle.errors import NotNow
from resettle.evict.events import Recorder
from resettle.evict.ledger import Ledger
from resettle.framework.mover import Ending, Moved, Mover, Options, Outcome
from resettle.framework.plan import Move
from resettle.log import Log
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot

AT_ONCE = 32
"""Requests in flight."""


class Carrier:
    """Gives moves to the movers of their profiles."""

    def __init__(
        self,
        movers: Mapping[str, Mover],
        *,
        look: Callable[[str, str], Pod | None],
        may_act: Callable[[], None],
        ledger: Ledger,
        recorder: Recorder,
        log: Log,
        moved: Moved = lambda move, outcome: None,
        grace_period_seconds: int | None = None,
        in_background: bool = True,
        at_once: int = AT_ONCE,
    ) -> None:
        self._movers = movers
        self._look = look
        self._may_act = may_act
        self._ledger = ledger
        self._recorder = recorder
        self._log = log
        self._heard = moved
        self._grace = grace_period_seconds
        self._in_background = in_background
        self._at_once = at_once

    async def carry_out(self, moves: Sequence[Move], snapshot: Snapshot) -> list[Outcome]:
        """What became of each move, in their order."""
        outcomes: list[Outcome] = [Outcome(Ending.UNSENT)] * len(moves)
        turns = _Turns(snapshot)
        todo = iter(enumerate(moves))

        async def work() -> None:
            for index, move in todo:
                if turn := turns.of(move.pod):
                    async with turn:
                        outcomes[index] = await self._carried(move)
                else:
                    outcomes[index] = await self._carried(move)
                if outcomes[index].ending is Ending.UNSENT:
                    return

        workers = min(self._at_once, len(moves))
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
        return outcomes

    async def _carried(self, move: Move) -> Outcome:
        try:
            self._may_act()
            outcome = self._last_look(move.pod) or _told_by(await self._moved(move))
        except NotNow as error:
            return Outcome(Ending.UNSENT, str(error))
        except Exception as error:
            # A mover of somebody else's: what it did before it failed cannot be known.
            outcome = Outcome(Ending.UNKNOWN, f"the mover failed: {type(error).__name__}: {error}")
        self._tell(move, outcome)
        self._ledger.enter(move, outcome)
        self._recorder.moved(move, outcome)
        self._heard(move, outcome)
        return outcome

    def _last_look(self, planned: Pod) -> Outcome | None:
        """Why the pod need not or must not be moved any more."""
        live = self._look(planned.namespace, planned.name)
        if live is None or live.uid != planned.uid:
            return Outcome(Ending.GONE, "it went away by itself")
        if live.terminating:
            return Outcome(Ending.GONE, "it is leaving already")
        if live.template is not planned.template or live.finished != planned.finished:
            return Outcome(Ending.CHANGED, "it is not what it was when the plan was drawn")
        return None

    def _moved(self, move: Move) -> Coroutine[Any, Any, Outcome]:
        options = Options(
            initiator=move.plugin,
            profile=move.profile,
            reason=move.reason,
            grace_period_seconds=self._grace,
            in_background=self._in_background,
        )
        return self._movers[move.profile].move(move, options)

    def _tell(self, move: Move, outcome: Outcome) -> None:
        ending = outcome.ending
        tell = self._log.warning if ending in (Ending.UNKNOWN, Ending.ERROR) else self._log.info
        tell(
            _EVENTS.get(ending, str(ending)),
            pod=move.pod.key,
            uid=move.pod.uid,
            node=move.pod.node,
            profile=move.profile,
            plugin=move.plugin,
            reason=move.reason,
            said=outcome.says or None,
        )


def _told_by(outcome: object) -> Outcome:
    """What a mover answered, if it is an answer."""
    if isinstance(outcome, Outcome):
        return outcome
    return Outcome(Ending.UNKNOWN, f"the mover answered {outcome!r}, which is no outcome")


_EVENTS = {
    Ending.BACKGROUND: "moving in background",
    Ending.BUDGET: "refused by budget",
    Ending.WEBHOOK: "refused by webhook",
    Ending.GONE: "gone already",
    Ending.CHANGED: "left alone",
    Ending.UNKNOWN: "answer lost",
    Ending.ERROR: "not evicted",
}


class _Turns:
    """Pods under one budget are asked one after the other.

    The API server debits a budget by an optimistic write; requests at the same time would make it
    fail and try again, and in the end refuse what it would have granted.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._locks: dict[str, asyncio.Lock] = {}

    def of(self, pod: Pod) -> _All | None:
        """The turn of a pod, as a block; None if it need not wait for one."""
        budgets = self._snapshot.budgets_of(pod)
        return _All([self._lock(it.key) for it in budgets]) if budgets else None

    def _lock(self, key: str) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())


class _All:
    """Several locks, taken in one order."""

    def __init__(self, locks: Iterable[asyncio.Lock]) -> None:
        self._locks = list(locks)

    async def __aenter__(self) -> None:
        for lock in self._locks:
            await lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        for lock in self._locks:
            lock.release()
