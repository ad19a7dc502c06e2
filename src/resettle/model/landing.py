"""Where a replacement will most likely land, among the nodes that would take it.

After kube-scheduler's default scores, each in turn: no soft taint that the pod does not tolerate,
the heaviest of its node preferences, domains with few of its like, and then the node with the
largest share of cpu and memory left. The real scheduler adds scores up and
breaks ties by chance, so this is a forecast.
"""

from __future__ import annotations

from resettle.model.domains import Domains
from resettle.model.evenness import Evenness
from resettle.model.fleet import Fleet, NodeSet
from resettle.model.neighbours import Neighbours
from resettle.model.occupancy import Occupancy
from resettle.model.pod import Demand, Pod, Spec
from resettle.model.quantity import counted
from resettle.model.residents import Residents


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
        case = next(i for i, nodes in enumerate(self._cases) if nodes & among)
        first = case * self._per_case
        shelf = next(here for nodes in self._shelves[first:] if (here := nodes & among))
        full, position = self._full, self._fleet.position
        return min(self._fleet.members(shelf), key=lambda node: full[position[node.name]]).name

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
        self._ranking = Ranking(fleet, [self._full(at) for at in range(len(fleet.nodes))])

    def of(self, pod: Pod, among: NodeSet, home: str) -> str:
        """The likeliest of these nodes, of which there is at least one, once the pod has left."""
        spec = pod.template.spec
        nodes = self._pleasant(spec, among)
        nodes = self._preferred(spec, pod.node, nodes)
        if spec.spread or spec.preferred_away:
            nodes = self._quiet(pod, nodes, home)
        if not spec.spread and pod.owners:
            nodes = self._apart(pod, nodes, home)
        emptiest = self._ranking.emptiest(nodes)
        if nodes & self._fleet.only(home) and emptiest != home:
            at, best = self._fleet.position[home], self._fleet.position[emptiest]
            if self._full(at, spec.demand) <= self._full(best):
                return home
        return emptiest

    def changed(self, *names: str) -> None:
        """Looks again at nodes whose room has changed."""
        for name in names:
            at = self._fleet.position.get(name)
            if at is not None:
                self._ranking.put(at, self._full(at))

    def _apart(self, pod: Pod, nodes: NodeSet, home: str) -> NodeSet:
        """Of the nodes those with the fewest pods of the same owner.

        The scheduler spreads pods that state no rule of their own by a soft rule of its own.
        """
        copies = self._residents.of_owner(pod.owners[0].uid, pod.namespace)
        return copies.fewest(nodes, home)

    def _full(self, at: int, without: Demand | None = None) -> float:
        """Mean share of cpu and memory in use on a node, be it without one such pod."""
        shares = []
        for name in ("cpu", "memory"):
            offer = self._fleet.offers(name)[at] or 0
            left = self._room.stock(name).left[at]
            if without is not None:
                left += counted(name, without.requests.get(name, 0))
            shares.append((offer - left) / offer if offer else 1.0)
        return sum(shares) / len(shares)

    def _pleasant(self, spec: Spec, nodes: NodeSet) -> NodeSet:
        return nodes & self._fleet.enjoyed_by(spec.tolerations) or nodes

    def _preferred(self, spec: Spec, own_node: str, nodes: NodeSet) -> NodeSet:
        """Of the nodes those with the heaviest preferences."""
        groups: dict[int, NodeSet] = {0: nodes}
        for row in spec.preferred_terms:
            liked = self._fleet.matching(row.term, own_node)
            parted: dict[int, NodeSet] = {}
            for weight, group in groups.items():
                for more, part in ((row.weight, group & liked), (0, group & ~liked)):
                    if part:
                        parted[weight + more] = parted.get(weight + more, 0) | part
            groups = parted
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


def _fewest(domains: Domains, nodes: NodeSet, home: str) -> NodeSet:
    """Of the nodes those in the smallest domains, once the pod at home has left its own."""
    here, around = domains.counted_at(home), domains.around(home)
    for level in reversed(domains.levels):
        if here is not None and level >= here - 1 and nodes & around:
            return nodes & (around | domains.exactly(here - 1))
        if fewest := nodes & domains.exactly(level):
            return fewest
    return nodes
