"""The cluster as it will be once the plan so far is carried out.

A pod that moves gives its room back and takes a place where its replacement will most likely land.
Which nodes would take a replacement is answered as kube-scheduler's own filters would answer, as
far as the snapshot knows. Only the state of a plan writes here, when a move is admitted; an outlook
lasts for one plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from resettle.model.constraints import NO_SCHEDULE, Taint
from resettle.model.node_index import Fleet, NodeSet
from resettle.model.pod import Demand, Pod, Template
from resettle.model.snapshot import Snapshot
from resettle.placement.capacity import Occupancy, Ports
from resettle.placement.diagnosis import NodeRejection
from resettle.placement.pod_affinity import Neighbours
from resettle.placement.pod_locations import Residents
from resettle.placement.scoring import CLEAR_LEAD, Landing
from resettle.placement.topology_spread import Evenness
from resettle.placement.volumes import Attachments

CORDON = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)


class Outlook:
    """Who could go where, from here on."""

    def __init__(self, snapshot: Snapshot, *, moves_take_no_place: bool = False) -> None:
        self._snapshot = snapshot
        self._fleet: Fleet = snapshot.fleet
        self.residents = Residents(snapshot.population, snapshot.fleet, snapshot.moving)
        self.room = Occupancy(snapshot.fleet, snapshot.population)
        self.evenness = Evenness(self.residents)
        self.neighbours = Neighbours(self.residents, snapshot.namespaces)
        self._open: dict[tuple[Demand, str], NodeSet] = {}
        self._asked: Pod | None = None
        self._takers: NodeSet = 0
        self._sparing: NodeSet | None = None
        self._plentiful: dict[Demand, tuple[int, NodeSet, bool]] = {}
        self._plainly: dict[Template, bool] = {}
        self._gone: dict[str, int] = {}
        self._live: dict[str, int] = {}
        self._keep = moves_take_no_place

    @cached_property
    def _ports(self) -> Ports:
        return Ports(self.residents)

    @cached_property
    def _attachments(self) -> Attachments:
        return Attachments(self._snapshot, self.residents)

    @cached_property
    def _landing(self) -> Landing:
        return Landing(self.residents, self.room, self.evenness, self.neighbours)

    # -- questions --------------------------------------------------------------------------------

    def takers(self, pod: Pod) -> NodeSet:
        """Nodes that would take the pod's replacement, its own among them if that would."""
        if self._asked is not pod:
            # One pod is asked about by several guards in a row.
            self._asked, self._takers, self._sparing = pod, self._takers_of(pod), None
        return self._takers

    def _takers_of(self, pod: Pod) -> NodeSet:
        spec, demand = pod.template.spec, pod.template.spec.demand
        nodes = self.open_to(demand, pod.node)
        home = self.residents.home(pod)
        own = nodes & self._fleet.only(home)
        nodes &= self.room.enough_for(demand)
        if own:
            nodes = nodes | own if self.room.still_fits(demand, home) else nodes & ~own
        if spec.gated or spec.resource_claims:
            return 0
        if spec.host_ports:
            nodes &= self._ports.free_for(pod)
        if pod.claims and nodes:
            if self._attachments.unknown(pod):
                return 0
            nodes &= self._attachments.reachable(pod) & self._attachments.attachable(pod)
        if spec.spread and nodes:
            nodes &= self.evenness.allowed(pod)
        if spec.anti_affinity and nodes:
            nodes &= self.neighbours.own_rules(pod)
        if spec.affinity and nodes:
            nodes &= self.neighbours.company(pod)
        if nodes and self.neighbours.wishes_about(pod.template):
            nodes &= self.neighbours.rules_of_others(pod)
        return nodes

    def places(self, pod: Pod) -> NodeSet:
        """The takers where the pod's coming, and its leaving, break nothing that holds today."""
        nodes = self.takers(pod)
        return nodes & self.sparing(pod) if nodes else nodes

    def elsewhere(self, pod: Pod, among: NodeSet) -> bool:
        """Whether some node of the set, other than its own, is a place for the pod."""
        if self.plain(pod) and self._plenty(pod.template.spec.demand, among):
            return True
        home = self._fleet.only(self.residents.home(pod))
        return self.places(pod) & among & ~home != 0

    def _plenty(self, demand: Demand, among: NodeSet) -> bool:
        """Whether two nodes of the set would take any such pod; one of them is not its own."""
        known = self._plentiful.get(demand)
        if known is None or known[:2] != (self.room.version, among):
            nodes = self.open_to(demand, "") & self.room.enough_for(demand) & among
            known = (self.room.version, among, nodes.bit_count() > 1)
            self._plentiful[demand] = known
        return known[2]

    def plain(self, pod: Pod) -> bool:
        """Whether nothing but labels, taints and room decides where pods of its make may go."""
        template = pod.template
        plain = self._plainly.get(template)
        if plain is None:
            spec = template.spec
            plain = self._plainly[template] = not (
                spec.pinned
                or spec.gated
                or spec.resource_claims
                or spec.host_ports
                or spec.claim_volumes
                or spec.spread
                or spec.anti_affinity
                or spec.affinity
                or self.neighbours.wishes_about(template)
                or self.evenness.about(template)
                or self.neighbours.wanted(template)
            )
        return plain

    def sparing(self, pod: Pod) -> NodeSet:
        """Nodes the pod could move to without breaking what other pods rely on."""
        if self._asked is not pod or self._sparing is None:
            self.takers(pod)
            self._sparing = self.evenness.sparing(pod) & self.neighbours.needed_at(pod)
        return self._sparing

    def likeliest(self, pod: Pod, among: NodeSet) -> str:
        """The node of the set, which holds at least one, that the scheduler would rather choose."""
        return self._landing.of(pod, among, self.residents.home(pod))

    def drawn_to(self, pod: Pod, among: NodeSet) -> str:
        """The same, but the pod's own node unless the scheduler clearly prefers another.

        Pods that leave together change what the scheduler sees, each for the others.
        """
        return self._landing.of(pod, among, self.residents.home(pod), CLEAR_LEAD)

    def live_replicas(self, owner: str) -> int:
        """Pods of an owner that run or will run and that the plan has left alone so far."""
        live = self._live.get(owner)
        if live is None:
            live = self._live[owner] = sum(
                not (pod.finished or pod.terminating)
                for pod in self._snapshot.population.of_owner(owner)
            )
        return live - self._gone.get(owner, 0)

    def open_to(self, demand: Demand, own_node: str) -> NodeSet:
        """Ready nodes that cordon, selector, affinity and taints leave open."""
        key = (demand, own_node if demand.pinned else "")
        nodes = self._open.get(key)
        if nodes is None:
            fleet = self._fleet
            nodes = fleet.ready & self._uncordoned(demand)
            nodes &= fleet.welcoming(demand, own_node) & fleet.tolerated_by(demand.tolerations)
            self._open[key] = nodes
        return nodes

    def _uncordoned(self, demand: Demand) -> NodeSet:
        suffers = any(toleration.tolerates(CORDON) for toleration in demand.tolerations)
        return self._fleet.everyone if suffers else self._fleet.schedulable

    # -- the one entry ----------------------------------------------------------------------------

    def move(self, pod: Pod, target: str) -> None:
        """Lets the pod leave, and its replacement come to the target."""
        for owner in pod.owners:
            self._gone[owner.uid] = self._gone.get(owner.uid, 0) + 1
        if not self._keep:
            self._shift(pod, target)

    def _shift(self, pod: Pod, target: str, *, back: bool = False) -> None:
        self._asked = None
        source = self.residents.home(pod)
        self._ports.move(pod, source, target)
        if pod.claims or pod.own_claims:
            self._attachments.move(pod, source, target, back=back)
        self.room.move(pod.spec.demand, source, target)
        self._landing.changed(source, target)
        self.residents.move(pod, target, back=back)

    def take_back(self, pod: Pod) -> None:
        """Undoes a move that was only tried."""
        for owner in pod.owners:
            self._gone[owner.uid] -= 1
        if not self._keep:
            self._shift(pod, pod.node, back=True)

    # -- for those who ask why --------------------------------------------------------------------

    def ruled_out(self, pod: Pod, among: NodeSet) -> list[NodeRejection]:
        """For each check the nodes that it is the first to rule out."""
        left, rejections = among, list[NodeRejection]()
        for code, says, allowed in self._checks(pod):
            out = left & ~allowed
            if out:
                rejections.append(NodeRejection(code, says, out))
                left &= allowed
        return rejections

    def lacking(self, pod: Pod, node: str) -> dict[str, int]:
        """What the node has too little of for the pod, each in the resource's own unit."""
        return self.room.lacking(pod.spec.demand, node)

    def _checks(self, pod: Pod) -> Iterator[tuple[str, str, NodeSet]]:
        fleet, spec, demand = self._fleet, pod.spec, pod.spec.demand
        home = self.residents.home(pod)
        yield "unready", "not ready", fleet.ready
        yield "cordoned", "cordoned", self._uncordoned(demand)
        yield "node-affinity", "node selector or affinity", fleet.welcoming(demand, pod.node)
        for taint, nodes in fleet.tainted.items():
            if taint.hard and not spec.tolerates(taint):
                yield "taint", f"taint {taint}", fleet.everyone & ~nodes
        if spec.gated:
            yield "gated", "scheduling gates", 0
        if spec.resource_claims:
            yield "devices", "devices that the snapshot does not know", 0
        for name, enough in self.room.by_resource(demand):
            fits = self.room.still_fits_of(name, home)
            own = fleet.only(home)
            yield "room", name, enough | own if fits else enough & ~own
        if spec.host_ports:
            yield "host-port", "host port", self._ports.free_for(pod)
        if pod.claims:
            if claim := self._attachments.unknown(pod):
                yield "volume", f"volume claim {claim}, which is not fully known", 0
                return
            yield "volume", "volume out of reach", self._attachments.reachable(pod)
            yield "attach-limit", "limit of attached volumes", self._attachments.attachable(pod)
        for rule in self.evenness.stated_by(pod):
            if rule.hard:
                nodes = self.evenness.open_under(rule, pod)
                yield "spread", f"spread over {rule.topology_key}", nodes
        yield "anti-affinity", "anti-affinity of its own", self.neighbours.own_rules(pod)
        yield "affinity", "pod affinity", self.neighbours.company(pod)
        others = self.neighbours.rules_of_others(pod)
        yield "kept-away", "anti-affinity of pods there", others
        yield "breaks-spread", "would break the spread of others", self.evenness.sparing(pod)
        yield "needed-nearby", "pods left behind need it near", self.neighbours.needed_at(pod)
