"""The cluster as it will be once the plan so far is carried out.

A pod that moves frees its resources and uses those of the node where its replacement will most
likely be placed. Feasible nodes are those that pass kube-scheduler's filters, as far as the
snapshot has the data. Only the state of a plan writes here, when a move is admitted; a projection
lasts for one plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from resettle.model.constraints import NO_SCHEDULE, Taint
from resettle.model.node_index import NodeIndex, NodeSet
from resettle.model.pod import Demand, Pod, Template
from resettle.model.snapshot import Snapshot
from resettle.placement.capacity import Capacity, HostPorts
from resettle.placement.diagnosis import NodeRejection
from resettle.placement.pod_affinity import InterPodAffinity
from resettle.placement.pod_locations import PodLocations
from resettle.placement.scoring import CLEAR_LEAD, Scoring
from resettle.placement.topology_spread import TopologySpread
from resettle.placement.volumes import VolumeChecks

CORDON = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)


class Projection:
    """Which nodes each pod could move to after the moves so far."""

    def __init__(self, snapshot: Snapshot, *, moves_take_no_place: bool = False) -> None:
        self._snapshot = snapshot
        self._node_index: NodeIndex = snapshot.node_index
        self.pod_locations = PodLocations(snapshot.pod_index, snapshot.node_index, snapshot.moving)
        self.capacity = Capacity(snapshot.node_index, snapshot.pod_index)
        self.topology_spread = TopologySpread(self.pod_locations)
        self.pod_affinity = InterPodAffinity(self.pod_locations, snapshot.namespaces)
        self._open: dict[tuple[Demand, str], NodeSet] = {}
        # Several filters ask about one pod in a row. Each is one value, so that threads that ask
        # about different pods never get each other's nodes.
        self._feasible: tuple[Pod | None, NodeSet] = (None, 0)
        self._harmless: tuple[Pod | None, NodeSet] = (None, 0)
        self._two_feasible: dict[Demand, tuple[int, NodeSet, bool]] = {}
        self._simple: dict[Template, bool] = {}
        self._evicted_of_owner: dict[str, int] = {}
        self._live_of_owner: dict[str, int] = {}
        self._moves_take_no_place = moves_take_no_place

    @cached_property
    def _ports(self) -> HostPorts:
        return HostPorts(self.pod_locations)

    @cached_property
    def _volumes(self) -> VolumeChecks:
        return VolumeChecks(self._snapshot, self.pod_locations)

    @cached_property
    def _scoring(self) -> Scoring:
        return Scoring(self.pod_locations, self.capacity, self.topology_spread, self.pod_affinity)

    # -- where pods can go ------------------------------------------------------------------------

    def feasible_nodes(self, pod: Pod) -> NodeSet:
        """Nodes that would take the pod's replacement; its own node may be among them."""
        known = self._feasible
        if known[0] is not pod:
            known = self._feasible = (pod, self._find_feasible_nodes(pod))
        return known[1]

    def _find_feasible_nodes(self, pod: Pod) -> NodeSet:
        spec, demand = pod.template.spec, pod.template.spec.demand
        nodes = self.open_to(demand, pod.node)
        current = self.pod_locations.current_node(pod)
        own = nodes & self._node_index.only(current)
        nodes &= self.capacity.enough_for(demand)
        if own:
            nodes = nodes | own if self.capacity.still_fits(demand, current) else nodes & ~own
        if spec.gates or spec.resource_claims:
            return 0
        if spec.host_ports:
            nodes &= self._ports.free_for(pod)
        if pod.claims and nodes:
            if self._volumes.unknown_claim(pod):
                return 0
            nodes &= self._volumes.reachable(pod) & self._volumes.attachable(pod)
        if spec.spread and nodes:
            nodes &= self.topology_spread.feasible_nodes(pod)
        if spec.anti_affinity and nodes:
            nodes &= self.pod_affinity.satisfying_own_anti_affinity(pod)
        if spec.affinity and nodes:
            nodes &= self.pod_affinity.satisfying_affinity(pod)
        if nodes and self.pod_affinity.anti_affinity_terms_about(pod.template):
            nodes &= self.pod_affinity.satisfying_others_anti_affinity(pod)
        return nodes

    def safe_nodes(self, pod: Pod) -> NodeSet:
        """Feasible nodes where the move breaks no constraint of other pods that holds now."""
        nodes = self.feasible_nodes(pod)
        return nodes & self.harmless_nodes(pod) if nodes else nodes

    def has_safe_node(self, pod: Pod, among: NodeSet) -> bool:
        """Whether some node of the set, other than its own, is safe for the pod."""
        if self.has_simple_constraints(pod) and self._has_two_feasible_nodes(
            pod.template.spec.demand, among
        ):
            return True
        current = self._node_index.only(self.pod_locations.current_node(pod))
        return self.safe_nodes(pod) & among & ~current != 0

    def _has_two_feasible_nodes(self, demand: Demand, among: NodeSet) -> bool:
        """Whether two nodes of the set would take such a pod: at least one is not its own."""
        known = self._two_feasible.get(demand)
        if known is None or known[:2] != (self.capacity.version, among):
            nodes = self.open_to(demand, "") & self.capacity.enough_for(demand) & among
            known = (self.capacity.version, among, nodes.bit_count() > 1)
            self._two_feasible[demand] = known
        return known[2]

    def has_simple_constraints(self, pod: Pod) -> bool:
        """Whether only labels, taints and free resources decide where pods of its template go."""
        template = pod.template
        plain = self._simple.get(template)
        if plain is None:
            spec = template.spec
            plain = self._simple[template] = not (
                spec.pinned
                or spec.gates
                or spec.resource_claims
                or spec.host_ports
                or spec.claim_volumes
                or spec.spread
                or spec.anti_affinity
                or spec.affinity
                or self.pod_affinity.anti_affinity_terms_about(template)
                or self.topology_spread.rules_about(template)
                or self.pod_affinity.is_required_by_others(template)
            )
        return plain

    def harmless_nodes(self, pod: Pod) -> NodeSet:
        """Nodes that the pod could move to without breaking constraints of other pods."""
        known = self._harmless
        if known[0] is not pod:
            nodes = self.topology_spread.harmless_nodes(pod)
            nodes &= self.pod_affinity.keeping_others_affinity(pod)
            known = self._harmless = (pod, nodes)
        return known[1]

    def highest_scored_node(self, pod: Pod, among: NodeSet) -> str:
        """The node of a non-empty set that the scheduler would choose."""
        return self._scoring.best_node(pod, among, self.pod_locations.current_node(pod))

    def likely_node(self, pod: Pod, among: NodeSet) -> str:
        """The pod's own node unless the scheduler clearly prefers another node of the set.

        Pods that leave together change each other's scores, so a small lead says nothing.
        """
        return self._scoring.best_node(pod, among, self.pod_locations.current_node(pod), CLEAR_LEAD)

    def live_replicas(self, owner: str) -> int:
        """Number of an owner's pods that run or will run and that the plan does not evict."""
        live = self._live_of_owner.get(owner)
        if live is None:
            live = self._live_of_owner[owner] = sum(
                not (pod.finished or pod.terminating)
                for pod in self._snapshot.pod_index.of_owner(owner)
            )
        return live - self._evicted_of_owner.get(owner, 0)

    def open_to(self, demand: Demand, own_node: str) -> NodeSet:
        """Ready nodes that cordon, node selector, node affinity and taints leave open."""
        key = (demand, own_node if demand.pinned else "")
        nodes = self._open.get(key)
        if nodes is None:
            node_index = self._node_index
            nodes = node_index.ready & self._schedulable_for(demand)
            nodes &= node_index.matching_node_affinity(demand, own_node) & node_index.tolerated_by(
                demand.tolerations
            )
            self._open[key] = nodes
        return nodes

    def _schedulable_for(self, demand: Demand) -> NodeSet:
        tolerates_cordon = any(toleration.tolerates(CORDON) for toleration in demand.tolerations)
        return self._node_index.all_nodes if tolerates_cordon else self._node_index.schedulable

    # -- moves ------------------------------------------------------------------------------------

    def move(self, pod: Pod, target: str) -> None:
        """Move the pod: its replacement will be on the target."""
        for owner in pod.owners:
            self._evicted_of_owner[owner.uid] = self._evicted_of_owner.get(owner.uid, 0) + 1
        if not self._moves_take_no_place:
            self._shift(pod, target)

    def _shift(self, pod: Pod, target: str, *, back: bool = False) -> None:
        self._feasible = self._harmless = (None, 0)
        source = self.pod_locations.current_node(pod)
        self._ports.move(pod, source, target)
        if pod.claims or pod.own_claims:
            self._volumes.move(pod, source, target, back=back)
        self.capacity.move(pod.spec.demand, source, target)
        self._scoring.update(source, target)
        self.pod_locations.move(pod, target, back=back)

    def undo_move(self, pod: Pod) -> None:
        """Undo a move that was only tried."""
        for owner in pod.owners:
            self._evicted_of_owner[owner.uid] -= 1
        if not self._moves_take_no_place:
            self._shift(pod, pod.node, back=True)

    # -- diagnosis --------------------------------------------------------------------------------

    def ruled_out(self, pod: Pod, among: NodeSet) -> list[NodeRejection]:
        """For each check the nodes of the set that it is the first to rule out."""
        left, rejections = among, list[NodeRejection]()
        for code, says, allowed in self._checks(pod):
            out = left & ~allowed
            if out:
                rejections.append(NodeRejection(code, says, out))
                left &= allowed
        return rejections

    def lacking(self, pod: Pod, node: str) -> dict[str, int]:
        """What the node has too little of for the pod, each in the resource's own unit."""
        return self.capacity.lacking(pod.spec.demand, node)

    def _checks(self, pod: Pod) -> Iterator[tuple[str, str, NodeSet]]:
        node_index, spec, demand = self._node_index, pod.spec, pod.spec.demand
        current = self.pod_locations.current_node(pod)
        yield "unready", "not ready", node_index.ready
        yield "cordoned", "cordoned", self._schedulable_for(demand)
        yield (
            "node-affinity",
            "node selector or affinity",
            node_index.matching_node_affinity(demand, pod.node),
        )
        for taint, nodes in node_index.tainted.items():
            if taint.hard and not spec.tolerates(taint):
                yield "taint", f"taint {taint}", node_index.all_nodes & ~nodes
        if spec.gates:
            yield "gated", "scheduling gates", 0
        if spec.resource_claims:
            yield "devices", "devices that the snapshot does not know", 0
        for name, enough in self.capacity.by_resource(demand):
            fits = self.capacity.still_fits_of(name, current)
            own = node_index.only(current)
            yield "room", name, enough | own if fits else enough & ~own
        if spec.host_ports:
            yield "host-port", "host port", self._ports.free_for(pod)
        if pod.claims:
            if claim := self._volumes.unknown_claim(pod):
                yield "volume", f"volume claim {claim}, which is not fully known", 0
                return
            yield "volume", "volume out of reach", self._volumes.reachable(pod)
            yield "attach-limit", "limit of attached volumes", self._volumes.attachable(pod)
        for rule in self.topology_spread.rules_of_pod(pod):
            if rule.hard:
                nodes = self.topology_spread.nodes_allowed_by(rule, pod)
                yield "spread", f"spread over {rule.topology_key}", nodes
        yield (
            "anti-affinity",
            "anti-affinity of its own",
            self.pod_affinity.satisfying_own_anti_affinity(pod),
        )
        yield "affinity", "pod affinity", self.pod_affinity.satisfying_affinity(pod)
        others = self.pod_affinity.satisfying_others_anti_affinity(pod)
        yield "kept-away", "anti-affinity of pods there", others
        yield (
            "breaks-spread",
            "would break the spread of others",
            self.topology_spread.harmless_nodes(pod),
        )
        yield (
            "needed-nearby",
            "pods left behind need it near",
            self.pod_affinity.keeping_others_affinity(pod),
        )
