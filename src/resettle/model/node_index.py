"""All nodes of a snapshot, with sets of them as bitmaps.

A set of nodes is a whole number: bit i stands for `node_index.nodes[i]`. The nodes that a
pod may run on are an AND of a few such numbers, computed once for all pods with equal demands,
never node by node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from resettle.model.changes import Change
from resettle.model.constraints import OWN_NODE, NodeTerm, Taint, Toleration, is_tolerated
from resettle.model.objects import Node
from resettle.model.pod import Demand
from resettle.model.resources import in_resource_unit
from resettle.model.selectors import Requirement, Selector

NodeSet = int


class NodeIndex:
    """The nodes in a fixed order, with sets of them by label, taint and name."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = tuple(nodes)
        self.position = {node.name: i for i, node in enumerate(self.nodes)}
        self.all_nodes: NodeSet = (1 << len(self.nodes)) - 1
        self.bits: list[NodeSet] = [1 << i for i in range(len(self.nodes))]
        self.singles = {name: self.bits[at] for name, at in self.position.items()}
        self._by_node_affinity: dict[tuple[object, ...], NodeSet] = {}
        self._tolerated_by: dict[tuple[Toleration, ...], NodeSet] = {}
        self._by_soft_taints: dict[tuple[Toleration, ...], dict[int, NodeSet]] = {}
        self._values: dict[str, dict[str, str]] = {}
        self._allocatable: dict[str, list[int | None]] = {}
        self._domains_within: dict[tuple[str, NodeSet], NodeSet] = {}
        self._values_within: dict[tuple[str, NodeSet], frozenset[str]] = {}

    def after(self, change: Change[Node]) -> NodeIndex:
        """The index with some nodes added or replaced and others removed."""
        return NodeIndex(change.apply_to(self.by_name).values())

    @property
    def by_name(self) -> dict[str, Node]:
        """The nodes by their names."""
        return {node.name: node for node in self.nodes}

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def get(self, name: str) -> Node | None:
        """The node of this name, if there is one."""
        at = self.position.get(name)
        return None if at is None else self.nodes[at]

    def only(self, name: str) -> NodeSet:
        """The set of just this node; empty for an unknown name."""
        return self.singles.get(name, 0)

    def set_of(self, nodes: Iterable[Node]) -> NodeSet:
        """The set of these nodes."""
        bits = bytearray(len(self.nodes) // 8 + 1)
        for node in nodes:
            at = self.position[node.name]
            bits[at >> 3] |= 1 << (at & 7)
        return int.from_bytes(bits, "little")

    def members(self, chosen: NodeSet) -> Iterator[Node]:
        """The nodes of a set, in order."""
        while chosen:
            lowest = chosen & -chosen
            yield self.nodes[lowest.bit_length() - 1]
            chosen ^= lowest

    @cached_property
    def ready(self) -> NodeSet:
        """Nodes without a Ready condition that is not true."""
        return self.set_of(node for node in self.nodes if node.ready)

    @cached_property
    def schedulable(self) -> NodeSet:
        """Nodes that are not cordoned."""
        return self.set_of(node for node in self.nodes if not node.unschedulable)

    @cached_property
    def _by_label(self) -> dict[str, dict[str, NodeSet]]:
        nodes_by: dict[str, dict[str, list[Node]]] = {}
        for node in self.nodes:
            for key, value in node.labels.items():
                nodes_by.setdefault(key, {}).setdefault(value, []).append(node)
        return {
            key: {value: self.set_of(nodes) for value, nodes in values.items()}
            for key, values in nodes_by.items()
        }

    @cached_property
    def tainted(self) -> dict[Taint, NodeSet]:
        """The nodes that carry each taint."""
        nodes_by: dict[Taint, list[Node]] = {}
        for node in self.nodes:
            for taint in node.taints:
                nodes_by.setdefault(taint, []).append(node)
        return {taint: self.set_of(nodes) for taint, nodes in nodes_by.items()}

    def domains(self, topology_key: str) -> dict[str, NodeSet]:
        """The nodes of each value of a label."""
        return self._by_label.get(topology_key, {})

    def allocatable_of(self, resource: str) -> list[int | None]:
        """The allocatable amount of each node in the resource's own unit; None if not listed.

        cpu, memory and pods count as 0 on a node that does not list them.
        """
        amounts = self._allocatable.get(resource)
        if amounts is None:
            basic = resource in ("cpu", "memory", "pods")
            amounts = self._allocatable[resource] = [
                in_resource_unit(resource, node.allocatable.get(resource, 0))
                if basic or resource in node.allocatable
                else None
                for node in self.nodes
            ]
        return amounts

    def values_of(self, key: str) -> dict[str, str]:
        """The value of a label by the name of each node that carries it."""
        values = self._values.get(key)
        if values is None:
            values = self._values[key] = {
                node.name: node.labels[key] for node in self.nodes if key in node.labels
            }
        return values

    def values_within(self, key: str, chosen: NodeSet) -> frozenset[str]:
        """The values of a label that some node of the set carries."""
        within = self._values_within.get((key, chosen))
        if within is None:
            domains = self.domains(key)
            if chosen.bit_count() < len(domains):
                values = self.values_of(key)
                within = frozenset(
                    values[node.name] for node in self.members(chosen & self.with_label(key))
                )
            else:
                within = frozenset(value for value, nodes in domains.items() if nodes & chosen)
            self._values_within[key, chosen] = within
        return within

    def domains_within(self, key: str, chosen: NodeSet) -> NodeSet:
        """All nodes of the domains that some node of the set is in."""
        nodes = self._domains_within.get((key, chosen))
        if nodes is None:
            domains = self.domains(key)
            nodes = self._domains_within[key, chosen] = (
                self.with_label(key)
                if chosen & self.with_label(key) == self.with_label(key)
                else _union(domains[value] for value in self.values_within(key, chosen))
            )
        return nodes

    @cached_property
    def _having(self) -> dict[str, NodeSet]:
        return {key: _union(values.values()) for key, values in self._by_label.items()}

    def with_label(self, key: str) -> NodeSet:
        """Nodes that carry the label, whatever its value."""
        return self._having.get(key, 0)

    def matching_requirement(self, requirement: Requirement) -> NodeSet:
        """Nodes whose labels match one requirement."""
        values = self._by_label.get(requirement.key, {})
        match requirement.operator:
            case "In":
                return _union(values.get(value, 0) for value in requirement.values)
            case "NotIn":
                return self.all_nodes & ~_union(
                    values.get(value, 0) for value in requirement.values
                )
            case "Exists":
                return self.with_label(requirement.key)
            case "DoesNotExist":
                return self.all_nodes & ~self.with_label(requirement.key)
            case "Gt" | "Lt":
                return _union(
                    nodes for value, nodes in values.items() if requirement.compares(value)
                )
        return 0

    def selected_by(self, selector: Selector) -> NodeSet:
        """Nodes that a label selector selects."""
        if selector.never:
            return 0
        chosen = self.all_nodes
        for requirement in selector.requirements:
            chosen &= self.matching_requirement(requirement)
        return chosen

    def matching_term(self, term: NodeTerm, own_node: str) -> NodeSet:
        """Nodes that one term of a node affinity matches; an empty or unreadable one, none."""
        if term.empty or not term.valid:
            return 0
        chosen = self.all_nodes
        for requirement in term.expressions:
            chosen &= self.matching_requirement(requirement)
        for field in term.fields:
            name = own_node if field.values[0] == OWN_NODE else field.values[0]
            named = self.only(name)
            chosen &= named if field.operator == "In" else ~named
        return chosen

    def matching_node_affinity(self, demand: Demand, own_node: str) -> NodeSet:
        """Nodes that satisfy the node selector and the required node affinity."""
        return self._matching_node_affinity(demand, own_node, unreadable_matches=False)

    def possibly_matching_node_affinity(self, demand: Demand, own_node: str) -> NodeSet:
        """Like `matching_node_affinity`, but an invalid affinity counts as satisfied."""
        return self._matching_node_affinity(demand, own_node, unreadable_matches=True)

    def _matching_node_affinity(
        self, demand: Demand, own_node: str, *, unreadable_matches: bool
    ) -> NodeSet:
        terms = demand.required_terms
        if terms is None and not demand.node_selector:
            return self.all_nodes
        key = (demand.node_selector, terms, demand.pinned and own_node, unreadable_matches)
        chosen = self._by_node_affinity.get(key)
        if chosen is None:
            chosen = self.all_nodes
            for label, value in demand.node_selector or ():
                chosen &= self._by_label.get(label, {}).get(value, 0)
            lenient = unreadable_matches and any(not term.valid for term in terms or ())
            if terms is not None and not lenient:
                chosen &= _union(self.matching_term(term, own_node) for term in terms)
            self._by_node_affinity[key] = chosen
        return chosen

    def tolerated_by(self, tolerations: tuple[Toleration, ...]) -> NodeSet:
        """Nodes whose hard taints are all tolerated."""
        chosen = self._tolerated_by.get(tolerations)
        if chosen is None:
            untolerated = _union(nodes for _, nodes in self.untolerated_taints(tolerations))
            chosen = self._tolerated_by[tolerations] = self.all_nodes & ~untolerated
        return chosen

    def untolerated_taints(
        self, tolerations: tuple[Toleration, ...]
    ) -> Iterator[tuple[Taint, NodeSet]]:
        """Hard taints that are not tolerated, each with its nodes."""
        for taint, nodes in self.tainted.items():
            if taint.hard and not is_tolerated(tolerations, taint):
                yield taint, nodes

    def by_soft_taints(self, tolerations: tuple[Toleration, ...]) -> dict[int, NodeSet]:
        """All nodes by their number of soft taints that are not tolerated."""
        groups = self._by_soft_taints.get(tolerations)
        if groups is None:
            groups = {0: self.all_nodes}
            for taint, nodes in self.tainted.items():
                if not taint.hard and not is_tolerated(tolerations, taint):
                    groups = add_weight(groups, nodes, 1)
            self._by_soft_taints[tolerations] = groups
        return groups


def add_weight(groups: dict[int, NodeSet], chosen: NodeSet, more: int) -> dict[int, NodeSet]:
    """Groups of nodes by weight, after `more` is added to the weight of the chosen nodes."""
    result: dict[int, NodeSet] = {}
    for count, group in groups.items():
        for total, part in ((count + more, group & chosen), (count, group & ~chosen)):
            if part:
                result[total] = result.get(total, 0) | part
    return result


def _union(sets: Iterable[NodeSet]) -> NodeSet:
    chosen = 0
    for nodes in sets:
        chosen |= nodes
    return chosen
