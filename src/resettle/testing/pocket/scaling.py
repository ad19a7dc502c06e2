"""The scale subresource: how many replicas are wanted, apart from all else."""

from __future__ import annotations

from resettle.testing.objects import Object
from resettle.testing.pocket.kinds import Resource
from resettle.testing.pocket.ledger import Entry, Ledger
from resettle.testing.pocket.refusals import bad_scale, stale
from resettle.testing.pocket.shapes import Scale, fits
from resettle.testing.pocket.updating import rewritten

_META = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(entry: Entry) -> Object:
    """The scale of a workload."""
    spec, status = entry.object.get("spec") or {}, entry.object.get("status") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: entry.meta[key] for key in _META if key in entry.meta},
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": {
            "replicas": status.get("replicas", 0),
            "selector": _selector(spec.get("selector")),
        },
    }


def rescaled(
    ledger: Ledger, resource: Resource, entry: Entry, scale: Object, *, dry: bool = False
) -> Entry:
    """The workload with as many replicas wanted as the scale says."""
    fits(scale, Scale)
    version = (scale.get("metadata") or {}).get("resourceVersion", "")
    if version and version != entry.meta["resourceVersion"]:
        raise stale(resource, entry.meta["name"])
    wanted = (scale.get("spec") or {}).get("replicas", 0)
    if wanted < 0:
        says = f"Invalid value: {wanted}: must be greater than or equal to 0"
        raise bad_scale(entry.meta["name"], says)
    obj = entry.copy()
    obj["spec"] = {**(obj.get("spec") or {}), "replicas": wanted}
    return rewritten(ledger, resource, entry, obj, dry=dry)


def _selector(selector: object) -> str:
    """The selector as a string; a ReplicationController's is a plain mapping."""
    if not isinstance(selector, dict):
        return ""
    if not {"matchLabels", "matchExpressions"} & set(selector):
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for row in selector.get("matchExpressions") or ():
        key, values = row["key"], ",".join(sorted(row.get("values") or ()))
        match row["operator"]:
            case "Exists":
                terms.append(key)
            case "DoesNotExist":
                terms.append(f"!{key}")
            case operator:
                terms.append(f"{key} {operator.lower()} ({values})")
    return ",".join(terms)
