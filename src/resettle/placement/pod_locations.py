"""Who lives where, once the plan so far is carried out.

Counts of pods are made when somebody asks for them and kept true from then on: a pod that moves is
counted at the node its replacement will likely land on.

Pods of one description, counted by node and by the domains of a topology, as a plan moves them.

    Tally    pods that some selector selects     node -> count
      └── Domains   the same over one label      value -> count, and for each count its nodes

Where each node is a domain of its own there are thousands of them, so nodes are kept by the count
of their domain: "all domains with at most two" is an OR of three bitmaps.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property

from resettle.model.node_index import Fleet, NodeSet
from resettle.model.pod import Pod, Template
from resettle.model.pod_index import Population
from resettle.model.selectors import Selector


class Tally:
    """Pods of the templates that `counts` admits, by node."""

    def __init__(
        self,
        counts: Callable[[Template], bool],
        places: Iterable[str],
        fleet: Fleet,
        staying_only: bool = False,
    ) -> None:
        self.counts = counts
        self.staying_only = staying_only
        """Whether pods on their way out are left out of it."""
        self.per_node: dict[str, int] = {}
        for node in places:
            self.per_node[node] = self.per_node.get(node, 0) + 1
        self._fleet = fleet
        self._views: dict[tuple[str, NodeSet], Domains] = {}

    def over(self, topology_key: str, among: NodeSet | None = None) -> Domains:
        """The count over the domains of a label, on these nodes only or on all."""
        nodes = self._fleet.everyone if among is None else among
        view = self._views.get((topology_key, nodes))
        if view is None:
            view = self._views[topology_key, nodes] = Domains(
                self._fleet, topology_key, nodes, self.per_node
            )
        return view

    def groups(self, nodes: NodeSet, without: str) -> Iterator[tuple[int, NodeSet]]:
        """The nodes by how many such pods each has, once one has left a node."""
        left = self._fleet.only(without) & nodes
        if left:
            yield self.per_node.get(without, 0) - 1, left
        for count, there in self._by_count.items():
            if here := nodes & there & ~left:
                yield count, here

    @cached_property
    def _by_count(self) -> dict[int, NodeSet]:
        """The nodes that have just so many, those with none included."""
        by_count: dict[int, NodeSet] = {0: self._fleet.everyone}
        for node, count in self.per_node.items():
            single = self._fleet.only(node)
            by_count[0] &= ~single
            by_count[count] = by_count.get(count, 0) | single
        return by_count

    def shift(self, source: str, target: str) -> None:
        """One such pod is moved from a node to another."""
        by_count = self.__dict__.get("_by_count")
        for node, by in ((source, -1), (target, 1)):
            before = self.per_node.get(node, 0)
            self.per_node[node] = before + by
            if by_count is not None:
                single = self._fleet.only(node)
                by_count[before] = by_count.get(before, 0) & ~single
                by_count[before + by] = by_count.get(before + by, 0) | single
            for view in self._views.values():
                view.add(node, by)


class Domains:
    """Counts by domain; a domain is counted if one of the nodes that matter is in it."""

    def __init__(
        self, fleet: Fleet, topology_key: str, among: NodeSet, per_node: dict[str, int]
    ) -> None:
        self._among = among
        self._singles = fleet.singles
        self._values = fleet.values_of(topology_key)
        self._nodes = fleet.domains(topology_key)
        self.having: NodeSet = fleet.having(topology_key)
        self.number = len(fleet.values_within(topology_key, among))
        self.counted: NodeSet = fleet.domains_within(topology_key, among)
        """Nodes of all domains that are counted."""
        self._counts: dict[str, int] = {}
        for node, count in per_node.items():
            if count and self._singles.get(node, 0) & among and node in self._values:
                value = self._values[node]
                self._counts[value] = self._counts.get(value, 0) + count
        by_count: dict[int, NodeSet] = {}
        for value, count in self._counts.items():
            by_count[count] = by_count.get(count, 0) | self._nodes[value]
        rest = self.counted
        for nodes in by_count.values():
            rest &= ~nodes
        self._levels = {0: rest, **by_count} if rest else by_count

    def add(self, node: str, by: int) -> None:
        """Counts pods that come to a node, or leave it."""
        value = self._values.get(node)
        if value is None or not self._singles.get(node, 0) & self._among:
            return
        before = self._counts.get(value, 0)
        after = self._counts[value] = before + by
        nodes = self._nodes[value]
        rest = self._levels[before] & ~nodes
        if rest:
            self._levels[before] = rest
        else:
            del self._levels[before]
        self._levels[after] = self._levels.get(after, 0) | nodes

    def counted_at(self, node: str) -> int | None:
        """How many are in the domain of this node; None where it does not matter."""
        value = self._values.get(node)
        if value is None or not self._singles.get(node, 0) & self._among:
            return None
        return self._counts.get(value, 0)

    def count(self, value: str) -> int:
        """How many are in one domain."""
        return self._counts.get(value, 0)

    def value_at(self, node: str) -> str | None:
        """The domain of this node; None where it does not matter."""
        return None if self.counted_at(node) is None else self._values[node]

    def around(self, node: str) -> NodeSet:
        """All nodes of the domain that the node is in."""
        value = self._values.get(node)
        return 0 if value is None else self._nodes[value]

    @property
    def least(self) -> int:
        """The count of the smallest domain."""
        return min(self._levels, default=0)

    @property
    def most(self) -> int:
        """The count of the largest."""
        return max(self._levels, default=0)

    def up_to(self, count: int) -> NodeSet:
        """Nodes whose domain has at most so many."""
        chosen = 0
        for level, nodes in self._levels.items():
            if level <= count:
                chosen |= nodes
        return chosen

    def exactly(self, count: int) -> NodeSet:
        """Nodes whose domain has just so many."""
        return self._levels.get(count, 0)

    @property
    def levels(self) -> list[int]:
        """The counts that occur, largest first."""
        return sorted(self._levels, reverse=True)

    def occupied(self) -> NodeSet:
        """Nodes whose domain has at least one."""
        chosen = 0
        for level, nodes in self._levels.items():
            if level > 0:
                chosen |= nodes
        return chosen

    def occupied_without(self, node: str) -> NodeSet:
        """The same once one pod on this node is gone."""
        chosen = self.occupied()
        return chosen & ~self.around(node) if self.counted_at(node) == 1 else chosen


class Residents:
    """The pods of a population at their nodes of today, but for those that have been moved."""

    def __init__(
        self, population: Population, fleet: Fleet, moving: frozenset[str] = frozenset()
    ) -> None:
        self.population = population
        self.fleet = fleet
        self._moving = moving
        self._moved: dict[Pod, str] = {}
        self._known: dict[Hashable, Tally] = {}
        self._tallies: dict[str, list[Tally]] = {}
        self._about: dict[Template, tuple[int, list[Tally]]] = {}

    def staying(self, pod: Pod) -> bool:
        """Whether nobody but this plan has sent the pod away."""
        return not pod.terminating and pod.uid not in self._moving

    def home(self, pod: Pod) -> str:
        """The node a pod is on, or will be."""
        return self._moved.get(pod) or pod.node

    def moved(self, pod: Pod) -> bool:
        """Whether the pod has a replacement by now."""
        return pod in self._moved

    def move(self, pod: Pod, target: str, *, back: bool = False) -> None:
        """Counts a pod's replacement on its new node, or the pod back on its own."""
        source = self.home(pod)
        if back:
            del self._moved[pod]
        else:
            self._moved[pod] = target
        for tally in self._tallies_about(pod.template):
            if not tally.staying_only or self.staying(pod):
                tally.shift(source, target)

    def tally(
        self,
        key: Hashable,
        spaces: Iterable[str],
        counts: Callable[[Template], bool],
        candidates: Iterable[Template],
        *,
        staying_only: bool = False,
    ) -> Tally:
        """The count of pods that `counts` admits; `candidates` holds all their templates."""
        tally = self._known.get(key)
        if tally is None:
            places = self._places(filter(counts, candidates), staying_only)
            tally = self._known[key] = Tally(counts, places, self.fleet, staying_only)
            for space in spaces:
                self._tallies.setdefault(space, []).append(tally)
        return tally

    def of_owner(self, uid: str, namespace: str) -> Tally:
        """The count of pods that an owner made."""
        return self.tally(
            ("owner", uid),
            (namespace,),
            lambda it: any(owner.uid == uid for owner in it.owners),
            self.population.templates_of(uid),
        )

    def selected(
        self, spaces: frozenset[str], selector: Selector, *, staying_only: bool = False
    ) -> Tally:
        """The count of pods that a selector selects in some namespaces."""
        return self.tally(
            (spaces, selector, staying_only),
            spaces,
            lambda it: it.namespace in spaces and selector.matches(it.labels),
            (
                template
                for space in sorted(spaces)
                for template in self.population.templates_matching(space, selector)
            ),
            staying_only=staying_only,
        )

    def _places(self, templates: Iterable[Template], staying_only: bool) -> Iterator[str]:
        moved = self._moved
        for template in templates:
            for pod in self.population.active_of(template):
                if not staying_only or self.staying(pod):
                    yield moved.get(pod) or pod.node

    def _tallies_about(self, template: Template) -> list[Tally]:
        """Counts that such a pod is part of; those made since last time are looked at now."""
        tallies = self._tallies.get(template.namespace, [])
        seen, about = self._about.get(template, (0, []))
        if seen < len(tallies):
            about = about + [tally for tally in tallies[seen:] if tally.counts(template)]
            self._about[template] = (len(tallies), about)
        return about
