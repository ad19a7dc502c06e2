"""Parts of a pod as the wire has them, read once for all pods that share them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from sys import byteorder
from typing import Any

import msgspec
from msgspec.structs import astuple

from resettle.errors import InputError
from resettle.model import wire
from resettle.model.affinity import OWN_NODE
from resettle.model.pod import (
    ANNOTATIONS,
    ContainerState,
)

Conditions = tuple[tuple[str, str, str], ...]

# A DaemonSet pins each pod to its node by name; with the name taken out, its pods share a spec.
_PIN = re.compile(
    rb'("matchFields":\s*\[\s*\{\s*"key":\s*"metadata\.name",\s*"operator":\s*"In",'
    rb'\s*"values":\s*\[\s*)"([^"]*)"(\s*\]\s*\}\s*\])'
)
_OWN_NODE_JSON = msgspec.json.encode(OWN_NODE)
NO_VOLUMES: tuple[tuple[str, ...], tuple[str, ...], bool] = ((), (), False)


def parse_time(text: str | None) -> datetime | None:
    """The instant that an RFC 3339 text names."""
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"`{text}` is not a time", "write one such as `2026-01-31T12:00:00Z`"
        ) from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def container_states_of(
    statuses: tuple[wire.ContainerStatus, ...] | None,
) -> tuple[ContainerState, ...]:
    """What the kubelet last said of each container."""
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


def volumes_of(volumes: list[wire.Volume]) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """The claims among the volumes, the volumes that get a claim made, whether data is local."""
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


def annotations_of(marks: wire.WatchedAnnotations | None) -> dict[str, str]:
    """The annotations that are there, by name."""
    told = astuple(marks) if marks else ()
    return {name: mark for name, mark in zip(ANNOTATIONS, told, strict=False) if mark is not None}


def rare_parts_of(item: wire.PodSpec) -> tuple[bytes, ...]:
    """What few pods have, undecoded; nothing for all the others."""
    selector, spread = item.node_selector, item.topology_spread_constraints
    overhead, resources, claims = item.overhead, item.resources, item.resource_claims
    gates = item.scheduling_gates
    if selector is spread is overhead is resources is claims is gates is wire.ABSENT:
        return ()
    return tuple(map(bytes, (selector, spread, overhead, resources, claims, gates)))


def asked_by(containers: list[wire.Container]) -> tuple[Any, ...]:
    """What makes containers alike: their images, and what they ask of a node."""
    return tuple([(c.image, bytes(c.resources), c.restart_policy, c.ports) for c in containers])


def unpinned(affinity: bytes, node: bytes) -> bytes:
    """The affinity with the pod's own node taken out by name, if it is pinned to that."""
    found = _PIN.search(affinity)
    if not node or found is None or found[2] != node:
        return affinity
    return affinity[: found.end(1)] + _OWN_NODE_JSON + affinity[found.start(3) :]


def conditions_of(conditions: list[wire.ConditionStatus]) -> tuple[Conditions, bytes]:
    """What holds, and packed since when; most of a pod's conditions changed at once."""
    shape = tuple([(it.type, it.status, it.reason or "") for it in conditions])
    times = [it.last_transition_time for it in conditions]
    first = times[0]
    if times.count(first) == len(times):
        return shape, _packed(first) * len(times)
    return shape, b"".join(map(_packed, times))


def ready_of(conditions: Iterable[wire.ConditionStatus]) -> bool:
    """Whether the pod counts as healthy for its budget."""
    for it in conditions:
        if it.type == "Ready":
            return it.status == "True"
    return False


def _packed(time: str | None) -> bytes:
    instant = parse_time(time)
    second = int(instant.timestamp()) if instant else 0
    return second.to_bytes(8, byteorder, signed=True)
