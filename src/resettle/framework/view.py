"""What plugins and filters read: the cluster as one policy sees it while one plan is drawn.

    snapshot               the cluster, frozen
    semantics              how the policy makes decisions: as upstream does, or improved
    nodes, in_scope        the nodes that the policy works on
    projection             the cluster once the plan so far is carried out
    leaving                the pods that are on their way: in flight, or admitted to the plan
    upstream_fit           which nodes take a pod by the rules of kubernetes-sigs/descheduler
    prepared               answers that a plugin works out once for each plan
    pods_selected_by       the pods that `namespaces` and `labelSelector` of a plugin select

The projection and `leaving` are the only parts that change while the plan grows, and only the state
of the plan (`plan_state`) writes to them. What plugins read most of the snapshot is here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from resettle.model.node_index import NodeSet
from resettle.model.objects import Node
from resettle.model.pod import Pod, Template
from resettle.model.pod_index import ByIdentity
from resettle.model.selectors import EVERYTHING, Selector
from resettle.model.semantics import PARITY, Semantics
from resettle.model.snapshot import Snapshot
from resettle.model.workloads import DepartedPod
from resettle.placement.projection import Projection
from resettle.placement.upstream_fit import NodeFit
from resettle.policy.args import SelectingArgs

A = TypeVar("A")
P = TypeVar("P")


class View:
    """A snapshot, the policy's way to read it, and what follows from both during one plan."""

    def __init__(
        self,
        snapshot: Snapshot,
        semantics: Semantics = PARITY,
        node_selector: Selector = EVERYTHING,
        departed: tuple[DepartedPod, ...] = (),
    ) -> None:
        self.snapshot = snapshot
        self.semantics = semantics
        self.node_selector = node_selector
        self.departed = departed
        # Plugins read these for every pod: an attribute costs less than a property that delegates.
        self.taken_at = snapshot.taken_at
        self.node_index = snapshot.node_index
        self.pod_index = snapshot.pod_index
        self.namespaces = snapshot.namespaces
        self.priority_classes = snapshot.priority_classes
        self.budgets = snapshot.budgets
        self.claims = snapshot.claims
        self.volumes = snapshot.volumes
        self.attach_limits = snapshot.attach_limits
        self.others = snapshot.others
        self.history = snapshot.history
        self.moving = snapshot.moving
        self.held_places: frozenset[str] = frozenset()
        """Uids of pods for whose replacements a place is held, so that some node takes them."""
        self.usage = snapshot.usage
        self.deployments = snapshot.deployments
        self.replica_sets = snapshot.replica_sets
        self.stateful_sets = snapshot.stateful_sets
        self.jobs = snapshot.jobs
        self.replication_controllers = snapshot.replication_controllers
        self.scales = snapshot.scales
        self.evictions = snapshot.evictions
        self.pod = snapshot.pod
        self.pods_on = snapshot.pods_on
        self.active_on = snapshot.active_on
        self.active_of = snapshot.active_of
        self.requests_on = snapshot.requests_on
        self.budgets_of = snapshot.budgets_of
        self.workload_of = snapshot.workload_of
        self.pods_of = snapshot.pods_of
        self._prepared: dict[tuple[ByIdentity, object], Any] = {}

    # -- nodes in scope -------------------------------------------------------------------------

    @cached_property
    def in_scope(self) -> NodeSet:
        """Ready nodes that the policy's node selector selects: those a cycle works on."""
        return self.node_index.ready & self.node_index.selected_by(self.node_selector)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes in scope, in order."""
        return tuple(self.node_index.members(self.in_scope))

    @cached_property
    def names_in_scope(self) -> frozenset[str]:
        """Names of the nodes in scope."""
        return frozenset(node.name for node in self.nodes)

    # -- pods -----------------------------------------------------------------------------------

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """All pods, in canonical order."""
        return self.snapshot.pods

    @cached_property
    def replicas(self) -> Mapping[str, int]:
        """Pods of each owner, by the owner's uid, in any phase and place."""
        return self.snapshot.replicas

    def pods_by_node(self, pods: Iterable[Pod]) -> Iterator[tuple[Node, list[Pod]]]:
        """Each node in scope that has some of these pods, with them in canonical order."""
        by_node: dict[str, list[Pod]] = {}
        for pod in pods:
            by_node.setdefault(pod.node, []).append(pod)
        in_scope = self.names_in_scope
        for name in sorted(name for name in by_node if name in in_scope):
            on_node = by_node[name]
            if len(on_node) > 1:
                wanted = set(on_node)
                on_node = [pod for pod in self.pod_index.on(name) if pod in wanted]
            yield self.node_index.nodes[self.node_index.position[name]], on_node

    def templates_selected_by(self, args: SelectingArgs) -> SelectedTemplates:
        """The templates that the arguments' `namespaces` and `labelSelector` select."""
        return self.prepare_once(args, SelectedTemplates)

    def pods_selected_by(self, args: SelectingArgs, pods: Iterable[Pod] | None = None) -> list[Pod]:
        """Those of the pods, by default all on nodes in scope, that the arguments select."""
        selected = self.prepare_once(args, SelectedTemplates)
        if pods is None:
            pods = (pod for node in self.nodes for pod in self.pods_on(node))
        return [pod for pod in pods if pod.template in selected]

    def active_of_selected(self, args: SelectingArgs, template: Template) -> list[Pod]:
        """The active pods of the template if the arguments select it, else none."""
        return self.active_of(template) if template in self.templates_selected_by(args) else []

    # -- placement ------------------------------------------------------------------------------

    @cached_property
    def upstream_fit(self) -> NodeFit:
        """Which nodes take a pod by the rules of kubernetes-sigs/descheduler (`NodeFit`)."""
        return NodeFit(self.snapshot)

    @cached_property
    def projection(self) -> Projection:
        """The cluster as it will be once the plan so far is carried out."""
        return Projection(self.snapshot, moves_take_no_place=self.semantics.moves_take_no_place)

    @cached_property
    def leaving(self) -> LeavingPods:
        """The pods on their way: moves in flight, and moves that the plan holds so far."""
        leaving = LeavingPods()
        if self.moving:
            for pod in self.pods:
                if pod.uid in self.moving:
                    leaving.add(pod)
        for departed in self.departed:
            leaving.add_departed(departed)
        return leaving

    # -- what plugins work out once -------------------------------------------------------------

    def prepare_once(self, args: A, make: Callable[[A, View], P]) -> P:
        """`make(args, view)`, worked out once for these arguments and this view."""
        key = (ByIdentity(args), make)
        answer: P | None = self._prepared.get(key)
        if answer is None:
            answer = self._prepared[key] = make(args, self)
        return answer

    def release(self) -> None:
        """Drop the prepared answers, which may refer back to the view.

        Without these reference cycles a view, and its snapshot, are freed as soon as nothing refers
        to them, and a daemon does not wait for the garbage collector to look at every pod.
        """
        self._prepared.clear()


class LeavingPods:
    """Pods on their way, counted in all, by node, by namespace and by their controller.

    Each pod counts once, also one that is gone while its move goes on. Only the view, at its start,
    and the state of the plan add pods.
    """

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        """By uid."""
        self._on_node: dict[str, int] = {}
        self._in_namespace: dict[str, int] = {}
        self._of_controller: dict[str, list[Pod]] = {}
        self._departed: dict[str, DepartedPod] = {}

    def add_departed(self, pod: DepartedPod) -> None:
        """Count a pod that is gone while its move goes on."""
        if pod.uid in self._departed or pod.uid in self.pods:
            return
        self._departed[pod.uid] = pod
        self._on_node[pod.node] = self._on_node.get(pod.node, 0) + 1
        self._in_namespace[pod.namespace] = self._in_namespace.get(pod.namespace, 0) + 1

    def add(self, pod: Pod) -> None:
        """Count a pod that is on its way, unless it is counted already."""
        if pod.uid in self.pods:
            return
        self.pods[pod.uid] = pod
        self._on_node[pod.node] = self._on_node.get(pod.node, 0) + 1
        namespace = pod.namespace
        self._in_namespace[namespace] = self._in_namespace.get(namespace, 0) + 1
        controller = pod.controller
        if controller is not None:
            self._of_controller.setdefault(controller.uid, []).append(pod)

    def count(self, *, besides: Pod) -> int:
        """How many pods are on their way, this one not counted."""
        return len(self.pods) + len(self._departed) - (besides.uid in self.pods)

    def count_on_node(self, *, besides: Pod) -> int:
        """How many pods leave the node of this pod, the pod itself not counted."""
        return self._on_node.get(besides.node, 0) - (besides.uid in self.pods)

    def count_in_namespace(self, *, besides: Pod) -> int:
        """How many pods of the namespace of this pod are on their way, itself not counted."""
        return self._in_namespace.get(besides.namespace, 0) - (besides.uid in self.pods)

    def of_controller(self, uid: str) -> Sequence[Pod]:
        """The pods on their way that have this controller and are still there."""
        return self._of_controller.get(uid, ())

    def count_departed(self, controller: str) -> int:
        """How many pods of this controller are gone while their moves go on."""
        return sum(pod.owner == controller for pod in self._departed.values())


class SelectedTemplates:
    """The templates that the arguments of one plugin select; each is checked once."""

    def __init__(self, args: SelectingArgs, view: View) -> None:
        self._namespaces = args.namespaces
        selector = args.label_selector
        self._selector = (selector.compile() if selector else None) or EVERYTHING
        self._known: dict[Template, bool] = {}

    def __contains__(self, template: Template) -> bool:
        known = self._known.get(template)
        if known is None:
            known = self._known[template] = (
                self._namespaces is None or self._namespaces.admits(template.namespace)
            ) and self._selector.matches(template.labels)
        return known
