"""Who may do what: everything, but for what a test bans."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from resettle.testing.objects import Object
from resettle.testing.pocket.shapes import Review, fits

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
