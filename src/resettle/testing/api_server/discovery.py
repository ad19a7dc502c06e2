"""Discovery and access reviews of the test API server.

Every request is allowed, apart from the permissions that a test denies.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from resettle.testing.api_server.objects.kinds import Catalogue, Resource
from resettle.testing.api_server.objects.schemas import ReviewSchema, check_schema
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
    "gitVersion": "v1.33.0-test",
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
            groups = list(dict.fromkeys(resource.group for resource in catalogue if resource.group))
            api_groups = [_group(catalogue, group) for group in groups]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": api_groups}
        case ["api", "v1"]:
            return _resources(catalogue, "", "v1")
        case ["apis", group]:
            served = any(resource.group == group for resource in catalogue)
            head = {"kind": "APIGroup", "apiVersion": "v1"}
            return head | _group(catalogue, group) if served else None
        case ["apis", group, version]:
            served = any(
                (resource.group, resource.version) == (group, version) for resource in catalogue
            )
            return _resources(catalogue, group, version) if served else None
    return None


def group_of(path: str) -> str:
    """The part of a path that names a group and its version."""
    parts = path.strip("/").split("/")
    return "/".join(parts[: 2 if parts[0] == "api" else 3])


def _group(catalogue: Catalogue, group: str) -> Object:
    versions = list(
        dict.fromkeys(resource.version for resource in catalogue if resource.group == group)
    )
    group_versions = [
        {"groupVersion": f"{group}/{version}", "version": version} for version in versions
    ]
    return {"name": group, "versions": group_versions, "preferredVersion": group_versions[0]}


def _resources(catalogue: Catalogue, group: str, version: str) -> Object:
    rows = [
        row
        for resource in catalogue
        if (resource.group, resource.version) == (group, version)
        for row in (_row(resource), *(_under(resource, name) for name in resource.subresources))
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


USER = "test:admin"


class DeniedPermission(Struct, frozen=True, kw_only=True):
    """A permission that no client has; `*` stands for all.

    `resource` is a plural, a subresource such as `pods/eviction`, or a path such as `/metrics`.
    """

    verb: str = "*"
    resource: str = "*"
    group: str = "*"
    namespace: str = "*"

    def covers(self, verb: str, group: str, resource: str, namespace: str) -> bool:
        """Whether it denies this request."""
        asked = (verb, group, resource, namespace)
        pattern = (self.verb, self.group, self.resource, self.namespace)
        return all(ours in ("*", theirs) for ours, theirs in zip(pattern, asked, strict=True))


def why_denied(
    denied: Iterable[DeniedPermission], verb: str, group: str, resource: str, namespace: str
) -> str | None:
    """The message of the refusal, or None if the request is allowed."""
    if not any(permission.covers(verb, group, resource, namespace) for permission in denied):
        return None
    place = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    return f'User "{USER}" cannot {verb} resource "{resource}" in API group "{group}" {place}'


def answer_review(
    kind: str, sent: Object, denied: Iterable[DeniedPermission], token: str
) -> Object:
    """Return the review with its status filled in."""
    check_schema(sent, ReviewSchema)
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
    why = why_denied(denied, asked.get("verb", ""), asked.get("group", ""), resource, place)
    answer = {"allowed": True} if why is None else {"allowed": False, "reason": why}
    return {**sent, "status": answer}
