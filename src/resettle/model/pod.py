"""Pods: what many pods share is stored once, and a pod itself is small.

    Pod ── template: Template ── spec: Spec
     │        namespace, labels,      requests, placement, volumes, priority:
     │        owners, annotations     all that says where it may run
     └── state: State                 phase, reasons, restarts: as the kubelet last reported

Pods of one workload share a Template, often also a State. What a check reads is in `Spec` or
`Template`, so it is evaluated once for all pods of a template.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

from msgspec import Struct

from resettle.model.constraints import (
    NodeTerm,
    PodTerm,
    PreferredPodTerm,
    PreferredTerm,
    SpreadConstraint,
    Taint,
    Toleration,
    is_tolerated,
)

EVICT = "descheduler.alpha.kubernetes.io/evict"
SPELLINGS_OF_NO = ("false", "no", "0")
"""Values of the `evict` annotation that forbid an eviction, where its value counts."""
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
MIRROR = "kubernetes.io/config.mirror"
SOURCE = "kubernetes.io/config.source"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
ON_REQUEST = "descheduler.alpha.kubernetes.io/request-evict-only"
"""Another component moves the pod, once its eviction is requested."""
IN_PROGRESS = "descheduler.alpha.kubernetes.io/eviction-in-progress"
"""Another component is moving the pod now."""
ANNOTATIONS = (EVICT, PREFER_NO_EVICTION, MIRROR, SOURCE, DELETION_COST, ON_REQUEST, IN_PROGRESS)
"""The annotations we read; others may differ from pod to pod and would multiply templates."""

CONDITIONS = "conditions"
"""What a plugin declares to read if it uses conditions of pods, which are costly to decode."""

CRITICAL_PRIORITY = 2_000_000_000
FINISHED = ("Succeeded", "Failed")
QOS_ORDER = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}


class Owner(Struct, frozen=True, gc=False):
    """An owner reference of a pod."""

    kind: str
    name: str
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class HostPort(Struct, frozen=True):
    """A host port that a pod uses; an empty address means all addresses."""

    protocol: str
    port: int
    address: str = ""


class Demand(Struct, frozen=True, eq=False):
    """The part of a spec that labels, taints and free resources of nodes are checked against.

    Thousands of specs have only a few demands, and equal demands are one object.
    """

    requests: dict[str, int]
    """Resource name to nano units, init containers and overhead included."""
    tolerations: tuple[Toleration, ...] = ()
    node_selector: tuple[tuple[str, str], ...] | None = None
    required_terms: tuple[NodeTerm, ...] | None = None
    pinned: bool = False
    """Whether its affinity names nodes: then its feasible nodes may depend on its own node."""


class Spec(Struct, frozen=True, eq=False):
    """What a pod requires of a node. Equal specs are one object, so identity is equality."""

    demand: Demand
    requested: frozenset[str]
    """Resources that some container requests, even with the amount 0."""
    images: tuple[str, ...]
    qos: str
    priority: int | None
    preferred_terms: tuple[PreferredTerm, ...] = ()
    has_node_affinity: bool = False
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_anti_affinity: tuple[PreferredPodTerm, ...] = ()
    """Preferred pod anti-affinity."""
    spread: tuple[SpreadConstraint, ...] = ()
    local_storage: bool = False
    claim_volumes: bool = False
    ephemeral_claims: bool = False
    resource_claims: bool = False
    gates: tuple[str, ...] = ()
    """Names of the scheduling gates."""
    host_ports: tuple[HostPort, ...] = ()

    @property
    def requests(self) -> dict[str, int]:
        """Resource name to nano units, init containers and overhead included."""
        return self.demand.requests

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        return self.demand.tolerations

    @property
    def node_selector(self) -> tuple[tuple[str, str], ...] | None:
        return self.demand.node_selector

    @property
    def required_terms(self) -> tuple[NodeTerm, ...] | None:
        return self.demand.required_terms

    @property
    def pinned(self) -> bool:
        """Whether its affinity names nodes: then its feasible nodes may depend on its own node."""
        return self.demand.pinned

    def tolerates(self, taint: Taint) -> bool:
        """Whether some toleration matches the taint."""
        return is_tolerated(self.demand.tolerations, taint)


class Template(Struct, frozen=True, eq=False):
    """What the pods of one workload share. Equal templates are one object."""

    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    owners: tuple[Owner, ...]
    spec: Spec

    @property
    def mirror(self) -> bool:
        """Whether it is a mirror pod: the API server's copy of a static pod."""
        return MIRROR in self.annotations

    @property
    def static(self) -> bool:
        """Whether the pod comes from a file or URL of the kubelet."""
        return self.annotations.get(SOURCE, "api") != "api"

    @property
    def critical(self) -> bool:
        """Whether the priority is in the range of system-critical pods."""
        return self.spec.priority is not None and self.spec.priority >= CRITICAL_PRIORITY

    def owned_by(self, kinds: frozenset[str] | tuple[str, ...]) -> bool:
        """Whether some owner is of one of these kinds."""
        return any(owner.kind in kinds for owner in self.owners)


class ContainerState(Struct, frozen=True, gc=False, cache_hash=True):
    """The last reported state of one container."""

    restarts: int = 0
    waiting: str | None = None
    """Reason of the wait, or None when not waiting."""
    terminated: str | None = None
    """Reason of the termination, or None when not terminated."""
    exit_code: int | None = None


class State(Struct, frozen=True, cache_hash=True):
    """The last reported state of a pod, without times; equal states are one object."""

    phase: str = ""
    reason: str = ""
    qos: str = ""
    containers: tuple[ContainerState, ...] = ()
    init_containers: tuple[ContainerState, ...] = ()
    ephemeral_containers: tuple[ContainerState, ...] = ()
    conditions: tuple[tuple[str, str, str], ...] | None = ()
    """(type, status, reason) of each condition; the times are in `Pod.since`.

    None where no plugin has declared that it reads them.
    """
    ready: bool = False
    """Whether the pod counts as healthy for its budget."""

    def watched_containers(self, *, init: bool) -> tuple[ContainerState, ...]:
        """The regular containers, then the init containers if `init` is set."""
        return self.containers + self.init_containers if init else self.containers


class Condition(Struct, frozen=True):
    """A condition of a pod and the time of its last change."""

    type: str
    status: str
    reason: str
    since: datetime | None


class Pod(Struct, frozen=True, eq=False, gc=False):
    """One pod."""

    name: str
    uid: str
    template: Template
    node: str
    """Name of the node it is bound to; empty while unscheduled."""
    state: State
    created: datetime | None
    started: datetime | None
    terminating: bool = False
    claims: tuple[str, ...] = ()
    own_claims: tuple[str, ...] = ()
    """Names of ephemeral claims: created for this pod and deleted with it."""
    since: bytes = b""
    """When each condition last changed: seconds since 1970 as int64, 0 when unknown."""

    @property
    def namespace(self) -> str:
        return self.template.namespace

    @property
    def spec(self) -> Spec:
        return self.template.spec

    @property
    def labels(self) -> dict[str, str]:
        return self.template.labels

    @property
    def owners(self) -> tuple[Owner, ...]:
        return self.template.owners

    @property
    def controller(self) -> Owner | None:
        """The owner that controls the pod; the first one if none is marked, None without owners.

        Dumps of earlier versions have no mark. A pod with an owner is never taken for a bare pod.
        """
        owners = self.template.owners
        return next((owner for owner in owners if owner.controller), owners[0] if owners else None)

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.template.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """Whether the pod has succeeded or failed; such a pod uses no resources."""
        return self.state.phase in FINISHED

    @property
    def qos(self) -> str:
        """The QoS class of the status, or the one that its resources imply."""
        return self.state.qos or self.spec.qos

    @property
    def conditions(self) -> Iterator[Condition]:
        """Its conditions with their times."""
        conditions = self.state.conditions
        if conditions is None:
            raise LookupError(
                f"the conditions of pods were not read; a plugin that uses them must declare "
                f"`{CONDITIONS}` in what it reads"
            )
        times = array("q", self.since)
        for (kind, status, reason), second in zip(conditions, times, strict=True):
            since = datetime.fromtimestamp(second, UTC) if second else None
            yield Condition(kind, status, reason, since)

    def has_annotation(self, name: str) -> bool:
        """Whether one of the annotations we read is present, whatever its value."""
        return name in self.template.annotations

    def age(self, now: datetime) -> timedelta:
        """Time since creation; an unknown or future creation counts as just now."""
        return max(now - (self.created or now), timedelta())

    def seniority(self) -> datetime:
        """A sort key: oldest first, pods without a creation time last."""
        return self.created or datetime.max.replace(tzinfo=UTC)


def by_name_hash(pod: Pod) -> bytes:
    """The canonical order of pods, which also breaks ties.

    A hash of the name is stable, and does not prefer workloads by the alphabet in every tie.
    """
    return blake2b(pod.key.encode(), digest_size=8).digest()


def by_priority(pod: Pod) -> tuple[bool, int, int, bool]:
    """A sort key: least important first by priority, QoS class and prefer-no-eviction."""
    template = pod.template
    spec = template.spec
    priority = spec.priority
    return (
        priority is not None,
        priority or 0,
        QOS_ORDER.get(pod.state.qos or spec.qos, 1),
        PREFER_NO_EVICTION in template.annotations,
    )


def whole_seconds(span: timedelta) -> int:
    """Seconds that have fully passed."""
    return span // timedelta(seconds=1)
