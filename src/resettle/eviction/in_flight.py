"""Moves in flight: pods on their way that the cluster does not show as leaving yet.

    evicted, unknown ── seen to leave ──► done
       │        └────── annotation appears ──► confirmed
       └── time passes ──► dropped: it stays
    assumed ── annotation appears ──► confirmed ── annotation vanishes ──► dropped: it failed
       │                                  └─────── pod ends or goes ─────► dropped, or done
       └── time passes, or the pod ends or goes ──► dropped, or done

A pod in flight is *moving* to the planner: it gets no second request, and every limit counts it.
Moves that go on in the background are recognised by annotations of the pods, so a new process knows
what an old one has started. Only moves that are not confirmed expire. A move that an object of the
API asks for (`requested`) is followed here only until the watch cache has that object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from msgspec import Struct, structs

from resettle.clock import Clock
from resettle.framework.mover import MoveResponse, MoveResult
from resettle.framework.plan import Move
from resettle.log import Log
from resettle.model.pod import IN_PROGRESS, ON_REQUEST, Pod

PATIENCE_SECONDS = 600.0
"""How long a move that was accepted may take to be confirmed by its annotation."""
UNKNOWN_SECONDS = 120.0
"""How long after a lost answer a pod that is still there may yet turn out to leave."""
REQUESTED_SECONDS = 30.0
"""How long the object that asks for a move may take to appear in the watch cache."""


class MoveStage(StrEnum):
    """How far a move in flight has come."""

    EVICTED = "evicted"
    UNKNOWN = "unknown"
    REQUESTED = "requested"
    ASSUMED = "assumed"
    CONFIRMED = "confirmed"


_STAGE_BY_ENDING = {
    MoveResult.EVICTED: MoveStage.EVICTED,
    MoveResult.UNKNOWN: MoveStage.UNKNOWN,
    MoveResult.BACKGROUND: MoveStage.ASSUMED,
    MoveResult.REQUESTED: MoveStage.REQUESTED,
}
_SECONDS_BY_STAGE = {
    MoveStage.ASSUMED: PATIENCE_SECONDS,
    MoveStage.UNKNOWN: UNKNOWN_SECONDS,
    MoveStage.REQUESTED: REQUESTED_SECONDS,
}


class InFlightMove(Struct, frozen=True):
    """One move in flight."""

    pod: Pod
    stage: MoveStage
    since: float
    """By the steady clock."""
    plugin: str = ""
    profile: str = ""

    @property
    def in_background(self) -> bool:
        """Whether another controller moves the pod."""
        return self.stage in (MoveStage.ASSUMED, MoveStage.CONFIRMED)


OnEnded = Callable[[InFlightMove, bool], None]
"""Called when a move ends, with whether the pod has left its node."""


class InFlightMoves:
    """The moves in flight, by uid."""

    def __init__(
        self,
        live_pod: Callable[[str, str], Pod | None],
        clock: Clock,
        log: Log,
        *,
        background: bool = True,
        on_ended: OnEnded = lambda entry, left: None,
    ) -> None:
        self._live_pod = live_pod
        self._clock = clock
        self._log = log
        self._background = background
        self._on_ended = on_ended
        self._moves: dict[str, InFlightMove] = {}

    @property
    def moves(self) -> tuple[InFlightMove, ...]:
        """All moves in flight."""
        return tuple(self._moves.values())

    @property
    def moving(self) -> frozenset[str]:
        """The uids of the pods in flight; objects that ask for moves count for themselves soon."""
        latest = self._clock.steady() - REQUESTED_SECONDS
        return frozenset(
            uid
            for uid, entry in self._moves.items()
            if entry.stage is not MoveStage.REQUESTED or entry.since >= latest
        )

    def add(self, move: Move, response: MoveResponse) -> None:
        """Follow a move from now on, unless its end has been seen already."""
        stage, pod = _STAGE_BY_ENDING.get(response.result), move.pod
        if stage is None:
            return
        self._admit(InFlightMove(pod, stage, self._clock.steady(), move.plugin, move.profile))

    def take_over(self, moves: Iterable[InFlightMove]) -> None:
        """Continue with the moves of another instance, whatever happened to them meanwhile."""
        for entry in moves:
            self._admit(entry)

    def _admit(self, entry: InFlightMove) -> None:
        pod = entry.pod
        known = self._moves.get(pod.uid)
        live = self._live_pod(pod.namespace, pod.name)
        if known is not None and known.in_background:
            # The watch was faster, but does not know which plugin and profile asked for the move.
            entry = structs.replace(known, plugin=entry.plugin, profile=entry.profile)
            self._moves[pod.uid] = entry
        elif live is None or _has_left(live, pod.uid, entry.stage):
            self._close(entry, left=True)
        elif entry.in_background and live.finished:
            self._close(entry, left=_has_succeeded(live))
        elif entry.stage is MoveStage.CONFIRMED:
            self._close(entry, left=False)
        else:
            self._moves[pod.uid] = entry

    def on_pod_change(self, before: Pod | None, after: Pod | None) -> None:
        """Follow a pod that was added, changed or deleted."""
        if not self._moves and (after is None or not after.template.annotations):
            return  # nearly always
        gone = "" if before is None or (after and after.uid == before.uid) else before.uid
        if ended := self._moves.pop(gone, None):
            self._close(ended, left=True)
        if after is None:
            return
        entry = self._moves.get(after.uid)
        if self._background and is_moved_by_others(after):
            self._confirm(after, entry)
        elif entry is not None:
            self._follow(entry, before, after)

    def drop_expired(self) -> None:
        """Drop the moves that have waited too long for a confirmation."""
        now = self._clock.steady()
        for uid, entry in list(self._moves.items()):
            if now - entry.since > _SECONDS_BY_STAGE.get(entry.stage, PATIENCE_SECONDS) and (
                entry.stage is not MoveStage.CONFIRMED
            ):
                del self._moves[uid]
                self._close(entry, left=False)

    def _confirm(self, pod: Pod, entry: InFlightMove | None) -> None:
        if entry is None:
            self._moves[pod.uid] = InFlightMove(pod, MoveStage.CONFIRMED, self._clock.steady())
        elif entry.stage is not MoveStage.CONFIRMED:
            self._moves[pod.uid] = structs.replace(entry, stage=MoveStage.CONFIRMED)

    def _follow(self, entry: InFlightMove, before: Pod | None, after: Pod) -> None:
        left = _has_left(after, after.uid, entry.stage)
        if entry.in_background:
            # A mover of another plugin may move pods in the background that have no annotation.
            was_willing = entry.pod.has_annotation(ON_REQUEST)
            gave_up = was_willing and not after.has_annotation(ON_REQUEST)
            was_begun = before is not None and before.has_annotation(IN_PROGRESS)
            over = entry.stage is MoveStage.CONFIRMED or gave_up or was_begun
            if not (left or after.finished or over):
                return
            left = left or _has_succeeded(after)
        elif not left:
            return
        del self._moves[after.uid]
        self._close(entry, left=left)

    def _close(self, entry: InFlightMove, *, left: bool) -> None:
        event = ""
        if entry.stage is MoveStage.UNKNOWN:
            event = "evicted after all" if left else "not evicted after all"
        elif entry.in_background:
            event = "moved in background" if left else "not moved in background"
        if event:
            self._log.info(
                event,
                pod=entry.pod.key,
                uid=entry.pod.uid,
                node=entry.pod.node,
                profile=entry.profile or None,
                plugin=entry.plugin or None,
            )
        self._on_ended(entry, left)


def is_moved_by_others(pod: Pod) -> bool:
    """Whether another controller says that it is moving the pod."""
    return pod.has_annotation(ON_REQUEST) and pod.has_annotation(IN_PROGRESS) and not pod.finished


def _has_succeeded(pod: Pod) -> bool:
    return pod.state.phase == "Succeeded"


def _has_left(live: Pod, uid: str, stage: MoveStage) -> bool:
    """Whether the pod is gone, or terminating; a pod that others move must be gone."""
    if live.uid != uid:
        return True
    return live.terminating and stage not in (MoveStage.ASSUMED, MoveStage.CONFIRMED)
