"""Admission policies: what RBAC cannot say about an account, said in CEL.

RBAC grants the writing of an object as a whole. A ValidatingAdmissionPolicy that looks at one
account only narrows this to parts of the object. Each policy comes with its binding, and denies a
request that it cannot judge. Other accounts are unaffected.

The texts of a policy stand in the policy itself. A parameter resource could hold them as well, but
where it is missing the API server denies before it looks at the account: no kubelet could write
its node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from resettle.rbac.manifests import LABELS, ManifestNames

Object = dict[str, Any]
ADMISSION_API = "admissionregistration.k8s.io/v1"

# The server itself writes these three with every change.
BY_THE_SERVER = "['resourceVersion', 'generation', 'managedFields']"
SAME_METADATA = """\
oldObject.metadata.all(k, k in variables.byTheServer
  || (k in object.metadata && object.metadata[k] == oldObject.metadata[k]))
&& object.metadata.all(k, k in variables.byTheServer || k in oldObject.metadata)"""
_SAME_SPEC = """\
oldObject.spec.all(k, {free}
  || (k in object.spec && object.spec[k] == oldObject.spec[k]))
&& object.spec.all(k, {free} || k in oldObject.spec)"""
_FOREIGN_TAINTS = """\
{object}.spec.?taints.orValue([]).filter(t, !(
  {own}))"""
# Whole lists, in order: none added, removed, swapped or changed, not even its time.
_SAME_TAINTS = "variables.othersAfter == variables.othersBefore"


class Matched(Struct, frozen=True, kw_only=True):
    """Which requests a policy is about."""

    resources: tuple[str, ...]
    operations: tuple[str, ...]
    group: str = ""
    conditions: Mapping[str, str] = {}
    """Expressions by their names; all must hold."""

    @property
    def rules(self) -> Object:
        """The value of `matchConstraints`."""
        rule = {
            "apiGroups": [self.group],
            "apiVersions": ["*"],
            "operations": list(self.operations),
            "resources": list(self.resources),
        }
        return {"resourceRules": [rule]}


def user_of(names: ManifestNames) -> str:
    """The name by which the API server knows the service account."""
    return f"system:serviceaccount:{names.namespace}:{names.account or names.name}"


def account_condition(names: ManifestNames) -> str:
    """The expression that a request comes from the service account."""
    return f"request.userInfo.username == '{user_of(names)}'"


def validating_policy(
    name: str, matched: Matched, variables: Mapping[str, str], validations: Iterable[Object]
) -> list[Object]:
    """A policy that denies what breaks one of its validations, and the binding for it."""
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": matched.rules,
        "matchConditions": [
            {"name": key, "expression": text} for key, text in matched.conditions.items()
        ],
        "variables": [
            {"name": key, "expression": text}
            for key, text in {**variables, "who": "string(request.userInfo.username)"}.items()
        ],
        "validations": list(validations),
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        admission_object("ValidatingAdmissionPolicy", name, spec),
        admission_object("ValidatingAdmissionPolicyBinding", name, binding),
    ]


def admission_object(kind: str, name: str, spec: Object) -> Object:
    """An object of the admission API."""
    meta = {"name": name, "labels": LABELS}
    return {"apiVersion": ADMISSION_API, "kind": kind, "metadata": meta, "spec": spec}


def validation(expression: str, otherwise: str) -> Object:
    """A condition that must hold, and the message of the request that breaks it."""
    return {
        "expression": expression,
        "messageExpression": f"variables.who + ' {otherwise}'",
        "reason": "Forbidden",
    }


def same_spec_but(keys: Iterable[str]) -> str:
    """The expression that nothing of the spec changes but these members."""
    return _SAME_SPEC.format(free=" || ".join(f"k == '{key}'" for key in keys))


def node_taint_policy(
    names: ManifestNames,
    *,
    name: str,
    component: str,
    own: str,
    otherwise: str,
    variables: Mapping[str, str] | None = None,
) -> list[Object]:
    """A policy that lets the account change nothing of a node but its own taints.

    `own` is the expression that the taint `t` is one of them, `otherwise` the message for others.
    """
    matched = Matched(
        resources=("nodes",),
        operations=("UPDATE",),
        conditions={component: account_condition(names)},
    )
    expressions = {
        **(variables or {}),
        "othersBefore": _FOREIGN_TAINTS.format(object="oldObject", own=own),
        "othersAfter": _FOREIGN_TAINTS.format(object="object", own=own),
        "byTheServer": BY_THE_SERVER,
    }
    validations = [
        validation(SAME_METADATA, "may change no metadata of a node"),
        validation(
            same_spec_but(["taints"]), "may change nothing of the spec of a node but taints"
        ),
        validation(_SAME_TAINTS, otherwise),
    ]
    return validating_policy(name, matched, expressions, validations)
