"""The cluster at one instant: frozen, stamped, indexed on demand.

Everything is in canonical order (nodes by name, pods by lot), so the order in which objects were
listed can never show in a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Self, TypeVar

from resettle.model.changes import Change, Changes
from resettle.model.fit import Fit
from resettle.model.fleet import Fleet, NodeSet
from resettle.model.kinds import KEYED_FIELDS
from resettle.model.node import (
    AttachLimits,
    Budget,
    Claim,
    Namespace,
    Node,
    PriorityClass,
    Volume,
)
from resettle.model.outlook import Outlook
from resettle.model.pod import FINISHED, Pod, Template
from resettle.model.population import Population, Same
from resettle.model.readings import Measured
from resettle.model.room import Room
from resettle.model.selector import EVERYTHING, Selector
from resettle.model.semantics import PARITY, Semantics

A = TypeVar("A")
P = TypeVar("P")


@dataclass(frozen=True, eq=False, kw_only=True)
class Snapshot:
    """All that a plan is drawn from."""

    fleet: Fleet
    population: Population
    taken_at: datetime
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    claims: Mapping[str, Claim] = field(default_factory=dict)
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    attach_limits: Mapping[str, AttachLimits] = field(default_factory=dict)
    others: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Objects of kinds that plugins brought themselves, by kind."""
    history: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    """What (profile, plugin) remembered of the cycle before."""
    moving: frozenset[str] = frozenset()
    """Uids of pods that are on their way already: earlier moves not yet seen to end."""
    usage: Measured = field(default_factory=dict)
    """How busy nodes and pods are, as far as somebody was asked."""
    node_selector: Selector = EVERYTHING
    semantics: Semantics = PARITY

    @classmethod
    def of(
        cls,
        *,
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        taken_at: datetime,
        others: Mapping[str, tuple[Any, ...]] | None = None,
        history: Mapping[tuple[str, str], Any] | None = None,
        moving: Iterable[str] = (),
        usage: Measured | None = None,
        **objects: Iterable[Any],
    ) -> Self:
        """A snapshot of these objects in canonical order; `objects` by name of their field."""
        by_key: dict[str, Any] = {
            name: Change(tuple(objects.pop(name, ()))).applied({}) for name in KEYED_FIELDS
        }
        if objects:
            raise TypeError(f"a snapshot has no objects called {', '.join(sorted(objects))}")
        return cls(
            fleet=Fleet(sorted(nodes, key=lambda node: node.name)),
            population=Population.of(pods),
            taken_at=taken_at,
            others=others or {},
            history=history or {},
            moving=frozenset(moving),
            usage=usage or {},
            **by_key,
        )

    def next(self, changes: Changes) -> Snapshot:
        """The cluster a little later; whatever did not change is shared with this snapshot."""
        by_key: dict[str, Any] = {
            name: getattr(changes, name).applied(getattr(self, name)) for name in KEYED_FIELDS
        }
        return replace(
            self,
            taken_at=changes.at,
            fleet=self.fleet.after(changes.nodes) if changes.nodes else self.fleet,
            population=self.population.after(changes.pods) if changes.pods else self.population,
            others={**self.others, **changes.others} if changes.others else self.others,
            history=self.history if changes.history is None else changes.history,
            moving=self.moving if changes.moving is None else changes.moving,
            usage=self.usage if changes.usage is None else changes.usage,
            **by_key,
        )

    def since(self, earlier: Snapshot) -> Changes:
        """What makes this snapshot of an earlier one: `earlier.next(later.since(earlier))`."""
        by_key: dict[str, Any] = {
            name: Change.between(getattr(earlier, name), getattr(self, name))
            for name in KEYED_FIELDS
        }
        return Changes(
            at=self.taken_at,
            pods=self.population.since(earlier.population),
            nodes=Change.between(earlier.fleet.by_name, self.fleet.by_name),
            others={
                kind: self.others.get(kind, ())
                for kind in (*earlier.others, *self.others)
                if earlier.others.get(kind) is not self.others.get(kind, ())
            },
            history=None if self.history == earlier.history else self.history,
            moving=None if self.moving == earlier.moving else self.moving,
            usage=None if self.usage == earlier.usage else self.usage,
            **by_key,
        )

    def read_as(self, semantics: Semantics, node_selector: Selector) -> Snapshot:
        """The same cluster as one policy sees it: its nodes, and how it reads them."""
        return replace(self, semantics=semantics, node_selector=node_selector)

    def measured(self, usage: Measured) -> Snapshot:
        """The same cluster with what was measured of it."""
        return replace(self, usage=usage)

    # -- nodes --------------------------------------------------------------------------------

    @cached_property
    def in_scope(self) -> NodeSet:
        """Ready nodes that the policy's node selector selects: those a cycle works on."""
        return self.fleet.ready & self.fleet.selected(self.node_selector)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes in scope, in order."""
        return tuple(self.fleet.members(self.in_scope))

    @cached_property
    def names_in_scope(self) -> frozenset[str]:
        """Names of the nodes in scope."""
        return frozenset(node.name for node in self.nodes)

    # -- pods ---------------------------------------------------------------------------------

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All pods, in canonical order."""
        return self.population.everyone

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod of this name, if there is one."""
        return self.population.named(namespace, name)

    def pods_on(self, node: Node) -> list[Pod]:
        """All pods bound to the node, finished ones too."""
        return self.population.on(node.name)

    def active_on(self, node: Node) -> list[Pod]:
        """Pods bound to the node that have not run their course."""
        pods = self.population.on(node.name)
        return [pod for pod in pods if pod.state.phase not in FINISHED]

    def active_of(self, template: Template) -> list[Pod]:
        """Pods of the template that are bound to some node and have not run their course."""
        return self.population.active_of(template)

    def in_turn(self, pods: Iterable[Pod]) -> Iterator[tuple[Node, list[Pod]]]:
        """The pods on nodes in scope, node by node, in the order a walk would meet them."""
        chosen: dict[str, list[Pod]] = {}
        for pod in pods:
            chosen.setdefault(pod.node, []).append(pod)
        in_scope = self.names_in_scope
        for name in sorted(name for name in chosen if name in in_scope):
            here = chosen[name]
            if len(here) > 1:
                among = set(here)
                here = [pod for pod in self.population.on(name) if pod in among]
            yield self.fleet.nodes[self.fleet.position[name]], here

    @cached_property
    def strays(self) -> tuple[Pod, ...]:
        """Pods bound to nodes that are not in the snapshot."""
        known = self.fleet.position
        places = sorted(name for name in self.population.places if name and name not in known)
        return tuple(pod for name in places for pod in self.population.on(name))

    @property
    def replicas(self) -> Mapping[str, int]:
        """Pods of each owner, by the owner's uid, in any phase and place."""
        return self.population.replicas

    @cached_property
    def _budgets_in(self) -> dict[str, list[Budget]]:
        grouped: dict[str, list[Budget]] = {}
        for budget in self.budgets.values():
            grouped.setdefault(budget.namespace, []).append(budget)
        return grouped

    @cached_property
    def _covering(self) -> dict[Template, tuple[Budget, ...]]:
        return self.population.answers(Same(self.budgets))

    def budgets_of(self, pod: Pod) -> tuple[Budget, ...]:
        """The disruption budgets that cover the pod."""
        covering = self._covering.get(pod.template)
        if covering is None:
            covering = self._covering[pod.template] = tuple(
                budget
                for budget in self._budgets_in.get(pod.namespace, ())
                if budget.selector is not None and budget.selector.matches(pod.labels)
            )
        return covering

    # -- room and fit ---------------------------------------------------------------------------

    def requested(self, node: Node) -> Mapping[str, int]:
        """What the unfinished pods of the node request together, in nano units."""
        return self.population.requested(node.name)

    @cached_property
    def fit(self) -> Fit:
        """The judge of which nodes would take a pod."""
        return Fit(
            self.fleet,
            Room(self.fleet, self.requested),
            self.population.templates_matching,
            self.active_of,
            self.pod,
        )

    @cached_property
    def outlook(self) -> Outlook:
        """The cluster as it will be once the plan so far is carried out; the draft writes to it."""
        return Outlook(self)

    # -- what plugins work out once -------------------------------------------------------------

    @cached_property
    def _prepared(self) -> dict[tuple[Same, object], Any]:
        return {}

    def prepared(self, args: A, make: Callable[[A, Snapshot], P]) -> P:
        """`make(args, snapshot)`, worked out once for these arguments and this snapshot."""
        key = (Same(args), make)
        found: P | None = self._prepared.get(key)
        if found is None:
            found = self._prepared[key] = make(args, self)
        return found

    def release(self) -> None:
        """Lets go of what was worked out from it and refers back to it.

        Without such circles a snapshot is freed the moment nobody holds it any more, and a daemon
        need not wait for the garbage collector to look at every pod.
        """
        for name in ("fit", "outlook", "_prepared"):
            self.__dict__.pop(name, None)
