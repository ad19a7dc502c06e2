"""Whether the roles that the peer has are enough for resettle in its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from resettle.cluster.rights import Right, needed
from resettle.framework.descheduler import assembled
from resettle.framework.plugin import Plugin
from resettle.loop import RunSettings
from resettle.policy.document import Policy

_READ = ["get", "watch", "list"]
PEER_RULES: tuple[dict[str, Any], ...] = (
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "update"]},
    {
        "apiGroups": [""],
        "resources": ["nodes", "namespaces", "pods", "persistentvolumeclaims"],
        "verbs": _READ,
    },
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": _READ},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": _READ},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["create", "update", "get", "patch", "delete"],
    },
    {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes", "pods"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": _READ},
)
"""What the manifests and the chart of the peer grant; the lease is granted under its own name."""


def missing(
    policy: Policy,
    plugins: Mapping[str, Plugin],
    settings: RunSettings | None,
    rules: Sequence[Mapping[str, Any]],
) -> list[Right]:
    """The rights that running this takes and that no rule grants."""
    kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
    rights = needed(
        assembled(policy, plugins),
        kinds,
        dry_run=settings.dry_run if settings else False,
        lease=settings.lease if settings else None,
    )
    return [right for right in rights if not granted(right, rules)]


def granted(right: Right, rules: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any rule grants a right."""
    return any(
        _covers(rule, "apiGroups", right.group)
        and _covers(rule, "resources", right.resource)
        and _covers(rule, "verbs", right.verb)
        and (not rule.get("resourceNames") or right.name in rule["resourceNames"])
        for rule in rules
    )


def _covers(rule: Mapping[str, Any], key: str, wanted: str) -> bool:
    named = rule.get(key) or ()
    return wanted in named or "*" in named
