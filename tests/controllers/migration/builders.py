"""Jobs, pods and observations for tests of the migration controller, and steps as short texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from resettle.controllers.migration.status import StatusChange
from resettle.controllers.migration.types import (
    CreatePlaceholder,
    DeletePlaceholder,
    Evict,
    Finish,
    HandOver,
    LeaveAlone,
    LivePod,
    Record,
    ReleaseGates,
    Steer,
    Step,
    StopGating,
    Wait,
)
from resettle.model.migration_job import (
    DEFAULTS,
    GATE_LABEL,
    ControllerReference,
    JobSettings,
    MigrationJob,
    job_of_json,
)
from resettle.testing.builders import before

Object = dict[str, Any]
WEB = ControllerReference("apps/v1", "ReplicaSet", "web-6f", "rs-web")
SET = ControllerReference("apps/v1", "StatefulSet", "db", "set-db")
SOURCE: Object = {
    "nodeName": "n1",
    "uid": "victim",
    "priority": 0,
    "workload": "deploy-web",
    "revision": "6f",
    "owner": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6f", "uid": "rs-web"},
}


class TestRefusal(Struct, frozen=True):
    """A refusal of the filters."""

    __test__ = False

    sentence: str
    temporary: bool = False
    by: str = ""
    code: str = ""

    @property
    def clause(self) -> str:
        """The reason as it continues a sentence."""
        return f"it {self.sentence}"


def condition(text: str, age: str) -> Object:
    """A condition from `Type=Status/Reason`."""
    kind, _, rest = text.partition("=")
    status, _, reason = rest.partition("/")
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": before(age),
    }


def job(
    name: str = "j",
    *,
    conditions: Iterable[str] = (),
    accepted: bool = True,
    age: str = "1m",
    since: str = "10s",
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    settings: Mapping[str, str] | None = None,
    source: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    gating: bool = False,
    pod: str = "web-1",
    defaults: JobSettings = DEFAULTS,
) -> MigrationJob:
    """A job that was accepted; its conditions changed `since` ago."""
    texts = [*(["Arbitrated=True/Accepted"] if accepted else []), *conditions]
    built: Object = {
        "phase": "Running" if accepted else "Pending",
        "conditions": [condition(text, since) for text in texts],
    }
    if accepted:
        built["source"] = {**SOURCE, **(source or {})}
        built["effective"] = {**DEFAULTS.to_json(), **(settings or {})}
    meta: Object = {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "generation": 1,
        "creationTimestamp": before(age),
        **(metadata or {}),
    }
    if gating:
        meta["labels"] = {GATE_LABEL: "true"}
    return job_of_json(
        {
            "metadata": meta,
            "spec": {"podRef": {"namespace": "shop", "name": pod}, **(spec or {})},
            "status": {**built, **(status or {})},
        },
        defaults,
    )


def live(name: str = "web-1", uid: str = "victim", **fields: Any) -> LivePod:
    """A pod that runs on n1."""
    defaults: Object = {"node": "n1", "owner": WEB, "revision": "6f", "phase": "Running"}
    return LivePod(namespace="shop", name=name, uid=uid, **{**defaults, **fields})


def placeholder(node: str = "n2", name: str = "place-uid-j", **fields: Any) -> LivePod:
    """A placeholder that has a node."""
    return LivePod(namespace="resettle", name=name, uid=f"u-{name}", node=node, **fields)


def successor(name: str = "web-2", uid: str = "new", node: str = "", **fields: Any) -> LivePod:
    """A pod that replaces the one that was moved; it has no node yet."""
    phase = "Running" if node else "Pending"
    return live(name, uid, **{"node": node, "phase": phase, **fields})


def change(
    job: MigrationJob, change: StatusChange | None, defaults: Any = DEFAULTS
) -> MigrationJob:
    """The job after a status change, as the API server applies a merge patch."""
    if change is None:
        return job
    document = msgspec.to_builtins(job.object)
    document["status"] = merge_patch(document["status"], change.patch("7")["status"])
    return job_of_json(document, defaults)


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def text_of(step: Step) -> str:
    """A step in a few words, with what it writes: `-` before the action, `+` afterwards."""
    match step:
        case Finish(phase=phase, reason=reason):
            return f"{phase}/{reason}"
        case Wait():
            action = "wait"
        case Record():
            action = "record"
        case CreatePlaceholder():
            action = "create placeholder"
        case Steer(steering=steering, node=node):
            action = f"steer {steering} {node}"
        case Evict(pod=pod):
            action = f"evict {pod.uid}"
        case HandOver(pod=pod, pin=pin, nominate=nominate, ungate=ungate):
            parts = [f"pin {pin}" * bool(pin), f"nominate {nominate}" * bool(nominate)]
            action = " ".join([f"hand over to {pod.uid}:", *filter(None, parts)]).rstrip(":")
            action += " ungate" * ungate
        case DeletePlaceholder():
            action = "delete placeholder"
        case ReleaseGates(pods=pods):
            action = f"ungate {' '.join(pod.uid for pod in pods)}"
        case StopGating():
            action = "stop gating"
        case LeaveAlone():
            action = "leave alone"
        case _:
            raise AssertionError(step)
    return f"{_written('-', step.before)}{action}{_written('+', step.after)}".strip()


def _written(sign: str, change: StatusChange | None) -> str:
    if change is None:
        return ""
    if ending := change.fields.get("ending"):
        return f"-{ending['phase']}/{ending['reason']} "
    parts = []
    if "conditions" in change.fields:
        kind = change.fields.get("status") or ""
        entries = change.fields["conditions"]
        last = next((e for e in entries if e["type"] == kind), entries[-1])
        parts.append(f"{last['type']}={last['status']}/{last['reason']}")
    elif "reason" in change.fields:
        parts.append(change.fields["reason"])
    if "podRef" in change.fields:
        parts.append(f"podRef={change.fields['podRef']['uid']}")
    text = ",".join(parts)
    return f"{sign}{text} " if sign == "-" else f" {sign}{text}"


def at(age: str) -> datetime:
    """The time this long before the tests' now."""
    return datetime.fromisoformat(before(age))
