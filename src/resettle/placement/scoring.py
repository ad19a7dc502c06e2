"""On which of the feasible nodes kube-scheduler will most likely place a replacement.

Follows the default scores: TaintToleration, NodeResourcesFit (least allocated),
NodeResourcesBalancedAllocation and the default PodTopologySpread constraints are added up in the
scheduler's points; a tie goes to the pod's own node. Node affinity preferences and the pod's own
soft rules choose among nodes with equally many soft taints. The real scheduler adds up everything
and breaks ties at random, so this is a forecast.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log

from resettle.model.node_index import NodeIndex, NodeSet, add_weight
from resettle.model.pod import Demand, Pod, Spec
from resettle.model.resources import in_resource_unit
from resettle.placement.capacity import Capacity
from resettle.placement.pod_affinity import InterPodAffinity
from resettle.placement.pod_locations import PodLocations, PodsPerDomain, PodsPerNode
from resettle.placement.topology_spread import TopologySpread

ZONE = "topology.kubernetes.io/zone"
SCORED = ("cpu", "memory")
"""Resources that the scheduler scores nodes by."""
FEW = 32
CLEAR_LEAD = 5
"""Points by which another node must lead; one percent more free capacity is one point."""
MAX_BALANCE_GAIN = 25
"""More than the points by which two nodes can differ in NodeResourcesBalancedAllocation."""
TAINT_WEIGHT = 3
"""The scheduler's default weight for TaintToleration."""


class NodesByFullness:
    """Nodes in buckets by how full they are; groups of buckets make the search short."""

    BUCKETS, GROUPS = 512, 16

    def __init__(self, node_index: NodeIndex, fullness: list[float]) -> None:
        self._node_index = node_index
        self._full = fullness
        self._buckets: list[NodeSet] = [0] * self.BUCKETS
        self._groups: list[NodeSet] = [0] * self.GROUPS
        self._per_group = self.BUCKETS // self.GROUPS
        for at, full in enumerate(fullness):
            self._flip(at, full)

    def put(self, at: int, full: float) -> None:
        """Record how full a node is now."""
        self._flip(at, self._full[at])
        self._full[at] = full
        self._flip(at, full)

    def emptiest(self, among: NodeSet) -> str:
        """The emptiest node of the set, the first by name if there are several."""
        first = 0
        for nodes in self._groups:
            if nodes & among:
                break
            first += self._per_group
        bucket = 0
        while not bucket:
            bucket = self._buckets[first] & among
            first += 1
        if bucket & (bucket - 1):
            full, position = self._full, self._node_index.position
            return min(
                self._node_index.members(bucket), key=lambda node: full[position[node.name]]
            ).name
        return self._node_index.nodes[bucket.bit_length() - 1].name

    def _flip(self, at: int, full: float) -> None:
        """Take a node out of its bucket, or put it in."""
        bucket = min(max(int(full * self.BUCKETS), 0), self.BUCKETS - 1)
        single = self._node_index.bits[at]
        self._buckets[bucket] ^= single
        self._groups[bucket // self._per_group] ^= single


class Scoring:
    """Scores of nodes for one projection."""

    def __init__(
        self,
        pod_locations: PodLocations,
        capacity: Capacity,
        topology_spread: TopologySpread,
        pod_affinity: InterPodAffinity,
    ) -> None:
        self._pod_locations = pod_locations
        self._node_index = node_index = pod_locations.node_index
        self._capacity = capacity
        self._topology_spread = topology_spread
        self._pod_affinity = pod_affinity
        self._scored = [
            (node_index.allocatable_of(name), capacity.free_resource(name).free) for name in SCORED
        ]
        """Allocatable and free amounts of each node, for the resources that are scored."""
        self._requests: dict[Demand, tuple[int, ...]] = {}
        self._by_fullness = NodesByFullness(
            node_index, [self._full(at) for at in range(len(node_index.nodes))]
        )

    def best_node(self, pod: Pod, among: NodeSet, current: str, lead: int = 0) -> str:
        """The node of a non-empty set with the most points once the pod has left its own node.

        Another node than the pod's own must lead by more than `lead` points.
        """
        spec = pod.template.spec
        spread_groups = [(0, among)]
        if not spec.spread and pod.owners:
            copies = self._pod_locations.of_owner(pod.owners[0].uid, pod.namespace)
            spread_groups = list(self._by_spread(copies, among, current)) or spread_groups
        groups = []
        for points, nodes in self._by_taints(spec, among):
            preferred = self._most_preferred(spec, pod.node, nodes)
            if spec.spread or spec.preferred_anti_affinity:
                preferred = self._by_soft_rules(pod, preferred, current)
            groups += [(points + more, group & preferred) for more, group in spread_groups]
        return self._best(spec.demand, groups, current, lead)

    def _best(
        self, demand: Demand, groups: list[tuple[int, NodeSet]], current: str, lead: int
    ) -> str:
        """The node with the most points for its resources and for the group that it is in."""
        own = self._node_index.only(current)
        best, most, others = current, -1, 0
        for points, group in groups:
            others |= group & ~own
            if own & group:
                most = points + self._resource_points(current, demand, already_there=True) + lead
        ceiling = None
        for points, group in sorted(groups, reverse=True):
            here = group & ~own
            if not here:
                continue
            if ceiling is None:
                emptiest = self._by_fullness.emptiest(others)
                ceiling = self._resource_points(emptiest, demand) + MAX_BALANCE_GAIN
            if points + ceiling <= most:
                break
            name = self._by_fullness.emptiest(here)
            total = points + self._resource_points(name, demand)
            if total > most:
                best, most = name, total
        return best

    def update(self, *names: str) -> None:
        """Recompute how full these nodes are."""
        for name in names:
            at = self._node_index.position.get(name)
            if at is not None:
                self._by_fullness.put(at, self._full(at))

    def _by_spread(
        self, copies: PodsPerNode, among: NodeSet, current: str
    ) -> Iterator[tuple[int, NodeSet]]:
        """The nodes in groups, each with the points for having few copies on node and zone.

        The scheduler applies its default constraints to pods without constraints of their own.
        """
        zones = copies.per_domain(ZONE)
        here = zones.domain_of(current)
        zone_groups = [
            (level, zones.nodes_with_exactly(level) & ~here) for level in zones.distinct_counts
        ]
        zone_groups.append(((zones.count_at(current) or 1) - 1, here))
        on_nodes = log(among.bit_count() + 2)
        in_zones = log(self._zones_within(among) + 2)
        groups = [
            (round(count * on_nodes + 2 + in_zone * in_zones + 4), group)
            for in_zone, zone_nodes in zone_groups
            for count, group in copies.by_count(zone_nodes & among, current)
        ]
        groups += [
            (round(count * on_nodes + 2), group)
            for count, group in copies.by_count(among & ~zones.nodes_with_label, current)
        ]
        least, most = min(groups)[0], max(groups)[0]
        for weight, group in groups:
            yield 2 * (100 * (most + least - weight) // most), group

    def _zones_within(self, among: NodeSet) -> int:
        """The number of zones that the nodes are in; an upper bound if there are many zones."""
        zones = self._node_index.domains(ZONE)
        if len(zones) > FEW:
            return min(len(zones), among.bit_count())
        return sum(1 for nodes in zones.values() if nodes & among)

    def _resource_points(self, name: str, demand: Demand, *, already_there: bool = False) -> int:
        """The node's points for free resources (least allocated) and for their balance."""
        at = self._node_index.position[name]
        left_over, before, after = 0, [], []
        for (allocatable, free_amounts), requested in zip(
            self._scored, self._requests_of(demand), strict=True
        ):
            total = allocatable[at]
            if not total:
                continue
            left = free_amounts[at] if already_there else free_amounts[at] - requested
            full = total - left
            if left > 0:
                left_over += left * 100 // total
            before.append((full - requested) / total if full - requested < total else 1.0)
            after.append(full / total if full < total else 1.0)
        if not after:
            return 0
        balance = 50 + (50 + _balance_points(after) - _balance_points(before)) // 2
        return left_over // len(after) + balance

    def _requests_of(self, demand: Demand) -> tuple[int, ...]:
        """What such a pod requests of the resources that are scored."""
        requested = self._requests.get(demand)
        if requested is None:
            requests = demand.requests
            requested = tuple(in_resource_unit(name, requests.get(name, 0)) for name in SCORED)
            self._requests[demand] = requested
        return requested

    def _full(self, at: int) -> float:
        """Mean share of cpu and memory in use on a node."""
        shares = [
            (total - left[at]) / total if (total := allocatable[at]) else 1.0
            for allocatable, left in self._scored
        ]
        return sum(shares) / len(shares)

    def _by_taints(self, spec: Spec, among: NodeSet) -> Iterator[tuple[int, NodeSet]]:
        """The nodes in groups, each with the points for having few soft taints."""
        by_soft_taints = self._node_index.by_soft_taints(spec.tolerations)
        groups = {count: here for count, nodes in by_soft_taints.items() if (here := nodes & among)}
        most = max(groups)
        for count, nodes in groups.items():
            yield TAINT_WEIGHT * (100 - 100 * count // most) if most else 0, nodes

    def _most_preferred(self, spec: Spec, own_node: str, nodes: NodeSet) -> NodeSet:
        """The nodes with the largest sum of matching preferred node affinity weights."""
        groups = {0: nodes}
        for row in spec.preferred_terms:
            groups = add_weight(
                groups, self._node_index.matching_term(row.term, own_node), row.weight
            )
        return groups[max(groups)]

    def _by_soft_rules(self, pod: Pod, nodes: NodeSet, current: str) -> NodeSet:
        """The nodes that best satisfy the pod's preferred anti-affinity and soft spread rules."""
        weighted = self._pod_affinity.preferred_anti_affinity_terms(pod.template)
        for _, term in sorted(weighted, key=lambda row: -row[0]):
            counts = self._pod_affinity.matching_pods(term)
            domains = counts.per_domain(term.topology_key)
            counts_itself = counts.includes(pod.template)
            near = (
                domains.nodes_with_any_other(current) if counts_itself else domains.nodes_with_any()
            )
            nodes = nodes & ~near or nodes
        for rule in self._topology_spread.rules_of_pod(pod):
            if not rule.hard:
                counts_itself = self._topology_spread.counts(rule, pod.template)
                nodes = _fewest(
                    self._topology_spread.domains(rule), nodes, current if counts_itself else ""
                )
        return nodes


def _balance_points(shares: list[float]) -> int:
    """Up to 100 points for resources that are used to equal shares."""
    return int((1 - (max(shares) - min(shares)) / 2) * 100) if len(shares) > 1 else 100


def _fewest(domains: PodsPerDomain, nodes: NodeSet, current: str) -> NodeSet:
    """The nodes in the smallest domains, once the pod has left its current node."""
    here, around = domains.count_at(current), domains.domain_of(current)
    for level in reversed(domains.distinct_counts):
        if here is not None and level >= here - 1 and nodes & around:
            return nodes & (around | domains.nodes_with_exactly(here - 1))
        if fewest := nodes & domains.nodes_with_exactly(level):
            return fewest
    return nodes
