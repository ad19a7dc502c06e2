"""Kubelets: the life of a pod on its node, and the readiness of nodes.

    bound ──start──► Running, Ready ──takes──► Succeeded      (pods that run to an end)
                        │    └──crashes-every──► restarts, not ready
                     deletion ──stop, or its grace if that is shorter──► gone

Annotations of a pod decide what it does: `life/takes: 30s`, `life/crashes-every: 5m`. A node that
carries `life/silent` says nothing more, and its pods count as not ready.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec import Struct

from resettle.testing.builders import Object
from resettle.testing.controllers.observed import ObservedCluster, key_of
from resettle.testing.controllers.writes import (
    Delete,
    Later,
    Write,
    annotated_duration,
    change,
    format_time,
    is_ready,
    is_terminating,
    parse_time,
    phase,
)

TAKES = "life/takes"
CRASHES_EVERY = "life/crashes-every"
SILENT = "life/silent"
_NODE_NOT_READY = "NodeNotReady"


class Durations(Struct, frozen=True, kw_only=True):
    """How long things take."""

    start: timedelta = timedelta(seconds=2)
    """From a pod's binding until it serves."""
    stop: timedelta = timedelta(seconds=2)
    """From a pod's deletion until it is gone, unless its grace is shorter."""
    work: timedelta = timedelta(minutes=1)
    """From the start to the end of a pod that runs to an end, unless it says otherwise."""


class Kubelets:
    """The kubelets of all nodes."""

    def __init__(self, durations: Durations) -> None:
        self._durations = durations

    def __call__(self, observed: ObservedCluster) -> Iterator[Write | Later]:
        """What the nodes say of themselves and of their pods."""
        silent = set()
        for node in observed.all("Node"):
            if SILENT in (node["metadata"].get("annotations") or {}):
                silent.add(node["metadata"]["name"])
            yield from _report_node(node, observed)
        for pod in observed.pods:
            if not pod["spec"].get("nodeName"):
                if is_terminating(pod):
                    yield Delete("Pod", key_of(pod))
            elif pod["spec"]["nodeName"] in silent:
                yield from _report_unknown(pod, observed)
            else:
                yield from self._report_pod(pod, observed)

    def _report_pod(self, pod: Object, observed: ObservedCluster) -> Iterator[Write | Later]:
        meta, now = pod["metadata"], observed.now
        if is_terminating(pod):
            grace = timedelta(seconds=int(meta.get("deletionGracePeriodSeconds", 30)))
            end = parse_time(meta["deletionTimestamp"]) - grace + min(grace, self._durations.stop)
            yield Delete("Pod", key_of(pod)) if end <= now else Later(end)
        elif phase(pod) == "Pending":
            start = _since(pod, "PodScheduled") + self._durations.start
            yield (
                change(pod, {"status": _running_status(pod, start)})
                if start <= now
                else Later(start)
            )
        elif phase(pod) == "Running":
            yield from _report_ready_again(pod, now)
            yield from self._report_running(pod, now)

    def _report_running(self, pod: Object, now: datetime) -> Iterator[Write | Later]:
        """The end of a pod that runs to one, and the restarts of one that crashes."""
        annotations = pod["metadata"].get("annotations")
        started = _start_time(pod)
        takes = annotated_duration(annotations, TAKES)
        if takes or pod["spec"].get("restartPolicy", "Always") != "Always":
            end = started + (takes or self._durations.work)
            yield change(pod, {"status": _succeeded_status(pod, end)}) if end <= now else Later(end)
        elif every := annotated_duration(annotations, CRASHES_EVERY):
            restarts = (now - started) // every
            if restarts > _restarts(pod):
                yield change(pod, {"status": _crashed_status(pod, restarts, now)})
            yield Later(started + (restarts + 1) * every)


def _since(pod: Object, condition: str) -> datetime:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    times = (row.get("lastTransitionTime") for row in conditions if row["type"] == condition)
    return parse_time(next(times, None) or pod["metadata"]["creationTimestamp"])


def _start_time(pod: Object) -> datetime:
    started = (pod.get("status") or {}).get("startTime")
    return parse_time(started or pod["metadata"]["creationTimestamp"])


def _restarts(pod: Object) -> int:
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((container.get("restartCount", 0) for container in containers), default=0)


def _conditions(pod: Object, at: datetime, **statuses: str) -> list[Object]:
    """The pod's conditions with these statuses, the time being kept of those that stay."""
    by_type = {
        condition["type"]: condition
        for condition in (pod.get("status") or {}).get("conditions") or ()
    }
    for name, status in statuses.items():
        if by_type.get(name, {}).get("status") != status:
            by_type[name] = {"type": name, "status": status, "lastTransitionTime": format_time(at)}
    return list(by_type.values())


def _running_status(pod: Object, at: datetime) -> Object:
    serves = {"Initialized": "True", "ContainersReady": "True", "Ready": "True"}
    return {
        "phase": "Running",
        "startTime": format_time(at),
        "conditions": _conditions(pod, at, **serves),
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": format_time(at)}},
            }
            for container in pod["spec"].get("containers") or ()
        ],
    }


def _ended_status(pod: Object, at: datetime, state: Object, restarts: int | None = None) -> Object:
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    more = {} if restarts is None else {"restartCount": restarts}
    return {
        "conditions": _conditions(pod, at, ContainersReady="False", Ready="False"),
        "containerStatuses": [
            {**container, **more, "ready": False, "started": False, "state": state}
            for container in containers
        ],
    }


def _succeeded_status(pod: Object, at: datetime) -> Object:
    state = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": format_time(at)}}
    return {"phase": "Succeeded", **_ended_status(pod, at, state)}


def _crashed_status(pod: Object, restarts: int, at: datetime) -> Object:
    return _ended_status(pod, at, {"waiting": {"reason": "CrashLoopBackOff"}}, restarts)


def _report_unknown(pod: Object, observed: ObservedCluster) -> Iterator[Write | Later]:
    """Report the pod as not ready; a terminating pod stays until its node reports again."""
    if phase(pod) == "Running" and not is_terminating(pod) and is_ready(pod):
        conditions = _conditions(pod, observed.now, Ready="False")
        marked = [
            {**condition, "reason": _NODE_NOT_READY} if condition["type"] == "Ready" else condition
            for condition in conditions
        ]
        yield change(pod, {"status": {"conditions": marked}})


def _report_ready_again(pod: Object, now: datetime) -> Iterator[Write]:
    """Report the pod as ready again if it was not ready only because its node was silent."""
    status = pod.get("status") or {}
    unheard = any(
        condition.get("reason") == _NODE_NOT_READY for condition in status.get("conditions") or ()
    )
    if unheard and all(item.get("ready", True) for item in status.get("containerStatuses") or ()):
        yield change(pod, {"status": {"conditions": _conditions(pod, now, Ready="True")}})


def _report_node(node: Object, observed: ObservedCluster) -> Iterator[Write]:
    """Whether the node is ready; a test's own word counts until the kubelet has another."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    now = next(
        (condition["status"] for condition in conditions if condition["type"] == "Ready"), ""
    )
    silent = SILENT in (node["metadata"].get("annotations") or {})
    says = "Unknown" if silent else "True" if now in ("", "Unknown") else now
    if says != now:
        ready_condition = {
            "type": "Ready",
            "status": says,
            "lastTransitionTime": format_time(observed.now),
        }
        others = [condition for condition in conditions if condition["type"] != "Ready"]
        yield change(node, {"status": {"conditions": [*others, ready_condition]}})
