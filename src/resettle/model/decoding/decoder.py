"""From the bytes of Kubernetes objects to the model, equal parts held once.

Pods of one workload come with the same bytes in the same places (the API server writes maps
sorted), so the bytes, or what the decoder makes of them, are the key under which a part is found
again. What differs from pod to pod (names, times, container ids) never enters a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from resettle.errors import InputError
from resettle.model.constraints import NodeTerm, Taint, Toleration
from resettle.model.decoding import wire
from resettle.model.decoding.pod_fields import (
    NO_VOLUMES,
    Conditions,
    Wishes,
    annotations_of,
    asked_by,
    conditions_of,
    container_states_of,
    node_term_of,
    rare_parts_of,
    ready_of,
    selector_of,
    spread_of,
    tolerations_of,
    unpinned,
    volumes_of,
    wishes_of,
)
from resettle.model.objects import (
    AttachLimits,
    Budget,
    Claim,
    Namespace,
    Node,
    PriorityClass,
    Volume,
)
from resettle.model.pod import (
    Demand,
    HostPort,
    Owner,
    Pod,
    Spec,
    State,
    Template,
)
from resettle.model.resources import ContainerAsk, Size, parse_quantity, size_of
from resettle.times import parse_time

T = TypeVar("T")
Amount = str | int | float


_labels = msgspec.json.Decoder(dict[str, str] | None)
_owners = msgspec.json.Decoder(list[wire.OwnerReference] | None)
_resources = msgspec.json.Decoder(wire.Resources | None)
_amounts = msgspec.json.Decoder(dict[str, Amount] | None)
_anything = msgspec.json.Decoder(list[Raw] | None)


class Decoder:
    """Turns wire objects into the model; one decoder shares parts among all it has seen.

    Conditions of pods are left out unless somebody reads them: they are a tenth of the work.
    """

    def __init__(self, *, conditions: bool = True) -> None:
        self._reads_conditions = conditions
        self._texts: dict[str, str] = {}
        self._quantities: dict[Amount, int] = {}
        self._labels: dict[bytes, dict[str, str]] = {}
        self._annotations: dict[wire.WatchedAnnotations | None, dict[str, str]] = {}
        self._owners: dict[bytes, tuple[Owner, ...]] = {}
        self._sizes: dict[tuple[Any, ...], Size] = {}
        self._wishes: dict[bytes, Wishes] = {}
        self._tolerations: dict[bytes, tuple[Toleration, ...]] = {}
        self._demands: dict[tuple[Any, ...], Demand] = {}
        self._specs: dict[tuple[Any, ...], Spec] = {}
        self._templates: dict[tuple[Any, ...], Template] = {}
        self._states: dict[tuple[Any, ...], State] = {}

    def pod(self, item: wire.PodObject) -> Pod:
        """The pod, on the template it shares with its like."""
        meta, spec, status = item.metadata, item.spec, item.status
        node = spec.node_name or ""
        node = self._texts.setdefault(node, node)
        claims, own, local = volumes_of(spec.volumes) if spec.volumes else NO_VOLUMES
        told = status.conditions or ()
        conditions: Conditions | None = None
        since = b""
        if self._reads_conditions:
            conditions, since = conditions_of(told) if told else ((), b"")
        started, born = status.start_time, meta.creation_timestamp
        return Pod(
            meta.name,
            meta.uid,
            self._template(meta, self._spec(spec, node, local, bool(claims), bool(own))),
            node,
            self._state(status, conditions, ready_of(told)),
            born,
            born if started == born else started,
            meta.deletion_timestamp is not None,
            claims,
            tuple([f"{meta.name}-{volume}" for volume in own]) if own else (),
            since,
        )

    def node(self, item: wire.NodeObject) -> Node:
        """The node."""
        written = item.spec.taints or ()
        taints = [
            Taint(self._text(t.key), self._text(t.effect), self._text(t.value or ""))
            for t in written
        ]
        return Node(
            name=self._text(item.metadata.name),
            labels=item.metadata.labels or {},
            taints=tuple(taints),
            unschedulable=bool(item.spec.unschedulable),
            ready=all(
                c.status == "True" for c in item.status.conditions or () if c.type == "Ready"
            ),
            allocatable=self._measured(item.status.allocatable),
            capacity=self._measured(item.status.capacity),
            tainted_at={
                taint: at
                for taint, t in zip(taints, written, strict=True)
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
        near, csi = item.spec.node_affinity, item.spec.csi
        required = near.required if near else None
        return Volume(
            item.metadata.name,
            item.metadata.labels or {},
            tuple(map(node_term_of, required.node_selector_terms or ())) if required else None,
            driver=self._text(csi.driver) if csi else "",
            handle=csi.volume_handle if csi else "",
        )

    def attach_limits(self, item: wire.CsiNodeObject) -> AttachLimits:
        """How many volumes a node takes."""
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

    # -- what it remembers ------------------------------------------------------------------

    @property
    def held(self) -> int:
        """How many templates and states it would find again."""
        return len(self._templates) + len(self._states)

    def keep_only(
        self, templates: Iterable[Template], states: Iterable[State], names: Iterable[str]
    ) -> None:
        """Forgets all parts but those of these templates, states and texts.

        Pods decoded from now on still share them with pods that have them.
        """
        kept = set(templates)
        specs = {template.spec for template in kept}
        demands = {spec.demand for spec in specs}
        shared = {id(part) for it in kept for part in (it.labels, it.owners, it.annotations)}
        shared.update(map(id, states))
        self._templates = {key: it for key, it in self._templates.items() if it in kept}
        self._specs = {key: it for key, it in self._specs.items() if it in specs}
        self._demands = {key: it for key, it in self._demands.items() if it in demands}
        self._labels = {key: it for key, it in self._labels.items() if id(it) in shared}
        self._owners = {key: it for key, it in self._owners.items() if id(it) in shared}
        self._annotations = {key: it for key, it in self._annotations.items() if id(it) in shared}
        self._states = {key: it for key, it in self._states.items() if id(it) in shared}
        self._texts = {text: text for text in names}
        for template in kept:
            for text in (template.namespace, *template.spec.images):
                self._texts[text] = text
        self._sizes, self._wishes, self._tolerations, self._quantities = {}, {}, {}, {}

    # -- parts of a pod ---------------------------------------------------------------------

    def _text(self, text: str) -> str:
        return self._texts.setdefault(text, text)

    def _template(self, meta: wire.PodMeta, spec: Spec) -> Template:
        raw_labels, raw_owners = bytes(meta.labels), bytes(meta.owner_references)
        labels = self._labels.get(raw_labels)
        if labels is None:
            labels = self._labels[raw_labels] = _part(_labels, raw_labels) or {}
        owners = self._owners.get(raw_owners)
        if owners is None:
            owners = self._owners[raw_owners] = self._owner_references(raw_owners)
        annotations = meta.annotations
        # Shared parts are one object each, so their identity stands for their bytes.
        key = (meta.namespace, id(labels), annotations, id(owners), id(spec))
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = Template(
                namespace=self._text(meta.namespace),
                labels=labels,
                annotations=_shared(self._annotations, annotations, annotations_of),
                owners=owners,
                spec=spec,
            )
        return template

    def _owner_references(self, raw: bytes) -> tuple[Owner, ...]:
        return tuple(
            Owner(self._text(owner.kind), owner.name, owner.uid)
            for owner in _part(_owners, raw) or ()
        )

    def _spec(
        self, item: wire.PodSpec, node: str, local: bool, claimed: bool, ephemeral: bool
    ) -> Spec:
        affinity = b""
        if item.affinity is not wire.ABSENT:
            affinity = bytes(item.affinity)
            if b"matchFields" in affinity:
                affinity = unpinned(affinity, node.encode())
        key = (
            asked_by(item.containers) if item.containers else (),
            asked_by(item.init_containers) if item.init_containers else (),
            affinity,
            bytes(item.tolerations),
            rare_parts_of(item),
            item.priority,
            local,
            claimed,
            ephemeral,
        )
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = self._build_spec(item, affinity, local, claimed, ephemeral)
        return spec

    def _build_spec(
        self, item: wire.PodSpec, affinity: bytes, local: bool, claimed: bool, ephemeral: bool
    ) -> Spec:
        containers, init_containers = item.containers or (), item.init_containers or ()
        size = self._size(item)
        wishes = _shared(self._wishes, affinity, wishes_of)
        selector = _part(_labels, bytes(item.node_selector))
        sidecars = [c for c in init_containers if c.restart_policy == "Always"]
        return Spec(
            demand=self._demand(
                size.requests,
                _shared(self._tolerations, bytes(item.tolerations), tolerations_of),
                None if selector is None else tuple(sorted(selector.items())),
                wishes.nodes,
            ),
            requested=size.requested,
            images=tuple(sorted([self._text(c.image) for c in containers])),
            qos=size.qos,
            priority=item.priority,
            preferred_terms=wishes.preferred_nodes,
            has_node_affinity=wishes.speaks_of_nodes,
            affinity=wishes.near,
            anti_affinity=wishes.away,
            preferred_away=wishes.preferred_away,
            spread=spread_of(bytes(item.topology_spread_constraints)),
            local_storage=local,
            claim_volumes=claimed,
            ephemeral_claims=ephemeral,
            resource_claims=bool(_part(_anything, bytes(item.resource_claims))),
            gated=bool(_part(_anything, bytes(item.scheduling_gates))),
            host_ports=tuple(
                [
                    HostPort(port.protocol, port.host_port, _address(port.host_ip))
                    for container in (*containers, *sidecars)
                    for port in container.ports or ()
                    if port.host_port
                ]
            ),
        )

    def _size(self, item: wire.PodSpec) -> Size:
        containers, init_containers = item.containers or (), item.init_containers or ()
        key = (
            tuple([bytes(c.resources) for c in containers]),
            tuple([(bytes(c.resources), c.restart_policy) for c in init_containers]),
            bytes(item.resources),
            bytes(item.overhead),
        )
        size = self._sizes.get(key)
        if size is None:
            pod_level = _part(_resources, key[2])
            size = self._sizes[key] = size_of(
                [self._ask(c) for c in containers],
                [self._ask(c) for c in init_containers],
                self._measured(pod_level.requests if pod_level else None),
                self._measured(_part(_amounts, key[3])),
            )
        return size

    def _demand(
        self,
        requests: dict[str, int],
        tolerations: tuple[Toleration, ...],
        node_selector: tuple[tuple[str, str], ...] | None,
        terms: tuple[NodeTerm, ...] | None,
    ) -> Demand:
        key = (frozenset(requests.items()), tolerations, node_selector, terms)
        demand = self._demands.get(key)
        if demand is None:
            pinned = any(term.fields for term in terms or ())
            demand = self._demands[key] = Demand(
                requests, tolerations, node_selector, terms, pinned
            )
        return demand

    def _ask(self, container: wire.Container) -> ContainerAsk:
        wanted = _part(_resources, bytes(container.resources))
        return ContainerAsk(
            self._measured(wanted.requests if wanted else None),
            self._measured(wanted.limits if wanted else None),
            restartable=container.restart_policy == "Always",
        )

    def _measured(self, amounts: dict[str, Amount] | None) -> dict[str, int]:
        measured: dict[str, int] = {}
        for name, amount in (amounts or {}).items():
            nano = self._quantities.get(amount)
            if nano is None:
                try:
                    nano = self._quantities[amount] = parse_quantity(str(amount))
                except InputError as error:
                    raise InputError(f"{name}: {error.what}", error.fix) from None
            measured[self._text(name)] = nano
        return measured

    def _state(self, status: wire.PodStatus, conditions: Conditions | None, ready: bool) -> State:
        key = (
            status.phase,
            status.reason,
            status.qos_class,
            status.container_statuses,
            status.init_container_statuses,
            status.ephemeral_container_statuses,
            conditions,
            ready,
        )
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = State(
                status.phase,
                status.reason,
                status.qos_class,
                container_states_of(status.container_statuses),
                container_states_of(status.init_container_statuses),
                container_states_of(status.ephemeral_container_statuses),
                conditions,
                ready,
            )
        return state


K = TypeVar("K")


def _shared(known: dict[K, T], key: K, make: Callable[[K], T]) -> T:
    value = known.get(key)
    if value is None:
        value = known[key] = make(key)
    return value


def _address(text: str) -> str:
    return "" if text == "0.0.0.0" else text


def _part(decoder: msgspec.json.Decoder[T], raw: bytes) -> T | None:
    return decoder.decode(raw) if raw else None
