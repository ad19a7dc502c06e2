"""From a method and a path to what is asked of which object."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from resettle.testing.pocket.kinds import Catalogue, Resource

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Target(Struct, frozen=True):
    """A verb of the API, and what it is about."""

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    under: str = ""

    @property
    def granted_as(self) -> str:
        """The resource as roles name it."""
        return f"{self.resource.plural}/{self.under}" if self.under else self.resource.plural


def target(catalogue: Catalogue, method: str, path: str, query: Mapping[str, str]) -> Target | None:
    """What a request asks for, or None where nothing is served."""
    match path.strip("/").split("/"):
        case ["api", "v1", *rest]:
            group, version = "", "v1"
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    namespace = ""
    if rest and rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
        _, namespace, *rest = rest
    if not rest or len(rest) > 3:
        return None
    plural, name, under = [*rest, "", ""][:3]
    resource = catalogue.at(group, version, plural)
    if resource is None or (under and under not in resource.subresources):
        return None
    if (namespace or (name and resource.namespaced)) and not (namespace and resource.namespaced):
        return None
    return Target(_verb(method, name, query), resource, namespace, name, under)


_OF_NAMESPACES = ("status", "finalize")


def _verb(method: str, name: str, query: Mapping[str, str]) -> str:
    if method in ("GET", "HEAD"):
        if query.get("watch") in ("true", "1"):
            return "watch"
        return "get" if name else "list"
    if method == "DELETE" and not name:
        return "deletecollection"
    return _VERBS.get(method, method.lower())
