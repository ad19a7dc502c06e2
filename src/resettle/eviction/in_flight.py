"""Moves in flight: pods on their way that the cluster does not show as leaving yet.

    evicted, unknown ── seen to leave ──► done
       │        └────── annotation appears ──► confirmed
       └── time passes ──► dropped: it stays
    assumed ── annotation appears ──► confirmed ── annotation vanishes ──► dropped: it failed
       │                                  └─────── pod ends or goes ─────► dropped, or done
       └── time passes, or the pod ends or goes ──► dropped, or done

A pod in flight is *moving* to the planner: it gets no second request, and every limit counts it.
Entries for moves that go on in the background are found again in the pods themselves, by their
annotations, so that a new process knows what an old one began. Only what nobody has confirmed ages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from msgspec import Struct, structs

from resettle.clock import Clock
from resettle.framework.mover import Ending, Outcome
from resettle.framework.plan import Move
from resettle.log import Log
from resettle.model.pod import IN_PROGRESS, ON_REQUEST, Pod

PATIENCE_SECONDS = 600.0
"""How long a move that was accepted may take to be confirmed by its annotation."""
UNKNOWN_SECONDS = 120.0
"""How long after a lost answer a pod that is still there may yet turn out to leave."""


class Stage(StrEnum):
    """How far a move in flight has come."""

    EVICTED = "evicted"
    UNKNOWN = "unknown"
    ASSUMED = "assumed"
    CONFIRMED = "confirmed"


_ENTERED = {
    Ending.EVICTED: Stage.EVICTED,
    Ending.UNKNOWN: Stage.UNKNOWN,
    Ending.BACKGROUND: Stage.ASSUMED,
}
_LASTS = {Stage.ASSUMED: PATIENCE_SECONDS, Stage.UNKNOWN: UNKNOWN_SECONDS}


class Entry(Struct, frozen=True):
    """One move in flight."""

    pod: Pod
    stage: Stage
    since: float
    """By the steady clock."""
    plugin: str = ""
    profile: str = ""

    @property
    def in_background(self) -> bool:
        """Whether somebody else moves the pod."""
        return self.stage in (Stage.ASSUMED, Stage.CONFIRMED)


Ended = Callable[[Entry, bool], None]
"""Told of an entry that ends, and whether the pod has left."""


class Ledger:
    """The moves in flight, by uid."""

    def __init__(
        self,
        look: Callable[[str, str], Pod | None],
        clock: Clock,
        log: Log,
        *,
        background: bool = True,
        ended: Ended = lambda entry, left: None,
    ) -> None:
        self._look = look
        self._clock = clock
        self._log = log
        self._background = background
        self._ended = ended
        self._entries: dict[str, Entry] = {}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All moves in flight."""
        return tuple(self._entries.values())

    @property
    def moving(self) -> frozenset[str]:
        """The uids of the pods in flight."""
        return frozenset(self._entries)

    def enter(self, move: Move, outcome: Outcome) -> None:
        """Takes note of what came of a move, unless its end has been seen already."""
        stage, pod = _ENTERED.get(outcome.ending), move.pod
        if stage is None:
            return
        self._admit(Entry(pod, stage, self._clock.steady(), move.plugin, move.profile))

    def take_over(self, entries: Iterable[Entry]) -> None:
        """Goes on with what another ledger had in flight, whatever became of it meanwhile."""
        for entry in entries:
            self._admit(entry)

    def _admit(self, entry: Entry) -> None:
        pod = entry.pod
        known = self._entries.get(pod.uid)
        live = self._look(pod.namespace, pod.name)
        if known is not None and known.in_background:
            # The watch was quicker, but cannot tell on whose word the pod moves.
            entry = structs.replace(known, plugin=entry.plugin, profile=entry.profile)
            self._entries[pod.uid] = entry
        elif live is None or _left(live, pod.uid, entry.stage):
            self._close(entry, left=True)
        elif entry.in_background and live.finished:
            self._close(entry, left=_succeeded(live))
        elif entry.stage is Stage.CONFIRMED:
            self._close(entry, left=False)
        else:
            self._entries[pod.uid] = entry

    def heard(self, before: Pod | None, after: Pod | None) -> None:
        """A pod has come, changed or gone."""
        if not self._entries and (after is None or not after.template.annotations):
            return  # nearly always
        gone = "" if before is None or (after and after.uid == before.uid) else before.uid
        if ended := self._entries.pop(gone, None):
            self._close(ended, left=True)
        if after is None:
            return
        entry = self._entries.get(after.uid)
        if self._background and _is_moved_by_others(after):
            self._confirm(after, entry)
        elif entry is not None:
            self._follow(entry, before, after)

    def sweep(self) -> None:
        """Gives up on what has been waited for long enough."""
        now = self._clock.steady()
        for uid, entry in list(self._entries.items()):
            if now - entry.since > _LASTS.get(entry.stage, PATIENCE_SECONDS) and (
                entry.stage is not Stage.CONFIRMED
            ):
                del self._entries[uid]
                self._close(entry, left=False)

    def _confirm(self, pod: Pod, entry: Entry | None) -> None:
        if entry is None:
            self._entries[pod.uid] = Entry(pod, Stage.CONFIRMED, self._clock.steady())
        elif entry.stage is not Stage.CONFIRMED:
            self._entries[pod.uid] = structs.replace(entry, stage=Stage.CONFIRMED)

    def _follow(self, entry: Entry, before: Pod | None, after: Pod) -> None:
        left = _left(after, after.uid, entry.stage)
        if entry.in_background:
            # A mover of somebody else's may move pods in background that bear no annotation.
            was_willing = entry.pod.has_annotation(ON_REQUEST)
            gave_up = was_willing and not after.has_annotation(ON_REQUEST)
            was_begun = before is not None and before.has_annotation(IN_PROGRESS)
            over = entry.stage is Stage.CONFIRMED or gave_up or was_begun
            if not (left or after.finished or over):
                return
            left = left or _succeeded(after)
        elif not left:
            return
        del self._entries[after.uid]
        self._close(entry, left=left)

    def _close(self, entry: Entry, *, left: bool) -> None:
        event = ""
        if entry.stage is Stage.UNKNOWN:
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
        self._ended(entry, left)


def _is_moved_by_others(pod: Pod) -> bool:
    return pod.has_annotation(ON_REQUEST) and pod.has_annotation(IN_PROGRESS) and not pod.finished


def _succeeded(pod: Pod) -> bool:
    return pod.state.phase == "Succeeded"


def _left(live: Pod, uid: str, stage: Stage) -> bool:
    """Whether the pod has gone, or shows that it will: a pod that others move must be gone."""
    if live.uid != uid:
        return True
    return live.terminating and stage in (Stage.EVICTED, Stage.UNKNOWN)
