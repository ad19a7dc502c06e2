"""Free resources and host ports of the nodes, once the plan so far is carried out.

Counterpart of kube-scheduler's filters NodeResourcesFit and NodePorts. "Which nodes have at least
this much?" is a bitmap, kept for every amount that was asked for. When the free amount of a node
changes, only the bitmaps for amounts between the old and the new one change.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator

from resettle.model.node_index import NodeIndex, NodeSet
from resettle.model.pod import Demand, HostPort, Pod
from resettle.model.pod_index import PodIndex
from resettle.model.resources import in_resource_unit
from resettle.placement.pod_locations import PodLocations


class FreeResource:
    """Free amounts of one resource, by the position of the node in the index."""

    def __init__(self, node_index: NodeIndex, free: list[int]) -> None:
        self._singles = node_index.bits
        self.free = free
        self._amounts: list[int] = []
        self._enough: dict[int, NodeSet] = {}

    def at_least(self, amount: int) -> NodeSet:
        """Nodes with this much free."""
        enough = self._enough.get(amount)
        if enough is None:
            bits = bytearray(len(self.free) // 8 + 1)
            for at, free in enumerate(self.free):
                if free >= amount:
                    bits[at >> 3] |= 1 << (at & 7)
            enough = self._enough[amount] = int.from_bytes(bits, "little")
            insort(self._amounts, amount)
        return enough

    def add(self, at: int, by: int) -> None:
        """Change the free amount of the node at a position."""
        before = self.free[at]
        after = self.free[at] = before + by
        low, high = (before, after) if before < after else (after, before)
        single = self._singles[at]
        for amount in self._amounts[bisect_right(self._amounts, low) :]:
            if amount > high:
                break
            self._enough[amount] ^= single


Requests = tuple[tuple[str, int], ...]


class Capacity:
    """Free amounts of each resource, by the requests of pods."""

    def __init__(self, node_index: NodeIndex, pod_index: PodIndex) -> None:
        self._node_index = node_index
        self._pod_index = pod_index
        self._resources: dict[str, FreeResource] = {}
        self._moves: list[tuple[Demand, str, str]] = []
        self._requests: dict[Demand, Requests] = {}
        self._enough: dict[Demand, tuple[int, NodeSet]] = {}

    @property
    def version(self) -> int:
        """Goes up with every move."""
        return len(self._moves)

    def enough_for(self, demand: Demand) -> NodeSet:
        """Nodes with enough of every resource for one more such pod."""
        known = self._enough.get(demand)
        if known is not None and known[0] == self.version:
            return known[1]
        nodes = self._node_index.all_nodes
        for name, amount in self._requests_of(demand):
            nodes &= self.free_resource(name).at_least(amount)
        self._enough[demand] = (self.version, nodes)
        return nodes

    def by_resource(self, demand: Demand) -> Iterator[tuple[str, NodeSet]]:
        """For each requested resource the nodes with enough of it for one more such pod."""
        for name, amount in self._requests_of(demand):
            yield name, self.free_resource(name).at_least(amount)

    def lacking(self, demand: Demand, node: str) -> dict[str, int]:
        """How much of each resource a node has too little of for one more such pod."""
        at = self._node_index.position[node]
        free = {name: self.free_resource(name).free[at] for name, _ in self._requests_of(demand)}
        return {
            name: need - free[name] for name, need in self._requests_of(demand) if need > free[name]
        }

    def still_fits(self, demand: Demand, node: str) -> bool:
        """Whether the pod's own node could take it again: it can unless it is overcommitted."""
        return all(self.still_fits_of(name, node) for name, _ in self._requests_of(demand))

    def still_fits_of(self, name: str, node: str) -> bool:
        """Whether the node is not overcommitted in one resource."""
        at = self._node_index.position.get(node)
        return at is not None and self.free_resource(name).free[at] >= 0

    def move(self, demand: Demand, source: str, target: str) -> None:
        """Free a pod's requests on one node and use them on another."""
        self._moves.append((demand, source, target))
        for name, amount in self._requests_of(demand):
            if name in self._resources:
                self._shift(self._resources[name], amount, source, target)

    def free_resource(self, name: str) -> FreeResource:
        """The free amounts of one resource."""
        resource = self._resources.get(name)
        if resource is None:
            requests_on = self._pod_index.requests_on
            resource = self._resources[name] = FreeResource(
                self._node_index,
                [
                    (total or 0) - in_resource_unit(name, requests_on(node.name).get(name, 0))
                    for node, total in zip(
                        self._node_index, self._node_index.allocatable_of(name), strict=True
                    )
                ],
            )
            for demand, source, target in self._moves:
                amount = dict(self._requests_of(demand)).get(name)
                if amount:
                    self._shift(resource, amount, source, target)
        return resource

    def _requests_of(self, demand: Demand) -> Requests:
        """What the scheduler checks: one pod, and every request above zero."""
        requests = self._requests.get(demand)
        if requests is None:
            requests = self._requests[demand] = (
                ("pods", 1),
                *(
                    (name, in_resource_unit(name, amount))
                    for name, amount in demand.requests.items()
                    if amount > 0 and name != "pods"
                ),
            )
        return requests

    def _shift(self, resource: FreeResource, amount: int, source: str, target: str) -> None:
        position = self._node_index.position
        if source in position:
            resource.add(position[source], amount)
        if target in position:
            resource.add(position[target], -amount)


class HostPorts:
    """Host ports in use on each node."""

    def __init__(self, pod_locations: PodLocations) -> None:
        self._pod_locations = pod_locations
        self._in_use: dict[tuple[str, int], dict[str, dict[str, int]]] = {}
        for template in pod_locations.pod_index.templates:
            if template.spec.host_ports:
                for pod in pod_locations.pod_index.active_of(template):
                    self._use(template.spec.host_ports, pod_locations.current_node(pod), 1)

    def free_for(self, pod: Pod) -> NodeSet:
        """Nodes where no other pod uses a host port of this pod."""
        node_index, current = self._pod_locations.node_index, self._pod_locations.current_node(pod)
        nodes = node_index.all_nodes
        own = pod.spec.host_ports
        for port in own:
            for node, count in self._conflicts(port):
                own_uses = sum(_conflict(port, other) for other in own) if node == current else 0
                if count > own_uses:
                    nodes &= ~node_index.only(node)
        return nodes

    def move(self, pod: Pod, source: str, target: str) -> None:
        """Free the pod's ports on one node and use them on another."""
        ports = pod.spec.host_ports
        if ports:
            self._use(ports, source, -1)
            self._use(ports, target, 1)

    def _use(self, ports: tuple[HostPort, ...], node: str, by: int) -> None:
        for port in ports:
            in_use = self._in_use.setdefault((port.protocol, port.port), {})
            at = in_use.setdefault(node, {})
            at[port.address] = at.get(port.address, 0) + by

    def _conflicts(self, port: HostPort) -> Iterator[tuple[str, int]]:
        for node, in_use in self._in_use.get((port.protocol, port.port), {}).items():
            yield (
                node,
                sum(
                    count
                    for address, count in in_use.items()
                    if not address or not port.address or address == port.address
                ),
            )


def _conflict(port: HostPort, other: HostPort) -> bool:
    return (port.protocol, port.port) == (other.protocol, other.port) and (
        not port.address or not other.address or port.address == other.address
    )
