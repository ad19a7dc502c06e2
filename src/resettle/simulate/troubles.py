"""What is wrong with how pods lie: rules that are broken right now, whatever a policy says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from resettle.model.evenness import Rule
from resettle.model.outlook import Outlook
from resettle.model.snapshot import Snapshot

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
