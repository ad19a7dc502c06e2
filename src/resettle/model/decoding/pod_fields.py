"""Fields of a pod from the wire to the model: containers, volumes, affinity, tolerations, spread.

Fields that arrive as bytes are decoded once for all pods with equal bytes; `pod_parts` keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from sys import byteorder
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from resettle.model.constraints import (
    OWN_NODE,
    NodeTerm,
    PodTerm,
    PreferredPodTerm,
    PreferredTerm,
    SpreadConstraint,
    Toleration,
)
from resettle.model.decoding import wire
from resettle.model.migration_job import PIN_MARK
from resettle.model.pod import (
    ANNOTATIONS,
    ContainerState,
)
from resettle.model.selectors import NOTHING, Expression, LabelSelector, Requirement, Selector
from resettle.times import parse_time

Conditions = tuple[tuple[str, str, str], ...]

# A DaemonSet pins each pod to its node by name; with the name taken out, its pods share a spec.
_PIN = re.compile(
    rb'("matchFields":\s*\[\s*\{\s*"key":\s*"metadata\.name",\s*"operator":\s*"In",'
    rb'\s*"values":\s*\[\s*)"([^"]*)"(\s*\]\s*\}\s*\])'
)
_OWN_NODE_JSON = msgspec.json.encode(OWN_NODE)
_PIN_MARK_JSON = msgspec.json.encode(PIN_MARK)
NO_VOLUMES: tuple[tuple[str, ...], tuple[str, ...], bool] = ((), (), False)


def container_states_of(
    statuses: tuple[wire.ContainerStatus, ...] | None,
) -> tuple[ContainerState, ...]:
    """The last reported state of each container."""
    return tuple(map(_container_state, statuses or ()))


def _container_state(status: wire.ContainerStatus) -> ContainerState:
    state = status.state
    waiting, ended = (state.waiting, state.terminated) if state else (None, None)
    return ContainerState(
        status.restart_count,
        waiting.reason if waiting else None,
        ended.reason if ended else None,
        ended.exit_code if ended else None,
    )


def volumes_of(volumes: list[wire.PodVolume]) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Names of claims, names of volumes with an ephemeral claim, and whether any is local."""
    claims: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    local = False
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            claims += (volume.persistent_volume_claim.claim_name,)
        elif volume.ephemeral is not None:
            own += (volume.name,)
        elif volume.empty_dir is not None or volume.host_path is not None:
            local = True
    return claims, own, local


def annotations_of(annotations: wire.WatchedAnnotations | None) -> dict[str, str]:
    """The annotations that are there, by name."""
    decoded = astuple(annotations) if annotations else ()
    return {
        name: value for name, value in zip(ANNOTATIONS, decoded, strict=False) if value is not None
    }


def rare_fields_of(item: wire.PodSpec) -> tuple[bytes, ...]:
    """Undecoded fields that few pods have; an empty tuple for pods with none of them."""
    selector, spread = item.node_selector, item.topology_spread_constraints
    overhead, resources, claims = item.overhead, item.resources, item.resource_claims
    gates = item.scheduling_gates
    if selector is spread is overhead is resources is claims is gates is wire.ABSENT:
        return ()
    return tuple(map(bytes, (selector, spread, overhead, resources, claims, gates)))


def containers_key(containers: list[wire.Container]) -> tuple[Any, ...]:
    """A key that is equal for containers with equal images, resources and ports."""
    return tuple([(c.image, bytes(c.resources), c.restart_policy, c.ports) for c in containers])


def replace_own_node_name(affinity: bytes, node: bytes) -> bytes:
    """The affinity with a placeholder for the node's name, if it pins the pod to its own node."""
    pin = _PIN.search(affinity)
    if not node or pin is None or pin[2] != node:
        return affinity
    return affinity[: pin.end(1)] + _OWN_NODE_JSON + affinity[pin.start(3) :]


def conditions_of(conditions: list[wire.ConditionStatus]) -> tuple[Conditions, bytes]:
    """The conditions without times, and their times packed into bytes."""
    shape = tuple(
        [(condition.type, condition.status, condition.reason or "") for condition in conditions]
    )
    times = [condition.last_transition_time for condition in conditions]
    first = times[0]  # most often all conditions changed in one second
    if times.count(first) == len(times):
        return shape, _pack_time(first) * len(times)
    return shape, b"".join(map(_pack_time, times))


def ready_of(conditions: Iterable[wire.ConditionStatus]) -> bool:
    """Whether the pod counts as healthy for its budget."""
    for condition in conditions:
        if condition.type == "Ready":
            return condition.status == "True"
    return False


def _pack_time(time: str | None) -> bytes:
    instant = parse_time(time)
    second = int(instant.timestamp()) if instant else 0
    return second.to_bytes(8, byteorder, signed=True)


_affinity = msgspec.json.Decoder(wire.Affinity | None)
_tolerations = msgspec.json.Decoder(list[wire.TolerationItem] | None)
_spread = msgspec.json.Decoder(list[wire.SpreadItem] | None)


class DecodedAffinity(Struct, frozen=True):
    """The affinity of a pod, as far as the model has it."""

    required_node_terms: tuple[NodeTerm, ...] | None = None
    """Required node affinity; None if there is none."""
    has_node_affinity: bool = False
    preferred_node_terms: tuple[PreferredTerm, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_anti_affinity: tuple[PreferredPodTerm, ...] = ()


def affinity_of(raw: bytes) -> DecodedAffinity:
    """The affinity that these bytes encode; empty bytes mean none."""
    decoded = _affinity.decode(raw) if raw else None
    if decoded is None:
        return _NO_AFFINITY
    nodes, near, away = decoded.node_affinity, decoded.pod_affinity, decoded.pod_anti_affinity
    required = nodes.required if nodes else None
    terms = None
    if required is not None:
        terms = tuple(map(node_term_of, required.node_selector_terms or ()))
        if _PIN_MARK_JSON in raw:
            terms = _without_pin(terms)
    pin_only = required is not None and terms is None and nodes is not None and not nodes.preferred
    return DecodedAffinity(
        terms,
        nodes is not None and not pin_only,
        tuple(
            PreferredTerm(row.weight, node_term_of(row.preference))
            for row in (nodes.preferred if nodes else None) or ()
        ),
        tuple(map(pod_term_of, (near.required if near else None) or ())),
        tuple(map(pod_term_of, (away.required if away else None) or ())),
        tuple(
            PreferredPodTerm(row.weight, pod_term_of(row.pod_affinity_term))
            for row in (away.preferred if away else None) or ()
        ),
    )


_NO_AFFINITY = DecodedAffinity()


def _without_pin(terms: tuple[NodeTerm, ...]) -> tuple[NodeTerm, ...] | None:
    """The terms without the node that a migration job has pinned the pod to; None if none is left.

    What replaces the pod knows of no such node. The job adds the node, then its mark.
    """
    unpinned = []
    for term in terms:
        marks = [place for place, row in enumerate(term.fields) if PIN_MARK in row.values]
        if not marks:
            unpinned.append(term)
            continue
        fields = term.fields[: max(marks[0] - 1, 0)] + term.fields[marks[0] + 1 :]
        if term.expressions or fields:
            unpinned.append(NodeTerm(term.expressions, fields))
    return tuple(unpinned) or None


def tolerations_of(raw: bytes) -> tuple[Toleration, ...]:
    """The tolerations that these bytes encode."""
    return tuple(
        Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "")
        for t in (_tolerations.decode(raw) if raw else None) or ()
    )


def spread_of(raw: bytes) -> tuple[SpreadConstraint, ...]:
    """The topology spread constraints that these bytes encode."""
    return tuple(map(_spread_constraint, (_spread.decode(raw) if raw else None) or ()))


def _requirement(row: Expression) -> Requirement:
    return Requirement(row.key, row.operator, row.values)


def node_term_of(term: wire.SelectorTerm) -> NodeTerm:
    """One alternative of a node affinity."""
    return NodeTerm(
        tuple(map(_requirement, term.match_expressions or ())),
        tuple(map(_requirement, term.match_fields or ())),
    )


def selector_of(selector: wire.LabelSelectorObject | None) -> Selector | None:
    """The compiled selector: `NOTHING` if it is absent, None if it is invalid."""
    if selector is None:
        return NOTHING
    return LabelSelector(
        match_labels=selector.match_labels or {},
        match_expressions=tuple(selector.match_expressions or ()),
    ).compile()


def pod_term_of(term: wire.PodAffinityTerm) -> PodTerm:
    """A term of a pod affinity or anti-affinity."""
    namespace_selector = term.namespace_selector
    return PodTerm(
        term.topology_key,
        selector_of(term.label_selector),
        tuple(term.namespaces or ()),
        None if namespace_selector is None else selector_of(namespace_selector),
        tuple(term.match_label_keys or ()),
        tuple(term.mismatch_label_keys or ()),
    )


def _spread_constraint(item: wire.SpreadItem) -> SpreadConstraint:
    return SpreadConstraint(
        max_skew=item.max_skew,
        topology_key=item.topology_key,
        when_unsatisfiable=item.when_unsatisfiable,
        selector=selector_of(item.label_selector),
        match_label_keys=tuple(item.match_label_keys or ()),
        node_affinity_policy=item.node_affinity_policy or "Honor",
        node_taints_policy=item.node_taints_policy or "Ignore",
        min_domains=item.min_domains or 1,
    )
