"""The manifest that gives a service account just the rights it needs.

Rights that hold everywhere make a ClusterRole; those of one namespace, such as the lease, a Role
there. Nothing is granted on more than one lease, and nothing with a `*`.
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
    """What the objects are called, and whose rights they are."""

    name: str = "resettle"
    """Of the roles and bindings."""
    namespace: str = "resettle"
    """Of the service account."""
    account: str = ""
    """The service account; empty for the same name."""

    def validate(self) -> ManifestNames:
        """The names, or an error that lists those that no object can have."""
        asked = [
            ("--name", self.name, _LONGER_NAME),
            ("--namespace", self.namespace, _NAME),
            ("--service-account", self.account or "none", _LONGER_NAME),
        ]
        wrong = [f"{flag} is `{said}`" for flag, said, form in asked if not form.match(said)]
        if wrong:
            raise InputError(
                f"{', '.join(wrong)}: no object can be called so; use a-z, 0-9 and `-`"
            )
        return self


def manifest(permissions: Iterable[ApiPermission], names: ManifestNames) -> list[Object]:
    """The service account, its roles, and what binds them to it."""
    found = [_account(names)]
    for namespace, granted in policy_rules(permissions).items():
        found += _granting(namespace, json.decode(json.encode(granted)), names)
    return found


def _account(names: ManifestNames) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(names.account or names.name, names.namespace),
    }


def _granting(namespace: str, granted: list[Object], names: ManifestNames) -> Iterator[Object]:
    """A role, everywhere or in a namespace, and its binding."""
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
    home = {"namespace": namespace} if namespace else {}
    return {"name": name, **home, "labels": LABELS}
