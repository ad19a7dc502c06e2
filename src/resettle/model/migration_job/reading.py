"""Reads a PodMigrationJob with types, and builds a new one.

Reading never raises. Keys and values that this version does not know are listed in `unknown`: the
job comes from a newer version and is left alone. Values that no version accepts, such as a `ttl` of
zero, are listed in `problems`: the job fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from resettle.errors import InputError
from resettle.model.migration_job.job import (
    DEFAULTS,
    JobCondition,
    JobEnding,
    JobSettings,
    MigrationJob,
    MoveSource,
    PodMigrationJob,
    PodReference,
)
from resettle.model.migration_job.names import (
    API_VERSION,
    CREATED_BY,
    EVICT_REASON,
    EVICT_TRIGGER,
    FINGERPRINT,
    KIND,
    PROFILE,
    JobMode,
    JobPhase,
    JobReason,
    PlaceholderPriority,
    Steering,
)
from resettle.times import DURATION, exact_duration, parse_duration, parse_time

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")
Tree = Mapping[str, "Tree | None"]

_SETTINGS: Tree = dict.fromkeys(
    ("nodeName", "placeholderPriority", "steering", "reserveTimeout"), None
)
_KNOWN: Tree = {
    "spec": {
        "paused": None,
        "ttl": None,
        "mode": None,
        "podRef": dict.fromkeys(("namespace", "name", "uid", "apiVersion", "kind"), None),
        "deleteOptions": {
            "apiVersion": None,
            "kind": None,
            "gracePeriodSeconds": None,
            "propagationPolicy": None,
            "orphanDependents": None,
            "preconditions": {"uid": None, "resourceVersion": None},
        },
        "reservationOptions": _SETTINGS,
    },
    # Other fields of the status may be of any version: they are kept, and mean nothing here.
    "effective": {"mode": None, "ttl": None, **_SETTINGS},
}
_DURATION = re.compile(DURATION)


class _Findings:
    """Collects what is unknown or wrong while a job is read."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.problems: list[tuple[JobReason, str]] = []

    def choice(self, kind: type[E], value: Any, path: str, default: E) -> E:
        """The member of an enumeration, or the default where none is named."""
        if value is None or value == "":
            return default
        try:
            return kind(value)
        except ValueError:
            self.unknown.append(f"{path}: {value}")
            return default

    def duration(self, value: Any, path: str, default: timedelta) -> timedelta:
        """A duration above zero, or the default where none is given."""
        if value is None:
            return default
        text = value if isinstance(value, str) else ""
        length = parse_duration(text) if _DURATION.match(text) else timedelta()
        if length > timedelta():
            return length
        says = f"{path} is `{value}`; it must be a duration above zero, such as `5m`"
        self.problems.append((JobReason.INVALID_SPEC, says))
        return default


def job_of_json(document: Mapping[str, Any], defaults: JobSettings = DEFAULTS) -> MigrationJob:
    """A job as an API server answers it; raises `msgspec.ValidationError` without a name."""
    return read_job(msgspec.convert(document, PodMigrationJob), defaults)


def read_job(wire: PodMigrationJob, defaults: JobSettings = DEFAULTS) -> MigrationJob:
    """A job with types; `defaults` are the settings of the controller."""
    findings = _Findings()
    spec, status = wire.spec, wire.status
    findings.unknown.extend(_unknown_keys(spec, _KNOWN["spec"], "spec"))
    effective = _mapping(status, "effective")
    findings.unknown.extend(_unknown_keys(effective, _KNOWN["effective"], "status.effective"))
    phase = findings.choice(JobPhase, status.get("phase"), "status.phase", JobPhase.PENDING)
    pod = _pod_reference(_mapping(spec, "podRef"))
    if not pod.namespace or not pod.name:
        says = "spec.podRef must have a namespace and a name"
        findings.problems.append((JobReason.INVALID_POD_REF, says))
    if "dryRun" in _mapping(spec, "deleteOptions"):
        says = "spec.deleteOptions.dryRun is not supported"
        findings.problems.append((JobReason.INVALID_SPEC, says))
        findings.unknown.remove("spec.deleteOptions.dryRun")
    replacement = _pod_reference(_mapping(status, "podRef"))
    return MigrationJob(
        object=wire,
        phase=phase,
        paused=spec.get("paused") is True,
        pod=pod,
        settings=_settings(spec, effective, defaults, findings),
        conditions=_conditions(status),
        source=_convert(status.get("source"), MoveSource),
        replacement=replacement if replacement.name else None,
        node_name=_text(status, "nodeName"),
        siblings=_convert_texts(status.get("siblings")),
        ending=_convert(status.get("ending"), JobEnding),
        started_at=_time(status, "startedAt"),
        eviction_requested_at=_time(status, "evictionRequestedAt"),
        evicted_at=_time(status, "evictedAt"),
        finished_at=_time(status, "finishedAt"),
        unknown=tuple(dict.fromkeys(findings.unknown)),
        problems=tuple(dict.fromkeys(findings.problems)),
    )


def read_eviction(wire: PodMigrationJob) -> tuple[MoveSource | None, datetime | None]:
    """The pod that a job has evicted, and when; each job that ended is asked again and again."""
    at = _time(wire.status, "evictionRequestedAt")
    return (_convert(wire.status.get("source"), MoveSource), at) if at else (None, None)


def _settings(
    spec: Mapping[str, Any],
    effective: Mapping[str, Any],
    defaults: JobSettings,
    findings: _Findings,
) -> JobSettings:
    """The settings of the job, else of its acceptance, else of the controller."""
    accepted = _settings_from(effective, effective, defaults, "status.effective", findings)
    options = _mapping(spec, "reservationOptions")
    if not effective:
        return _settings_from(spec, options, defaults, "spec", findings)
    # After acceptance only the ttl may still change: all else of a spec is immutable.
    _settings_from(spec, options, defaults, "spec", findings)
    ttl = findings.duration(spec.get("ttl"), "spec.ttl", accepted.ttl)
    return msgspec.structs.replace(accepted, ttl=ttl)


def _settings_from(
    top: Mapping[str, Any],
    options: Mapping[str, Any],
    defaults: JobSettings,
    path: str,
    findings: _Findings,
) -> JobSettings:
    below = path if top is options else f"{path}.reservationOptions"
    return JobSettings(
        mode=findings.choice(JobMode, top.get("mode"), f"{path}.mode", defaults.mode),
        ttl=findings.duration(top.get("ttl"), f"{path}.ttl", defaults.ttl),
        placeholder_priority=findings.choice(
            PlaceholderPriority,
            options.get("placeholderPriority"),
            f"{below}.placeholderPriority",
            defaults.placeholder_priority,
        ),
        steering=findings.choice(
            Steering, options.get("steering"), f"{below}.steering", defaults.steering
        ),
        reserve_timeout=findings.duration(
            options.get("reserveTimeout"), f"{below}.reserveTimeout", defaults.reserve_timeout
        ),
        node_name=_text(options, "nodeName") or defaults.node_name,
    )


def _unknown_keys(value: Any, known: Tree | None, path: str) -> Iterator[str]:
    if known is None or not isinstance(value, Mapping):
        return
    for key, below in value.items():
        if key in known:
            yield from _unknown_keys(below, known[key], f"{path}.{key}")
        else:
            yield f"{path}.{key}"


def _conditions(status: Mapping[str, Any]) -> dict[str, JobCondition]:
    items = status.get("conditions")
    conditions = (
        _convert(item, JobCondition) for item in (items if isinstance(items, list) else ())
    )
    return {condition.type: condition for condition in conditions if condition is not None}


def _pod_reference(part: Mapping[str, Any]) -> PodReference:
    return PodReference(_text(part, "namespace"), _text(part, "name"), _text(part, "uid"))


def _mapping(part: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = part.get(key)
    return value if isinstance(value, Mapping) else {}


def _text(part: Mapping[str, Any], key: str) -> str:
    value = part.get(key)
    return value if isinstance(value, str) else ""


def _time(part: Mapping[str, Any], key: str) -> datetime | None:
    try:
        return parse_time(_text(part, key))
    except InputError:
        return None


def _convert(value: Any, kind: type[T]) -> T | None:
    """The part of a status as a struct; None if it is absent or not of that form."""
    if not isinstance(value, Mapping) or not value:
        return None
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None


def _convert_texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


# -- a new job -------------------------------------------------------------------------------------


class JobOptions(Struct, frozen=True, kw_only=True):
    """What a new job asks for; the controller's settings apply where it asks for nothing."""

    mode: JobMode | None = None
    ttl: timedelta | None = None
    placeholder_priority: PlaceholderPriority | None = None
    steering: Steering | None = None
    reserve_timeout: timedelta | None = None
    node_name: str = ""
    delete_options: Mapping[str, Any] = {}
    trigger: str = ""
    """The plugin that asks for the move."""
    reason: str = ""
    profile: str = ""
    fingerprint: str = ""
    """What the decision was based on; the job fails if the pod is something else by then."""
    created_by: str = ""


NO_OPTIONS = JobOptions()


def build_job(
    pod: PodReference, options: JobOptions = NO_OPTIONS, name: str = ""
) -> dict[str, Any]:
    """A new job that moves this pod; without a name, the API server completes one."""
    reservation = {
        "nodeName": options.node_name or None,
        "placeholderPriority": options.placeholder_priority,
        "steering": options.steering,
        "reserveTimeout": options.reserve_timeout and exact_duration(options.reserve_timeout),
    }
    spec = {
        "mode": options.mode,
        "ttl": options.ttl and exact_duration(options.ttl),
        "podRef": pod.to_json(),
        "deleteOptions": dict(options.delete_options),
        "reservationOptions": _present(reservation),
    }
    annotations = {
        EVICT_TRIGGER: options.trigger,
        EVICT_REASON: options.reason,
        PROFILE: options.profile,
        FINGERPRINT: options.fingerprint,
    }
    metadata: dict[str, Any] = {
        "name": name,
        "generateName": "" if name else f"{pod.name[:40].rstrip('-.')}-",
        "labels": _present({CREATED_BY: options.created_by}),
        "annotations": _present(annotations),
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": _present(metadata),
        "spec": _present(spec),
    }


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not empty."""
    return {
        key: value.value if isinstance(value, StrEnum) else value
        for key, value in values.items()
        if value
    }
