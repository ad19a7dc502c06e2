"""From the wire structs of Kubernetes objects to the values of the model.

A decoder fills in no defaults of the API server. Conditions of pods cost a tenth of the work, so
they are left out unless a plugin declares that it reads them.
"""

from __future__ import annotations

from resettle.model.constraints import Taint
from resettle.model.decoding import wire
from resettle.model.decoding.pod_fields import (
    NO_VOLUMES,
    Conditions,
    conditions_of,
    node_term_of,
    ready_of,
    selector_of,
    volumes_of,
)
from resettle.model.decoding.pod_parts import PodParts
from resettle.model.objects import (
    AttachLimits,
    Budget,
    Claim,
    Namespace,
    Node,
    PriorityClass,
    Volume,
)
from resettle.model.pod import Pod
from resettle.times import parse_time


class Decoder(PodParts):
    """Turns wire structs into values of the model, which share their equal parts."""

    def __init__(self, *, conditions: bool = True) -> None:
        super().__init__()
        self._reads_conditions = conditions

    def pod(self, item: wire.PodObject) -> Pod:
        """The pod, with a template and a state that it shares with equal pods."""
        meta, spec, status = item.metadata, item.spec, item.status
        node = spec.node_name or ""
        node = self._texts.setdefault(node, node)
        claims, own_claims, local = volumes_of(spec.volumes) if spec.volumes else NO_VOLUMES
        reported = status.conditions or ()
        conditions: Conditions | None = None
        since = b""
        if self._reads_conditions:
            conditions, since = conditions_of(reported) if reported else ((), b"")
        started, created = status.start_time, meta.creation_timestamp
        return Pod(
            meta.name,
            meta.uid,
            self._template(meta, self._spec(spec, node, local, bool(claims), bool(own_claims))),
            node,
            self._state(status, conditions, ready_of(reported)),
            created,
            created if started == created else started,
            meta.deletion_timestamp is not None,
            claims,
            tuple([f"{meta.name}-{volume}" for volume in own_claims]) if own_claims else (),
            since,
        )

    def node(self, item: wire.NodeObject) -> Node:
        """The node."""
        wire_taints = item.spec.taints or ()
        taints = [
            Taint(self._text(t.key), self._text(t.effect), self._text(t.value or ""))
            for t in wire_taints
        ]
        return Node(
            name=self._text(item.metadata.name),
            labels=item.metadata.labels or {},
            taints=tuple(taints),
            unschedulable=bool(item.spec.unschedulable),
            ready=all(
                c.status == "True" for c in item.status.conditions or () if c.type == "Ready"
            ),
            allocatable=self._nano_amounts(item.status.allocatable),
            capacity=self._nano_amounts(item.status.capacity),
            tainted_at={
                taint: at
                for taint, t in zip(taints, wire_taints, strict=True)
                if (at := parse_time(t.time_added))
            },
        )

    def budget(self, item: wire.BudgetObject) -> Budget:
        """The disruption budget."""
        return Budget(
            namespace=item.metadata.namespace,
            name=item.metadata.name,
            selector=selector_of(item.spec.selector),
            disruptions_allowed=item.status.disruptions_allowed,
            current_healthy=item.status.current_healthy,
            desired_healthy=item.status.desired_healthy,
            up_to_date=item.status.observed_generation >= item.metadata.generation,
            always_allow_unhealthy=item.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        )

    def claim(self, item: wire.ClaimObject) -> Claim:
        """The volume claim."""
        meta, spec = item.metadata, item.spec
        return Claim(
            meta.namespace,
            meta.name,
            spec.storage_class_name,
            volume=spec.volume_name or "",
            one_pod_only="ReadWriteOncePod" in (spec.access_modes or ()),
            going=meta.deletion_timestamp is not None,
        )

    def volume(self, item: wire.VolumeObject) -> Volume:
        """The persistent volume."""
        node_affinity, csi = item.spec.node_affinity, item.spec.csi
        required = node_affinity.required if node_affinity else None
        return Volume(
            item.metadata.name,
            item.metadata.labels or {},
            tuple(map(node_term_of, required.node_selector_terms or ())) if required else None,
            driver=self._text(csi.driver) if csi else "",
            handle=csi.volume_handle if csi else "",
        )

    def attach_limits(self, item: wire.CsiNodeObject) -> AttachLimits:
        """How many volumes of each driver a node can attach."""
        return AttachLimits(
            item.metadata.name,
            {
                self._text(driver.name): driver.allocatable.count
                for driver in item.spec.drivers or ()
                if driver.allocatable and driver.allocatable.count is not None
            },
        )

    def namespace(self, item: wire.NamespaceObject) -> Namespace:
        """The namespace."""
        return Namespace(item.metadata.name, item.metadata.labels or {})

    def priority_class(self, item: wire.PriorityClassObject) -> PriorityClass:
        """The priority class."""
        return PriorityClass(item.metadata.name, item.value)
