"""On which node each pod is once the plan so far is carried out, and counts of pods over nodes.

A count is made when it is first asked for and updated with every move from then on: a pod that
moves is counted on the node where its replacement will likely be placed.

    PodsPerNode       pods that a selector selects    node -> count
      └── PodsPerDomain   per value of one label      value -> count, and count -> nodes

Where each node is a domain of its own there are thousands of them, so nodes are kept by the count
of their domain: "all domains with at most two" is an OR of three bitmaps.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property

from resettle.model.node_index import NodeIndex, NodeSet
from resettle.model.pod import Pod, Template
from resettle.model.pod_index import PodIndex
from resettle.model.selectors import Selector


class PodsPerNode:
    """Number of pods on each node, for the templates that `includes` accepts."""

    def __init__(
        self,
        includes: Callable[[Template], bool],
        nodes: Iterable[str],
        node_index: NodeIndex,
        staying_only: bool = False,
    ) -> None:
        self.includes = includes
        self.staying_only = staying_only
        """Whether terminating pods and pods of earlier moves are left out."""
        self.per_node: dict[str, int] = {}
        for node in nodes:
            self.per_node[node] = self.per_node.get(node, 0) + 1
        self._node_index = node_index
        self._per_domain: dict[tuple[str, NodeSet], PodsPerDomain] = {}

    def per_domain(self, topology_key: str, among: NodeSet | None = None) -> PodsPerDomain:
        """The counts over the domains of a label, on these nodes only or on all."""
        nodes = self._node_index.all_nodes if among is None else among
        domains = self._per_domain.get((topology_key, nodes))
        if domains is None:
            domains = self._per_domain[topology_key, nodes] = PodsPerDomain(
                self._node_index, topology_key, nodes, self.per_node
            )
        return domains

    def by_count(self, nodes: NodeSet, without: str) -> Iterator[tuple[int, NodeSet]]:
        """The nodes grouped by their count, after one pod has left the node `without`."""
        left = self._node_index.only(without) & nodes
        if left:
            yield self.per_node.get(without, 0) - 1, left
        for count, there in self._by_count.items():
            if here := nodes & there & ~left:
                yield count, here

    @cached_property
    def _by_count(self) -> dict[int, NodeSet]:
        """The nodes for each count, those with no pod included."""
        by_count: dict[int, NodeSet] = {0: self._node_index.all_nodes}
        for node, count in self.per_node.items():
            single = self._node_index.only(node)
            by_count[0] &= ~single
            by_count[count] = by_count.get(count, 0) | single
        return by_count

    def move_one(self, source: str, target: str) -> None:
        """Count one pod on `target` instead of `source`."""
        by_count = self.__dict__.get("_by_count")
        for node, by in ((source, -1), (target, 1)):
            before = self.per_node.get(node, 0)
            self.per_node[node] = before + by
            if by_count is not None:
                single = self._node_index.only(node)
                by_count[before] = by_count.get(before, 0) & ~single
                by_count[before + by] = by_count.get(before + by, 0) | single
            for domains in self._per_domain.values():
                domains.add(node, by)


class PodsPerDomain:
    """Number of pods in each domain; domains without a node of `among` are left out."""

    def __init__(
        self, node_index: NodeIndex, topology_key: str, among: NodeSet, per_node: dict[str, int]
    ) -> None:
        self._among = among
        self._singles = node_index.singles
        self._values = node_index.values_of(topology_key)
        self._nodes = node_index.domains(topology_key)
        self.nodes_with_label: NodeSet = node_index.with_label(topology_key)
        self.number = len(node_index.values_within(topology_key, among))
        self.counted_nodes: NodeSet = node_index.domains_within(topology_key, among)
        """Nodes of all domains that are counted."""
        self._counts: dict[str, int] = {}
        for node, count in per_node.items():
            if count and self._singles.get(node, 0) & among and node in self._values:
                value = self._values[node]
                self._counts[value] = self._counts.get(value, 0) + count
        by_count: dict[int, NodeSet] = {}
        for value, count in self._counts.items():
            by_count[count] = by_count.get(count, 0) | self._nodes[value]
        rest = self.counted_nodes
        for nodes in by_count.values():
            rest &= ~nodes
        self._nodes_by_count = {0: rest, **by_count} if rest else by_count

    def add(self, node: str, by: int) -> None:
        """Change the count of the node's domain by this number."""
        value = self._values.get(node)
        if value is None or not self._singles.get(node, 0) & self._among:
            return
        before = self._counts.get(value, 0)
        after = self._counts[value] = before + by
        nodes = self._nodes[value]
        rest = self._nodes_by_count[before] & ~nodes
        if rest:
            self._nodes_by_count[before] = rest
        else:
            del self._nodes_by_count[before]
        self._nodes_by_count[after] = self._nodes_by_count.get(after, 0) | nodes

    def count_at(self, node: str) -> int | None:
        """The count of this node's domain; None if the node is not counted."""
        value = self._values.get(node)
        if value is None or not self._singles.get(node, 0) & self._among:
            return None
        return self._counts.get(value, 0)

    def count(self, value: str) -> int:
        """The count of one domain."""
        return self._counts.get(value, 0)

    def value_at(self, node: str) -> str | None:
        """The domain of this node; None if the node is not counted."""
        return None if self.count_at(node) is None else self._values[node]

    def domain_of(self, node: str) -> NodeSet:
        """All nodes of the domain that the node is in."""
        value = self._values.get(node)
        return 0 if value is None else self._nodes[value]

    @property
    def smallest(self) -> int:
        """The count of the smallest domain."""
        return min(self._nodes_by_count, default=0)

    @property
    def largest(self) -> int:
        """The count of the largest domain."""
        return max(self._nodes_by_count, default=0)

    def nodes_with_at_most(self, count: int) -> NodeSet:
        """Nodes whose domain has at most this many pods."""
        chosen = 0
        for count_here, nodes in self._nodes_by_count.items():
            if count_here <= count:
                chosen |= nodes
        return chosen

    def nodes_with_exactly(self, count: int) -> NodeSet:
        """Nodes whose domain has exactly this many pods."""
        return self._nodes_by_count.get(count, 0)

    @property
    def distinct_counts(self) -> list[int]:
        """The counts that occur, largest first."""
        return sorted(self._nodes_by_count, reverse=True)

    def nodes_with_any(self) -> NodeSet:
        """Nodes whose domain has at least one pod."""
        chosen = 0
        for count_here, nodes in self._nodes_by_count.items():
            if count_here > 0:
                chosen |= nodes
        return chosen

    def nodes_with_any_other(self, node: str) -> NodeSet:
        """Nodes whose domain has at least one pod besides one on this node."""
        chosen = self.nodes_with_any()
        return chosen & ~self.domain_of(node) if self.count_at(node) == 1 else chosen


class PodLocations:
    """The node of each pod: its own, or the one that the plan moves it to."""

    def __init__(
        self, pod_index: PodIndex, node_index: NodeIndex, moving: frozenset[str] = frozenset()
    ) -> None:
        self.pod_index = pod_index
        self.node_index = node_index
        self._moving = moving
        self._moved: dict[Pod, str] = {}
        self._known: dict[Hashable, PodsPerNode] = {}
        self._by_namespace: dict[str, list[PodsPerNode]] = {}
        self._including: dict[Template, tuple[int, list[PodsPerNode]]] = {}

    def is_staying(self, pod: Pod) -> bool:
        """Whether the pod is neither terminating nor being moved by an earlier plan."""
        return not pod.terminating and pod.uid not in self._moving

    def current_node(self, pod: Pod) -> str:
        """The node that the pod is on, or its replacement will be on."""
        return self._moved.get(pod) or pod.node

    def is_moved(self, pod: Pod) -> bool:
        """Whether the plan moves the pod."""
        return pod in self._moved

    def move(self, pod: Pod, target: str, *, back: bool = False) -> None:
        """Count the pod on its new node, or back on its own."""
        source = self.current_node(pod)
        if back:
            del self._moved[pod]
        else:
            self._moved[pod] = target
        for counts in self._counts_including(pod.template):
            if not counts.staying_only or self.is_staying(pod):
                counts.move_one(source, target)

    def pods_per_node(
        self,
        key: Hashable,
        namespaces: Iterable[str],
        includes: Callable[[Template], bool],
        candidates: Iterable[Template],
        *,
        staying_only: bool = False,
    ) -> PodsPerNode:
        """The count of pods that `includes` accepts; `candidates` has all their templates."""
        counts = self._known.get(key)
        if counts is None:
            nodes = self._nodes_of(filter(includes, candidates), staying_only)
            counts = self._known[key] = PodsPerNode(includes, nodes, self.node_index, staying_only)
            for namespace in namespaces:
                self._by_namespace.setdefault(namespace, []).append(counts)
        return counts

    def of_owner(self, uid: str, namespace: str) -> PodsPerNode:
        """The count of an owner's pods."""
        return self.pods_per_node(
            ("owner", uid),
            (namespace,),
            lambda template: any(owner.uid == uid for owner in template.owners),
            self.pod_index.templates_of(uid),
        )

    def selected_by(
        self, namespaces: frozenset[str], selector: Selector, *, staying_only: bool = False
    ) -> PodsPerNode:
        """The count of pods that a selector selects in some namespaces."""
        return self.pods_per_node(
            (namespaces, selector, staying_only),
            namespaces,
            lambda template: template.namespace in namespaces and selector.matches(template.labels),
            (
                template
                for namespace in sorted(namespaces)
                for template in self.pod_index.templates_matching(namespace, selector)
            ),
            staying_only=staying_only,
        )

    def _nodes_of(self, templates: Iterable[Template], staying_only: bool) -> Iterator[str]:
        moved = self._moved
        for template in templates:
            for pod in self.pod_index.active_of(template):
                if not staying_only or self.is_staying(pod):
                    yield moved.get(pod) or pod.node

    def _counts_including(self, template: Template) -> list[PodsPerNode]:
        """The counts that include pods of the template; only new ones are checked again."""
        all_counts = self._by_namespace.get(template.namespace, [])
        seen, including = self._including.get(template, (0, []))
        if seen < len(all_counts):
            including = including + [
                counts for counts in all_counts[seen:] if counts.includes(template)
            ]
            self._including[template] = (len(all_counts), including)
        return including
