"""The requests of the migration controller, as functions of names and JSON objects.

Answers that a caller expects are values: None for an object that is not there, or that is there
already. Everything else raises, and the job is tried again later.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from resettle.controllers.migration.status import StatusChange
from resettle.errors import ClusterError
from resettle.framework.mover import ApiRequests, ApiResponse
from resettle.kube.status import Answer, status_of
from resettle.model.migration_job import JOBS_PATH, MigrationJob, PodReference

Object = dict[str, Any]
MERGE = "application/merge-patch+json"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
"""Events about objects without a namespace are in this one."""


class WrittenMeanwhile(ClusterError):
    """Another process has written the object since it was read; it has to be read again."""


class MigrationApi:
    """Reads and writes objects through the requests of a controller."""

    def __init__(self, requests: ApiRequests) -> None:
        self._requests = requests

    async def get(self, path: str) -> Object | None:
        """The object, or None if there is none."""
        reply = await self._requests.send("GET", path)
        return None if reply.status == 404 else _content(reply, f"get {path}")

    async def create(self, path: str, document: Object, *, dry_run: bool = False) -> Object | None:
        """The object as it was created, or None if one of that name exists already."""
        query = "?dryRun=All" if dry_run else ""
        reply = await self._requests.send("POST", path + query, msgspec.json.encode(document))
        if reply.status == 409 and _status(reply).reason == "AlreadyExists":
            return None
        return _content(reply, f"create {path}")

    async def merge(self, path: str, patch: Object) -> Object | None:
        """The object after the patch, or None if there is none.

        Raises `WrittenMeanwhile` if the patch names a version that is not the newest.
        """
        body = msgspec.json.encode(patch)
        reply = await self._requests.send("PATCH", path, body, content_type=MERGE)
        if reply.status == 404:
            return None
        if reply.status == 409:
            raise WrittenMeanwhile(_status(reply).message)
        return _content(reply, f"patch {path}")

    async def delete(self, path: str, uid: str, grace_period_seconds: int | None = None) -> None:
        """Delete the object of this uid; one that is gone, or another of its name, is left."""
        options: Object = {"preconditions": {"uid": uid}} if uid else {}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        reply = await self._requests.send("DELETE", path, msgspec.json.encode(options))
        if reply.status not in (404, 409):
            _content(reply, f"delete {path}")

    # -- pods and jobs -----------------------------------------------------------------------------

    async def get_pod(self, namespace: str, name: str) -> Object | None:
        """The pod as the API server has it."""
        return await self.get(pod_path(namespace, name))

    async def write_status(self, job: MigrationJob, change: StatusChange) -> Object | None:
        """The job with the change in its status; None if it was deleted."""
        return await self.merge(
            f"{JOBS_PATH}/{job.name}/status", change.patch(job.object.metadata.resource_version)
        )

    async def write_event(self, event: Object) -> str:
        """Write an event; returns why that failed, which must not stop a job."""
        try:
            reply = await self._requests.send("POST", EVENTS, msgspec.json.encode(event))
            _content(reply, "create an event")
        except ClusterError as error:
            return str(error)
        return ""


def pod_path(namespace: str, name: str) -> str:
    """Where the API server has a pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def path_of(pod: PodReference) -> str:
    """Where the API server has the pod that a reference names."""
    return pod_path(pod.namespace, pod.name)


def job_event(
    job: MigrationJob, reason: str, note: str, *, warning: bool, instance: str, at: datetime
) -> Object:
    """An `events.k8s.io/v1` Event about a job."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": f"{job.name[:50].rstrip('-.')}-", "namespace": "default"},
        "eventTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": "resettle.dev/migration-controller",
        "reportingInstance": instance,
        "action": "Migrating",
        "reason": reason,
        "note": note[:1000],
        "type": "Warning" if warning else "Normal",
        "regarding": {
            "apiVersion": "resettle.dev/v1alpha1",
            "kind": "PodMigrationJob",
            "name": job.name,
            "uid": job.uid,
        },
    }


def _status(reply: ApiResponse) -> Any:
    return status_of(Answer(reply.status, reply.body))


def _content(reply: ApiResponse, what: str) -> Object:
    """The object in a good answer; raises `ClusterError` for any other."""
    if reply.status >= 300:
        raise ClusterError(
            f"{what}: the API server answered {reply.status}: {_status(reply).message}"
        )
    try:
        document: Object = msgspec.json.decode(reply.body)
    except msgspec.DecodeError as error:
        raise ClusterError(f"{what}: the answer cannot be understood: {error}") from None
    return document
