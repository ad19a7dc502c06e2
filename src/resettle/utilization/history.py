"""Streaks: a node is hot once it has been over several times in a row, and not at the first glance.

            over, N times in a row
     calm ───────────────────────────► hot
       ▲                                │
       └────────────────────────────────┘
            not over, M times in a row

Only a fresh sample counts: the same one seen again says nothing new. While there is none a streak
stays as it is, and is forgotten once that has gone on for too long. What is returned goes into a
plugin's history and comes back with the next snapshot; it is made of plain values.

Moves in flight: pods that have left a node whose figures do not show it yet.

A figure looks back over its window, and a replacement takes a while to start. Until that has passed
a moved pod counts as gone from where it was and as present where it was to go, and the node that it
left is left alone. All of it is history: it goes out with a plan and comes in with a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct

from resettle.framework.view import View
from resettle.model.objects import Node
from resettle.model.pod import Pod
from resettle.utilization.usage import Doubt, Usage


class Patience(Struct, frozen=True, kw_only=True):
    """How often a node must be seen so before it counts."""

    over: int = 5
    """Samples in a row above the line that make a node hot; 1 believes the first."""
    calm: int = 3
    """Samples in a row at or below it that make a hot node calm."""
    forgotten_after: timedelta = timedelta(minutes=5)
    """How long a streak is remembered while no new sample comes."""


class Sighting(NamedTuple):
    """Where a sample puts a node, and when it was taken."""

    over: bool
    at: datetime


class Streak(Struct, frozen=True, kw_only=True):
    """What is known of a node from the samples before."""

    over: int = 0
    calm: int = 0
    hot: bool = False
    at: datetime
    """When the last sample was taken that counted."""

    def after(self, seen: Sighting, patience: Patience) -> Streak:
        """The streak with one more sample; one that is no newer changes nothing."""
        if seen.at <= self.at:
            return self
        over = self.over + 1 if seen.over else 0
        calm = 0 if seen.over else self.calm + 1
        hot = calm < patience.calm if self.hot else over >= patience.over
        return Streak(over=over, calm=calm, hot=hot, at=seen.at)


_LONG_AGO = datetime.min


def followed(
    before: Mapping[str, Streak],
    sightings: Mapping[str, Sighting],
    patience: Patience,
    now: datetime,
) -> dict[str, Streak]:
    """The streaks of all nodes once these sightings are counted, by name.

    Who is not sighted, or not anew, keeps its streak until it is forgotten. How far apart two
    cycles are does not matter: a streak is forgotten only in a cycle that brings nothing new.
    """
    streaks: dict[str, Streak] = {}
    for name in sorted({*before, *sightings}):
        known, seen = before.get(name), sightings.get(name)
        if seen is not None and (known is None or seen.at > known.at):
            start = known or Streak(at=_LONG_AGO.replace(tzinfo=seen.at.tzinfo))
            streaks[name] = start.after(seen, patience)
        elif known is not None and now - known.at <= patience.forgotten_after:
            streaks[name] = known
    return streaks


class InFlight(Struct, frozen=True, kw_only=True):
    """A move that was planned in an earlier cycle."""

    pod: str
    """`namespace/name`."""
    uid: str
    source: str
    target: str = ""
    """Where its replacement was most likely to land; empty where nobody could say."""
    cost: dict[str, int] = {}
    """What it used, in nano units."""
    until: datetime
    """When figures can be trusted to show it."""


def still_in_flight(known: Iterable[InFlight], view: View) -> Iterator[InFlight]:
    """Those that figures do not show yet; a pod that sits where it was never left."""
    for it in known:
        namespace, _, name = it.pod.partition("/")
        pod = view.pod(namespace, name)
        stayed = (
            pod is not None
            and pod.uid == it.uid
            and not pod.terminating
            and pod.uid not in view.moving
        )
        if view.taken_at < it.until and not stayed:
            yield it


class Foreseen:
    """Figures as they will be once they show the moves in flight."""

    def __init__(self, usage: Usage, moves: Iterable[InFlight]) -> None:
        self._usage = usage
        self.blind = usage.blind
        self._shift: dict[str, dict[str, int]] = {}
        for move in moves:
            for name, sign in ((move.source, -1), (move.target, +1)):
                shift = self._shift.setdefault(name, {})
                for resource, amount in move.cost.items():
                    shift[resource] = shift.get(resource, 0) + sign * amount

    def followed(self, thresholds: Iterable[str]) -> list[str]:
        """As they are."""
        return self._usage.followed(thresholds)

    def offer(self, node: Node) -> Mapping[str, int]:
        """As it is."""
        return self._usage.offer(node)

    def of_node(self, node: Node) -> Mapping[str, int]:
        """With those who are on their way counted where they are going; pods are seen anyway."""
        used = self._usage.of_node(node)
        shift = self._shift.get(node.name)
        if not shift:
            return used
        return {
            name: amount if name == "pods" else max(0, amount + shift.get(name, 0))
            for name, amount in used.items()
        }

    def of_pod(self, pod: Pod) -> Mapping[str, int] | None:
        """As it is."""
        return self._usage.of_pod(pod)

    def doubt(self, node: Node) -> Doubt | None:
        """As it is."""
        return self._usage.doubt(node)

    def pod_doubt(self, pod: Pod) -> Doubt | None:
        """As it is."""
        return self._usage.pod_doubt(pod)

    def taken(self, node: Node) -> datetime:
        """As it is."""
        return self._usage.taken(node)

    def named(self, resource: str) -> str:
        """As it is."""
        return self._usage.named(resource)
