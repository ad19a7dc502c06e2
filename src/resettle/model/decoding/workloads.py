"""Workloads as the API writes them, with only the fields we use, and their values in the model.

Whether a rollout is under way is decided here, from the object alone. A Deployment is complete by
the rules of its controller (`DeploymentComplete`), with one difference: pods that are not available
count only until the rollout has been complete once, which the condition `Progressing` keeps saying.
After that an unavailable pod is a matter of the pod, not of a rollout. There is no
`from __future__ import annotations` here: msgspec would evaluate every annotation at each start.
"""

from msgspec import field

from resettle.model.decoding.decoder import Decoder
from resettle.model.decoding.wire import ConditionStatus, Name, OwnerReference, Wire
from resettle.model.pod import Owner
from resettle.model.workloads import DEPLOYMENT, JOB, REPLICA_SET, Workload

APPS, BATCH, CORE = "apps/v1", "batch/v1", "v1"
SCALE, SCALE_VERSION = "Scale", "resettle/v1"
"""How a dump calls what was read from a `scale` subresource."""
COMPLETE_ROLLOUT = "NewReplicaSetAvailable"
"""The reason of `Progressing` once all pods of the newest version were available."""
ENDS_OF_JOBS = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")


class WorkloadMeta(Wire):
    name: Name
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    owner_references: list[OwnerReference] | None = None


class ReplicasSpec(Wire):
    replicas: int | None = None


class ReplicasStatus(Wire):
    replicas: int = 0
    observed_generation: int = 0


class ReplicasObject(Wire):
    """A ReplicaSet or a ReplicationController."""

    metadata: WorkloadMeta
    spec: ReplicasSpec = field(default_factory=ReplicasSpec)
    status: ReplicasStatus = field(default_factory=ReplicasStatus)


class DeploymentStatus(ReplicasStatus):
    updated_replicas: int = 0
    available_replicas: int = 0
    conditions: list[ConditionStatus] | None = None


class DeploymentObject(Wire):
    metadata: WorkloadMeta
    spec: ReplicasSpec = field(default_factory=ReplicasSpec)
    status: DeploymentStatus = field(default_factory=DeploymentStatus)


class RollingUpdate(Wire):
    partition: int | None = None


class UpdateStrategy(Wire):
    rolling_update: RollingUpdate | None = None


class StatefulSetSpec(ReplicasSpec):
    update_strategy: UpdateStrategy | None = None


class StatefulSetStatus(ReplicasStatus):
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class StatefulSetObject(Wire):
    metadata: WorkloadMeta
    spec: StatefulSetSpec = field(default_factory=StatefulSetSpec)
    status: StatefulSetStatus = field(default_factory=StatefulSetStatus)


class JobSpec(Wire):
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None


class JobStatus(Wire):
    active: int = 0
    succeeded: int = 0
    conditions: list[ConditionStatus] | None = None


class JobObject(Wire):
    metadata: WorkloadMeta
    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)


class KindOfScale(Wire):
    kind: str = ""
    api_version: str = ""


class ScaleObject(Wire):
    """What a `scale` subresource answers; its metadata is that of the object it belongs to.

    In a dump, `of` says the kind of that object.
    """

    metadata: WorkloadMeta
    of: KindOfScale = field(default_factory=KindOfScale)
    spec: ReplicasSpec = field(default_factory=ReplicasSpec)
    status: ReplicasStatus = field(default_factory=ReplicasStatus)


def _workload(
    kind: str,
    api_version: str,
    meta: WorkloadMeta,
    desired: int,
    replicas: int,
    *,
    rolling_out: bool = False,
    outdated: bool = False,
    suspended: bool = False,
    finished: bool = False,
) -> Workload:
    controllers = (owner for owner in meta.owner_references or () if owner.controller)
    owner = next(controllers, None)
    return Workload(
        kind,
        meta.namespace,
        meta.name,
        meta.uid,
        api_version,
        desired,
        replicas,
        Owner(owner.kind, owner.name, owner.uid, owner.api_version, True) if owner else None,
        rolling_out or outdated,
        outdated,
        suspended,
        finished,
    )


def desired_replicas(spec: ReplicasSpec) -> int:
    """The replicas of a spec; the API server fills in 1 where none are given."""
    return 1 if spec.replicas is None else spec.replicas


def deployment_of(decoder: Decoder, item: DeploymentObject) -> Workload:
    """The Deployment."""
    meta, status, desired = item.metadata, item.status, desired_replicas(item.spec)
    reason = next((c.reason for c in status.conditions or () if c.type == "Progressing"), None)
    is_new = reason is not None and reason != COMPLETE_ROLLOUT
    rolling_out = (
        # After a rollout, a pod is missing for a moment whenever one was evicted or is added.
        (status.updated_replicas < desired and reason != COMPLETE_ROLLOUT)
        or status.replicas > status.updated_replicas
        or (is_new and status.available_replicas < desired)
    )
    return _workload(
        DEPLOYMENT,
        APPS,
        meta,
        desired,
        status.replicas,
        rolling_out=rolling_out,
        outdated=status.observed_generation < meta.generation,
    )


def replica_set_of(decoder: Decoder, item: ReplicasObject) -> Workload:
    """The ReplicaSet, which may belong to a Deployment."""
    return _replicas_of(REPLICA_SET, APPS, item)


def replication_controller_of(decoder: Decoder, item: ReplicasObject) -> Workload:
    """The ReplicationController."""
    return _replicas_of("ReplicationController", CORE, item)


def _replicas_of(kind: str, api_version: str, item: ReplicasObject) -> Workload:
    meta, status = item.metadata, item.status
    return _workload(
        kind,
        api_version,
        meta,
        desired_replicas(item.spec),
        status.replicas,
        outdated=status.observed_generation < meta.generation,
    )


def stateful_set_of(decoder: Decoder, item: StatefulSetObject) -> Workload:
    """The StatefulSet; with a partition, its rollout ends when all pods above it are updated."""
    meta, spec, status, desired = (
        item.metadata,
        item.spec,
        item.status,
        desired_replicas(item.spec),
    )
    strategy = spec.update_strategy
    rolling = strategy.rolling_update if strategy else None
    partition = (rolling.partition if rolling else None) or 0
    if partition:
        behind = status.updated_replicas < desired - partition
    else:
        behind = status.current_revision != status.update_revision
    return _workload(
        "StatefulSet",
        APPS,
        meta,
        desired,
        status.replicas,
        rolling_out=behind,
        outdated=status.observed_generation < meta.generation,
    )


def job_of(decoder: Decoder, item: JobObject) -> Workload:
    """The Job; it should have as many pods as may run at once and are left to complete."""
    spec, status = item.spec, item.status
    desired = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        desired = min(desired, max(spec.completions - status.succeeded, 0))
    ended = (c.type in ENDS_OF_JOBS and c.status == "True" for c in status.conditions or ())
    return _workload(
        JOB,
        BATCH,
        item.metadata,
        desired,
        status.active,
        suspended=bool(spec.suspend),
        finished=any(ended),
    )


def scale_object(workload: Workload) -> dict[str, object]:
    """A scale as a dump writes it."""
    return {
        "apiVersion": SCALE_VERSION,
        "kind": SCALE,
        "of": {"kind": workload.kind, "apiVersion": workload.api_version},
        "metadata": {
            "name": workload.name,
            "namespace": workload.namespace,
            "uid": workload.uid,
        },
        "spec": {"replicas": workload.desired},
        "status": {"replicas": workload.replicas},
    }


def scale_of(item: ScaleObject, kind: str, api_version: str) -> Workload:
    """The object of this kind whose `scale` was read."""
    kind, api_version = item.of.kind or kind, item.of.api_version or api_version
    meta, replicas = item.metadata, item.status.replicas
    return _workload(kind, api_version, meta, desired_replicas(item.spec), replicas)
