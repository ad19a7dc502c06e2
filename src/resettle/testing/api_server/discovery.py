"""What is served here, in the words by which clients find out.

Who may do what: everything, but for what a test bans.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from resettle.testing.api_server.objects.kinds import Catalogue, Resource
from resettle.testing.api_server.objects.schemas import Review, fits
from resettle.testing.builders import Object

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


USER = "pocket:admin"


class Ban(Struct, frozen=True, kw_only=True):
    """What nobody may do; `*` stands for all.

    `resource` is a plural, a subresource such as `pods/eviction`, or a path such as `/metrics`.
    """

    verb: str = "*"
    resource: str = "*"
    group: str = "*"
    namespace: str = "*"

    def covers(self, verb: str, group: str, resource: str, namespace: str) -> bool:
        """Whether the ban is about this."""
        asked = (verb, group, resource, namespace)
        told = (self.verb, self.group, self.resource, self.namespace)
        return all(ours in ("*", theirs) for ours, theirs in zip(told, asked, strict=True))


def why_banned(
    bans: Iterable[Ban], verb: str, group: str, resource: str, namespace: str
) -> str | None:
    """What a client is told that may not do this, or None if it may."""
    if not any(ban.covers(verb, group, resource, namespace) for ban in bans):
        return None
    place = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    return f'User "{USER}" cannot {verb} resource "{resource}" in API group "{group}" {place}'


def reviewed(kind: str, sent: Object, bans: Iterable[Ban], token: str) -> Object:
    """The review with its answer."""
    fits(sent, Review)
    spec = sent.get("spec") or {}
    api_version = "authentication.k8s.io/v1" if kind == "TokenReview" else "authorization.k8s.io/v1"
    sent = {"kind": kind, "apiVersion": api_version, "metadata": {}, **sent}
    if kind == "TokenReview":
        known = not token or spec.get("token") == token
        who = {"username": USER, "groups": ["system:masters", "system:authenticated"]}
        return {**sent, "status": {"authenticated": True, "user": who} if known else {}}
    asked = spec.get("resourceAttributes") or spec.get("nonResourceAttributes") or {}
    under = asked.get("subresource", "")
    resource = asked.get("resource") or asked.get("path", "")
    resource = f"{resource}/{under}" if under else resource
    place = asked.get("namespace", "")
    why = why_banned(bans, asked.get("verb", ""), asked.get("group", ""), resource, place)
    answer = {"allowed": True} if why is None else {"allowed": False, "reason": why}
    return {**sent, "status": answer}
