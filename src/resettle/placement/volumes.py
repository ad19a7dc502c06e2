"""Volumes: the nodes that can reach them, and how many more each node can attach.

Counterpart of kube-scheduler's filters VolumeBinding, VolumeRestrictions, VolumeZone and
NodeVolumeLimits. If a claim or its volume is not in the snapshot, it might tie the pod to any
node, so no node counts as feasible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

from resettle.model.node_index import NodeIndex, NodeSet
from resettle.model.objects import Volume
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.placement.capacity import FreeResource
from resettle.placement.pod_locations import PodLocations

UNLIMITED = 1 << 30


class DriverAttachments:
    """The attached volumes of one CSI driver, updated as pods move."""

    def __init__(self, node_index: NodeIndex, limits: Mapping[str, int]) -> None:
        self._node_index = node_index
        self._free = FreeResource(
            node_index, [limits.get(node.name, UNLIMITED) for node in node_index]
        )
        self._on: dict[str, Counter[str]] = {}
        self._where: dict[str, set[str]] = {}

    def attach(self, node: str, handles: Iterable[str]) -> None:
        """Attach volumes to a node for one more pod."""
        there = self._on.setdefault(node, Counter())
        for handle in handles:
            there[handle] += 1
            if there[handle] == 1:
                self._where.setdefault(handle, set()).add(node)
                self._change(node, -1)

    def detach(self, node: str, handles: Iterable[str]) -> None:
        """Detach volumes for one pod; a volume stays attached while another pod uses it."""
        there = self._on[node]
        for handle in handles:
            there[handle] -= 1
            if not there[handle]:
                del there[handle]
                self._where[handle].discard(node)
                self._change(node, 1)

    def attachable_nodes(self, handles: set[str], current: str, brought: set[str]) -> NodeSet:
        """Nodes that can attach these, once the pod's own volumes have left its current node."""
        nodes = self._free.at_least(len(handles))
        special = {current}.union(*(self._where.get(handle, ()) for handle in handles))
        for name in special:
            single = self._node_index.only(name)
            if single:
                fits = self._fits(name, handles, brought if name == current else set())
                nodes = nodes | single if fits else nodes & ~single
        return nodes

    def _fits(self, node: str, handles: set[str], brought: set[str]) -> bool:
        there = self._on.get(node, Counter())
        freed = {handle for handle in brought if there[handle] == 1}
        new = sum(handle not in there or handle in freed for handle in handles)
        return not new or self._free.free[self._node_index.position[node]] + len(freed) >= new

    def _change(self, node: str, by: int) -> None:
        if node in self._node_index.position:
            self._free.add(self._node_index.position[node], by)


ZONE_LABELS = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Zone labels of a volume, and the label that nodes use for it now."""


class VolumeChecks:
    """Checks of the volumes that pods use, over the claims of a snapshot."""

    def __init__(self, snapshot: Snapshot, pod_locations: PodLocations) -> None:
        self._snapshot = snapshot
        self._pod_locations = pod_locations
        self._reachable: dict[str, NodeSet] = {}

    def unknown_claim(self, pod: Pod) -> str | None:
        """The first claim of the pod that the snapshot does not fully know."""
        for name in pod.claims:
            claim = self._snapshot.claims.get(f"{pod.namespace}/{name}")
            if claim is None or claim.going:
                return name
            if claim.volume and claim.volume not in self._snapshot.volumes:
                return name
        return None

    def reachable(self, pod: Pod) -> NodeSet:
        """Nodes that can reach all volumes of the pod."""
        node_index = self._pod_locations.node_index
        nodes = node_index.all_nodes
        for name in pod.claims:
            claim = self._snapshot.claims[f"{pod.namespace}/{name}"]
            if claim.one_pod_only and self._users[claim.key] > (pod.node in node_index.position):
                return 0
            if claim.volume:
                nodes &= self._reachable_from(self._snapshot.volumes[claim.volume])
        return nodes

    def attachable(self, pod: Pod) -> NodeSet:
        """Nodes that can attach all volumes of the pod within the limits of their drivers."""
        nodes, current = (
            self._pod_locations.node_index.all_nodes,
            self._pod_locations.current_node(pod),
        )
        brought = self._handles(pod)
        for driver, handles in _by_driver(self._volumes(pod)).items():
            if driver in self._drivers:
                nodes &= self._drivers[driver].attachable_nodes(handles, current, brought[driver])
        return nodes

    def move(self, pod: Pod, source: str, target: str, *, back: bool = False) -> None:
        """Detach the pod's volumes from one node and attach them to another.

        Ephemeral claims are deleted with the pod; those of its replacement are not known yet.
        """
        for driver, handles in self._handles(pod).items():
            if driver in self._drivers:
                self._drivers[driver].detach(source, handles)
        for driver, handles in _by_driver(self._volumes(pod, own=back)).items():
            if driver in self._drivers:
                self._drivers[driver].attach(target, handles)

    def _handles(self, pod: Pod) -> dict[str, set[str]]:
        """The volumes that are attached for the pod on its current node, by driver."""
        return _by_driver(self._volumes(pod, own=not self._pod_locations.is_moved(pod)))

    def _volumes(self, pod: Pod, *, own: bool = False) -> list[Volume]:
        volumes = []
        for name in (*pod.claims, *pod.own_claims) if own else pod.claims:
            claim = self._snapshot.claims.get(f"{pod.namespace}/{name}")
            volume = self._snapshot.volumes.get(claim.volume) if claim else None
            if volume is not None:
                volumes.append(volume)
        return volumes

    @cached_property
    def _users(self) -> Counter[str]:
        """How many pods use each claim."""
        return Counter(
            f"{pod.namespace}/{name}"
            for template in self._pod_locations.pod_index.templates
            if template.spec.claim_volumes
            for pod in self._pod_locations.pod_index.active_of(template)
            if pod.node in self._pod_locations.node_index.position
            for name in dict.fromkeys(pod.claims)
        )

    @cached_property
    def _drivers(self) -> dict[str, DriverAttachments]:
        """The drivers that have an attach limit on some node."""
        limits: dict[str, dict[str, int]] = {}
        for entry in self._snapshot.attach_limits.values():
            for driver, count in entry.limits.items():
                limits.setdefault(driver, {})[entry.name] = count
        pod_locations = self._pod_locations
        drivers = {
            driver: DriverAttachments(pod_locations.node_index, counts)
            for driver, counts in limits.items()
        }
        for template in pod_locations.pod_index.templates if drivers else ():
            if template.spec.claim_volumes or template.spec.ephemeral_claims:
                for pod in pod_locations.pod_index.active_of(template):
                    for driver, handles in self._handles(pod).items():
                        if driver in drivers:
                            drivers[driver].attach(pod_locations.current_node(pod), handles)
        return drivers

    def _reachable_from(self, volume: Volume) -> NodeSet:
        nodes = self._reachable.get(volume.name)
        if nodes is None:
            node_index = self._pod_locations.node_index
            nodes = _nodes_in_zones(volume, node_index)
            if volume.terms is not None:
                matching = 0
                for term in volume.terms:
                    matching |= node_index.matching_term(term, "")
                nodes &= matching
            self._reachable[volume.name] = nodes
        return nodes


def _nodes_in_zones(volume: Volume, node_index: NodeIndex) -> NodeSet:
    """Nodes in the zones of the volume's labels; nodes without zone labels pass (VolumeZone)."""
    nodes = node_index.all_nodes
    zoned = 0
    for key in ZONE_LABELS:
        zoned |= node_index.with_label(key)
    for key, today in ZONE_LABELS.items():
        if key in volume.labels:
            there = 0
            for value in volume.labels[key].split("__"):
                there |= node_index.domains(key).get(value, 0)
                there |= node_index.domains(today).get(value, 0) & ~node_index.with_label(key)
            nodes &= there | ~zoned & node_index.all_nodes
    return nodes


def _by_driver(volumes: list[Volume]) -> dict[str, set[str]]:
    handles: dict[str, set[str]] = {}
    for volume in volumes:
        if volume.driver:
            handles.setdefault(volume.driver, set()).add(volume.handle)
    return handles
