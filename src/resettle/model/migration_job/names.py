"""Names that a PodMigrationJob uses: group, annotations, labels, phases, conditions, reasons.

Phases, modes, conditions and most reasons are Koordinator's, so that those who know its
PodMigrationJob find their way; the others are additions.
"""

from __future__ import annotations

from enum import StrEnum

GROUP = "resettle.dev"
API_VERSION = f"{GROUP}/v1alpha1"
KIND = "PodMigrationJob"
PLURAL = "podmigrationjobs"
JOBS_PATH = f"/apis/{API_VERSION}/{PLURAL}"

EVICT_TRIGGER = f"{GROUP}/evict-trigger"
"""Annotation of a job: the plugin that asked for the move."""
EVICT_REASON = f"{GROUP}/evict-reason"
PROFILE = f"{GROUP}/profile"
FINGERPRINT = f"{GROUP}/pod-fingerprint"
"""Annotation of a job: what the decision to move the pod was based on, as a digest."""
ABORT = f"{GROUP}/abort"
"""Annotation by which a person stops a job; any value but `false`."""
CREATED_BY = f"{GROUP}/created-by"
"""Label of a job: which program created it."""
GATE_LABEL = f"{GROUP}/gate"
"""Label of a job, `true` while new pods of its workload get a scheduling gate."""
GATE = f"{GROUP}/place-held"
"""The scheduling gate."""
PIN_MARK = f"pinned.{GROUP}"
"""The name of no node. Node affinity that excludes it was narrowed to one node by a job.

Whatever replaces such a pod is made from the template of its workload, which knows of no node.
"""
PLACEHOLDER = f"{GROUP}/placeholder"
"""Label of placeholder pods, with the value `true`."""
JOB_LABEL = f"{GROUP}/job"
"""Label of placeholder pods: uid of their job."""
TAINT = f"{GROUP}/moving-away"
"""Key of the taint on nodes that a pod is moved away from."""


class JobPhase(StrEnum):
    """How far a job is."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ABORTED = "Aborted"


TERMINAL = frozenset({JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.ABORTED})
COMPLETE = "Complete"
"""`status.status` of a job that succeeded."""


class JobMode(StrEnum):
    """Whether a place is held before the eviction."""

    RESERVATION_FIRST = "ReservationFirst"
    EVICT_DIRECTLY = "EvictDirectly"


class PlaceholderPriority(StrEnum):
    """Whether the placeholder has the priority of the pod, or less than any pod."""

    HOLD = "Hold"
    YIELD = "Yield"


class Steering(StrEnum):
    """How the replacement is kept from returning to the source node."""

    NONE = "None"
    SOFT = "Soft"
    HARD = "Hard"
    GATE = "Gate"


class ConditionType(StrEnum):
    """The conditions of a job that this version writes."""

    ARBITRATED = "Arbitrated"
    RESERVATION_CREATED = "ReservationCreated"
    RESERVATION_SCHEDULED = "ReservationScheduled"
    STEERED = "Steered"
    EVICTION = "Eviction"
    """Unknown: about to be requested; False: granted, or refused; True: the pod is gone."""
    RESERVATION_BOUND = "ReservationBound"
    BOUND_POD_READY = "BoundPodReady"
    POD_BOUND_RESERVATION = "PodBoundReservation"
    SUPPORTED = "Supported"


class JobReason(StrEnum):
    """Reasons of conditions, and of the end of a job."""

    # Koordinator's.
    TIMEOUT = "Timeout"
    FAILED_CREATE_RESERVATION = "FailedCreateReservation"
    UNSCHEDULABLE = "Unschedulable"
    FORBIDDEN_MIGRATE_POD = "ForbiddenMigratePod"
    MISSING_POD = "MissingPod"
    MISSING_RESERVATION = "MissingReservation"
    EVICTING = "Evicting"
    EVICT_COMPLETE = "EvictComplete"
    WAIT_FOR_POD_BIND_RESERVATION = "WaitForPodBindReservation"
    WAIT_FOR_BOUND_POD_READY = "WaitForBoundPodReady"
    INVALID_POD_REF = "InvalidPodRef"
    # Ours.
    ACCEPTED = "Accepted"
    WAITING_FOR_LIMIT = "WaitingForLimit"
    UNREADABLE = "Unreadable"
    WORKLOAD_ROLLING_OUT = "WorkloadRollingOut"
    INVALID_SPEC = "InvalidSpec"
    POD_REPLACED = "PodReplaced"
    CREATED = "Created"
    SCHEDULED = "Scheduled"
    IN_FORCE = "InForce"
    NOT_IN_FORCE = "NotInForce"
    EVICTION_REFUSED = "EvictionRefused"
    RESERVATION_PREEMPTED = "ReservationPreempted"
    NODE_GONE = "NodeGone"
    ON_RESERVED_NODE = "OnReservedNode"
    ON_OTHER_NODE = "OnOtherNode"
    READY = "Ready"
    NO_REPLACEMENT = "NoReplacement"
    HANDOVER_TIMEOUT = "HandoverTimeout"
    REPLACEMENT_NOT_READY = "ReplacementNotReady"
    ABORTED = "Aborted"
    NEWER_VERSION = "NewerVersion"
    SUPPORTED = "Supported"
    COMPLETE = "Complete"
