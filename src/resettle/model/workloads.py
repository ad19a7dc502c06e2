"""Workloads: what keeps a number of pods running, and which pods belong to it.

    pod ── controller ──► ReplicaSet ── controller ──► Deployment
                          StatefulSet, Job, ReplicationController: no further owner
                          any other kind: what its `scale` subresource says, where it was read

A pod belongs to the workload at the top of this chain, so the pods of all ReplicaSets of a
Deployment are counted together. A workload that is not in the snapshot, or only under another uid,
is an answer of its own (`UnknownWorkload`), so that nothing takes it for a workload without pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from resettle.model.pod import Owner, Pod

if TYPE_CHECKING:
    from resettle.model.pod_index import PodIndex

DEPLOYMENT, REPLICA_SET, JOB = "Deployment", "ReplicaSet", "Job"
WORKLOAD_KINDS = frozenset({DEPLOYMENT, REPLICA_SET, "StatefulSet", JOB, "ReplicationController"})
_GROUPS = {JOB: "batch", "ReplicationController": ""}
"""The API groups of those that are not in `apps`."""
"""The kinds of the table that are workloads."""


class Workload(Struct, frozen=True, eq=False, gc=False):
    """An object that keeps a number of pods running."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str
    desired: int
    """How many pods it should have; of a Job, how many should run at the same time."""
    replicas: int = 0
    """How many pods it has, by its status."""
    owner: Owner | None = None
    """Its own controller, such as the Deployment of a ReplicaSet."""
    rolling_out: bool = False
    """Whether its pods are being replaced by a newer version, or its status is out of date."""
    outdated: bool = False
    """Whether its controller has not seen its spec yet: a rollout may begin, or only a scaling."""
    suspended: bool = False
    """Whether a Job is suspended, and runs no pods."""
    finished: bool = False
    """Whether a Job is complete or has failed."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def title(self) -> str:
        """Kind and name, such as `Deployment web`."""
        return f"{self.kind} {self.name}"


class UnknownWorkload(Struct, frozen=True):
    """A workload that a pod names as its controller, and of which nothing else is known."""

    kind: str
    name: str
    replaced: bool = False
    """Whether there is an object of this name, with another uid."""
    api_version: str = ""

    @property
    def is_built_in(self) -> bool:
        """Whether it is of a kind of Kubernetes itself, which would be known if it was read."""
        group, kind = self.scale_name
        return kind in WORKLOAD_KINDS and group == _GROUPS.get(kind, "apps")

    @property
    def scale_name(self) -> tuple[str, str]:
        """Group and kind, as `ScaleKind` has them."""
        return self.api_version.rpartition("/")[0], self.kind

    @property
    def title(self) -> str:
        """Kind and name, such as `CloneSet web`."""
        return f"{self.kind} {self.name}"


class Eviction(Struct, frozen=True, gc=False, array_like=True):
    """An eviction of a pod, as it is kept to limit how often pods of a workload are moved."""

    pod: str
    """The uid of the pod."""
    owner: str
    """The uid of its controller; empty for a pod without owners."""
    namespace: str
    at: datetime


class DepartedPod(Struct, frozen=True, gc=False):
    """A pod that is gone while its move goes on: its replacement is not ready yet."""

    uid: str
    node: str
    namespace: str
    owner: str
    """The uid of its controller; empty for a pod without owners."""


def eviction_of(pod: Pod, at: datetime) -> Eviction:
    """The eviction of the pod at this time."""
    controller = pod.controller
    return Eviction(pod.uid, controller.uid if controller else "", pod.namespace, at)


def recent_evictions(
    evictions: Iterable[Eviction], now: datetime, window: timedelta
) -> tuple[Eviction, ...]:
    """Those of the evictions that are not older than the window, oldest first."""
    recent = (eviction for eviction in evictions if now - eviction.at <= window)
    return tuple(sorted(recent, key=lambda eviction: (eviction.at, eviction.pod)))


class ScaleKind(Struct, frozen=True, order=True):
    """A kind whose desired replicas are read from the `scale` subresource of each object."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """Group and version as objects write them."""
        return f"{self.group}/{self.version}"

    @property
    def plural(self) -> str:
        """The resource name that Kubernetes would guess (`UnsafeGuessKindToResource`)."""
        name = self.kind.lower()
        if name.endswith("s"):
            return f"{name}es"
        return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def parse_scale_kind(text: str) -> ScaleKind | None:
    """The kind that `GROUP/VERSION/KIND` names; None if it is not written in this form."""
    parts = text.split("/")
    return ScaleKind(*parts) if len(parts) == 3 and all(parts) else None


class ScaledObject(Struct, frozen=True, order=True):
    """An object that controls pods, and whose `scale` says how many it should have."""

    kind: ScaleKind
    namespace: str
    name: str


def scaled_objects(
    kinds: Iterable[ScaleKind], pods: PodIndex, replica_sets: Iterable[Workload]
) -> set[ScaledObject]:
    """The objects of these kinds that control a pod, or a ReplicaSet.

    An owner reference may name another version of a kind than the one that is read.
    """
    by_name = {(kind.group, kind.kind): kind for kind in kinds}
    owners = ((owner, pod.namespace) for pod in pods.templates for owner in pod.owners)
    of_sets = ((item.owner, item.namespace) for item in replica_sets if item.owner)
    return {
        ScaledObject(by_name[name], namespace, owner.name)
        for owner, namespace in (*owners, *of_sets)
        if (name := (owner.api_version.partition("/")[0], owner.kind)) in by_name
    }


class Workloads:
    """The workloads of a snapshot, and the pods of each."""

    def __init__(self, workloads: Iterable[Workload], pods: PodIndex) -> None:
        self._pods = pods
        self._by_uid: dict[str, Workload] = {}
        self._by_name: set[tuple[str, str, str]] = set()
        self._owned: dict[str, list[Workload]] = {}
        for workload in workloads:
            self._by_uid[workload.uid] = workload
            self._by_name.add((workload.kind, workload.namespace, workload.name))
            if workload.owner:
                self._owned.setdefault(workload.owner.uid, []).append(workload)

    def workload_of(self, pod: Pod) -> Workload | UnknownWorkload | None:
        """The workload at the top of the pod's owners; None for a pod without an owner."""
        owner = pod.controller
        if owner is None:
            return None
        return self.workload_of_owner(owner, pod.namespace)

    def workload_of_owner(self, owner: Owner, namespace: str) -> Workload | UnknownWorkload:
        """The workload at the top of this chain of owners."""
        workload = self._by_uid.get(owner.uid) if owner.uid else None
        if workload is None or workload.namespace != namespace:
            replaced = (owner.kind, namespace, owner.name) in self._by_name
            return UnknownWorkload(owner.kind, owner.name, replaced, owner.api_version)
        if workload.owner is None or workload.kind != REPLICA_SET:
            return workload
        # A ReplicaSet of an owner that is not known (such as an Argo Rollout) is not known either:
        # its number of replicas follows from what the owner wants.
        return self.workload_of_owner(workload.owner, namespace)

    def controllers_of(self, workload: Workload) -> Iterator[str]:
        """The uids that pods of the workload name as their controller."""
        return self.controllers_of_uid(workload.uid)

    def controllers_of_uid(self, uid: str) -> Iterator[str]:
        """The uids that pods of the workload with this uid name as their controller."""
        yield uid
        for owned in self._owned.get(uid, ()):
            yield owned.uid

    def pods_of(self, workload: Workload) -> list[Pod]:
        """All pods of the workload, in any phase: of a Deployment those of all its ReplicaSets."""
        return [
            pod
            for uid in self.controllers_of(workload)
            for pod in self._pods.of_owner(uid)
            if _is_controlled_by(pod, uid)
        ]

    def is_rolling_out(self, workload: Workload) -> bool:
        """Whether pods of the workload are being replaced by a newer version.

        A Deployment with pods in more than one ReplicaSet counts as rolling out, whatever its own
        status says.
        """
        if workload.rolling_out:
            return True
        owned = self._owned.get(workload.uid, ())
        return sum(bool(part.desired or part.replicas) for part in owned) > 1 or any(
            part.rolling_out for part in owned if part.desired or part.replicas
        )

    def is_outdated(self, workload: Workload) -> bool:
        """Whether it is not known yet if the workload is rolling out."""
        owned = self._owned.get(workload.uid, ())
        return workload.outdated or any(
            part.outdated for part in owned if part.desired or part.replicas
        )


def _is_controlled_by(pod: Pod, uid: str) -> bool:
    controller = pod.controller
    return controller is not None and controller.uid == uid
