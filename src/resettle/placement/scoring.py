"""Where a replacement will most likely land, among the nodes that would take it.

After kube-scheduler's default scores. Soft taints, room, and how pods of one owner are scattered
over nodes and zones are added up in the scheduler's own points; a tie goes to the pod's own node.
Of nodes with as many soft taints, those count that the pod prefers and that its own soft rules
leave. The real scheduler adds up all of it and breaks ties by chance, so this is a forecast.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log

from resettle.model.node_index import Fleet, NodeSet, parted
from resettle.model.pod import Demand, Pod, Spec
from resettle.model.resources import counted
from resettle.placement.capacity import Occupancy
from resettle.placement.pod_affinity import Neighbours
from resettle.placement.pod_locations import Domains, Residents, Tally
from resettle.placement.topology_spread import Evenness

ZONE = "topology.kubernetes.io/zone"
SCORED = ("cpu", "memory")
"""Resources by which the scheduler tells how full a node is."""
FEW = 32
CLEAR_LEAD = 5
"""Points, of which a node that is emptier by one percent has one more."""
EVENED_OUT = 25
"""More than the points by which two nodes can differ in how a pod evens them out."""
TAINT_WEIGHT = 3
"""How often the scheduler counts its points for soft taints, unless it is configured otherwise."""


class Ranking:
    """Nodes by how full they are: shelves of nodes about as full as each other, in cases."""

    SHELVES, CASES = 512, 16

    def __init__(self, fleet: Fleet, fullness: list[float]) -> None:
        self._fleet = fleet
        self._full = fullness
        self._shelves: list[NodeSet] = [0] * self.SHELVES
        self._cases: list[NodeSet] = [0] * self.CASES
        self._per_case = self.SHELVES // self.CASES
        for at, full in enumerate(fullness):
            self._flip(at, full)

    def put(self, at: int, full: float) -> None:
        """Notes how full a node is now."""
        self._flip(at, self._full[at])
        self._full[at] = full
        self._flip(at, full)

    def emptiest(self, among: NodeSet) -> str:
        """The emptiest node of the set, the first by name if there are several."""
        first = 0
        for nodes in self._cases:
            if nodes & among:
                break
            first += self._per_case
        shelf = 0
        while not shelf:
            shelf = self._shelves[first] & among
            first += 1
        if shelf & (shelf - 1):
            full, position = self._full, self._fleet.position
            return min(self._fleet.members(shelf), key=lambda node: full[position[node.name]]).name
        return self._fleet.nodes[shelf.bit_length() - 1].name

    def _flip(self, at: int, full: float) -> None:
        """Takes a node from its shelf, or puts it there."""
        shelf = min(max(int(full * self.SHELVES), 0), self.SHELVES - 1)
        single = self._fleet.bits[at]
        self._shelves[shelf] ^= single
        self._cases[shelf // self._per_case] ^= single


class Landing:
    """Forecasts for one outlook."""

    def __init__(
        self,
        residents: Residents,
        room: Occupancy,
        evenness: Evenness,
        neighbours: Neighbours,
    ) -> None:
        self._residents = residents
        self._fleet = fleet = residents.fleet
        self._room = room
        self._evenness = evenness
        self._neighbours = neighbours
        self._scored = [(fleet.offers(name), room.stock(name).left) for name in SCORED]
        """What each node offers and has left of the resources that the scheduler goes by."""
        self._asked: dict[Demand, tuple[int, ...]] = {}
        self._ranking = Ranking(fleet, [self._full(at) for at in range(len(fleet.nodes))])

    def of(self, pod: Pod, among: NodeSet, home: str, lead: int = 0) -> str:
        """The likeliest of these nodes, of which there is at least one, once the pod has left.

        A node that has not this many points more than the pod's own does not count as likelier.
        """
        spec = pod.template.spec
        scattered = [(0, among)]
        if not spec.spread and pod.owners:
            copies = self._residents.of_owner(pod.owners[0].uid, pod.namespace)
            scattered = list(self._scattered(copies, among, home)) or scattered
        groups = []
        for points, nodes in self._by_taints(spec, among):
            suiting = self._preferred(spec, pod.node, nodes)
            if spec.spread or spec.preferred_away:
                suiting = self._quiet(pod, suiting, home)
            groups += [(points + more, group & suiting) for more, group in scattered]
        return self._best(spec.demand, groups, home, lead)

    def _best(self, demand: Demand, groups: list[tuple[int, NodeSet]], home: str, lead: int) -> str:
        """The node with the most points for room and for the group that it is in."""
        own = self._fleet.only(home)
        best, most, others = home, -1, 0
        for points, group in groups:
            others |= group & ~own
            if own & group:
                most = points + self._room_points(home, demand, at_home=True) + lead
        ceiling = None
        for points, group in sorted(groups, reverse=True):
            here = group & ~own
            if not here:
                continue
            if ceiling is None:
                roomiest = self._ranking.emptiest(others)
                ceiling = self._room_points(roomiest, demand) + EVENED_OUT
            if points + ceiling <= most:
                break
            name = self._ranking.emptiest(here)
            total = points + self._room_points(name, demand)
            if total > most:
                best, most = name, total
        return best

    def changed(self, *names: str) -> None:
        """Looks again at nodes whose room has changed."""
        for name in names:
            at = self._fleet.position.get(name)
            if at is not None:
                self._ranking.put(at, self._full(at))

    def _scattered(self, copies: Tally, among: NodeSet, home: str) -> Iterator[tuple[int, NodeSet]]:
        """The nodes, in groups with as many points each for having few copies near.

        The scheduler spreads pods that state no rule of their own by a soft rule of its own.
        """
        zones = copies.over(ZONE)
        here = zones.around(home)
        regions = [(level, zones.exactly(level) & ~here) for level in zones.levels]
        regions.append(((zones.counted_at(home) or 1) - 1, here))
        on_nodes = log(among.bit_count() + 2)
        in_zones = log(self._zones_within(among) + 2)
        found = [
            (round(count * on_nodes + 2 + in_zone * in_zones + 4), group)
            for in_zone, region in regions
            for count, group in copies.groups(region & among, home)
        ]
        found += [
            (round(count * on_nodes + 2), group)
            for count, group in copies.groups(among & ~zones.having, home)
        ]
        least, most = min(found)[0], max(found)[0]
        for weight, group in found:
            yield 2 * (100 * (most + least - weight) // most), group

    def _zones_within(self, among: NodeSet) -> int:
        """In how many zones the nodes are; of very many zones, in how many they could be."""
        zones = self._fleet.domains(ZONE)
        if len(zones) > FEW:
            return min(len(zones), among.bit_count())
        return sum(1 for nodes in zones.values() if nodes & among)

    def _room_points(self, name: str, demand: Demand, *, at_home: bool = False) -> int:
        """What the scheduler gives a node for what is left with the pod, and for evening it out."""
        at = self._fleet.position[name]
        left_over, before, after = 0, [], []
        for (offers, stock), asked in zip(self._scored, self._wanted(demand), strict=True):
            offer = offers[at]
            if not offer:
                continue
            left = stock[at] if at_home else stock[at] - asked
            full = offer - left
            if left > 0:
                left_over += left * 100 // offer
            before.append((full - asked) / offer if full - asked < offer else 1.0)
            after.append(full / offer if full < offer else 1.0)
        if not after:
            return 0
        evened = 50 + (50 + _evenness(after) - _evenness(before)) // 2
        return left_over // len(after) + evened

    def _wanted(self, demand: Demand) -> tuple[int, ...]:
        """What such a pod requests of the resources that the scheduler goes by."""
        asked = self._asked.get(demand)
        if asked is None:
            requests = demand.requests
            asked = tuple(counted(name, requests.get(name, 0)) for name in SCORED)
            self._asked[demand] = asked
        return asked

    def _full(self, at: int) -> float:
        """Mean share of cpu and memory in use on a node."""
        shares = [
            (offer - left[at]) / offer if (offer := offers[at]) else 1.0
            for offers, left in self._scored
        ]
        return sum(shares) / len(shares)

    def _by_taints(self, spec: Spec, among: NodeSet) -> Iterator[tuple[int, NodeSet]]:
        """The nodes, in groups with as many points each for having few soft taints."""
        annoying = self._fleet.by_annoyance(spec.tolerations)
        groups = {count: here for count, nodes in annoying.items() if (here := nodes & among)}
        most = max(groups)
        for count, nodes in groups.items():
            yield TAINT_WEIGHT * (100 - 100 * count // most) if most else 0, nodes

    def _preferred(self, spec: Spec, own_node: str, nodes: NodeSet) -> NodeSet:
        """Of the nodes those with the heaviest preferences."""
        groups = {0: nodes}
        for row in spec.preferred_terms:
            groups = parted(groups, self._fleet.matching(row.term, own_node), row.weight)
        return groups[max(groups)]

    def _quiet(self, pod: Pod, nodes: NodeSet, home: str) -> NodeSet:
        """Of the nodes those in domains with few of its like, as far as it would rather have it."""
        for _, wish in sorted(self._neighbours.preferred_away(pod.template), key=lambda it: -it[0]):
            tally = self._neighbours.meant(wish)
            domains = tally.over(wish.topology_key)
            itself = tally.counts(pod.template)
            near = domains.occupied_without(home) if itself else domains.occupied()
            nodes = nodes & ~near or nodes
        for rule in self._evenness.stated_by(pod):
            if not rule.hard:
                itself = self._evenness.counts(rule, pod.template)
                nodes = _fewest(self._evenness.domains(rule), nodes, home if itself else "")
        return nodes


def _evenness(shares: list[float]) -> int:
    """Up to 100 points for resources that are used to the same share."""
    return int((1 - (max(shares) - min(shares)) / 2) * 100) if len(shares) > 1 else 100


def _fewest(domains: Domains, nodes: NodeSet, home: str) -> NodeSet:
    """Of the nodes those in the smallest domains, once the pod at home has left its own."""
    here, around = domains.counted_at(home), domains.around(home)
    for level in reversed(domains.levels):
        if here is not None and level >= here - 1 and nodes & around:
            return nodes & (around | domains.exactly(here - 1))
        if fewest := nodes & domains.exactly(level):
            return fewest
    return nodes
