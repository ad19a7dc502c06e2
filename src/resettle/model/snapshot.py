"""The cluster at one instant: frozen, with the time it was taken, and indexed on demand.

Everything is in canonical order (nodes by name, pods by a hash of their name), so the order in
which objects were listed never changes a plan. A snapshot knows no policy and no plan: how one
policy reads it is a `View` (`resettle.framework.view`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Self

from resettle.model.changes import Change, Changes
from resettle.model.kinds import KEYED_FIELDS, WORKLOAD_FIELDS
from resettle.model.measurements import Measured
from resettle.model.node_index import NodeIndex
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
from resettle.model.pod_index import ByIdentity, PodIndex
from resettle.model.workloads import (
    Eviction,
    ScaledObject,
    ScaleKind,
    UnknownWorkload,
    Workload,
    Workloads,
    scaled_objects,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Snapshot:
    """All objects of a cluster that a plan is drawn from, and what was measured of them."""

    node_index: NodeIndex
    pod_index: PodIndex
    taken_at: datetime
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    claims: Mapping[str, Claim] = field(default_factory=dict)
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    attach_limits: Mapping[str, AttachLimits] = field(default_factory=dict)
    deployments: Mapping[str, Workload] = field(default_factory=dict)
    replica_sets: Mapping[str, Workload] = field(default_factory=dict)
    stateful_sets: Mapping[str, Workload] = field(default_factory=dict)
    jobs: Mapping[str, Workload] = field(default_factory=dict)
    replication_controllers: Mapping[str, Workload] = field(default_factory=dict)
    others: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Objects of the kinds that plugins declare, by kind."""
    history: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    """What each (profile, plugin) stored in the cycle before."""
    moving: frozenset[str] = frozenset()
    """Uids of pods that earlier moves are still moving."""
    usage: Measured = field(default_factory=dict)
    """Measured usage, by query."""
    scales: tuple[Workload, ...] = ()
    """Workloads of other kinds, as far as their `scale` subresource was read."""
    evictions: tuple[Eviction, ...] = ()
    """Recent evictions, oldest first, as far back as some plugin asks for."""

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
        scales: Iterable[Workload] = (),
        evictions: Iterable[Eviction] = (),
        **objects: Iterable[Any],
    ) -> Self:
        """A snapshot of these objects in canonical order; `objects` by name of their field."""
        by_key: dict[str, Any] = {
            name: Change(tuple(objects.pop(name, ()))).apply_to({}) for name in KEYED_FIELDS
        }
        if objects:
            raise TypeError(f"a snapshot has no objects called {', '.join(sorted(objects))}")
        return cls(
            node_index=NodeIndex(sorted(nodes, key=lambda node: node.name)),
            pod_index=PodIndex.of(pods),
            taken_at=taken_at,
            others=others or {},
            history=history or {},
            moving=frozenset(moving),
            usage=usage or {},
            scales=tuple(sorted(scales, key=lambda scale: (scale.key, scale.uid))),
            evictions=tuple(evictions),
            **by_key,
        )

    def next(self, changes: Changes) -> Snapshot:
        """The cluster a little later; whatever did not change is shared with this snapshot."""
        by_key: dict[str, Any] = {
            name: getattr(changes, name).apply_to(getattr(self, name)) for name in KEYED_FIELDS
        }
        return replace(
            self,
            taken_at=changes.at,
            node_index=self.node_index.after(changes.nodes) if changes.nodes else self.node_index,
            pod_index=self.pod_index.after(changes.pods) if changes.pods else self.pod_index,
            others={**self.others, **changes.others} if changes.others else self.others,
            history=self.history if changes.history is None else changes.history,
            moving=self.moving if changes.moving is None else changes.moving,
            usage=self.usage if changes.usage is None else changes.usage,
            scales=self.scales if changes.scales is None else changes.scales,
            evictions=self.evictions if changes.evictions is None else changes.evictions,
            **by_key,
        )

    def since(self, earlier: Snapshot) -> Changes:
        """The changes since an earlier snapshot: `earlier.next(this.since(earlier))` is this."""
        by_key: dict[str, Any] = {
            name: Change.between(getattr(earlier, name), getattr(self, name))
            for name in KEYED_FIELDS
        }
        return Changes(
            at=self.taken_at,
            pods=self.pod_index.since(earlier.pod_index),
            nodes=Change.between(earlier.node_index.by_name, self.node_index.by_name),
            others={
                kind: self.others.get(kind, ())
                for kind in (*earlier.others, *self.others)
                if earlier.others.get(kind) is not self.others.get(kind, ())
            },
            history=None if self.history == earlier.history else self.history,
            moving=None if self.moving == earlier.moving else self.moving,
            usage=None if self.usage == earlier.usage else self.usage,
            scales=None if self.scales == earlier.scales else self.scales,
            evictions=None if self.evictions == earlier.evictions else self.evictions,
            **by_key,
        )

    def with_usage(self, usage: Measured) -> Snapshot:
        """This snapshot with these measurements in place of its own."""
        return replace(self, usage=usage)

    def with_moving(self, uids: frozenset[str]) -> Snapshot:
        """This snapshot with the pods of these uids, and no others, counted as moving."""
        return self if uids == self.moving else replace(self, moving=uids)

    def with_evictions(self, evictions: Iterable[Eviction]) -> Snapshot:
        """This snapshot with these recent evictions in place of its own, oldest first."""
        ordered = tuple(sorted(evictions, key=lambda eviction: (eviction.at, eviction.pod)))
        return self if ordered == self.evictions else replace(self, evictions=ordered)

    def with_scales(self, scales: Iterable[Workload]) -> Snapshot:
        """This snapshot with what `scale` subresources say in place of its own."""
        return replace(self, scales=tuple(scales))

    # -- workloads ----------------------------------------------------------------------------

    @cached_property
    def workloads(self) -> Workloads:
        """All workloads that were read, with the pods of each."""
        read = (workload for name in WORKLOAD_FIELDS for workload in getattr(self, name).values())
        return Workloads((*self.scales, *read), self.pod_index)

    def scaled_objects(self, kinds: Iterable[ScaleKind]) -> set[ScaledObject]:
        """The objects of these kinds that control pods, so that their `scale` can be read."""
        return scaled_objects(kinds, self.pod_index, self.replica_sets.values())

    def workload_of(self, pod: Pod) -> Workload | UnknownWorkload | None:
        """The workload at the top of the pod's owners; None for a pod without an owner."""
        return self.workloads.workload_of(pod)

    def pods_of(self, workload: Workload) -> list[Pod]:
        """All pods of the workload, in any phase: of a Deployment those of all its ReplicaSets."""
        return self.workloads.pods_of(workload)

    # -- pods ---------------------------------------------------------------------------------

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All pods, in canonical order."""
        return self.pod_index.all_pods

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod of this name, if there is one."""
        return self.pod_index.get(namespace, name)

    def pods_on(self, node: Node) -> list[Pod]:
        """All pods bound to the node, finished ones too."""
        return self.pod_index.on(node.name)

    def active_on(self, node: Node) -> list[Pod]:
        """Pods bound to the node that are not finished."""
        pods = self.pod_index.on(node.name)
        return [pod for pod in pods if pod.state.phase not in FINISHED]

    def active_of(self, template: Template) -> list[Pod]:
        """Pods of the template that are bound to a node and not finished."""
        return self.pod_index.active_of(template)

    @cached_property
    def pods_on_unknown_nodes(self) -> tuple[Pod, ...]:
        """Pods bound to nodes that are not in the snapshot."""
        known = self.node_index.position
        names = sorted(name for name in self.pod_index.node_names if name and name not in known)
        return tuple(pod for name in names for pod in self.pod_index.on(name))

    @property
    def replicas(self) -> Mapping[str, int]:
        """Number of pods by owner uid, in any phase and on any node."""
        return self.pod_index.replicas

    @cached_property
    def _budgets_in(self) -> dict[str, list[Budget]]:
        grouped: dict[str, list[Budget]] = {}
        for budget in self.budgets.values():
            grouped.setdefault(budget.namespace, []).append(budget)
        return grouped

    @cached_property
    def _budgets_by_template(self) -> dict[Template, tuple[Budget, ...]]:
        return self.pod_index.template_cache(ByIdentity(self.budgets))

    def budgets_of(self, pod: Pod) -> tuple[Budget, ...]:
        """The disruption budgets that cover the pod."""
        covering = self._budgets_by_template.get(pod.template)
        if covering is None:
            covering = self._budgets_by_template[pod.template] = tuple(
                budget
                for budget in self._budgets_in.get(pod.namespace, ())
                if budget.selector is not None and budget.selector.matches(pod.labels)
            )
        return covering

    def requests_on(self, node: Node) -> Mapping[str, int]:
        """Total requests of the node's unfinished pods, in nano units."""
        return self.pod_index.requests_on(node.name)
