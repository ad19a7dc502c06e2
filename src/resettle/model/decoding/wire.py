"""The shapes of Kubernetes objects as the API writes them, with only the fields we use.

Large parts that repeat from pod to pod stay undecoded (`Raw`), small ones become a `Key`:
`pod_parts` looks them up as they are and decodes each distinct one once. All other fields are
skipped. There is no `from __future__ import annotations` here: msgspec would evaluate every
annotation at each start.
"""

from datetime import datetime
from typing import Annotated

from msgspec import Meta as Constraint
from msgspec import Raw, Struct, field

from resettle.model.pod import (
    DELETION_COST,
    EVICT,
    IN_PROGRESS,
    MIRROR,
    ON_REQUEST,
    PREFER_NO_EVICTION,
    SOURCE,
)
from resettle.model.selectors import Expression

ABSENT = Raw(b"")
Time = Annotated[datetime, Constraint(tz=True)]
Name = Annotated[str, Constraint(min_length=1)]


class Wire(Struct, gc=False, rename="camel"):
    """A part of an object on the wire."""


class Key(Struct, frozen=True, gc=False, rename="camel"):
    """A hashable part, used as a key for what is built from it."""


class Present(Wire):
    """A field of which only the presence matters."""


class WatchedAnnotations(Key, frozen=True):
    """The annotations that are read, and no others."""

    evict: str | None = field(name=EVICT, default=None)
    prefer_no_eviction: str | None = field(name=PREFER_NO_EVICTION, default=None)
    mirror: str | None = field(name=MIRROR, default=None)
    source: str | None = field(name=SOURCE, default=None)
    deletion_cost: str | None = field(name=DELETION_COST, default=None)
    on_request: str | None = field(name=ON_REQUEST, default=None)
    in_progress: str | None = field(name=IN_PROGRESS, default=None)


class PodMeta(Wire):
    name: Name
    namespace: str = ""
    uid: str = ""
    creation_timestamp: Time | None = None
    deletion_timestamp: str | None = None
    labels: Raw = ABSENT
    annotations: WatchedAnnotations | None = None
    owner_references: Raw = ABSENT


class Port(Key, frozen=True):
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(name="hostIP", default="")


class Container(Wire):
    image: str = ""
    resources: Raw = ABSENT
    ports: tuple[Port, ...] | None = None
    restart_policy: str | None = None


class ClaimSource(Wire):
    claim_name: str = ""


class PodVolume(Wire):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None
    empty_dir: Present | None = None
    host_path: Present | None = None


class PodSpec(Wire):
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    volumes: list[PodVolume] | None = None
    node_name: str | None = None
    priority: int | None = None
    node_selector: Raw = ABSENT
    affinity: Raw = ABSENT
    tolerations: Raw = ABSENT
    topology_spread_constraints: Raw = ABSENT
    overhead: Raw = ABSENT
    resources: Raw = ABSENT
    resource_claims: Raw = ABSENT
    scheduling_gates: Raw = ABSENT


class Ended(Key, frozen=True):
    reason: str = ""
    exit_code: int = 0


class Phase(Key, frozen=True):
    waiting: Ended | None = None
    terminated: Ended | None = None


class ContainerStatus(Key, frozen=True):
    restart_count: int = 0
    state: Phase | None = None


class ConditionStatus(Wire):
    type: str = ""
    status: str = ""
    reason: str | None = None
    last_transition_time: str | None = None


class PodStatus(Wire):
    phase: str = ""
    reason: str = ""
    qos_class: str = ""
    start_time: Time | None = None
    conditions: list[ConditionStatus] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    ephemeral_container_statuses: tuple[ContainerStatus, ...] | None = None


class PodObject(Wire):
    metadata: PodMeta
    spec: PodSpec
    status: PodStatus = field(default_factory=PodStatus)


class Resources(Wire):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class OwnerReference(Wire):
    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class TolerationItem(Wire):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class SelectorTerm(Wire):
    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class WeightedTerm(Wire):
    weight: int = 0
    preference: SelectorTerm = field(default_factory=SelectorTerm)


class RequiredTerms(Wire):
    node_selector_terms: list[SelectorTerm] | None = None


class NodeAffinity(Wire):
    required: RequiredTerms | None = field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[WeightedTerm] | None = field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class LabelSelectorObject(Wire):
    """A selector inside an object; unknown keys are skipped."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Expression] | None = None


class PodAffinityTerm(Wire):
    label_selector: LabelSelectorObject | None = None
    topology_key: str = ""
    namespaces: list[str] | None = None
    namespace_selector: LabelSelectorObject | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodTerm(Wire):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)


class PodAffinity(Wire):
    required: list[PodAffinityTerm] | None = field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[WeightedPodTerm] | None = field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(Wire):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadItem(Wire):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelectorObject | None = None
    match_label_keys: list[str] | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class SchedulingGate(Wire):
    """A scheduling gate of a pod."""

    name: str


class Meta(Wire):
    name: Name
    namespace: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None


class TaintItem(Wire):
    key: str = ""
    value: str | None = None
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Wire):
    taints: list[TaintItem] | None = None
    unschedulable: bool | None = None


class NodeStatus(Wire):
    allocatable: dict[str, str | int | float] | None = None
    capacity: dict[str, str | int | float] | None = None
    conditions: list[ConditionStatus] | None = None


class NodeObject(Wire):
    metadata: Meta
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class BudgetSpec(Wire):
    selector: LabelSelectorObject | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatus(Wire):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    observed_generation: int = 0


class BudgetObject(Wire):
    metadata: Meta
    spec: BudgetSpec = field(default_factory=BudgetSpec)
    status: BudgetStatus = field(default_factory=BudgetStatus)


class ClaimMeta(Meta):
    deletion_timestamp: str | None = None


class ClaimSpec(Wire):
    storage_class_name: str | None = None
    volume_name: str | None = None
    access_modes: list[str] | None = None


class ClaimObject(Wire):
    metadata: ClaimMeta
    spec: ClaimSpec = field(default_factory=ClaimSpec)


class VolumeAffinity(Wire):
    required: RequiredTerms | None = None


class CsiSource(Wire):
    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(Wire):
    node_affinity: VolumeAffinity | None = None
    csi: CsiSource | None = None


class VolumeObject(Wire):
    metadata: Meta
    spec: VolumeSpec = field(default_factory=VolumeSpec)


class DriverLimit(Wire):
    count: int | None = None


class CsiDriver(Wire):
    name: str = ""
    allocatable: DriverLimit | None = None


class CsiNodeSpec(Wire):
    drivers: list[CsiDriver] | None = None


class CsiNodeObject(Wire):
    metadata: Meta
    spec: CsiNodeSpec = field(default_factory=CsiNodeSpec)


class NamespaceObject(Wire):
    metadata: Meta


class PriorityClassObject(Wire):
    metadata: Meta
    value: int = 0


class MetricsMeta(Wire):
    name: str = ""
    namespace: str = ""


class NodeMetrics(Wire):
    """The usage of a node in the metrics API."""

    metadata: MetricsMeta
    timestamp: str | None = None
    usage: dict[str, str] | None = None


class ContainerMetrics(Wire):
    usage: dict[str, str] | None = None


class PodMetrics(Wire):
    """The usage of a pod's containers in the metrics API."""

    metadata: MetricsMeta
    timestamp: str | None = None
    containers: list[ContainerMetrics] | None = None

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


class ObjectOrList(Wire):
    """Any object or list, before its kind is known."""

    kind: str = ""
    api_version: str = ""
    items: list[Raw] | None = None
