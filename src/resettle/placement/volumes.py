"""Volumes and the nodes they tie a pod to.

A claim that is not in the snapshot, or whose volume is not, might tie the pod to any node: nothing
is known to take such a pod.

Volumes of one driver: where each is attached, and how many more each node can take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

from resettle.model.node_index import Fleet, NodeSet
from resettle.model.objects import Volume
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.placement.capacity import Stock
from resettle.placement.pod_locations import Residents

UNLIMITED = 1 << 30


class Slots:
    """Attachments of one driver, while pods and their volumes move."""

    def __init__(self, fleet: Fleet, limits: Mapping[str, int]) -> None:
        self._fleet = fleet
        self._free = Stock(fleet, [limits.get(node.name, UNLIMITED) for node in fleet])
        self._on: dict[str, Counter[str]] = {}
        self._where: dict[str, set[str]] = {}

    def attach(self, node: str, handles: Iterable[str]) -> None:
        """Attaches volumes to a node for one more pod."""
        there = self._on.setdefault(node, Counter())
        for handle in handles:
            there[handle] += 1
            if there[handle] == 1:
                self._where.setdefault(handle, set()).add(node)
                self._change(node, -1)

    def detach(self, node: str, handles: Iterable[str]) -> None:
        """Lets go of them; the last pod that uses a volume takes it along."""
        there = self._on[node]
        for handle in handles:
            there[handle] -= 1
            if not there[handle]:
                del there[handle]
                self._where[handle].discard(node)
                self._change(node, 1)

    def open_to(self, handles: set[str], home: str, brought: set[str]) -> NodeSet:
        """Nodes that can attach these, once the pod at home has taken along what it brought."""
        nodes = self._free.at_least(len(handles))
        special = {home}.union(*(self._where.get(handle, ()) for handle in handles))
        for name in special:
            single = self._fleet.only(name)
            if single:
                fits = self._fits(name, handles, brought if name == home else set())
                nodes = nodes | single if fits else nodes & ~single
        return nodes

    def _fits(self, node: str, handles: set[str], brought: set[str]) -> bool:
        there = self._on.get(node, Counter())
        freed = {handle for handle in brought if there[handle] == 1}
        new = sum(handle not in there or handle in freed for handle in handles)
        return not new or self._free.left[self._fleet.position[node]] + len(freed) >= new

    def _change(self, node: str, by: int) -> None:
        if node in self._fleet.position:
            self._free.change(self._fleet.position[node], by)


ZONE_LABELS = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels of a volume, and where a node says the same today."""


class Attachments:
    """The claims of a snapshot, who uses them, and what each node can still attach."""

    def __init__(self, snapshot: Snapshot, residents: Residents) -> None:
        self._snapshot = snapshot
        self._residents = residents
        self._reach: dict[str, NodeSet] = {}

    def unknown(self, pod: Pod) -> str | None:
        """The first claim of the pod that the snapshot cannot speak for."""
        for name in pod.claims:
            claim = self._snapshot.claims.get(f"{pod.namespace}/{name}")
            if claim is None or claim.going:
                return name
            if claim.volume and claim.volume not in self._snapshot.volumes:
                return name
        return None

    def reachable(self, pod: Pod) -> NodeSet:
        """Nodes that all volumes of the pod can be reached from."""
        fleet = self._residents.fleet
        nodes = fleet.everyone
        for name in pod.claims:
            claim = self._snapshot.claims[f"{pod.namespace}/{name}"]
            if claim.one_pod_only and self._users[claim.key] > (pod.node in fleet.position):
                return 0
            if claim.volume:
                nodes &= self._reach_of(self._snapshot.volumes[claim.volume])
        return nodes

    def attachable(self, pod: Pod) -> NodeSet:
        """Nodes that can attach all volumes of the pod, going by their drivers' limits."""
        nodes, home = self._residents.fleet.everyone, self._residents.home(pod)
        brought = self._handles(pod)
        for driver, handles in _by_driver(self._volumes(pod)).items():
            if driver in self._slots:
                nodes &= self._slots[driver].open_to(handles, home, brought[driver])
        return nodes

    def move(self, pod: Pod, source: str, target: str, *, back: bool = False) -> None:
        """Detaches the pod's volumes from one node and attaches them to another.

        Claims made for the pod alone go with it; what its replacement gets is not known yet.
        """
        for driver, handles in self._handles(pod).items():
            if driver in self._slots:
                self._slots[driver].detach(source, handles)
        for driver, handles in _by_driver(self._volumes(pod, own=back)).items():
            if driver in self._slots:
                self._slots[driver].attach(target, handles)

    def _handles(self, pod: Pod) -> dict[str, set[str]]:
        """What is attached for the pod where it is."""
        return _by_driver(self._volumes(pod, own=not self._residents.moved(pod)))

    def _volumes(self, pod: Pod, *, own: bool = False) -> list[Volume]:
        found = []
        for name in (*pod.claims, *pod.own_claims) if own else pod.claims:
            claim = self._snapshot.claims.get(f"{pod.namespace}/{name}")
            volume = self._snapshot.volumes.get(claim.volume) if claim else None
            if volume is not None:
                found.append(volume)
        return found

    @cached_property
    def _users(self) -> Counter[str]:
        """How many pods use each claim that one pod alone may use."""
        return Counter(
            f"{pod.namespace}/{name}"
            for template in self._residents.population.templates
            if template.spec.claim_volumes
            for pod in self._residents.population.active_of(template)
            if pod.node in self._residents.fleet.position
            for name in dict.fromkeys(pod.claims)
        )

    @cached_property
    def _slots(self) -> dict[str, Slots]:
        """The drivers whose volumes some node can attach only so many of."""
        limits: dict[str, dict[str, int]] = {}
        for entry in self._snapshot.attach_limits.values():
            for driver, count in entry.limits.items():
                limits.setdefault(driver, {})[entry.name] = count
        residents = self._residents
        slots = {driver: Slots(residents.fleet, counts) for driver, counts in limits.items()}
        for template in residents.population.templates if slots else ():
            if template.spec.claim_volumes or template.spec.ephemeral_claims:
                for pod in residents.population.active_of(template):
                    for driver, handles in self._handles(pod).items():
                        if driver in slots:
                            slots[driver].attach(residents.home(pod), handles)
        return slots

    def _reach_of(self, volume: Volume) -> NodeSet:
        nodes = self._reach.get(volume.name)
        if nodes is None:
            fleet = self._residents.fleet
            nodes = _zoned(volume, fleet)
            if volume.terms is not None:
                matching = 0
                for term in volume.terms:
                    matching |= fleet.matching(term, "")
                nodes &= matching
            self._reach[volume.name] = nodes
        return nodes


def _zoned(volume: Volume, fleet: Fleet) -> NodeSet:
    """Nodes in the zones that the volume's labels name; nodes that name none are not judged."""
    nodes = fleet.everyone
    placed = 0
    for key in ZONE_LABELS:
        placed |= fleet.having(key)
    for key, today in ZONE_LABELS.items():
        if key in volume.labels:
            there = 0
            for value in volume.labels[key].split("__"):
                there |= fleet.domains(key).get(value, 0)
                there |= fleet.domains(today).get(value, 0) & ~fleet.having(key)
            nodes &= there | ~placed & fleet.everyone
    return nodes


def _by_driver(volumes: list[Volume]) -> dict[str, set[str]]:
    handles: dict[str, set[str]] = {}
    for volume in volumes:
        if volume.driver:
            handles.setdefault(volume.driver, set()).add(volume.handle)
    return handles
