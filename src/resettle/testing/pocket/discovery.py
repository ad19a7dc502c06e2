"""What is served here, in the words by which clients find out."""

from __future__ import annotations

from resettle.testing.objects import Object
from resettle.testing.pocket.kinds import Catalogue, Resource

_UNDER = {
    "status": (None, ("get", "patch", "update")),
    "scale": (("autoscaling", "v1", "Scale"), ("get", "patch", "update")),
    "eviction": (("policy", "v1", "Eviction"), ("create",)),
    "binding": (("", "v1", "Binding"), ("create",)),
    "finalize": (None, ("update",)),
}
VERSION = {
    "major": "1",
    "minor": "33",
    "gitVersion": "v1.33.0-pocket",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2025-04-23T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
HEALTH = ("healthz", "livez", "readyz")


def document(catalogue: Catalogue, path: str) -> Object | None:
    """The discovery document at this path, if there is one."""
    match path.strip("/").split("/"):
        case ["version"]:
            return dict(VERSION)
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = list(dict.fromkeys(it.group for it in catalogue if it.group))
            told = [_group(catalogue, it) for it in groups]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": told}
        case ["api", "v1"]:
            return _resources(catalogue, "", "v1")
        case ["apis", group]:
            served = any(it.group == group for it in catalogue)
            head = {"kind": "APIGroup", "apiVersion": "v1"}
            return head | _group(catalogue, group) if served else None
        case ["apis", group, version]:
            served = any((it.group, it.version) == (group, version) for it in catalogue)
            return _resources(catalogue, group, version) if served else None
    return None


def group_of(path: str) -> str:
    """The part of a path that names a group and its version."""
    parts = path.strip("/").split("/")
    return "/".join(parts[: 2 if parts[0] == "api" else 3])


def _group(catalogue: Catalogue, group: str) -> Object:
    versions = list(dict.fromkeys(it.version for it in catalogue if it.group == group))
    told = [{"groupVersion": f"{group}/{it}", "version": it} for it in versions]
    return {"name": group, "versions": told, "preferredVersion": told[0]}


def _resources(catalogue: Catalogue, group: str, version: str) -> Object:
    rows = [
        row
        for it in catalogue
        if (it.group, it.version) == (group, version)
        for row in (_row(it), *(_under(it, name) for name in it.subresources))
    ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": rows,
    }


def _row(resource: Resource) -> Object:
    row: Object = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    return row | ({"shortNames": list(resource.short)} if resource.short else {})


def _under(resource: Resource, name: str) -> Object:
    other, verbs = _UNDER.get(name, (None, ("get",)))
    row: Object = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": other[2] if other else resource.kind,
        "verbs": list(verbs),
    }
    return row | ({"group": other[0], "version": other[1]} if other else {})
