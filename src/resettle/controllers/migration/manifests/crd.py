"""The CustomResourceDefinition of PodMigrationJob: schema, validation rules, printer columns.

Field names are those of Koordinator's PodMigrationJob; `status.source`, `status.effective`, the
times and the members of `reservationOptions` are ours. Koordinator's members of
`reservationOptions` are declared here only to be refused with a sentence that says why.

Versions may differ. Nothing that the controller writes is an enumeration, and the status keeps
fields that this schema does not know: a newer controller works with this definition. A field of
the *spec* that the schema does not know is refused with `fieldValidation=Strict`, as kubectl asks
for, and else dropped by the API server; so the definition of the newest version stays installed
when the controller goes back to an older one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from resettle.model.migration_job import (
    API_VERSION,
    GROUP,
    KIND,
    PLURAL,
    JobMode,
    PlaceholderPriority,
    Steering,
)

Schema = dict[str, Any]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAMESPACE = {"type": "string", "minLength": 1, "maxLength": 63, "pattern": f"^{_LABEL}$"}
# Names become part of URLs, so nothing but the letters of names is let in.
_NAME = {
    "type": "string",
    "minLength": 1,
    "maxLength": 253,
    "pattern": rf"^{_LABEL}(\.{_LABEL})*$",
}
_TEXT = {"type": "string"}
_UID = {"type": "string", "maxLength": 128}
_TIME = {"type": "string", "format": "date-time"}
_GENERATION = {"type": "integer", "format": "int64"}
_OPEN = {"x-kubernetes-preserve-unknown-fields": True}
_PART = "[0-9]{1,6}([.][0-9]{1,9})?(ns|us|µs|ms|s|m|h)"


def pod_migration_job_crd() -> Schema:
    """The definition as the API server takes it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{PLURAL}.{GROUP}",
            "labels": {"app.kubernetes.io/name": "resettle"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["pmj"],
                "categories": ["resettle"],
            },
            "versions": [
                {
                    "name": API_VERSION.rpartition("/")[2],
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": _columns(),
                    "selectableFields": [
                        {"jsonPath": path}
                        for path in (".spec.podRef.namespace", ".spec.podRef.name", ".status.phase")
                    ],
                    "schema": {"openAPIV3Schema": _job()},
                }
            ],
        },
    }


def _columns() -> list[Schema]:
    """What `kubectl get pmj` shows; the last ones with `-o wide` only."""
    columns = [
        ("Phase", "string", ".status.phase", 0),
        ("Status", "string", ".status.status", 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
        ("Node", "string", ".status.nodeName", 0),
        ("PodNamespace", "string", ".spec.podRef.namespace", 0),
        ("Pod", "string", ".spec.podRef.name", 0),
        ("NewPod", "string", ".status.podRef.name", 0),
        ("TTL", "string", ".spec.ttl", 0),
        ("Mode", "string", ".status.effective.mode", 0),
        ("From", "string", ".status.source.nodeName", 1),
        ("Reason", "string", ".status.reason", 1),
        ("Message", "string", ".status.message", 1),
    ]
    return [
        {"name": name, "type": kind, "jsonPath": path, **({"priority": level} if level else {})}
        for name, kind, path, level in columns
    ]


def _job() -> Schema:
    return {
        "description": "Moves one pod to another node: an eviction, with or without a place that"
        " is held for the replacement before it.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": {"type": "object"},
            "spec": _spec(),
            "status": _status(),
        },
    }


# -- spec -----------------------------------------------------------------------------------------


def _spec() -> Schema:
    members: Schema = {
        "paused": {
            "type": "boolean",
            "description": "While true, the job stops before its eviction, and `ttl` waits.",
        },
        "ttl": _duration(
            "The time from creation after which the job fails, such as `5m`; at most a day.",
            longest="24h",
        ),
        "mode": _choice(
            JobMode, "How the pod leaves; if unset, as the controller is configured to do."
        ),
        "podRef": _pod_ref("The pod to move."),
        "deleteOptions": _delete_options(),
        "reservationOptions": _reservation_options(),
    }
    for key in ("mode", "podRef", "deleteOptions"):
        _make_immutable(members[key], key)
    rules = [_presence_rule(key) for key in ("mode", "deleteOptions", "reservationOptions")]
    return {
        "type": "object",
        "required": ["podRef"],
        "properties": members,
        "x-kubernetes-validations": [*rules, _no_place_to_hold(), _one_pod()],
    }


def _make_immutable(schema: Schema, key: str) -> None:
    """Add the rule that a value stays what it is.

    It is not asked about a value that comes or goes: `_presence_rule` is about these.
    """
    schema.setdefault("x-kubernetes-validations", []).append(
        _rule("self == oldSelf", f"{key} cannot be changed; create another job")
    )


def _presence_rule(key: str) -> Schema:
    """The rule that an optional member neither comes nor goes."""
    # `self.?key == oldSelf.?key` would say all at once; the API server takes it for too expensive.
    return _rule(
        f"has(self.{key}) == has(oldSelf.{key})",
        f"{key} cannot be changed; create another job",
        field=key,
    )


def _no_place_to_hold() -> Schema:
    """Refuses options of a reservation for a job that makes none."""
    keys = _reservation_options()["properties"]
    none = " && ".join(f"!has(self.reservationOptions.{key})" for key in keys)
    return _rule(
        "!has(self.mode) || self.mode != 'EvictDirectly'"
        f" || !has(self.reservationOptions) || ({none})",
        "mode EvictDirectly holds no place: leave reservationOptions out, or use ReservationFirst",
        field="reservationOptions",
    )


def _one_pod() -> Schema:
    return _rule(
        "!has(self.podRef.uid) || self.podRef.uid == '' || !has(self.deleteOptions)"
        " || !has(self.deleteOptions.preconditions) || !has(self.deleteOptions.preconditions.uid)"
        " || self.deleteOptions.preconditions.uid == self.podRef.uid",
        "deleteOptions.preconditions.uid is not the uid of podRef",
        field="deleteOptions",
    )


def _delete_options() -> Schema:
    return {
        "description": "As in a request to delete the pod; without dryRun.",
        "type": "object",
        "properties": {
            "gracePeriodSeconds": {"type": "integer", "format": "int64", "minimum": 0},
            "propagationPolicy": {"type": "string", "enum": ["Orphan", "Background", "Foreground"]},
            "orphanDependents": {"type": "boolean"},
            "preconditions": {
                "type": "object",
                "properties": {"uid": _UID, "resourceVersion": {"type": "string", "maxLength": 64}},
            },
            "dryRun": {
                "type": "array",
                "maxItems": 4,
                "items": {"type": "string", "maxLength": 16},
            },
        },
        "x-kubernetes-validations": [
            _rule(
                "!has(self.dryRun) || size(self.dryRun) == 0",
                "a job is no dry run: it would wait for a pod that never leaves; remove dryRun",
                field="dryRun",
            ),
            _rule(
                "!(has(self.propagationPolicy) && has(self.orphanDependents))",
                "set propagationPolicy or orphanDependents, not both",
                field="orphanDependents",
            ),
        ],
    }


def _reservation_options() -> Schema:
    """The place that is held; the last three are Koordinator's, and refused."""
    why = "{} needs koord-scheduler and its Reservations; here a pod holds the place, remove it"
    refused = ("reservationRef", "template", "preemptionOptions")
    members: Schema = {
        "nodeName": {**_NAME, "description": "The node to hold a place on; if unset, any."},
        "placeholderPriority": _choice(
            PlaceholderPriority,
            "Hold: the priority of the pod. Yield: below all others.",
        ),
        "steering": _choice(
            Steering,
            "What keeps the replacement off the old node. Soft, Hard: a taint on that node."
            " Gate: the replacement may only go to the place that is held.",
        ),
        "reserveTimeout": _duration("How long to look for a place; then the job fails."),
    }
    for key, schema in members.items():
        _make_immutable(schema, key)
    return {
        "description": "How a place is held for the replacement, in mode ReservationFirst.",
        "type": "object",
        "properties": {**members, **{key: {"type": "object", **_OPEN} for key in refused}},
        "x-kubernetes-validations": [
            *(_presence_rule(key) for key in members),
            *(_rule(f"!has(self.{key})", why.format(key), field=key) for key in refused),
        ],
    }


# -- status ---------------------------------------------------------------------------------------


def _status() -> Schema:
    """What the controller writes: open texts, so that a newer one can write more."""
    source = {
        "nodeName": _TEXT,
        "uid": _TEXT,
        "owner": _open_object({"apiVersion": _TEXT, "kind": _TEXT, "name": _TEXT, "uid": _TEXT}),
    }
    effective = ("mode", "ttl", "placeholderPriority", "steering", "reserveTimeout", "nodeName")
    times = ("startedAt", "evictionRequestedAt", "evictedAt", "finishedAt")
    return _open_object(
        {
            "phase": {
                "type": "string",
                "description": "Pending, Running, Succeeded, Failed or Aborted.",
            },
            "status": {
                "type": "string",
                "description": "The type of the condition that changed last, or Complete.",
            },
            "reason": _TEXT,
            "message": _TEXT,
            "observedGeneration": _GENERATION,
            "conditions": _conditions(),
            "nodeName": {"type": "string", "description": "The node with the place that is held."},
            "podRef": {
                **_open_object(
                    dict.fromkeys(("apiVersion", "kind", "namespace", "name", "uid"), _TEXT)
                ),
                "description": "The replacement.",
            },
            "source": {**_open_object(source), "description": "The pod when the job was accepted."},
            "effective": {
                **_open_object(dict.fromkeys(effective, _TEXT)),
                "description": "The settings of the job, fixed when it was accepted.",
            },
            **dict.fromkeys(times, _TIME),
        }
    )


def _conditions() -> Schema:
    item = {
        **_open_object(
            {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": _TEXT,
                "message": _TEXT,
                "lastTransitionTime": _TIME,
                "lastProbeTime": {**_TIME, "nullable": True},
                "observedGeneration": _GENERATION,
            }
        ),
        "required": ["type", "status"],
    }
    return {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }


# -- parts ----------------------------------------------------------------------------------------


def _open_object(properties: Schema) -> Schema:
    """An object of the status, which keeps members of newer versions as well."""
    return {"type": "object", "properties": properties, **_OPEN}


def _pod_ref(description: str) -> Schema:
    return {
        "description": description,
        "type": "object",
        "required": ["namespace", "name"],
        "properties": {
            "namespace": _NAMESPACE,
            "name": _NAME,
            "uid": {**_UID, "description": "Of this pod only, not of another with its name."},
            "apiVersion": {"type": "string", "enum": ["v1"]},
            "kind": {"type": "string", "enum": ["Pod"]},
        },
    }


def _choice(values: Iterable[str], description: str) -> Schema:
    return {"type": "string", "enum": [str(value) for value in values], "description": description}


def _duration(description: str, *, longest: str = "") -> Schema:
    """A duration as Go writes it, longer than nothing."""
    form = f"^({_PART}){{1,6}}$"
    other = f"!self.matches('{form}') || duration(self)"
    rules = [
        _rule(f"self.matches('{form}')", "write a duration such as 5m or 1h30m"),
        _rule(f"{other} > duration('0s')", "must be longer than 0s"),
    ]
    if longest:
        rules.append(_rule(f"{other} <= duration('{longest}')", f"must be at most {longest}"))
    return {
        "description": description,
        "type": "string",
        "maxLength": 40,
        "x-kubernetes-validations": rules,
    }


def _rule(expression: str, message: str, *, field: str = "") -> Schema:
    place = {"fieldPath": f".{field}"} if field else {}
    return {"rule": expression, "message": message, **place}
