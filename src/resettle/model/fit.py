"""Which nodes would take a pod, as kubernetes-sigs/descheduler judges it.

Cordon, node selector and affinity, hard taints, the pod's own anti-affinity against the pods of
each node, free resources. The answer is a set of nodes; nothing here looks at nodes one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from resettle.model.affinity import PodTerm
from resettle.model.fleet import Fleet, NodeSet
from resettle.model.pod import Demand, Pod, Template
from resettle.model.room import Room
from resettle.model.selector import Selector


class Neighbours(NamedTuple):
    """Where the pods of one selector live."""

    per_node: dict[str, int]
    """Node name to number of such pods."""
    nodes: NodeSet


class Fit:
    """The judge of one snapshot; remembers its answers for all pods that ask alike."""

    def __init__(
        self,
        fleet: Fleet,
        room: Room,
        templates_matching: Callable[[str, Selector], Iterable[Template]],
        active_of: Callable[[Template], list[Pod]],
        pod_named: Callable[[str, str], Pod | None],
    ) -> None:
        self._fleet = fleet
        self._single = fleet.singles
        self._room = room
        self._templates_matching = templates_matching
        self._active_of = active_of
        self._pod_named = pod_named
        self._allowed: dict[tuple[Demand, str], NodeSet] = {}
        self._neighbours: dict[tuple[Selector, tuple[str, ...]], Neighbours] = {}

    def elsewhere(self, pod: Pod, among: NodeSet) -> NodeSet:
        """Nodes of the set that would take the pod, its own left out."""
        spec = pod.template.spec
        nodes = self.allowed(spec.demand, pod.node) & self._room.enough_for(spec.demand)
        nodes &= among & ~self._single.get(pod.node, 0)
        return self._without_conflicts(pod, nodes) if spec.anti_affinity else nodes

    def open_to(self, demand: Demand) -> NodeSet:
        """Nodes with labels, taints and room for any such pod; none if it matters where it is."""
        if demand.pinned:
            return 0
        return self.allowed(demand, "") & self._room.enough_for(demand)

    def anywhere(self, pod: Pod, among: NodeSet) -> NodeSet:
        """The same with its own node, where the room it has counts as enough."""
        demand = pod.template.spec.demand
        roomy = self._room.enough_for(demand) | self._fleet.only(pod.node)
        return self._without_conflicts(pod, among & roomy & self.allowed(demand, pod.node))

    def allowed(self, demand: Demand, own_node: str) -> NodeSet:
        """Nodes that cordon, selector, affinity and taints leave open."""
        key = (demand, own_node if demand.pinned else "")
        chosen = self._allowed.get(key)
        if chosen is None:
            fleet = self._fleet
            chosen = self._allowed[key] = (
                fleet.schedulable
                & fleet.welcoming(demand, own_node)
                & fleet.tolerated_by(demand.tolerations)
            )
        return chosen

    def _without_conflicts(self, pod: Pod, nodes: NodeSet) -> NodeSet:
        for term in pod.spec.anti_affinity:
            if not nodes:
                break
            if term.selector is None:
                return 0
            nodes &= ~self._conflicts(pod, term, term.selector)
        return nodes

    def _conflicts(self, pod: Pod, term: PodTerm, selector: Selector) -> NodeSet:
        namespaces = term.namespaces or (pod.namespace,)
        near = self._near(selector, namespaces)
        nodes = near.nodes
        # Pods are told apart by name alone, so a namesake is no conflict, be it the pod itself.
        namesakes: dict[str, int] = {}
        for namespace in dict.fromkeys(namespaces):
            other = self._pod_named(namespace, pod.name)
            if other is not None and not other.finished and selector.matches(other.labels):
                namesakes[other.node] = namesakes.get(other.node, 0) + 1
        for name, count in namesakes.items():
            if near.per_node.get(name) == count:
                nodes &= ~self._fleet.only(name)
        return nodes & self._fleet.having(term.topology_key)

    def _near(self, selector: Selector, namespaces: tuple[str, ...]) -> Neighbours:
        key = (selector, namespaces)
        near = self._neighbours.get(key)
        if near is None:
            count: dict[str, int] = {}
            for namespace in dict.fromkeys(namespaces):
                for template in self._templates_matching(namespace, selector):
                    for pod in self._active_of(template):
                        count[pod.node] = count.get(pod.node, 0) + 1
            known = (node for name in count if (node := self._fleet.get(name)))
            near = self._neighbours[key] = Neighbours(count, self._fleet.set_of(known))
        return near
