"""Kubelets: what becomes of a pod on its node, and what a node says of itself.

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
from resettle.testing.controllers.observed import Sight, key_of
from resettle.testing.controllers.writes import (
    Gone,
    Later,
    Write,
    change,
    leaving,
    phase,
    read_as,
    ready,
    span,
    told_as,
)

TAKES = "life/takes"
CRASHES_EVERY = "life/crashes-every"
SILENT = "life/silent"
_UNHEARD = "NodeNotReady"


class Pace(Struct, frozen=True, kw_only=True):
    """How long things take."""

    start: timedelta = timedelta(seconds=2)
    """From a pod's binding until it serves."""
    stop: timedelta = timedelta(seconds=2)
    """From a pod's deletion until it is gone, unless its grace is shorter."""
    work: timedelta = timedelta(minutes=1)
    """From the start to the end of a pod that runs to an end, unless it says otherwise."""


class Kubelets:
    """The kubelets of all nodes."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    def __call__(self, seen: Sight) -> Iterator[Write | Later]:
        """What the nodes say of themselves and of their pods."""
        silent = set()
        for node in seen.all("Node"):
            if SILENT in (node["metadata"].get("annotations") or {}):
                silent.add(node["metadata"]["name"])
            yield from _node_says(node, seen)
        for pod in seen.pods:
            if not pod["spec"].get("nodeName"):
                if leaving(pod):
                    yield Gone("Pod", key_of(pod))
            elif pod["spec"]["nodeName"] in silent:
                yield from _unheard(pod, seen)
            else:
                yield from self._pod_says(pod, seen)

    def _pod_says(self, pod: Object, seen: Sight) -> Iterator[Write | Later]:
        meta, now = pod["metadata"], seen.now
        if leaving(pod):
            grace = timedelta(seconds=int(meta.get("deletionGracePeriodSeconds", 30)))
            end = read_as(meta["deletionTimestamp"]) - grace + min(grace, self._pace.stop)
            yield Gone("Pod", key_of(pod)) if end <= now else Later(end)
        elif phase(pod) == "Pending":
            start = _since(pod, "PodScheduled") + self._pace.start
            yield change(pod, {"status": _running(pod, start)}) if start <= now else Later(start)
        elif phase(pod) == "Running":
            yield from _heard_again(pod, now)
            yield from self._goes_on(pod, now)

    def _goes_on(self, pod: Object, now: datetime) -> Iterator[Write | Later]:
        """The end of a pod that runs to one, and the restarts of one that crashes."""
        annotations = pod["metadata"].get("annotations")
        started = _started(pod)
        takes = span(annotations, TAKES)
        if takes or pod["spec"].get("restartPolicy", "Always") != "Always":
            end = started + (takes or self._pace.work)
            yield change(pod, {"status": _succeeded(pod, end)}) if end <= now else Later(end)
        elif every := span(annotations, CRASHES_EVERY):
            restarts = (now - started) // every
            if restarts > _restarts(pod):
                yield change(pod, {"status": _crashed(pod, restarts, now)})
            yield Later(started + (restarts + 1) * every)


def _since(pod: Object, condition: str) -> datetime:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    told = (it.get("lastTransitionTime") for it in conditions if it["type"] == condition)
    return read_as(next(told, None) or pod["metadata"]["creationTimestamp"])


def _started(pod: Object) -> datetime:
    started = (pod.get("status") or {}).get("startTime")
    return read_as(started or pod["metadata"]["creationTimestamp"])


def _restarts(pod: Object) -> int:
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((it.get("restartCount", 0) for it in containers), default=0)


def _conditions(pod: Object, at: datetime, **told: str) -> list[Object]:
    """The pod's conditions with these statuses, the time being kept of those that stay."""
    found = {it["type"]: it for it in (pod.get("status") or {}).get("conditions") or ()}
    for name, status in told.items():
        if found.get(name, {}).get("status") != status:
            found[name] = {"type": name, "status": status, "lastTransitionTime": told_as(at)}
    return list(found.values())


def _running(pod: Object, at: datetime) -> Object:
    serves = {"Initialized": "True", "ContainersReady": "True", "Ready": "True"}
    return {
        "phase": "Running",
        "startTime": told_as(at),
        "conditions": _conditions(pod, at, **serves),
        "containerStatuses": [
            {
                "name": it["name"],
                "image": it.get("image", ""),
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": told_as(at)}},
            }
            for it in pod["spec"].get("containers") or ()
        ],
    }


def _ended(pod: Object, at: datetime, state: Object, restarts: int | None = None) -> Object:
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    more = {} if restarts is None else {"restartCount": restarts}
    return {
        "conditions": _conditions(pod, at, ContainersReady="False", Ready="False"),
        "containerStatuses": [
            {**it, **more, "ready": False, "started": False, "state": state} for it in containers
        ],
    }


def _succeeded(pod: Object, at: datetime) -> Object:
    state = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": told_as(at)}}
    return {"phase": "Succeeded", **_ended(pod, at, state)}


def _crashed(pod: Object, restarts: int, at: datetime) -> Object:
    return _ended(pod, at, {"waiting": {"reason": "CrashLoopBackOff"}}, restarts)


def _unheard(pod: Object, seen: Sight) -> Iterator[Write | Later]:
    """That nobody knows of the pod; a pod that is leaving cannot, until its node is heard again."""
    if phase(pod) == "Running" and not leaving(pod) and ready(pod):
        conditions = _conditions(pod, seen.now, Ready="False")
        marked = [{**it, "reason": _UNHEARD} if it["type"] == "Ready" else it for it in conditions]
        yield change(pod, {"status": {"conditions": marked}})


def _heard_again(pod: Object, now: datetime) -> Iterator[Write]:
    """That the pod serves, if only the silence of its node spoke against it."""
    status = pod.get("status") or {}
    unheard = any(it.get("reason") == _UNHEARD for it in status.get("conditions") or ())
    if unheard and all(it.get("ready", True) for it in status.get("containerStatuses") or ()):
        yield change(pod, {"status": {"conditions": _conditions(pod, now, Ready="True")}})


def _node_says(node: Object, seen: Sight) -> Iterator[Write]:
    """Whether the node is ready; a test's own word counts until the kubelet has another."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    now = next((it["status"] for it in conditions if it["type"] == "Ready"), "")
    silent = SILENT in (node["metadata"].get("annotations") or {})
    says = "Unknown" if silent else "True" if now in ("", "Unknown") else now
    if says != now:
        told = {"type": "Ready", "status": says, "lastTransitionTime": told_as(seen.now)}
        others = [it for it in conditions if it["type"] != "Ready"]
        yield change(node, {"status": {"conditions": [*others, told]}})
