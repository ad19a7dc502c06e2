"""Room and ports of the nodes, once the plan so far is carried out.

How much of one thing each node has left, while a plan takes some here and gives some back there.

"Which nodes have at least so much?" is a bitmap, kept for every amount that was asked about. When
what a node has left changes, only the bitmaps between the old amount and the new one lose or gain
that node.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator

from resettle.model.node_index import Fleet, NodeSet
from resettle.model.pod import Demand, HostPort, Pod
from resettle.model.pod_index import Population
from resettle.model.resources import counted
from resettle.placement.pod_locations import Residents


class Stock:
    """What is left of one resource, by the position of the node in the fleet."""

    def __init__(self, fleet: Fleet, left: list[int]) -> None:
        self._singles = fleet.bits
        self.left = left
        self._amounts: list[int] = []
        self._enough: dict[int, NodeSet] = {}

    def at_least(self, amount: int) -> NodeSet:
        """Nodes that have this much left."""
        enough = self._enough.get(amount)
        if enough is None:
            bits = bytearray(len(self.left) // 8 + 1)
            for at, left in enumerate(self.left):
                if left >= amount:
                    bits[at >> 3] |= 1 << (at & 7)
            enough = self._enough[amount] = int.from_bytes(bits, "little")
            insort(self._amounts, amount)
        return enough

    def change(self, at: int, by: int) -> None:
        """Gives back to a node what left it, or takes from it what came."""
        before = self.left[at]
        after = self.left[at] = before + by
        low, high = (before, after) if before < after else (after, before)
        single = self._singles[at]
        for amount in self._amounts[bisect_right(self._amounts, low) :]:
            if amount > high:
                break
            self._enough[amount] ^= single


Asked = tuple[tuple[str, int], ...]


class Occupancy:
    """What is left of each resource, by what pods request."""

    def __init__(self, fleet: Fleet, population: Population) -> None:
        self._fleet = fleet
        self._population = population
        self._stocks: dict[str, Stock] = {}
        self._moves: list[tuple[Demand, str, str]] = []
        self._asks: dict[Demand, Asked] = {}
        self._enough: dict[Demand, tuple[int, NodeSet]] = {}

    @property
    def version(self) -> int:
        """Goes up with every move."""
        return len(self._moves)

    def enough_for(self, demand: Demand) -> NodeSet:
        """Nodes with room for one more such pod."""
        known = self._enough.get(demand)
        if known is not None and known[0] == self.version:
            return known[1]
        nodes = self._fleet.everyone
        for name, amount in self._asked(demand):
            nodes &= self.stock(name).at_least(amount)
        self._enough[demand] = (self.version, nodes)
        return nodes

    def by_resource(self, demand: Demand) -> Iterator[tuple[str, NodeSet]]:
        """The same for each resource by itself."""
        for name, amount in self._asked(demand):
            yield name, self.stock(name).at_least(amount)

    def lacking(self, demand: Demand, node: str) -> dict[str, int]:
        """How much of each resource a node has too little of for one more such pod."""
        at = self._fleet.position[node]
        free = {name: self.stock(name).left[at] for name, _ in self._asked(demand)}
        return {name: need - free[name] for name, need in self._asked(demand) if need > free[name]}

    def still_fits(self, demand: Demand, node: str) -> bool:
        """Whether a pod could come back to its own node: it could unless that is overfull."""
        return all(self.still_fits_of(name, node) for name, _ in self._asked(demand))

    def still_fits_of(self, name: str, node: str) -> bool:
        """The same for one resource."""
        at = self._fleet.position.get(node)
        return at is not None and self.stock(name).left[at] >= 0

    def move(self, demand: Demand, source: str, target: str) -> None:
        """Gives a pod's room back to one node and takes it on another."""
        self._moves.append((demand, source, target))
        for name, amount in self._asked(demand):
            if name in self._stocks:
                self._shift(self._stocks[name], amount, source, target)

    def stock(self, name: str) -> Stock:
        """What is left of one resource."""
        stock = self._stocks.get(name)
        if stock is None:
            requested = self._population.requested
            stock = self._stocks[name] = Stock(
                self._fleet,
                [
                    (offer or 0) - counted(name, requested(node.name).get(name, 0))
                    for node, offer in zip(self._fleet, self._fleet.offers(name), strict=True)
                ],
            )
            for demand, source, target in self._moves:
                amount = dict(self._asked(demand)).get(name)
                if amount:
                    self._shift(stock, amount, source, target)
        return stock

    def _asked(self, demand: Demand) -> Asked:
        """What the scheduler looks at: the place of one pod, and every request above zero."""
        asked = self._asks.get(demand)
        if asked is None:
            asked = self._asks[demand] = (
                ("pods", 1),
                *(
                    (name, counted(name, amount))
                    for name, amount in demand.requests.items()
                    if amount > 0 and name != "pods"
                ),
            )
        return asked

    def _shift(self, stock: Stock, amount: int, source: str, target: str) -> None:
        position = self._fleet.position
        if source in position:
            stock.change(position[source], amount)
        if target in position:
            stock.change(position[target], -amount)


class Ports:
    """The nodes' own ports, and who holds them."""

    def __init__(self, residents: Residents) -> None:
        self._residents = residents
        self._held: dict[tuple[str, int], dict[str, dict[str, int]]] = {}
        for template in residents.population.templates:
            if template.spec.host_ports:
                for pod in residents.population.active_of(template):
                    self._hold(template.spec.host_ports, residents.home(pod), 1)

    def free_for(self, pod: Pod) -> NodeSet:
        """Nodes where nobody else holds a port that the pod takes."""
        fleet, home = self._residents.fleet, self._residents.home(pod)
        nodes = fleet.everyone
        own = pod.spec.host_ports
        for port in own:
            for node, count in self._clashes(port):
                itself = sum(_clash(port, it) for it in own) if node == home else 0
                if count > itself:
                    nodes &= ~fleet.only(node)
        return nodes

    def move(self, pod: Pod, source: str, target: str) -> None:
        """Frees the pod's ports on one node and takes them on another."""
        ports = pod.spec.host_ports
        if ports:
            self._hold(ports, source, -1)
            self._hold(ports, target, 1)

    def _hold(self, ports: tuple[HostPort, ...], node: str, by: int) -> None:
        for port in ports:
            held = self._held.setdefault((port.protocol, port.port), {})
            at = held.setdefault(node, {})
            at[port.address] = at.get(port.address, 0) + by

    def _clashes(self, port: HostPort) -> Iterator[tuple[str, int]]:
        for node, held in self._held.get((port.protocol, port.port), {}).items():
            yield (
                node,
                sum(
                    count
                    for address, count in held.items()
                    if not address or not port.address or address == port.address
                ),
            )


def _clash(one: HostPort, other: HostPort) -> bool:
    return (one.protocol, one.port) == (other.protocol, other.port) and (
        not one.address or not other.address or one.address == other.address
    )
