"""The manifest that gives a service account exactly the permissions it needs.

Cluster-wide permissions go into a ClusterRole; those of one namespace, such as the lease, into a
Role there. Only one lease may be written, and no rule has a `*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, json

from resettle.errors import InputError
from resettle.rbac.permissions import ApiPermission, policy_rules

LABELS = {"app.kubernetes.io/name": "resettle"}
_RBAC = "rbac.authorization.k8s.io"
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}\Z")
_LONGER_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*\Z")

Object = dict[str, Any]


class ManifestNames(Struct, frozen=True, kw_only=True):
    """The names of the roles and bindings, and of the service account they are for."""

    name: str = "resettle"
    """Of the roles and bindings."""
    namespace: str = "resettle"
    """Of the service account."""
    account: str = ""
    """The service account; empty for the same name."""

    def validate(self) -> ManifestNames:
        """Return the names, or raise an error that lists those that are invalid."""
        flags = [
            ("--name", self.name, _LONGER_NAME),
            ("--namespace", self.namespace, _NAME),
            ("--service-account", self.account or "none", _LONGER_NAME),
        ]
        wrong = [f"{flag} is `{name}`" for flag, name, form in flags if not form.match(name)]
        if wrong:
            raise InputError(
                f"{', '.join(wrong)}: no object can be called so; use a-z, 0-9 and `-`"
            )
        return self


def manifest(permissions: Iterable[ApiPermission], names: ManifestNames) -> list[Object]:
    """The service account, its roles and their bindings."""
    objects = [_account(names)]
    for namespace, granted in policy_rules(permissions).items():
        objects += _role_and_binding(namespace, json.decode(json.encode(granted)), names)
    return objects


def _account(names: ManifestNames) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(names.account or names.name, names.namespace),
    }


def _role_and_binding(
    namespace: str, granted: list[Object], names: ManifestNames
) -> Iterator[Object]:
    """A ClusterRole, or a Role in a namespace, and its binding."""
    role = "Role" if namespace else "ClusterRole"
    meta = _metadata(names.name, namespace)
    account = {
        "kind": "ServiceAccount",
        "name": names.account or names.name,
        "namespace": names.namespace,
    }
    yield {"apiVersion": f"{_RBAC}/v1", "kind": role, "metadata": meta, "rules": granted}
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{role}Binding",
        "metadata": meta,
        "roleRef": {"apiGroup": _RBAC, "kind": role, "name": names.name},
        "subjects": [account],
    }


def _metadata(name: str, namespace: str) -> Object:
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "labels": LABELS}
