"""From the bytes of Kubernetes objects to the model, equal parts held once.

Pods of one workload come with the same bytes in the same places (the API server writes maps
sorted), so the bytes themselves are the key under which a decoded part is found again. What
differs from pod to pod (names, times, container ids) never enters a key.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from resettle.errors import InputError
from resettle.model import wire
from resettle.model.affinity import (
    OWN_NODE,
    NodeTerm,
    PodTerm,
    PreferredPodTerm,
    PreferredTerm,
    SpreadConstraint,
)
from resettle.model.node import (
    AttachLimits,
    Budget,
    Claim,
    Namespace,
    Node,
    PriorityClass,
    Volume,
)
from resettle.model.pod import (
    DELETION_COST,
    EVICT,
    MIRROR,
    PREFER_NO_EVICTION,
    SOURCE,
    ContainerState,
    Demand,
    HostPort,
    Owner,
    Pod,
    Spec,
    State,
    Template,
)
from resettle.model.quantity import parse_quantity
from resettle.model.resources import ContainerAsk, pod_requests, quality_of_service
from resettle.model.selector import NOTHING, Expression, LabelSelector, Requirement, Selector
from resettle.model.taint import Taint, Toleration

T = TypeVar("T")
Amount = str | int | float
Conditions = tuple[tuple[str, str, str], ...]

# A DaemonSet pins each pod to its node by name; with the name taken out, its pods share a spec.
_PIN = re.compile(
    rb'("matchFields":\s*\[\s*\{\s*"key":\s*"metadata\.name",\s*"operator":\s*"In",'
    rb'\s*"values":\s*\[\s*)"([^"]*)"(\s*\]\s*\}\s*\])'
)
_OWN_NODE_JSON = msgspec.json.encode(OWN_NODE)
_NO_STATE = ContainerState()

_labels = msgspec.json.Decoder(dict[str, str] | None)
_owners = msgspec.json.Decoder(list[wire.OwnerReference] | None)
_resources = msgspec.json.Decoder(wire.Resources | None)
_amounts = msgspec.json.Decoder(dict[str, Amount] | None)
_affinity = msgspec.json.Decoder(wire.Affinity | None)
_tolerations = msgspec.json.Decoder(list[wire.TolerationItem] | None)
_spread = msgspec.json.Decoder(list[wire.SpreadItem] | None)
_ports = msgspec.json.Decoder(list[wire.Port] | None)
_anything = msgspec.json.Decoder(list[Raw] | None)


def parse_time(text: str | None) -> datetime | None:
    """The instant that an RFC 3339 text names."""
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"`{text}` is not a time; write one such as `2026-01-31T12:00:00Z`"
        ) from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


class Decoder:
    """Turns wire objects into the model; one decoder shares parts among all it has seen."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._quantities: dict[Amount, int] = {}
        self._labels: dict[bytes, dict[str, str]] = {}
        self._annotations: dict[tuple[str | None, ...], dict[str, str]] = {}
        self._owners: dict[bytes, tuple[Owner, ...]] = {}
        self._asks: dict[tuple[bytes, bool], ContainerAsk] = {}
        self._demands: dict[tuple[Any, ...], Demand] = {}
        self._specs: dict[tuple[Any, ...], Spec] = {}
        self._templates: dict[tuple[Any, ...], Template] = {}
        self._states: dict[tuple[Any, ...], State] = {}

    def pod(self, item: wire.PodObject) -> Pod:
        """The pod, on the template it shares with its like."""
        meta, spec, status = item.metadata, item.spec, item.status
        node = spec.node_name or ""
        node = self._texts.setdefault(node, node)
        claims, own, local = _volumes(spec.volumes) if spec.volumes else _NO_VOLUMES
        conditions, since = _conditions(status.conditions) if status.conditions else ((), b"")
        started, created = status.start_time, meta.creation_timestamp
        born = parse_time(created)
        return Pod(
            meta.name,
            meta.uid,
            self._template(meta, self._spec(spec, node, local, bool(claims), bool(own))),
            node,
            self._state(status, conditions),
            born,
            born if started == created else parse_time(started),
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
            selector=_selector(item.spec.selector),
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
            tuple(map(_node_term, required.node_selector_terms or ())) if required else None,
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
        marks = meta.annotations
        annotations = (
            (marks.evict, marks.prefer_no_eviction, marks.mirror, marks.source, marks.deletion_cost)
            if marks
            else ()
        )
        # Shared parts are one object each, so their identity stands for their bytes.
        key = (meta.namespace, id(labels), annotations, id(owners), id(spec))
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = Template(
                namespace=self._text(meta.namespace),
                labels=labels,
                annotations=_shared(self._annotations, annotations, _annotations),
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
        affinity = bytes(item.affinity)
        if b"matchFields" in affinity:
            affinity = _unpinned(affinity, node.encode())
        containers, init = item.containers, item.init_containers
        key = (
            tuple([(c.image, bytes(c.resources)) for c in containers]) if containers else (),
            tuple([(c.image, bytes(c.resources), c.restart_policy) for c in init]) if init else (),
            affinity,
            bytes(item.tolerations),
            bytes(item.node_selector),
            bytes(item.topology_spread_constraints),
            _rare_parts(item),
            item.priority,
            _host_ports(containers, init),
            local,
            claimed,
            ephemeral,
        )
        spec = self._specs.get(key)
        if spec is None:
            built = self._build_spec(item, affinity, local=local, claimed=claimed)
            spec = self._specs[key] = msgspec.structs.replace(built, ephemeral_claims=ephemeral)
        return spec

    def _build_spec(
        self, item: wire.PodSpec, affinity: bytes, *, local: bool, claimed: bool
    ) -> Spec:
        containers = [self._ask(c) for c in item.containers or ()]
        init_containers = [self._ask(c) for c in item.init_containers or ()]
        pod_level = _part(_resources, bytes(item.resources))
        wishes = _part(_affinity, affinity) or wire.Affinity()
        nodes, near, away = wishes.node_affinity, wishes.pod_affinity, wishes.pod_anti_affinity
        required = nodes.required if nodes else None
        required_terms = required.node_selector_terms or () if required else ()
        selector = _part(_labels, bytes(item.node_selector))
        return Spec(
            demand=self._demand(
                pod_requests(
                    containers,
                    init_containers,
                    self._measured(pod_level.requests if pod_level else None),
                    self._measured(_part(_amounts, bytes(item.overhead))),
                ),
                tuple(
                    Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "")
                    for t in _part(_tolerations, bytes(item.tolerations)) or ()
                ),
                None if selector is None else tuple(sorted(selector.items())),
                tuple(map(_node_term, required_terms)) if required else None,
                any(term.match_fields for term in required_terms),
            ),
            requested=frozenset(
                name for ask in (*containers, *init_containers) for name in ask.requests
            ),
            images=tuple(sorted(self._text(c.image) for c in item.containers or ())),
            qos=quality_of_service((*containers, *init_containers)),
            priority=item.priority,
            preferred_terms=tuple(
                PreferredTerm(row.weight, _node_term(row.preference))
                for row in (nodes.preferred if nodes else None) or ()
            ),
            has_node_affinity=nodes is not None,
            affinity=tuple(map(_pod_term, (near.required if near else None) or ())),
            anti_affinity=tuple(map(_pod_term, (away.required if away else None) or ())),
            preferred_away=tuple(
                PreferredPodTerm(row.weight, _pod_term(row.pod_affinity_term))
                for row in (away.preferred if away else None) or ()
            ),
            spread=tuple(
                map(
                    _spread_constraint,
                    _part(_spread, bytes(item.topology_spread_constraints)) or (),
                )
            ),
            local_storage=local,
            claim_volumes=claimed,
            resource_claims=bool(_part(_anything, bytes(item.resource_claims))),
            gated=bool(_part(_anything, bytes(item.scheduling_gates))),
            host_ports=tuple(
                HostPort(port.protocol, port.host_port, _address(port.host_ip))
                for raw in _host_ports(item.containers, item.init_containers)
                for port in _ports.decode(raw) or ()
                if port.host_port
            ),
        )

    def _demand(
        self,
        requests: dict[str, int],
        tolerations: tuple[Toleration, ...],
        node_selector: tuple[tuple[str, str], ...] | None,
        terms: tuple[NodeTerm, ...] | None,
        pinned: bool,
    ) -> Demand:
        key = (frozenset(requests.items()), tolerations, node_selector, terms)
        demand = self._demands.get(key)
        if demand is None:
            demand = self._demands[key] = Demand(
                requests, tolerations, node_selector, terms, pinned
            )
        return demand

    def _ask(self, container: wire.Container) -> ContainerAsk:
        key = (bytes(container.resources), container.restart_policy == "Always")
        ask = self._asks.get(key)
        if ask is None:
            wanted = _part(_resources, key[0])
            ask = self._asks[key] = ContainerAsk(
                self._measured(wanted.requests if wanted else None),
                self._measured(wanted.limits if wanted else None),
                restartable=key[1],
            )
        return ask

    def _measured(self, amounts: dict[str, Amount] | None) -> dict[str, int]:
        measured: dict[str, int] = {}
        for name, amount in (amounts or {}).items():
            nano = self._quantities.get(amount)
            if nano is None:
                try:
                    nano = self._quantities[amount] = parse_quantity(str(amount))
                except InputError as error:
                    raise InputError(f"{name}: {error}") from None
            measured[self._text(name)] = nano
        return measured

    def _state(self, status: wire.PodStatus, conditions: Conditions) -> State:
        containers, init = status.container_statuses, status.init_container_statuses
        ephemeral = status.ephemeral_container_statuses
        key = (
            status.phase,
            status.reason,
            status.qos_class,
            tuple([_container_state(it) for it in containers]) if containers else (),
            tuple([_container_state(it) for it in init]) if init else (),
            tuple([_container_state(it) for it in ephemeral]) if ephemeral else (),
            conditions,
        )
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = _new_state(key)
        return state


def _new_state(parts: tuple[Any, ...]) -> State:
    state = State(*parts)
    ready = any(it[:2] == ("Ready", "True") for it in state.conditions)
    return msgspec.structs.replace(state, ready=ready)


def _container_state(status: wire.ContainerStatus) -> ContainerState:
    state = status.state
    waiting, ended = (state.waiting, state.terminated) if state else (None, None)
    if waiting is None and ended is None and not status.restart_count:
        return _NO_STATE
    return ContainerState(
        status.restart_count,
        waiting.reason if waiting else None,
        ended.reason if ended else None,
        ended.exit_code if ended else None,
    )


K = TypeVar("K")


def _shared(known: dict[K, T], key: K, make: Callable[[K], T]) -> T:
    value = known.get(key)
    if value is None:
        value = known[key] = make(key)
    return value


_NO_VOLUMES: tuple[tuple[str, ...], tuple[str, ...], bool] = ((), (), False)


def _volumes(volumes: list[wire.Volume]) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """The claims among the volumes, the volumes that get a claim made, whether data is local."""
    claims: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    local = False
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            claims += (volume.persistent_volume_claim.claim_name,)
        elif _present(volume.ephemeral):
            own += (volume.name,)
        elif not local:
            local = _present(volume.empty_dir) or _present(volume.host_path)
    return claims, own, local


def _host_ports(
    containers: list[wire.Container] | None, init: list[wire.Container] | None
) -> tuple[bytes, ...]:
    """The ports, undecoded, of each container that takes some of the node's own."""
    return tuple(
        [bytes(c.ports) for c in containers or () if b"hostPort" in bytes(c.ports)]
        + [
            bytes(c.ports)
            for c in init or ()
            if c.restart_policy == "Always" and b"hostPort" in bytes(c.ports)
        ]
    )


def _address(text: str) -> str:
    return "" if text == "0.0.0.0" else text


def _present(raw: Raw) -> bool:
    return raw is not wire.ABSENT and bytes(raw) != b"null"


def _part(decoder: msgspec.json.Decoder[T], raw: bytes) -> T | None:
    return decoder.decode(raw) if raw else None


def _annotations(marks: tuple[str | None, ...]) -> dict[str, str]:
    names = (EVICT, PREFER_NO_EVICTION, MIRROR, SOURCE, DELETION_COST)
    return {name: mark for name, mark in zip(names, marks, strict=False) if mark is not None}


def _rare_parts(item: wire.PodSpec) -> tuple[bytes, ...]:
    overhead, resources, claims = item.overhead, item.resources, item.resource_claims
    gates = item.scheduling_gates
    if overhead is resources is claims is gates is wire.ABSENT:
        return ()
    return (bytes(overhead), bytes(resources), bytes(claims), bytes(gates))


def _unpinned(affinity: bytes, node: bytes) -> bytes:
    """The affinity with the pod's own node taken out by name, if it is pinned to that."""
    found = _PIN.search(affinity)
    if not node or found is None or found[2] != node:
        return affinity
    return affinity[: found.end(1)] + _OWN_NODE_JSON + affinity[found.start(3) :]


def _conditions(conditions: list[wire.ConditionStatus]) -> tuple[Conditions, bytes]:
    """What holds, and packed since when; most of a pod's conditions changed at once."""
    shape: list[tuple[str, str, str]] = []
    times: list[int] = []
    last: str | None = None
    second = 0
    for condition in conditions:
        shape.append((condition.type, condition.status, condition.reason or ""))
        if condition.last_transition_time != last:
            last = condition.last_transition_time
            since = parse_time(last)
            second = int(since.timestamp()) if since else 0
        times.append(second)
    return tuple(shape), array("q", times).tobytes()


def _requirement(row: Expression) -> Requirement:
    return Requirement(row.key, row.operator, row.values)


def _node_term(term: wire.SelectorTerm) -> NodeTerm:
    return NodeTerm(
        tuple(map(_requirement, term.match_expressions or ())),
        tuple(map(_requirement, term.match_fields or ())),
    )


def _selector(selector: wire.LabelSelectorObject | None) -> Selector | None:
    if selector is None:
        return NOTHING
    return LabelSelector(
        match_labels=selector.match_labels or {},
        match_expressions=tuple(selector.match_expressions or ()),
    ).compiled()


def _pod_term(term: wire.PodAffinityTerm) -> PodTerm:
    spaces = term.namespace_selector
    return PodTerm(
        term.topology_key,
        _selector(term.label_selector),
        tuple(term.namespaces or ()),
        None if spaces is None else _selector(spaces),
        tuple(term.match_label_keys or ()),
        tuple(term.mismatch_label_keys or ()),
    )


def _spread_constraint(item: wire.SpreadItem) -> SpreadConstraint:
    return SpreadConstraint(
        max_skew=item.max_skew,
        topology_key=item.topology_key,
        when_unsatisfiable=item.when_unsatisfiable,
        selector=_selector(item.label_selector),
        match_label_keys=tuple(item.match_label_keys or ()),
        node_affinity_policy=item.node_affinity_policy or "Honor",
        node_taints_policy=item.node_taints_policy or "Ignore",
        min_domains=item.min_domains or 1,
    )
