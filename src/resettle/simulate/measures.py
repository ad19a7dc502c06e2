"""How full nodes are in a simulation, and which rules of pods are broken."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from resettle.model.measurements import PROMETHEUS, Question
from resettle.model.snapshot import Snapshot
from resettle.placement.projection import Outlook
from resettle.placement.topology_spread import Rule
from resettle.utilization.bands import offered, shares


class Load(Struct, frozen=True):
    """What the pods of a node request, in percent of its offer; None where it does not say."""

    cpu: float | None
    memory: float | None
    pods: int
    measured: float | None = None
    """What the query of the policy says of it, in percent; of several, the largest."""

    @property
    def shown(self) -> float | None:
        """The one figure to show: what is measured, else the larger share that is requested."""
        return self.larger if self.measured is None else self.measured

    @property
    def larger(self) -> float | None:
        """The larger share of the two."""
        return max((it for it in (self.cpu, self.memory) if it is not None), default=None)


def loads(snapshot: Snapshot, asked: Collection[Question] = ()) -> Mapping[str, Load]:
    """The load of each node, by name and in order, with what these queries say of it."""
    found = {}
    measured = _measured(snapshot, asked)
    for node in snapshot.fleet:
        used = shares(snapshot.requested(node), offered(node), ("cpu", "memory"))
        pods = len(snapshot.pods_on(node))
        found[node.name] = Load(used.get("cpu"), used.get("memory"), pods, measured.get(node.name))
    return found


def _measured(snapshot: Snapshot, asked: Collection[Question]) -> dict[str, float]:
    found: dict[str, float] = {}
    for question in asked:
        if question.source == PROMETHEUS and question in snapshot.usage:
            for figure in snapshot.usage[question].figures:
                if 0 <= figure.number <= 1:
                    percent = figure.number * 100
                    found[figure.node] = max(percent, found.get(figure.node, percent))
    return found


PENDING = "pending"
"""Pods without a node: in trouble, though they break no rule."""


def broken(counts: Mapping[str, int]) -> int:
    """How many of these troubles are broken rules."""
    return sum(count for kind, count in counts.items() if kind != PENDING)


def troubles(snapshot: Snapshot) -> dict[str, int]:
    """How many pods, or rules, are in each kind of trouble; kinds without any are left out."""
    counts: dict[str, int] = {}
    for kind in _found(snapshot):
        counts[kind] = counts.get(kind, 0) + 1
    return dict(sorted(counts.items()))


def _found(snapshot: Snapshot) -> Iterator[str]:
    outlook, fleet = Outlook(snapshot), snapshot.fleet
    rules: dict[Rule, None] = {}
    for template in snapshot.population.templates:
        demand = template.spec.demand
        rules.update((rule, None) for rule in outlook.evenness.rules_of(template) if rule.hard)
        for pod in snapshot.active_of(template):
            here = fleet.only(pod.node)
            if pod.terminating or not here:
                continue
            if not here & fleet.welcoming(demand, pod.node):
                yield "node affinity"
            if not here & fleet.tolerated_by(demand.tolerations):
                yield "taints"
            if template.spec.anti_affinity and not here & outlook.neighbours.own_rules(pod):
                yield "anti-affinity"
            if template.spec.affinity and not here & outlook.neighbours.company(pod):
                yield "pod affinity"
    for rule in rules:
        if outlook.evenness.skew(rule) > rule.max_skew:
            yield "spread"
    for pod in snapshot.population.on(""):
        if not pod.finished:
            yield PENDING
