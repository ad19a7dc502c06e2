"""An admission policy that limits what the tainter's permission to write nodes lets it change.

Kubernetes grants the writing of a node as a whole. With this policy the tainter's account changes
nothing of it but taints with one of the prefixes, one of our names, and the effect
`PreferNoSchedule`. Other accounts are unaffected.

The prefixes stand in the policy itself. A parameter resource could hold them as well, but where it
is missing the API server denies before it looks at the account: no kubelet could write its node.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from resettle.controllers.soft_taints.desired import ALL_STYLES, NAMES
from resettle.policy.document import SoftTaints
from resettle.rbac.manifests import LABELS, ManifestNames

Object = dict[str, Any]
_API = "admissionregistration.k8s.io/v1"
_OTHERS = """\
{object}.spec.?taints.orValue([]).filter(t, !(
  t.effect == 'PreferNoSchedule' && t.key.matches(variables.names)
  && variables.prefixes.exists(p, t.key.startsWith(p + '/'))))"""
# The server itself writes these three with every change.
_BY_THE_SERVER = "['resourceVersion', 'generation', 'managedFields']"
_SAME_METADATA = """\
oldObject.metadata.all(k, k in variables.byTheServer
  || (k in object.metadata && object.metadata[k] == oldObject.metadata[k]))
&& object.metadata.all(k, k in variables.byTheServer || k in oldObject.metadata)"""
_SAME_SPEC = """\
oldObject.spec.all(k, k == 'taints'
  || (k in object.spec && object.spec[k] == oldObject.spec[k]))
&& object.spec.all(k, k == 'taints' || k in oldObject.spec)"""
# Whole lists, in order: none added, removed, swapped or changed, not even its time.
_SAME_OTHERS = "variables.othersAfter == variables.othersBefore"


def taint_prefixes(settings: SoftTaints | None) -> list[str]:
    """The prefix that the tainter writes by this policy, and those that it cleans up by any."""
    own = [settings.domain] if settings else []
    return sorted(ALL_STYLES.with_prefixes(own).prefixes)


def admission_policy(names: ManifestNames, prefixes: Iterable[str]) -> list[Object]:
    """The admission policy for the account, and the binding that puts it in force."""
    user = f"system:serviceaccount:{names.namespace}:{names.account or names.name}"
    nodes = {
        "apiGroups": [""],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["nodes"],
    }
    variables = {
        "prefixes": _cel_list(prefixes),
        "names": f"'^[^/]+/({NAMES})$'",
        "othersBefore": _OTHERS.format(object="oldObject"),
        "othersAfter": _OTHERS.format(object="object"),
        "byTheServer": _BY_THE_SERVER,
        "who": "string(request.userInfo.username)",
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [nodes]},
        "matchConditions": [
            {"name": "soft-tainter", "expression": f"request.userInfo.username == '{user}'"}
        ],
        "variables": [{"name": name, "expression": text} for name, text in variables.items()],
        "validations": [
            _validation(_SAME_METADATA, "may change no metadata of a node"),
            _validation(_SAME_SPEC, "may change nothing of the spec of a node but taints"),
            _validation(_SAME_OTHERS, "may change no taints of a node but its own soft ones"),
        ],
    }
    binding = {"policyName": names.name, "validationActions": ["Deny"]}
    return [
        _object("ValidatingAdmissionPolicy", names, spec),
        _object("ValidatingAdmissionPolicyBinding", names, binding),
    ]


def _object(kind: str, names: ManifestNames, spec: Object) -> Object:
    meta = {"name": names.name, "labels": LABELS}
    return {"apiVersion": _API, "kind": kind, "metadata": meta, "spec": spec}


def _validation(expression: str, otherwise: str) -> Object:
    """A condition that must hold, and the message of the request that breaks it."""
    return {
        "expression": expression,
        "messageExpression": f"variables.who + ' {otherwise}'",
        "reason": "Forbidden",
    }


def _cel_list(words: Iterable[str]) -> str:
    return json.dumps(list(words)).replace('"', "'")
