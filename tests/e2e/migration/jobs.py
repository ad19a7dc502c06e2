"""Follows jobs on a real control plane: every version of each, their evictions, pods that wait.

Pods stay in a state as long as a test wants: a pod with a finalizer does not go when it is
deleted, and a pod on a node without a kubelet does not start.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from resettle.model.migration_job import JOBS_PATH
from resettle.testing import node
from tests.e2e.cluster.workloads import report_status
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.harness import TERMINAL, conditions_of, job_status, read_job
from tests.e2e.migration.watching import ObjectWatch
from tests.e2e.processes.run import AuditedUser
from tools.control_plane.api import Api, Object

FINALIZER = "example.com/stays"
DIRECT = {"mode": "EvictDirectly"}


class JobWatch(ObjectWatch):
    """Every version that each job has had."""

    def __init__(self, api: Api) -> None:
        super().__init__(api, JOBS_PATH)

    def order_of(self, condition: str, names: Iterable[str]) -> list[str]:
        """The names of these jobs in the order in which the condition became true for them."""
        wanted, order = set(names), []
        for version in self.versions:
            name = version["metadata"]["name"]
            status = conditions_of(version.get("status") or {}).get(condition, ("", ""))[0]
            if name in wanted and status == "True" and name not in order:
                order.append(name)
        return order

    def wait_for_all(self, names: Iterable[str]) -> None:
        """Waits until the watch has seen the end of each of these jobs."""
        wanted = set(names)
        eventually(
            "the watch to see all ends",
            lambda: (
                wanted
                <= {
                    version["metadata"]["name"]
                    for version in self.versions
                    if (version.get("status") or {}).get("phase") in TERMINAL
                }
            ),
        )


def most_on_their_way(jobs: JobWatch, pods: ObjectWatch, names: Iterable[str]) -> int:
    """The greatest number of these jobs that were running while their pods were still there.

    Versions of all objects of one API server are numbered in the order of their writes.
    """
    wanted, running, gone, most = set(names), dict[str, str](), set[str](), 0
    for version in sorted([*jobs.versions, *pods.versions], key=_revision):
        meta, status = version["metadata"], version.get("status") or {}
        if version["kind"] == "Pod":
            gone |= {meta["uid"]} if version["event"] == "DELETED" else set()
        elif meta["name"] in wanted:
            running.pop(meta["name"], None)
            if status.get("phase") == "Running":
                running[meta["name"]] = status["source"]["uid"]
        most = max(most, len(set(running.values()) - gone))
    return most


def _revision(version: Object) -> int:
    return int(version["metadata"]["resourceVersion"])


def wait_for_condition(api: Api, name: str, condition: str, status: str, reason: str = "") -> None:
    """Waits until the job has the condition with this status, and with this reason if given."""

    def has_condition() -> bool:
        has = conditions_of(job_status(api, name)).get(condition, ("", ""))
        return has[0] == status and reason in ("", has[1])

    try:
        eventually(f"{condition}={status} {reason} of job {name}", has_condition)
    except AssertionError as error:
        raise AssertionError(f"{error}; {json.dumps(job_status(api, name))}") from None


def edit_job(api: Api, name: str, change: Mapping[str, Any]) -> Object:
    """Changes the job, as a person with kubectl would."""
    return api.patch(f"{JOBS_PATH}/{name}", dict(change)).granted()


def delete_jobs(api: Api) -> None:
    """Deletes all jobs, so that no later test meets them."""
    for job in api.items(JOBS_PATH):
        api.delete(f"{JOBS_PATH}/{job['metadata']['name']}")


# -- pods that wait --------------------------------------------------------------------------------


@contextmanager
def held(api: Api, *pods: Object) -> Iterator[None]:
    """Gives the pods a finalizer while the block lasts: evicted, they stay and terminate."""
    for pod in pods:
        _set_finalizers(api, pod, [FINALIZER])
    try:
        yield
    finally:
        let_go(api, *pods)


def let_go(api: Api, *pods: Object) -> None:
    """Takes the finalizer off the pods."""
    for pod in pods:
        _set_finalizers(api, pod, None)


def _set_finalizers(api: Api, pod: Object, finalizers: list[str] | None) -> None:
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
    answer = api.patch(path, {"metadata": {"uid": meta["uid"], "finalizers": finalizers}})
    if not (finalizers is None and answer.status in (404, 409)):
        answer.granted()


def add_idle_node(workspace: Workspace) -> str:
    """Creates a node without a kubelet: pods that are bound to it stay as tests write them."""
    name = f"{workspace.name}-idle{len(workspace.nodes)}"
    workspace.nodes.append(name)
    built = node(name, cpu="8", zone="a", labels={"workspace": workspace.name})
    workspace.api.post("/api/v1/nodes", built.node).granted()
    return name


def start_pod(workspace: Workspace, pod: Object) -> None:
    """Reports that the pod runs and is ready, as its kubelet would."""
    ready = [{"type": kind, "status": "True"} for kind in ("ContainersReady", "Ready")]
    report_status(workspace, pod, phase="Running", conditions=ready)


def remove_pods_of_idle_nodes(workspace: Workspace) -> None:
    """Deletes the pods that terminate on nodes without a kubelet."""
    for pod in workspace.list_pods():
        if "deletionTimestamp" in pod["metadata"] and "-idle" in pod["spec"].get("nodeName", ""):
            path = f"{workspace.pods_path}/{pod['metadata']['name']}"
            workspace.api.delete(path, grace_seconds=0)


# -- the record ------------------------------------------------------------------------------------


def recorded_evictions(jobs: Iterable[Object]) -> dict[str, str]:
    """The uid of each pod whose eviction a job records, and the name of the job."""
    return {
        status["source"]["uid"]: job["metadata"]["name"]
        for job in jobs
        if (status := job.get("status") or {}).get("evictionRequestedAt")
    }


def assert_audit_equals_record(
    account: AuditedUser, api: Api, names: Iterable[str]
) -> dict[str, str]:
    """Asserts that the API server granted what the jobs record, each once; returns the record.

    A process that is killed leaves requests without an answer: such an eviction may or may not
    have happened, and the job records what it saw.
    """
    record = recorded_evictions(read_job(api, name) for name in names)
    uids = [eviction.uid for eviction in account.evictions()]
    assert len(set(uids)) == len(uids), f"evicted twice: {sorted(uids)}"
    certain, possible = set(uids), account.unanswered_evictions()
    unrecorded, not_granted = certain - record.keys(), record.keys() - certain - possible
    assert not unrecorded, f"granted, and in no job: {unrecorded}"
    assert not not_granted, f"recorded by {[record[uid] for uid in not_granted]}, and not granted"
    return record


def writes_to_job(account: AuditedUser, name: str) -> list[tuple[str, int, str]]:
    """The writes of the account to a job, with the answer and the time of each."""
    return [
        (request["verb"], request["responseStatus"]["code"], request["stageTimestamp"])
        for request in account.requests()
        if request["objectRef"].get("resource") == "podmigrationjobs"
        and request["objectRef"].get("name") == name
        and request["verb"] in ("patch", "update", "delete", "create")
    ]


def audited(account: ControllerAccount) -> AuditedUser:
    """The requests of the controller in the audit log, from now on."""
    return AuditedUser(account.plane, account.user)
