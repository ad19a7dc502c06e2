"""Pods: what thousands share is held once, and a pod itself is thin.

    Pod ── template: Template ── spec: Spec
     │        namespace, labels,      requests, placement, volumes, priority:
     │        owners, annotations     all that says where it may run
     └── state: State                 phase, reasons, restarts: what the kubelet last said

Pods of one workload share a Template, often also a State; whatever a predicate reads stands in
`Spec` or `Template`, so a question is asked once for all pods that look alike.
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
    tolerated,
)

EVICT = "descheduler.alpha.kubernetes.io/evict"
SPELLINGS_OF_NO = ("false", "no", "0")
"""Values of the `evict` annotation that forbid an eviction, where its value counts."""
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
MIRROR = "kubernetes.io/config.mirror"
SOURCE = "kubernetes.io/config.source"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
ON_REQUEST = "descheduler.alpha.kubernetes.io/request-evict-only"
"""The pod is moved by somebody else, once it has been asked to leave."""
IN_PROGRESS = "descheduler.alpha.kubernetes.io/eviction-in-progress"
"""Somebody else is moving the pod now."""
ANNOTATIONS = (EVICT, PREFER_NO_EVICTION, MIRROR, SOURCE, DELETION_COST, ON_REQUEST, IN_PROGRESS)
"""The annotations we read; any other could differ from pod to pod and would part templates."""

CONDITIONS = "conditions"
"""What a plugin declares to read if it asks pods for their conditions, which are not for free."""

CRITICAL_PRIORITY = 2_000_000_000
FINISHED = ("Succeeded", "Failed")
QOS_ORDER = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}


class Owner(Struct, frozen=True, gc=False):
    """What made the pod."""

    kind: str
    name: str
    uid: str = ""


class HostPort(Struct, frozen=True):
    """A port of the node itself that a pod takes; of no address means of all."""

    protocol: str
    port: int
    address: str = ""


class Demand(Struct, frozen=True, eq=False):
    """What decides by labels, taints and room which nodes take a pod.

    Thousands of specs come down to a few demands, and equal demands are one object.
    """

    requests: dict[str, int]
    """Resource name to nano units, init containers and overhead worked in."""
    tolerations: tuple[Toleration, ...] = ()
    node_selector: tuple[tuple[str, str], ...] | None = None
    required_terms: tuple[NodeTerm, ...] | None = None
    pinned: bool = False
    """Whether its affinity names nodes: then what suits it may depend on where it is."""


class Spec(Struct, frozen=True, eq=False):
    """What a pod asks of a node. Equal specs are one object, so identity is equality."""

    demand: Demand
    requested: frozenset[str]
    """Resources that some container names, be it with zero."""
    images: tuple[str, ...]
    qos: str
    priority: int | None
    preferred_terms: tuple[PreferredTerm, ...] = ()
    has_node_affinity: bool = False
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_away: tuple[PreferredPodTerm, ...] = ()
    """Pods it would rather not be near."""
    spread: tuple[SpreadConstraint, ...] = ()
    local_storage: bool = False
    claim_volumes: bool = False
    ephemeral_claims: bool = False
    resource_claims: bool = False
    gated: bool = False
    """Whether something else must happen before the scheduler looks at such a pod."""
    host_ports: tuple[HostPort, ...] = ()

    @property
    def requests(self) -> dict[str, int]:
        """Resource name to nano units, init containers and overhead worked in."""
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
        """Whether its affinity names nodes: then what suits it may depend on where it is."""
        return self.demand.pinned

    def tolerates(self, taint: Taint) -> bool:
        """Whether some toleration consents to the taint."""
        return tolerated(self.demand.tolerations, taint)


class Template(Struct, frozen=True, eq=False):
    """What pods of one make share. Equal templates are one object."""

    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    owners: tuple[Owner, ...]
    spec: Spec

    @property
    def mirror(self) -> bool:
        """A kubelet's own pod, shown by the API server but not run by it."""
        return MIRROR in self.annotations

    @property
    def static(self) -> bool:
        """A pod that came from a file or URL of the kubelet."""
        return self.annotations.get(SOURCE, "api") != "api"

    @property
    def critical(self) -> bool:
        """Whether the priority is that of the system itself."""
        return self.spec.priority is not None and self.spec.priority >= CRITICAL_PRIORITY

    def owned_by(self, kinds: frozenset[str] | tuple[str, ...]) -> bool:
        """Whether some owner is of one of these kinds."""
        return any(owner.kind in kinds for owner in self.owners)


class ContainerState(Struct, frozen=True, gc=False, cache_hash=True):
    """What the kubelet last said of one container."""

    restarts: int = 0
    waiting: str | None = None
    """Reason of the wait, or None when not waiting."""
    terminated: str | None = None
    """Reason of the end, or None when not ended."""
    exit_code: int | None = None


class State(Struct, frozen=True, cache_hash=True):
    """What the kubelet last said of a pod, without times; one object where it said the same."""

    phase: str = ""
    reason: str = ""
    qos: str = ""
    containers: tuple[ContainerState, ...] = ()
    init_containers: tuple[ContainerState, ...] = ()
    ephemeral_containers: tuple[ContainerState, ...] = ()
    conditions: tuple[tuple[str, str, str], ...] | None = ()
    """(type, status, reason) of each condition; since when is the pod's own matter.

    None where no plugin has declared that it reads them.
    """
    ready: bool = False
    """Whether the pod counts as healthy for its budget."""

    def watched_containers(self, *, init: bool) -> tuple[ContainerState, ...]:
        """The containers a plugin looks at: regular ones, then init ones where asked."""
        return self.containers + self.init_containers if init else self.containers


class Condition(Struct, frozen=True):
    """A condition of a pod and since when it holds."""

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
    """Names of claims that were made for this pod alone and go with it."""
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
    def key(self) -> str:
        """`namespace/name`, as people and reports call it."""
        return f"{self.template.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """Whether it has run its course; such a pod takes no room."""
        return self.state.phase in FINISHED

    @property
    def qos(self) -> str:
        """The quality of service that the status names, else the one its resources earn."""
        return self.state.qos or self.spec.qos

    @property
    def conditions(self) -> Iterator[Condition]:
        """Its conditions with their times."""
        conditions = self.state.conditions
        if conditions is None:
            raise LookupError(
                f"the conditions of pods are not there; a plugin that asks for them has "
                f"`{CONDITIONS}` among what it declares to read"
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
        """Oldest first; a pod that does not tell its age comes last."""
        return self.created or datetime.max.replace(tzinfo=UTC)


def by_lot(pod: Pod) -> bytes:
    """The order in which pods are walked where nothing else is said.

    A digest of the name draws the lots: always the same ones, yet no workload loses to its
    neighbours in every tie because of what it is called.
    """
    return blake2b(pod.key.encode(), digest_size=8).digest()


def by_priority(pod: Pod) -> tuple[bool, int, int, bool]:
    """Least important first: priority, quality of service, then those who would rather stay."""
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
