"""Which nodes would take a pod by the check of kubernetes-sigs/descheduler (`NodeFit`).

It checks cordon, node selector and affinity, hard taints, the pod's own anti-affinity against the
pods of each node, and free resources. Nodes are never checked one by one: for each resource they
are sorted by their free amount, so the nodes with enough for a request are a prefix of that list,
and the bitmaps of all prefixes are kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from resettle.model.constraints import PodTerm
from resettle.model.node_index import NodeIndex, NodeSet
from resettle.model.objects import Node
from resettle.model.pod import Demand, Pod, Template
from resettle.model.resources import NANO, in_resource_unit, milli
from resettle.model.selectors import Selector
from resettle.model.snapshot import Snapshot
from resettle.placement.diagnosis import NodeRejection


class UpstreamCapacity:
    """The free amount of each resource on each node, in thousandths."""

    def __init__(self, node_index: NodeIndex, used: Callable[[Node], Mapping[str, int]]) -> None:
        self._node_index = node_index
        self._used = used
        self._ranked: dict[str, tuple[list[int], list[NodeSet]]] = {}
        self._enough: dict[Demand, NodeSet] = {}

    def enough_for(self, demand: Demand) -> NodeSet:
        """Nodes with enough of all that is requested, and of pods for one more."""
        chosen = self._enough.get(demand)
        if chosen is None:
            chosen = self._node_index.all_nodes
            for _, nodes in self.with_enough(demand):
                chosen &= nodes
            self._enough[demand] = chosen
        return chosen

    def with_enough(self, demand: Demand) -> Iterator[tuple[str, NodeSet]]:
        """For each requested resource the nodes with enough of it."""
        yield "pods", self._nodes_with("pods", max(1, milli(demand.requests.get("pods", 0))))
        for name, amount in demand.requests.items():
            yield name, self._nodes_with(name, milli(amount))

    def lacking(self, demand: Demand, name: str) -> dict[str, int]:
        """How much of each resource the node is short of, in the resource's own unit."""
        at = self._node_index.position[name]
        node = self._node_index.nodes[at]
        lacking: dict[str, int] = {}
        for resource, needed in ({"pods": NANO} | demand.requests).items():
            offer = self._node_index.allocatable_of(resource)[at] or 0
            free = offer - in_resource_unit(resource, self._used(node).get(resource, 0))
            if free < in_resource_unit(resource, needed):
                lacking[resource] = in_resource_unit(resource, needed) - free
        return lacking

    def _nodes_with(self, resource: str, needed: int) -> NodeSet:
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
            0
            if offer is None
            else (offer - in_resource_unit(resource, used(node).get(resource, 0))) * scale
            for node, offer in zip(
                self._node_index, self._node_index.allocatable_of(resource), strict=True
            )
        ]
        ranked = sorted(range(len(free)), key=free.__getitem__, reverse=True)
        singles = list(self._node_index.singles.values())
        prefixes = [0]
        for at in ranked:
            prefixes.append(prefixes[-1] | singles[at])
        return [-free[at] for at in ranked], prefixes


Check = tuple[str, Callable[[NodeSet], str], NodeSet]
"""A code, words for the nodes that the check rules out, and these nodes."""


class MatchingPods(NamedTuple):
    """The nodes that the pods of one selector are on."""

    per_node: dict[str, int]
    """Node name to number of such pods."""
    nodes: NodeSet


class NodeFit:
    """Feasible nodes by upstream's rules for one snapshot; equal demands are checked once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._node_index = snapshot.node_index
        self._single = snapshot.node_index.singles
        self._capacity = UpstreamCapacity(snapshot.node_index, snapshot.requests_on)
        self._templates_matching = snapshot.pod_index.templates_matching
        self._active_of = snapshot.active_of
        self._pod_named = snapshot.pod
        self._open: dict[tuple[Demand, str], NodeSet] = {}
        self._matching_pods: dict[tuple[Selector, tuple[str, ...]], MatchingPods] = {}

    def feasible_elsewhere(self, pod: Pod, among: NodeSet) -> NodeSet:
        """Nodes of the set that would take the pod, without its own node."""
        spec = pod.template.spec
        nodes = self.open_to(spec.demand, pod.node) & self._capacity.enough_for(spec.demand)
        nodes &= among & ~self._single.get(pod.node, 0)
        return self._without_conflicts(pod, nodes) if spec.anti_affinity else nodes

    def feasible_for_template(self, template: Template) -> NodeSet:
        """Nodes that would take any pod of the template; none if that depends on its node."""
        demand = template.spec.demand
        if demand.pinned:
            return 0
        nodes = self.open_to(demand, "") & self._capacity.enough_for(demand)
        for term in template.spec.anti_affinity:
            if term.selector is None:
                return 0
            # A node may suit the one pod that is alone there, but not the others.
            near = self._pods_matching(term.selector, term.namespaces or (template.namespace,))
            nodes &= ~(near.nodes & self._node_index.with_label(term.topology_key))
        return nodes

    def feasible_anywhere(self, pod: Pod, among: NodeSet) -> NodeSet:
        """Nodes of the set that would take the pod; its own node always has enough resources."""
        demand = pod.template.spec.demand
        with_room = self._capacity.enough_for(demand) | self._node_index.only(pod.node)
        return self._without_conflicts(pod, among & with_room & self.open_to(demand, pod.node))

    def open_to(self, demand: Demand, own_node: str) -> NodeSet:
        """Nodes that cordon, node selector, node affinity and taints leave open."""
        key = (demand, own_node if demand.pinned else "")
        chosen = self._open.get(key)
        if chosen is None:
            node_index = self._node_index
            chosen = self._open[key] = (
                node_index.schedulable
                & node_index.matching_node_affinity(demand, own_node)
                & node_index.tolerated_by(demand.tolerations)
            )
        return chosen

    def ruled_out(self, pod: Pod, among: NodeSet) -> list[NodeRejection]:
        """For each check the nodes of the set that it is the first to rule out."""
        left = among & ~self._node_index.only(pod.node)
        rejections: list[NodeRejection] = []
        for code, says, nodes in self._checks(pod):
            if out := left & nodes:
                rejections.append(NodeRejection(code, says(out), out))
                left &= ~out
        return rejections

    def _checks(self, pod: Pod) -> Iterator[Check]:
        """The checks in the order of the report, each with the nodes that it rules out."""
        node_index, demand = self._node_index, pod.spec.demand
        yield "cordoned", _constant_text("cordoned"), ~node_index.schedulable
        yield (
            "node-affinity",
            _constant_text("node affinity"),
            ~node_index.matching_node_affinity(demand, pod.node),
        )
        for taint, nodes in node_index.untolerated_taints(demand.tolerations):
            yield "taint", _constant_text(f"taint {taint}"), nodes
        for term in pod.spec.anti_affinity:
            if term.selector is None:
                yield (
                    "anti-affinity",
                    _constant_text("anti-affinity that cannot be read"),
                    node_index.all_nodes,
                )
            else:
                text = partial(self._describe_conflict, pod, term, term.selector)
                yield "anti-affinity", text, self._conflicts(pod, term, term.selector)
        for resource, nodes in self._capacity.with_enough(demand):
            yield "room", _constant_text(resource), ~nodes

    def lacking(self, pod: Pod, node: str) -> dict[str, int]:
        """What the node has too little of for the pod, each in the resource's own unit."""
        return self._capacity.lacking(pod.spec.demand, node)

    def _describe_conflict(
        self, pod: Pod, term: PodTerm, selector: Selector, nodes: NodeSet
    ) -> str:
        """A sentence part that names a conflicting pod on these nodes."""
        near = sorted(
            other.key
            for namespace in dict.fromkeys(term.namespaces or (pod.namespace,))
            for template in self._templates_matching(namespace, selector)
            for other in self._active_of(template)
            if other.name != pod.name and self._node_index.only(other.node) & nodes
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
        near = self._pods_matching(selector, namespaces)
        nodes = near.nodes
        # Upstream compares pods by name only: a pod of the same name is never a conflict.
        same_name: dict[str, int] = {}
        for namespace in dict.fromkeys(namespaces):
            other = self._pod_named(namespace, pod.name)
            if other is not None and not other.finished and selector.matches(other.labels):
                same_name[other.node] = same_name.get(other.node, 0) + 1
        for name, count in same_name.items():
            if near.per_node.get(name) == count:
                nodes &= ~self._node_index.only(name)
        return nodes & self._node_index.with_label(term.topology_key)

    def _pods_matching(self, selector: Selector, namespaces: tuple[str, ...]) -> MatchingPods:
        key = (selector, namespaces)
        near = self._matching_pods.get(key)
        if near is None:
            count: dict[str, int] = {}
            for namespace in dict.fromkeys(namespaces):
                for template in self._templates_matching(namespace, selector):
                    for pod in self._active_of(template):
                        count[pod.node] = count.get(pod.node, 0) + 1
            known = (node for name in count if (node := self._node_index.get(name)))
            near = self._matching_pods[key] = MatchingPods(count, self._node_index.set_of(known))
        return near


def _constant_text(words: str) -> Callable[[NodeSet], str]:
    """A text that does not depend on the nodes that are ruled out."""
    return lambda nodes: words
