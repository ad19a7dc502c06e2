"""A PodMigrationJob: as the API has it, and with types.

`PodMigrationJob` keeps `spec` and `status` as they are, so that fields of a newer version survive
every write. `MigrationJob` is what this version reads of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct

from resettle.model.migration_job.names import (
    ABORT,
    GATE_LABEL,
    TERMINAL,
    ConditionType,
    JobMode,
    JobPhase,
    JobReason,
    PlaceholderPriority,
    Steering,
)
from resettle.times import exact_duration

# -- the object ------------------------------------------------------------------------------------


class JobMeta(Struct, rename="camel"):
    """Metadata of a job on the wire."""

    name: Annotated[str, Meta(min_length=1)]
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Annotated[datetime, Meta(tz=True)] | None = None
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class PodMigrationJob(Struct, rename="camel"):
    """A job on the wire; nothing of its spec and status is dropped."""

    metadata: JobMeta
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


# -- what is read of it ----------------------------------------------------------------------------


class PodReference(Struct, frozen=True):
    """A pod by name, and by uid where it is known."""

    namespace: str
    name: str
    uid: str = ""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def to_json(self) -> dict[str, str]:
        """The reference as `podRef` has it."""
        reference = {"namespace": self.namespace, "name": self.name}
        return reference | {"uid": self.uid} if self.uid else reference


class ControllerReference(Struct, frozen=True, rename="camel"):
    """The controller that owns a pod."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class MoveSource(Struct, frozen=True, rename="camel"):
    """The pod as it was when the job was accepted."""

    node_name: str = ""
    uid: str = ""
    priority: int = 0
    workload: str = ""
    """Uid of the workload: of the Deployment, not of its ReplicaSet."""
    revision: str = ""
    """Revision of the workload's template that it was made from."""
    owner: ControllerReference | None = None


class JobEnding(Struct, frozen=True):
    """How a job will end, written before its placeholder and gates are released."""

    phase: JobPhase
    reason: str
    message: str = ""


class JobCondition(Struct, frozen=True, rename="camel"):
    """A condition of a job."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class JobSettings(Struct, frozen=True, kw_only=True):
    """The settings of a move: of the job, else of the controller."""

    mode: JobMode = JobMode.RESERVATION_FIRST
    ttl: timedelta = timedelta(minutes=5)
    """Total time from the creation of the job."""
    placeholder_priority: PlaceholderPriority = PlaceholderPriority.HOLD
    steering: Steering = Steering.NONE
    reserve_timeout: timedelta = timedelta(seconds=60)
    """How long the placeholder may stay unscheduled."""
    node_name: str = ""
    """The node to hold the place on; empty for any but the source."""

    @property
    def reserves(self) -> bool:
        """Whether a place is held before the eviction."""
        return self.mode is JobMode.RESERVATION_FIRST

    def to_json(self) -> dict[str, str]:
        """The settings as `status.effective` has them."""
        effective = {
            "mode": self.mode.value,
            "ttl": exact_duration(self.ttl),
            "placeholderPriority": self.placeholder_priority.value,
            "steering": self.steering.value,
            "reserveTimeout": exact_duration(self.reserve_timeout),
        }
        return effective | {"nodeName": self.node_name} if self.node_name else effective


DEFAULTS = JobSettings()


class MigrationJob(Struct, frozen=True, kw_only=True):
    """A job with types; `object` is what it was read from."""

    object: PodMigrationJob
    phase: JobPhase
    paused: bool
    pod: PodReference
    """The pod to move."""
    settings: JobSettings
    """Fixed at acceptance, except `ttl`, which a person may change later."""
    conditions: Mapping[str, JobCondition]
    source: MoveSource | None
    replacement: PodReference | None
    node_name: str
    """Where the place is held."""
    siblings: tuple[str, ...]
    """Uids of young pods of the workload that existed before the eviction was requested."""
    ending: JobEnding | None
    started_at: datetime | None
    eviction_requested_at: datetime | None
    evicted_at: datetime | None
    finished_at: datetime | None
    unknown: tuple[str, ...] = ()
    """Paths of keys and values that this version does not know."""
    problems: tuple[tuple[JobReason, str], ...] = ()
    """Why the job can never work: reason and sentence."""

    @property
    def name(self) -> str:
        return self.object.metadata.name

    @property
    def uid(self) -> str:
        return self.object.metadata.uid

    @property
    def labels(self) -> Mapping[str, str]:
        return self.object.metadata.labels or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.object.metadata.annotations or {}

    @property
    def delete_options(self) -> Mapping[str, Any]:
        """What the eviction request carries besides the uid."""
        options = self.object.spec.get("deleteOptions")
        return options if isinstance(options, Mapping) else {}

    @property
    def is_terminal(self) -> bool:
        return self.phase in TERMINAL

    @property
    def is_being_deleted(self) -> bool:
        return self.object.metadata.deletion_timestamp is not None

    @property
    def is_accepted(self) -> bool:
        """Whether arbitration accepted it; only then it is carried out."""
        return self.is_true(ConditionType.ARBITRATED) and self.source is not None

    @property
    def is_abort_requested(self) -> bool:
        return self.annotations.get(ABORT, "false") != "false"

    @property
    def is_gating(self) -> bool:
        """Whether new pods of its workload get a scheduling gate."""
        return self.labels.get(GATE_LABEL) == "true"

    @property
    def has_asked(self) -> bool:
        """Whether the eviction was requested, or was about to be when the last writer stopped."""
        condition = self.conditions.get(ConditionType.EVICTION)
        asked = condition is not None and condition.reason in (
            JobReason.EVICTING,
            JobReason.EVICT_COMPLETE,
        )
        return asked or self.eviction_requested_at is not None

    @property
    def is_holding(self) -> bool:
        """Whether it is under way and may still need its place."""
        return (
            not self.is_terminal
            and not self.is_being_deleted
            and self.ending is None
            and not self.is_true(ConditionType.RESERVATION_BOUND)
        )

    @property
    def deadline(self) -> datetime | None:
        """When its ttl is over; None if it has no creation time."""
        created = self.object.metadata.creation_timestamp
        return created + self.settings.ttl if created else None

    def is_overdue(self, now: datetime) -> bool:
        """Whether its ttl is over."""
        return self.deadline is not None and now >= self.deadline

    def condition(self, kind: ConditionType) -> JobCondition | None:
        """The condition of this type, if it is set."""
        return self.conditions.get(kind)

    def is_true(self, kind: ConditionType) -> bool:
        """Whether the condition of this type is true."""
        condition = self.conditions.get(kind)
        return condition is not None and condition.status == "True"
