"""All nodes of a snapshot, with sets of them as bitmaps.

A set of nodes is a whole number: bit i stands for `fleet.nodes[i]`. Which nodes a pod may run on is
an AND of a few such numbers, worked out once for all pods that ask alike, never node by node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from resettle.model.changes import Change
from resettle.model.constraints import OWN_NODE, NodeTerm, Taint, Toleration, tolerated
from resettle.model.objects import Node
from resettle.model.pod import Demand
from resettle.model.resources import counted
from resettle.model.selectors import Requirement, Selector

NodeSet = int


class Fleet:
    """The nodes in a fixed order, and who they are by label, taint and name."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = tuple(nodes)
        self.position = {node.name: i for i, node in enumerate(self.nodes)}
        self.everyone: NodeSet = (1 << len(self.nodes)) - 1
        self.bits: list[NodeSet] = [1 << i for i in range(len(self.nodes))]
        self.singles = {name: self.bits[at] for name, at in self.position.items()}
        self._placements: dict[tuple[object, ...], NodeSet] = {}
        self._tolerant: dict[tuple[Toleration, ...], NodeSet] = {}
        self._annoying: dict[tuple[Toleration, ...], dict[int, NodeSet]] = {}
        self._values: dict[str, dict[str, str]] = {}
        self._offers: dict[str, list[int | None]] = {}
        self._domains_within: dict[tuple[str, NodeSet], NodeSet] = {}
        self._values_within: dict[tuple[str, NodeSet], frozenset[str]] = {}

    def after(self, change: Change[Node]) -> Fleet:
        """The fleet once some nodes have come or changed and others are gone."""
        return Fleet(change.applied(self.by_name).values())

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
        """The set of just this node; empty for a stranger."""
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
        """Nodes that do not say they are unready."""
        return self.set_of(node for node in self.nodes if node.ready)

    @cached_property
    def schedulable(self) -> NodeSet:
        """Nodes that are not cordoned."""
        return self.set_of(node for node in self.nodes if not node.unschedulable)

    @cached_property
    def _labelled(self) -> dict[str, dict[str, NodeSet]]:
        carriers: dict[str, dict[str, list[Node]]] = {}
        for node in self.nodes:
            for key, value in node.labels.items():
                carriers.setdefault(key, {}).setdefault(value, []).append(node)
        return {
            key: {value: self.set_of(nodes) for value, nodes in values.items()}
            for key, values in carriers.items()
        }

    @cached_property
    def tainted(self) -> dict[Taint, NodeSet]:
        """The nodes that carry each taint."""
        carriers: dict[Taint, list[Node]] = {}
        for node in self.nodes:
            for taint in node.taints:
                carriers.setdefault(taint, []).append(node)
        return {taint: self.set_of(nodes) for taint, nodes in carriers.items()}

    def domains(self, topology_key: str) -> dict[str, NodeSet]:
        """The nodes of each value of a label."""
        return self._labelled.get(topology_key, {})

    def offers(self, resource: str) -> list[int | None]:
        """What each node offers of a resource in its own unit; None for what it does not know.

        Every node is taken to know cpu, memory and pods, be it with nothing to offer.
        """
        offers = self._offers.get(resource)
        if offers is None:
            basic = resource in ("cpu", "memory", "pods")
            offers = self._offers[resource] = [
                counted(resource, node.allocatable.get(resource, 0))
                if basic or resource in node.allocatable
                else None
                for node in self.nodes
            ]
        return offers

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
        found = self._values_within.get((key, chosen))
        if found is None:
            domains = self.domains(key)
            if chosen.bit_count() < len(domains):
                values = self.values_of(key)
                found = frozenset(
                    values[node.name] for node in self.members(chosen & self.having(key))
                )
            else:
                found = frozenset(value for value, nodes in domains.items() if nodes & chosen)
            self._values_within[key, chosen] = found
        return found

    def domains_within(self, key: str, chosen: NodeSet) -> NodeSet:
        """All nodes of the domains that some node of the set is in."""
        found = self._domains_within.get((key, chosen))
        if found is None:
            domains = self.domains(key)
            found = self._domains_within[key, chosen] = (
                self.having(key)
                if chosen & self.having(key) == self.having(key)
                else _union(domains[value] for value in self.values_within(key, chosen))
            )
        return found

    @cached_property
    def _having(self) -> dict[str, NodeSet]:
        return {key: _union(values.values()) for key, values in self._labelled.items()}

    def having(self, key: str) -> NodeSet:
        """Nodes that carry the label, whatever its value."""
        return self._having.get(key, 0)

    def meeting(self, wanted: Requirement) -> NodeSet:
        """Nodes whose labels meet one condition."""
        values = self._labelled.get(wanted.key, {})
        match wanted.operator:
            case "In":
                return _union(values.get(value, 0) for value in wanted.values)
            case "NotIn":
                return self.everyone & ~_union(values.get(value, 0) for value in wanted.values)
            case "Exists":
                return self.having(wanted.key)
            case "DoesNotExist":
                return self.everyone & ~self.having(wanted.key)
            case "Gt" | "Lt":
                return _union(who for value, who in values.items() if wanted.compares(value))
        return 0

    def selected(self, selector: Selector) -> NodeSet:
        """Nodes that a label selector selects."""
        if selector.never:
            return 0
        chosen = self.everyone
        for wanted in selector.requirements:
            chosen &= self.meeting(wanted)
        return chosen

    def matching(self, term: NodeTerm, own_node: str) -> NodeSet:
        """Nodes that one term of a node affinity matches; an empty or unreadable one, none."""
        if term.empty or not term.valid:
            return 0
        chosen = self.everyone
        for wanted in term.expressions:
            chosen &= self.meeting(wanted)
        for field in term.fields:
            name = own_node if field.values[0] == OWN_NODE else field.values[0]
            named = self.only(name)
            chosen &= named if field.operator == "In" else ~named
        return chosen

    def welcoming(self, demand: Demand, own_node: str) -> NodeSet:
        """Nodes that satisfy the node selector and the required node affinity."""
        return self._placed(demand, own_node, unreadable_matches=False)

    def possibly_welcoming(self, demand: Demand, own_node: str) -> NodeSet:
        """The same, where an affinity that cannot be read counts as satisfied."""
        return self._placed(demand, own_node, unreadable_matches=True)

    def _placed(self, demand: Demand, own_node: str, *, unreadable_matches: bool) -> NodeSet:
        terms = demand.required_terms
        if terms is None and not demand.node_selector:
            return self.everyone
        key = (demand.node_selector, terms, demand.pinned and own_node, unreadable_matches)
        chosen = self._placements.get(key)
        if chosen is None:
            chosen = self.everyone
            for label, value in demand.node_selector or ():
                chosen &= self._labelled.get(label, {}).get(value, 0)
            lenient = unreadable_matches and any(not term.valid for term in terms or ())
            if terms is not None and not lenient:
                chosen &= _union(self.matching(term, own_node) for term in terms)
            self._placements[key] = chosen
        return chosen

    def tolerated_by(self, tolerations: tuple[Toleration, ...]) -> NodeSet:
        """Nodes all of whose hard taints these tolerations consent to."""
        chosen = self._tolerant.get(tolerations)
        if chosen is None:
            kept_away = _union(nodes for _, nodes in self.keeping_away(tolerations))
            chosen = self._tolerant[tolerations] = self.everyone & ~kept_away
        return chosen

    def keeping_away(self, tolerations: tuple[Toleration, ...]) -> Iterator[tuple[Taint, NodeSet]]:
        """Hard taints that these tolerations do not consent to, each with its nodes."""
        for taint, nodes in self.tainted.items():
            if taint.hard and not tolerated(tolerations, taint):
                yield taint, nodes

    def by_annoyance(self, tolerations: tuple[Toleration, ...]) -> dict[int, NodeSet]:
        """All nodes by how many soft taints they have that these tolerations do not consent to."""
        groups = self._annoying.get(tolerations)
        if groups is None:
            groups = {0: self.everyone}
            for taint, nodes in self.tainted.items():
                if not taint.hard and not tolerated(tolerations, taint):
                    groups = parted(groups, nodes, 1)
            self._annoying[tolerations] = groups
        return groups


def parted(groups: dict[int, NodeSet], chosen: NodeSet, more: int) -> dict[int, NodeSet]:
    """Groups of nodes by what they count for, once some nodes count for so much more."""
    found: dict[int, NodeSet] = {}
    for count, group in groups.items():
        for total, part in ((count + more, group & chosen), (count, group & ~chosen)):
            if part:
                found[total] = found.get(total, 0) | part
    return found


def _union(sets: Iterable[NodeSet]) -> NodeSet:
    chosen = 0
    for nodes in sets:
        chosen |= nodes
    return chosen
