"""The cluster at one instant: frozen, with the time it was taken, and indexed on demand.

Everything is in canonical order (nodes by name, pods by a hash of their name), so the order in
which objects were listed never shows in a plan. A snapshot knows no policy and no plan: what one
policy makes of it is a `View` (`resettle.framework.view`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Self

from resettle.model.changes import Change, Changes
from resettle.model.kinds import KEYED_FIELDS
from resettle.model.measurements import Measured
from resettle.model.node_index import Fleet
from resettle.model.objects import (
    AttachLimits,
    Budget,
    Claim,
    Namespace,
    Node,
    PriorityClass,
    Volume,
)
from resettle.model.pod import FINISHED, Pod, Template
from resettle.model.pod_index import Population, Same


@dataclass(frozen=True, eq=False, kw_only=True)
class Snapshot:
    """All objects of a cluster that a plan is drawn from, and what was measured of them."""

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
    """What each (profile, plugin) stored in the cycle before."""
    moving: frozenset[str] = frozenset()
    """Uids of pods that are on their way already: earlier moves not yet seen to end."""
    usage: Measured = field(default_factory=dict)
    """How busy nodes and pods are, for each question that was asked."""

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

    def measured(self, usage: Measured) -> Snapshot:
        """This snapshot with these measurements in place of its own."""
        return replace(self, usage=usage)

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

    def requested(self, node: Node) -> Mapping[str, int]:
        """What the unfinished pods of the node request together, in nano units."""
        return self.population.requested(node.name)
