"""Placeholder pods: a pod of the size and the constraints of the one to move, in our namespace.

The real scheduler proves with it that the pod fits elsewhere. It is built from the pod as the API
server answers it, since the snapshot leaves out fields that matter here. What a placeholder cannot
express is returned as notes. The pin of a gated replacement is here too: it changes the same node
affinity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from resettle.controllers.migration.placeholder_spec import (
    FIELD_NAME,
    host_ports,
    merge_terms,
    pod_affinity,
    request_amounts,
)
from resettle.model.migration_job import (
    API_VERSION,
    GATE,
    JOB_LABEL,
    KIND,
    PIN_MARK,
    PLACEHOLDER,
    MigrationJob,
    MoveSource,
    PlaceholderPriority,
)

Object = dict[str, Any]

IMAGE = "registry.k8s.io/pause:3.10"
HIGHEST_USER_PRIORITY = 1_000_000_000
"""The largest value that a PriorityClass may have if it is not one of the system's."""
YIELD_CLASS = "resettle-yield"
YIELD_PRIORITY = -1_000_000
HOLD_CLASS_PREFIX = "resettle-hold-"
_PAUSE_USER = 65535
_AFTER_TTL = timedelta(hours=1)
_LONGEST_SECONDS = 2**31 - 1
"""The largest `activeDeadlineSeconds` that the API server accepts."""


def placeholder_name(job_uid: str) -> str:
    """The name of the placeholder of a job: creating it twice is an error, not a second pod."""
    return f"place-{job_uid}"


# -- priorities ------------------------------------------------------------------------------------


def priority_class_name(kind: PlaceholderPriority, priority: int) -> str:
    """The PriorityClass of a placeholder for a pod of this priority."""
    if kind is PlaceholderPriority.YIELD:
        return YIELD_CLASS
    return f"{HOLD_CLASS_PREFIX}{min(priority, HIGHEST_USER_PRIORITY)}"


def build_priority_class(kind: PlaceholderPriority, priority: int) -> Object:
    """The PriorityClass of a placeholder for a pod of this priority; it never preempts."""
    yields = kind is PlaceholderPriority.YIELD
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": priority_class_name(kind, priority), "labels": {PLACEHOLDER: "true"}},
        "value": YIELD_PRIORITY if yields else min(priority, HIGHEST_USER_PRIORITY),
        "preemptionPolicy": "Never",
        "globalDefault": False,
        "description": "For pods that hold a place while resettle moves another pod.",
    }


# -- the placeholder -------------------------------------------------------------------------------


class PlaceholderPlan(Struct, frozen=True):
    """A placeholder to create, its PriorityClass, and what it cannot promise."""

    pod: Object
    priority_class: Object
    notes: tuple[str, ...] = ()


def build_placeholder(
    job: MigrationJob,
    victim: Mapping[str, Any],
    *,
    namespace: str,
    now: datetime,
    image: str = IMAGE,
    volume_terms: Sequence[Sequence[Mapping[str, Any]]] = (),
) -> PlaceholderPlan:
    """The placeholder for a pod; `volume_terms` are the node selector terms of its bound volumes.

    `victim` is the pod as the API server answers it.
    """
    spec = victim["spec"]
    source, target = spec.get("nodeName") or "", job.settings.node_name
    notes = list(_not_promised(victim))
    node_terms, problem = merge_terms(_without_pin(_required_terms(spec)), volume_terms)
    if problem:
        notes.append(problem)
    operator, node = ("In", target) if target else ("NotIn", source)
    affinity: Object = pod_affinity(victim)
    if node:
        only = {"key": FIELD_NAME, "operator": operator, "values": [node]}
        node_terms = [_with_field(term, only) for term in node_terms or [{}]]
    if node_terms:
        affinity["nodeAffinity"] = _requiring({"nodeSelectorTerms": node_terms})
    kind, priority = job.settings.placeholder_priority, spec.get("priority") or 0
    if kind is PlaceholderPriority.HOLD and priority > HIGHEST_USER_PRIORITY:
        notes.append(f"the placeholder has the priority {HIGHEST_USER_PRIORITY}, not {priority}")
    pod_spec = {
        "containers": [_container(spec, image)],
        "nodeSelector": spec.get("nodeSelector"),
        "tolerations": spec.get("tolerations"),
        "affinity": affinity,
        "schedulerName": spec.get("schedulerName"),
        "os": spec.get("os"),
        "priorityClassName": priority_class_name(kind, priority),
        "preemptionPolicy": "Never",
        "restartPolicy": "Always",
        "activeDeadlineSeconds": _seconds_to_live(job, now),
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _pod_security(spec),
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(job, namespace),
        "spec": {key: value for key, value in pod_spec.items() if value not in (None, {}, [])},
    }
    return PlaceholderPlan(pod, build_priority_class(kind, priority), tuple(notes))


def build_trial_pod(namespace: str, job: MigrationJob, source: MoveSource, image: str) -> Object:
    """A pod as the workload would create it, to see what admission does with it; never created."""
    owner = msgspec.to_builtins(source.owner)
    reference = {**owner, "controller": True, "blockOwnerDeletion": False}
    priority = job.settings.placeholder_priority
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"trial-{job.uid}",
            "namespace": namespace,
            "labels": {PLACEHOLDER: "true"},
            "ownerReferences": [reference],
        },
        "spec": {
            "containers": [_container({"containers": []}, image)],
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "priorityClassName": priority_class_name(priority, source.priority),
            "preemptionPolicy": "Never",
            "securityContext": _pod_security({}),
        },
    }


def _metadata(job: MigrationJob, namespace: str) -> Object:
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    return {
        "name": placeholder_name(job.uid),
        "namespace": namespace,
        # None of the labels of the pod: no workload may adopt it, no Service or budget select it.
        "labels": {PLACEHOLDER: "true", JOB_LABEL: job.uid},
        "ownerReferences": [owner],
    }


def _container(spec: Mapping[str, Any], image: str) -> Object:
    requests, limits = request_amounts(spec)
    container: Object = {
        "name": "place",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": requests} | ({"limits": limits} if limits else {}),
    }
    if not _is_windows(spec):
        container["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
    if ports := host_ports(spec):
        container["ports"] = ports
    return container


def _pod_security(spec: Mapping[str, Any]) -> Object:
    """What the Pod Security level `restricted` asks for."""
    if _is_windows(spec):
        return {"runAsNonRoot": True}
    return {
        "runAsNonRoot": True,
        "runAsUser": _PAUSE_USER,
        "runAsGroup": _PAUSE_USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _is_windows(spec: Mapping[str, Any]) -> bool:
    return bool((spec.get("os") or {}).get("name") == "windows")


def _seconds_to_live(job: MigrationJob, now: datetime) -> int | None:
    """After when a kubelet ends the placeholder, if no controller is there to delete it.

    Well after the end of the job, whose ttl a person may raise meanwhile.
    """
    if job.deadline is None:
        return None
    left = max(job.deadline - now, timedelta()) + _AFTER_TTL
    return min(math.ceil(left.total_seconds()), _LONGEST_SECONDS)


def _not_promised(victim: Mapping[str, Any]) -> Iterator[str]:
    """What of the pod's constraints a placeholder cannot express."""
    spec = victim["spec"]
    if any(
        constraint.get("whenUnsatisfiable") == "DoNotSchedule"
        for constraint in spec.get("topologySpreadConstraints") or ()
    ):
        yield "topology spread is not checked: it counts pods of the pod's own namespace only"
    if spec.get("resourceClaims"):
        yield "devices of resource claims are not reserved"
    if any("persistentVolumeClaim" in v or "ephemeral" in v for v in spec.get("volumes") or ()):
        yield "slots for attaching volumes are not reserved"
    if host_ports(spec):
        yield (
            "host ports are reserved, which the Pod Security levels `baseline` and `restricted` "
            "do not allow in the namespace of placeholders"
        )


# -- node affinity ---------------------------------------------------------------------------------


def _requiring(value: Any) -> Object:
    return {"requiredDuringSchedulingIgnoredDuringExecution": value}


def _required_terms(spec: Mapping[str, Any]) -> list[Any]:
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return list(required.get("nodeSelectorTerms") or ())


def _with_field(term: Mapping[str, Any], requirement: Mapping[str, Any]) -> Object:
    fields = term.get("matchFields") or []
    if requirement in fields:
        return dict(term)
    return {**term, "matchFields": [*fields, requirement]}


_MARK = {"key": FIELD_NAME, "operator": "NotIn", "values": [PIN_MARK]}


def _with_pin(term: Mapping[str, Any], only: Mapping[str, Any]) -> Object:
    fields = term.get("matchFields") or []
    return dict(term) if only in fields else {**term, "matchFields": [*fields, only, _MARK]}


def _without_pin(terms: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The terms as they were before an earlier move pinned the pod to its node."""
    unpinned = []
    for term in terms:
        fields = list(term.get("matchFields") or ())
        if _MARK not in fields:
            unpinned.append(dict(term))
            continue
        place = fields.index(_MARK)
        del fields[max(place - 1, 0) : place + 1]
        rest = {**term, "matchFields": fields}
        if any(rest.values()):  # else the pin was all there was
            unpinned.append({key: value for key, value in rest.items() if value})
    return unpinned


def pin_patch(pod: Mapping[str, Any], node: str) -> Object | None:
    """The merge patch that requires a node of a gated pod; None if it requires it already.

    A pod with a scheduling gate accepts more requirements in the terms that it has, except in empty
    terms, which match no node anyway. A mark says that the requirement is ours: the next move of
    the pod has to ignore it.
    """
    only = {"key": FIELD_NAME, "operator": "In", "values": [node]}
    terms = _required_terms(pod["spec"])
    pinned = [_with_pin(term, only) if any(term.values()) else term for term in terms]
    if not terms:
        pinned = [_with_pin({}, only)]
    if pinned == terms:
        return None
    affinity = {"nodeAffinity": _requiring({"nodeSelectorTerms": pinned})}
    return _patch(pod, {"affinity": affinity})


def ungate_patch(pod: Mapping[str, Any]) -> Object | None:
    """The merge patch that removes our scheduling gate; None if the pod does not have it."""
    gates = pod["spec"].get("schedulingGates") or []
    others = [gate for gate in gates if gate.get("name") != GATE]
    return None if others == gates else _patch(pod, {"schedulingGates": others or None})


def _patch(pod: Mapping[str, Any], spec: Mapping[str, Any]) -> Object:
    version = pod["metadata"].get("resourceVersion")
    return {"metadata": {"resourceVersion": version} if version else {}, "spec": dict(spec)}


def terms_of_volumes(volumes: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    """The node selector terms of each PersistentVolume that has any."""
    required = (
        ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
        for volume in volumes
    )
    return [list(terms) for affinity in required if (terms := affinity.get("nodeSelectorTerms"))]
