"""What earlier cycles saw: streaks of samples that make a node hot, and moves still in flight.

            over, N times in a row
     calm ───────────────────────────► hot
       ▲                                │
       └────────────────────────────────┘
            not over, M times in a row

Only a fresh sample counts. Without one a streak stays as it is, and is forgotten after a while.

Figures cover a window of time and a replacement takes a while to start. Until then a moved pod is
counted on its target and not on its source, and no more pods are moved off that source. All of this
is plain values in a plugin's history: written with a plan, read back with the next snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct

from resettle.framework.view import View
from resettle.model.objects import Node
from resettle.model.pod import Pod
from resettle.utilization.usage import Usage, UsageProblem


class HotNodeCondition(Struct, frozen=True, kw_only=True):
    """How many samples in a row make a node hot, or calm again."""

    over: int = 5
    """Samples in a row above the limit that make a node hot; with 1 the first does."""
    calm: int = 3
    """Samples in a row at or below it that make a hot node calm."""
    forgotten_after: timedelta = timedelta(minutes=5)
    """How long a streak is remembered while no new sample comes."""


class BandSample(NamedTuple):
    """Whether a sample of a node is over the limit, and when it was taken."""

    over: bool
    at: datetime


class Streak(Struct, frozen=True, kw_only=True):
    """How many samples in a row a node was over or calm, and whether it is hot."""

    over: int = 0
    calm: int = 0
    hot: bool = False
    at: datetime
    """When the last sample was taken that counted."""

    def with_sample(self, sample: BandSample, condition: HotNodeCondition) -> Streak:
        """The streak with one more sample; one that is no newer changes nothing."""
        if sample.at <= self.at:
            return self
        over = self.over + 1 if sample.over else 0
        calm = 0 if sample.over else self.calm + 1
        hot = calm < condition.calm if self.hot else over >= condition.over
        return Streak(over=over, calm=calm, hot=hot, at=sample.at)


_LONG_AGO = datetime.min


def update_streaks(
    before: Mapping[str, Streak],
    samples: Mapping[str, BandSample],
    condition: HotNodeCondition,
    now: datetime,
) -> dict[str, Streak]:
    """The streaks of all nodes after these samples, by node name.

    A node without a fresh sample keeps its streak until it is forgotten. The time between two
    cycles does not matter: a streak is forgotten only in a cycle without a fresh sample.
    """
    streaks: dict[str, Streak] = {}
    for name in sorted({*before, *samples}):
        known, sample = before.get(name), samples.get(name)
        if sample is not None and (known is None or sample.at > known.at):
            start = known or Streak(at=_LONG_AGO.replace(tzinfo=sample.at.tzinfo))
            streaks[name] = start.with_sample(sample, condition)
        elif known is not None and now - known.at <= condition.forgotten_after:
            streaks[name] = known
    return streaks


class InFlight(Struct, frozen=True, kw_only=True):
    """A move that was planned in an earlier cycle."""

    pod: str
    """`namespace/name`."""
    uid: str
    source: str
    target: str = ""
    """Where its replacement was most likely to land; empty where that was not known."""
    cost: dict[str, int] = {}
    """What it used, in nano units."""
    until: datetime
    """From when on figures show it."""


def still_in_flight(known: Iterable[InFlight], view: View) -> Iterator[InFlight]:
    """Moves that figures do not show yet; one whose pod is still there did not happen."""
    for move in known:
        namespace, _, name = move.pod.partition("/")
        pod = view.pod(namespace, name)
        stayed = (
            pod is not None
            and pod.uid == move.uid
            and not pod.terminating
            and pod.uid not in view.moving
        )
        if view.taken_at < move.until and not stayed:
            yield move


class AdjustedUsage:
    """Usage corrected for moves in flight: a moved pod counts on its target, not on its source."""

    def __init__(self, usage: Usage, moves: Iterable[InFlight]) -> None:
        self._usage = usage
        self.knows_pods = usage.knows_pods
        self._shift: dict[str, dict[str, int]] = {}
        for move in moves:
            for name, sign in ((move.source, -1), (move.target, +1)):
                shift = self._shift.setdefault(name, {})
                for resource, amount in move.cost.items():
                    shift[resource] = shift.get(resource, 0) + sign * amount

    def tracked_resources(self, thresholds: Iterable[str]) -> list[str]:
        """The resources that the corrected usage tracks."""
        return self._usage.tracked_resources(thresholds)

    def capacity(self, node: Node) -> Mapping[str, int]:
        """The node's capacity, unchanged."""
        return self._usage.capacity(node)

    def of_node(self, node: Node) -> Mapping[str, int]:
        """The node's usage with moves in flight applied; `pods` are counted, so they need none."""
        used = self._usage.of_node(node)
        shift = self._shift.get(node.name)
        if not shift:
            return used
        return {
            name: amount if name == "pods" else max(0, amount + shift.get(name, 0))
            for name, amount in used.items()
        }

    def of_pod(self, pod: Pod) -> Mapping[str, int] | None:
        """The pod's usage, unchanged."""
        return self._usage.of_pod(pod)

    def problem(self, node: Node) -> UsageProblem | None:
        """The problem with the node's figures, unchanged."""
        return self._usage.problem(node)

    def pod_problem(self, pod: Pod) -> UsageProblem | None:
        """The problem with the pod's figures, unchanged."""
        return self._usage.pod_problem(pod)

    def measured_at(self, node: Node) -> datetime:
        """When the node was measured, unchanged."""
        return self._usage.measured_at(node)

    def display_name(self, resource: str) -> str:
        """The name of the resource, unchanged."""
        return self._usage.display_name(resource)
