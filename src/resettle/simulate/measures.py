"""How full nodes are in a simulation, and which scheduling rules of pods are violated.

Violations are those of the cluster as it is, whatever the policy checks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from resettle.model.measurements import PROMETHEUS, MetricsQuery
from resettle.model.snapshot import Snapshot
from resettle.placement.projection import Projection
from resettle.placement.topology_spread import SpreadRule
from resettle.utilization.bands import node_capacity, shares


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
        return max((share for share in (self.cpu, self.memory) if share is not None), default=None)


def node_loads(snapshot: Snapshot, queries: Collection[MetricsQuery] = ()) -> Mapping[str, Load]:
    """The load of each node, by name and in order, with what these queries say of it."""
    result = {}
    measured = _query_percentages(snapshot, queries)
    for node in snapshot.node_index:
        used = shares(snapshot.requests_on(node), node_capacity(node), ("cpu", "memory"))
        pods = len(snapshot.pods_on(node))
        result[node.name] = Load(used.get("cpu"), used.get("memory"), pods, measured.get(node.name))
    return result


def _query_percentages(snapshot: Snapshot, queries: Collection[MetricsQuery]) -> dict[str, float]:
    result: dict[str, float] = {}
    for query in queries:
        if query.source == PROMETHEUS and query in snapshot.usage:
            for figure in snapshot.usage[query].figures:
                if 0 <= figure.number <= 1:
                    percent = figure.number * 100
                    result[figure.node] = max(percent, result.get(figure.node, percent))
    return result


PENDING = "pending"
"""Pods without a node: counted with violations, though they violate no rule."""


def count_broken_rules(counts: Mapping[str, int]) -> int:
    """How many of these violations are of rules, that is all but pending pods."""
    return sum(count for kind, count in counts.items() if kind != PENDING)


def violations(snapshot: Snapshot) -> dict[str, int]:
    """How many pods or rules are in violation, by kind; kinds without any are left out."""
    counts: dict[str, int] = {}
    for kind in _violation_kinds(snapshot):
        counts[kind] = counts.get(kind, 0) + 1
    return dict(sorted(counts.items()))


def _violation_kinds(snapshot: Snapshot) -> Iterator[str]:
    projection, nodes = Projection(snapshot), snapshot.node_index
    rules: dict[SpreadRule, None] = {}
    for template in snapshot.pod_index.templates:
        demand = template.spec.demand
        rules.update(
            (rule, None)
            for rule in projection.topology_spread.rules_of_template(template)
            if rule.hard
        )
        for pod in snapshot.active_of(template):
            here = nodes.only(pod.node)
            if pod.terminating or not here:
                continue
            if not here & nodes.matching_node_affinity(demand, pod.node):
                yield "node affinity"
            if not here & nodes.tolerated_by(demand.tolerations):
                yield "taints"
            if (
                template.spec.anti_affinity
                and not here & projection.pod_affinity.satisfying_own_anti_affinity(pod)
            ):
                yield "anti-affinity"
            if template.spec.affinity and not here & projection.pod_affinity.satisfying_affinity(
                pod
            ):
                yield "pod affinity"
    for rule in rules:
        if projection.topology_spread.skew(rule) > rule.max_skew:
            yield "spread"
    for pod in snapshot.pod_index.on(""):
        if not pod.finished:
            yield PENDING
