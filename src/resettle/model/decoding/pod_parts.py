"""The parts that pods share: templates, specs, states; equal parts are one object.

Pods of one workload come with the same bytes in the same places (the API server writes maps
sorted), so the bytes, or what msgspec makes of them, are the key under which a part is found again.
What differs from pod to pod (names, times, container ids) is never in a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from resettle.errors import InputError
from resettle.model.constraints import NodeTerm, Toleration
from resettle.model.decoding import wire
from resettle.model.decoding.pod_fields import (
    Conditions,
    DecodedAffinity,
    affinity_of,
    annotations_of,
    container_states_of,
    containers_key,
    rare_fields_of,
    replace_own_node_name,
    spread_of,
    tolerations_of,
)
from resettle.model.pod import Demand, HostPort, Owner, Spec, State, Template
from resettle.model.resources import (
    ContainerResources,
    PodResources,
    parse_quantity,
    pod_resources_of,
)

K = TypeVar("K")
T = TypeVar("T")
Amount = str | int | float

_labels = msgspec.json.Decoder(dict[str, str] | None)
_owners = msgspec.json.Decoder(list[wire.OwnerReference] | None)
_resources = msgspec.json.Decoder(wire.Resources | None)
_amounts = msgspec.json.Decoder(dict[str, Amount] | None)
_anything = msgspec.json.Decoder(list[Raw] | None)
_gates = msgspec.json.Decoder(list[wire.SchedulingGate] | None)


class PodParts:
    """Parts of pods, each kept under the bytes that it was decoded from."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._quantities: dict[Amount, int] = {}
        self._labels: dict[bytes, dict[str, str]] = {}
        self._annotations: dict[wire.WatchedAnnotations | None, dict[str, str]] = {}
        self._owners: dict[bytes, tuple[Owner, ...]] = {}
        self._pod_resources_by_key: dict[tuple[Any, ...], PodResources] = {}
        self._affinities: dict[bytes, DecodedAffinity] = {}
        self._tolerations: dict[bytes, tuple[Toleration, ...]] = {}
        self._demands: dict[tuple[Any, ...], Demand] = {}
        self._specs: dict[tuple[Any, ...], Spec] = {}
        self._templates: dict[tuple[Any, ...], Template] = {}
        self._states: dict[tuple[Any, ...], State] = {}

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
        # Equal parts are one object, so their identity can be used in place of their bytes.
        key = (meta.namespace, id(labels), annotations, id(owners), id(spec))
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = Template(
                namespace=self._text(meta.namespace),
                labels=labels,
                annotations=_get_or_make(self._annotations, annotations, annotations_of),
                owners=owners,
                spec=spec,
            )
        return template

    def _owner_references(self, raw: bytes) -> tuple[Owner, ...]:
        return tuple(
            Owner(
                self._text(owner.kind),
                owner.name,
                owner.uid,
                self._text(owner.api_version),
                bool(owner.controller),
            )
            for owner in _part(_owners, raw) or ()
        )

    def _spec(
        self, item: wire.PodSpec, node: str, local: bool, claimed: bool, ephemeral: bool
    ) -> Spec:
        affinity = b""
        if item.affinity is not wire.ABSENT:
            affinity = bytes(item.affinity)
            if b"matchFields" in affinity:
                affinity = replace_own_node_name(affinity, node.encode())
        key = (
            containers_key(item.containers) if item.containers else (),
            containers_key(item.init_containers) if item.init_containers else (),
            affinity,
            bytes(item.tolerations),
            rare_fields_of(item),
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
        resources = self._pod_resources(item)
        decoded = _get_or_make(self._affinities, affinity, affinity_of)
        selector = _part(_labels, bytes(item.node_selector))
        sidecars = [c for c in init_containers if c.restart_policy == "Always"]
        return Spec(
            demand=self._demand(
                resources.requests,
                _get_or_make(self._tolerations, bytes(item.tolerations), tolerations_of),
                None if selector is None else tuple(sorted(selector.items())),
                decoded.required_node_terms,
            ),
            requested=resources.requested,
            images=tuple(sorted([self._text(c.image) for c in containers])),
            qos=resources.qos,
            priority=item.priority,
            preferred_terms=decoded.preferred_node_terms,
            has_node_affinity=decoded.has_node_affinity,
            affinity=decoded.affinity,
            anti_affinity=decoded.anti_affinity,
            preferred_anti_affinity=decoded.preferred_anti_affinity,
            spread=spread_of(bytes(item.topology_spread_constraints)),
            local_storage=local,
            claim_volumes=claimed,
            ephemeral_claims=ephemeral,
            resource_claims=bool(_part(_anything, bytes(item.resource_claims))),
            gates=tuple([gate.name for gate in _part(_gates, bytes(item.scheduling_gates)) or ()]),
            host_ports=tuple(
                [
                    HostPort(port.protocol, port.host_port, _address(port.host_ip))
                    for container in (*containers, *sidecars)
                    for port in container.ports or ()
                    if port.host_port
                ]
            ),
        )

    def _pod_resources(self, item: wire.PodSpec) -> PodResources:
        containers, init_containers = item.containers or (), item.init_containers or ()
        key = (
            tuple([bytes(c.resources) for c in containers]),
            tuple([(bytes(c.resources), c.restart_policy) for c in init_containers]),
            bytes(item.resources),
            bytes(item.overhead),
        )
        resources = self._pod_resources_by_key.get(key)
        if resources is None:
            pod_level = _part(_resources, key[2])
            resources = self._pod_resources_by_key[key] = pod_resources_of(
                [self._container_resources(c) for c in containers],
                [self._container_resources(c) for c in init_containers],
                self._nano_amounts(pod_level.requests if pod_level else None),
                self._nano_amounts(_part(_amounts, key[3])),
            )
        return resources

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

    def _container_resources(self, container: wire.Container) -> ContainerResources:
        declared = _part(_resources, bytes(container.resources))
        return ContainerResources(
            self._nano_amounts(declared.requests if declared else None),
            self._nano_amounts(declared.limits if declared else None),
            restartable=container.restart_policy == "Always",
        )

    def _nano_amounts(self, amounts: dict[str, Amount] | None) -> dict[str, int]:
        nano_amounts: dict[str, int] = {}
        for name, amount in (amounts or {}).items():
            nano = self._quantities.get(amount)
            if nano is None:
                try:
                    nano = self._quantities[amount] = parse_quantity(str(amount))
                except InputError as error:
                    raise InputError(f"{name}: {error.what}", error.fix) from None
            nano_amounts[self._text(name)] = nano
        return nano_amounts

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

    # -- what is kept ---------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """How many templates and states are kept."""
        return len(self._templates) + len(self._states)

    def keep_only(
        self, templates: Iterable[Template], states: Iterable[State], names: Iterable[str]
    ) -> None:
        """Drop all parts except those of these templates, states and texts.

        Pods that are decoded later still share the parts that are kept.
        """
        kept = set(templates)
        specs = {template.spec for template in kept}
        demands = {spec.demand for spec in specs}
        shared = {
            id(part)
            for template in kept
            for part in (template.labels, template.owners, template.annotations)
        }
        shared.update(map(id, states))
        self._templates = {key: part for key, part in self._templates.items() if part in kept}
        self._specs = {key: part for key, part in self._specs.items() if part in specs}
        self._demands = {key: part for key, part in self._demands.items() if part in demands}
        self._labels = _only_shared(self._labels, shared)
        self._owners = _only_shared(self._owners, shared)
        self._annotations = _only_shared(self._annotations, shared)
        self._states = _only_shared(self._states, shared)
        self._texts = {text: text for text in names}
        for template in kept:
            for text in (template.namespace, *template.spec.images):
                self._texts[text] = text
        self._pod_resources_by_key, self._affinities = {}, {}
        self._tolerations, self._quantities = {}, {}


def _get_or_make(known: dict[K, T], key: K, make: Callable[[K], T]) -> T:
    value = known.get(key)
    if value is None:
        value = known[key] = make(key)
    return value


def _only_shared(parts: dict[K, T], shared: set[int]) -> dict[K, T]:
    return {key: part for key, part in parts.items() if id(part) in shared}


def _address(text: str) -> str:
    return "" if text == "0.0.0.0" else text


def _part(decoder: msgspec.json.Decoder[T], raw: bytes) -> T | None:
    return decoder.decode(raw) if raw else None
