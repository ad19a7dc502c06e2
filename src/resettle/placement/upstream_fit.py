"""Which nodes would take a pod, as kubernetes-sigs/descheduler judges it.

Cordon, node selector and affinity, hard taints, the pod's own anti-affinity against the pods of
each node, free resources. The answer is a set of nodes; nothing here looks at nodes one by one.

How much is free on each node, and which nodes have enough.

For each resource the nodes are ranked by what they have free; the nodes with enough for a request
are then a prefix of the ranking, and the bitmaps of all prefixes are kept. One lookup answers for
thousands of nodes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from resettle.model.constraints import PodTerm
from resettle.model.node_index import Fleet, NodeSet
from resettle.model.objects import Node
from resettle.model.pod import Demand, Pod, Template
from resettle.model.resources import NANO, counted, milli
from resettle.model.selectors import Selector
from resettle.model.snapshot import Snapshot
from resettle.placement.diagnosis import NodeRejection


class Room:
    """What each node has left of each resource, in thousandths."""

    def __init__(self, fleet: Fleet, used: Callable[[Node], Mapping[str, int]]) -> None:
        self._fleet = fleet
        self._used = used
        self._ranked: dict[str, tuple[list[int], list[NodeSet]]] = {}
        self._enough: dict[Demand, NodeSet] = {}

    def enough_for(self, demand: Demand) -> NodeSet:
        """Nodes with room for all that is requested, and for one more pod."""
        chosen = self._enough.get(demand)
        if chosen is None:
            chosen = self._fleet.everyone
            for _, nodes in self.with_enough(demand):
                chosen &= nodes
            self._enough[demand] = chosen
        return chosen

    def with_enough(self, demand: Demand) -> Iterator[tuple[str, NodeSet]]:
        """For each resource that matters the nodes with enough of it."""
        yield "pods", self._with("pods", max(1, milli(demand.requests.get("pods", 0))))
        for name, amount in demand.requests.items():
            yield name, self._with(name, milli(amount))

    def lacking(self, demand: Demand, name: str) -> dict[str, int]:
        """How much of each resource a node has too little of, in the resource's own unit."""
        at = self._fleet.position[name]
        node = self._fleet.nodes[at]
        found: dict[str, int] = {}
        for resource, needed in ({"pods": NANO} | demand.requests).items():
            offer = self._fleet.offers(resource)[at] or 0
            free = offer - counted(resource, self._used(node).get(resource, 0))
            if free < counted(resource, needed):
                found[resource] = counted(resource, needed) - free
        return found

    def _with(self, resource: str, needed: int) -> NodeSet:
        ranking = self._ranked.get(resource)
        if ranking is None:
            ranking = self._ranked[resource] = self._rank(resource)
        shortfalls, prefixes = ranking
        return prefixes[bisect_right(shortfalls, -needed)]

    def _rank(self, resource: str) -> tuple[list[int], list[NodeSet]]:
        """Negated free amounts, ascending, and the set of the first k nodes for each k.

        Free is a difference of two amounts, each rounded up in the resource's own unit.
        """
        used, scale = self._used, 1 if resource == "cpu" else 1000
        free = [
            0 if offer is None else (offer - counted(resource, used(node).get(resource, 0))) * scale
            for node, offer in zip(self._fleet, self._fleet.offers(resource), strict=True)
        ]
        ranked = sorted(range(len(free)), key=free.__getitem__, reverse=True)
        singles = list(self._fleet.singles.values())
        prefixes = [0]
        for at in ranked:
            prefixes.append(prefixes[-1] | singles[at])
        return [-free[at] for at in ranked], prefixes


Check = tuple[str, Callable[[NodeSet], str], NodeSet]
"""A code, words for the nodes that the check rules out, and these nodes."""


class Neighbours(NamedTuple):
    """Where the pods of one selector live."""

    per_node: dict[str, int]
    """Node name to number of such pods."""
    nodes: NodeSet


class Fit:
    """The judge of one snapshot; remembers its answers for all pods that ask alike."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._fleet = snapshot.fleet
        self._single = snapshot.fleet.singles
        self._room = Room(snapshot.fleet, snapshot.requested)
        self._templates_matching = snapshot.population.templates_matching
        self._active_of = snapshot.active_of
        self._pod_named = snapshot.pod
        self._allowed: dict[tuple[Demand, str], NodeSet] = {}
        self._neighbours: dict[tuple[Selector, tuple[str, ...]], Neighbours] = {}

    def elsewhere(self, pod: Pod, among: NodeSet) -> NodeSet:
        """Nodes of the set that would take the pod, its own left out."""
        spec = pod.template.spec
        nodes = self.allowed(spec.demand, pod.node) & self._room.enough_for(spec.demand)
        nodes &= among & ~self._single.get(pod.node, 0)
        return self._without_conflicts(pod, nodes) if spec.anti_affinity else nodes

    def open_to(self, template: Template) -> NodeSet:
        """Nodes that would take any pod of the template; none if it matters where it is."""
        demand = template.spec.demand
        if demand.pinned:
            return 0
        nodes = self.allowed(demand, "") & self._room.enough_for(demand)
        for term in template.spec.anti_affinity:
            if term.selector is None:
                return 0
            # For one of them a node may be free of conflict because it is the only one there.
            near = self._near(term.selector, term.namespaces or (template.namespace,))
            nodes &= ~(near.nodes & self._fleet.having(term.topology_key))
        return nodes

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

    def ruled_out(self, pod: Pod, among: NodeSet) -> list[NodeRejection]:
        """Why nodes of the set would not take the pod, each under the first check that says so."""
        left = among & ~self._fleet.only(pod.node)
        rejections: list[NodeRejection] = []
        for code, says, nodes in self._checks(pod):
            if out := left & nodes:
                rejections.append(NodeRejection(code, says(out), out))
                left &= ~out
        return rejections

    def _checks(self, pod: Pod) -> Iterator[Check]:
        """Checks in the order they are told, with the nodes that each of them rules out."""
        fleet, demand = self._fleet, pod.spec.demand
        yield "cordoned", _plainly("cordoned"), ~fleet.schedulable
        yield "node-affinity", _plainly("node affinity"), ~fleet.welcoming(demand, pod.node)
        for taint, nodes in fleet.keeping_away(demand.tolerations):
            yield "taint", _plainly(f"taint {taint}"), nodes
        for term in pod.spec.anti_affinity:
            if term.selector is None:
                yield "anti-affinity", _plainly("anti-affinity that cannot be read"), fleet.everyone
            else:
                told = partial(self._kept_away_from, pod, term, term.selector)
                yield "anti-affinity", told, self._conflicts(pod, term, term.selector)
        for resource, nodes in self._room.with_enough(demand):
            yield "room", _plainly(resource), ~nodes

    def lacking(self, pod: Pod, node: str) -> dict[str, int]:
        """What the node has too little of for the pod, each in the resource's own unit."""
        return self._room.lacking(pod.spec.demand, node)

    def _kept_away_from(self, pod: Pod, term: PodTerm, selector: Selector, nodes: NodeSet) -> str:
        """Names a pod on these nodes that it must not be with."""
        near = sorted(
            other.key
            for namespace in dict.fromkeys(term.namespaces or (pod.namespace,))
            for template in self._templates_matching(namespace, selector)
            for other in self._active_of(template)
            if other.name != pod.name and self._fleet.only(other.node) & nodes
        )
        others = f" and {len(near) - 1} more" if len(near) > 1 else ""
        return f"anti-affinity with {near[0]}{others}" if near else "anti-affinity"

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


def _plainly(words: str) -> Callable[[NodeSet], str]:
    """The same words whichever nodes are ruled out."""
    return lambda nodes: words
