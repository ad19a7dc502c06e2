"""Admission policies of migration jobs: who may create them, and what the controller may write.

| policy          | about                    | lets through                                    |
|-----------------|--------------------------|-------------------------------------------------|
| `-jobs`         | who writes jobs          | accounts that may evict the pod of the job      |
| `-placeholders` | pods of the controller   | harmless ones, labelled, in one namespace       |
| `-priorities`   | its PriorityClasses      | those with our names, which never preempt       |
| `-nodes`        | nodes that it changes    | its own taint (steering Soft and Hard)          |
| `-gated-pods`   | pods that it changes     | its gate removed, node affinity narrowed (Gate) |
| `-nominations`  | status of pods           | `nominatedNodeName` and nothing else            |
| `-gate`         | pods that anyone creates | adds our scheduling gate to replacements (Gate) |

Without the first one, a permission to create jobs would be a permission to evict. All but the
last deny what they cannot judge. The last changes pods as they are created, so it must never be in
the way: an error leaves the pod as it is. Its parameters are the jobs with the label
`resettle.dev/gate`. It is evaluated once for each of them, and without any it does nothing. Which
pods are meant is in the status of the job, which no account writes that may not evict.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from resettle.model.migration_job import (
    API_VERSION,
    GATE,
    GATE_LABEL,
    GROUP,
    KIND,
    PLACEHOLDER,
    PLURAL,
    TAINT,
    Steering,
)
from resettle.rbac.admission_policies import (
    BY_THE_SERVER,
    SAME_METADATA,
    Matched,
    account_condition,
    admission_object,
    node_taint_policy,
    same_spec_but,
    validating_policy,
    validation,
)
from resettle.rbac.manifests import ManifestNames

Object = dict[str, Any]

HOLD_CLASS_PREFIX: Final = "resettle-hold-"
YIELD_CLASS: Final = "resettle-yield"
_COMPONENT = "migration-controller"


def admission_policies(
    names: ManifestNames,
    steerings: Collection[str] = (Steering.SOFT, Steering.HARD),
    *,
    placeholder_namespace: str = "",
) -> list[Object]:
    """The policies for a controller with this account, and their bindings.

    `placeholder_namespace` is where it creates placeholders, by default the one of the account.
    """
    place = placeholder_namespace or names.namespace
    policies = [
        *_jobs(names),
        *_placeholders(names, place),
        *_priorities(names),
        *_nominations(names),
    ]
    if {Steering.SOFT, Steering.HARD} & set(steerings):
        policies += _nodes(names)
    if Steering.GATE in steerings:
        policies += [*_gated_pods(names), *_gate(names)]
    return policies


# -- who may write jobs ---------------------------------------------------------------------------


_MAY_EVICT = """\
authorizer.group('').resource('pods').subresource('eviction')
  .namespace(variables.pod.namespace).name(variables.pod.name).check('create').allowed()"""
# Other changes, such as those of the garbage collector, have nothing to do with evictions.
_COUNTS = """\
oldObject == null || request.?subResource.orValue('') == 'status'
  || object.spec != oldObject.spec
  || object.metadata.?labels != oldObject.metadata.?labels"""
_MAY_NOT_EVICT = """\
variables.who + ' may not evict pod ' + variables.pod.namespace + '/' + variables.pod.name
  + ': a PodMigrationJob for it takes permission to create pods/eviction in that namespace'"""


def _jobs(names: ManifestNames) -> list[Object]:
    """Ask the authorizer whether the account that writes a job may evict the job's pod."""
    matched = Matched(
        group=GROUP,
        resources=(PLURAL, f"{PLURAL}/status"),
        operations=("CREATE", "UPDATE"),
        conditions={"moves-a-pod": _COUNTS},
    )
    rule = {
        "expression": _MAY_EVICT,
        "messageExpression": _MAY_NOT_EVICT,
        "reason": "Forbidden",
    }
    return validating_policy(f"{names.name}-jobs", matched, {"pod": "object.spec.podRef"}, [rule])


# -- what the controller creates ------------------------------------------------------------------


_NO_HOST = " && ".join(
    f"!object.spec.?{key}.orValue(false)" for key in ("hostNetwork", "hostPID", "hostIPC")
)
_NO_VOLUMES = """\
object.spec.?volumes.orValue([]).size() == 0
&& !object.spec.?automountServiceAccountToken.orValue(true)"""
_UNPRIVILEGED = """\
object.spec.?initContainers.orValue([]).size() == 0
&& object.spec.containers.all(c,
  !c.?securityContext.?allowPrivilegeEscalation.orValue(true)
  && !c.?securityContext.?privileged.orValue(false)
  && c.?securityContext.?capabilities.?add.orValue([]).size() == 0)"""


def _placeholders(names: ManifestNames, namespace: str) -> list[Object]:
    label = f"variables.pod.metadata.?labels[?'{PLACEHOLDER}'].orValue('') == 'true'"
    new = {
        _NO_VOLUMES: "may create no pod with volumes or with a token of an account",
        _NO_HOST: "may create no pod in a namespace of its node",
        _UNPRIVILEGED: "may create no pod with privileges",
        "object.spec.?nodeName.orValue('') == ''": "may not choose the node of a placeholder",
        "object.spec.?preemptionPolicy.orValue('') == 'Never'": (
            "may create no pod that preempts others"
        ),
    }
    validations = [
        validation(
            f"request.namespace == '{namespace}'",
            f"may create and delete pods in {namespace} only",
        ),
        validation(label, f"may create and delete only pods with the label {PLACEHOLDER}=true"),
        *(validation(f"object == null || ({rule})", says) for rule, says in new.items()),
    ]
    matched = _by_controller(names, "pods", "CREATE", "DELETE")
    variables = {"pod": "object == null ? oldObject : object"}
    return validating_policy(f"{names.name}-placeholders", matched, variables, validations)


def _priorities(names: ManifestNames) -> list[Object]:
    ours = f"variables.name.startsWith('{HOLD_CLASS_PREFIX}') || variables.name == '{YIELD_CLASS}'"
    harmless = """\
object == null || (object.?preemptionPolicy.orValue('') == 'Never'
  && !object.?globalDefault.orValue(false))"""
    matched = _by_controller(
        names, "priorityclasses", "CREATE", "UPDATE", "DELETE", group="scheduling.k8s.io"
    )
    variables = {"name": "object == null ? oldObject.metadata.name : object.metadata.name"}
    validations = [
        validation(ours, f"may write only {HOLD_CLASS_PREFIX}* and {YIELD_CLASS}"),
        validation(harmless, "may create no PriorityClass that preempts, or that is the default"),
    ]
    return validating_policy(f"{names.name}-priorities", matched, variables, validations)


# -- what the controller changes ------------------------------------------------------------------


def _nodes(names: ManifestNames) -> list[Object]:
    """Our taint with both effects: what another configuration left behind has to go as well."""
    return node_taint_policy(
        names,
        name=f"{names.name}-nodes",
        component=_COMPONENT,
        own=f"t.key == '{TAINT}' && t.effect in ['PreferNoSchedule', 'NoSchedule']",
        otherwise=f"may change no taints of a node but {TAINT}",
    )


_GATES = "{object}.spec.?schedulingGates.orValue([])"
_TERMS = """\
{object}.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution
  .?nodeSelectorTerms.orValue([])"""
_PREFERRED = (
    "{object}.spec.?affinity.?nodeAffinity.?preferredDuringSchedulingIgnoredDuringExecution"
    ".orValue([])"
)
_ONLY_NAMES = """\
variables.termsBefore.size() == 0
? variables.termsAfter.all(t, t.?matchExpressions.orValue([]).size() == 0)
: variables.termsAfter.map(t, t.?matchExpressions.orValue([]))
  == variables.termsBefore.map(t, t.?matchExpressions.orValue([]))"""


def _gated_pods(names: ManifestNames) -> list[Object]:
    """Only pods with our gate, and of these only the gate and where they may go.

    The API server itself makes sure that node affinity gets narrower, and only under a gate.
    """
    without = f"variables.gatesBefore.filter(g, g.name != '{GATE}')"
    variables = {
        "byTheServer": BY_THE_SERVER,
        **{
            f"{key}{moment}": text.format(object=source)
            for key, text in (("gates", _GATES), ("terms", _TERMS), ("preferred", _PREFERRED))
            for moment, source in (("Before", "oldObject"), ("After", "object"))
        },
    }
    validations = [
        validation(
            f"variables.gatesBefore.exists(g, g.name == '{GATE}')",
            f"may change only pods with the scheduling gate {GATE}",
        ),
        validation(SAME_METADATA, "may change no metadata of a pod"),
        validation(
            same_spec_but(["schedulingGates", "affinity"]),
            "may change nothing of the spec of a pod but its gate and node affinity",
        ),
        validation(
            f"variables.gatesAfter == variables.gatesBefore || variables.gatesAfter == {without}",
            f"may remove no scheduling gate but {GATE}",
        ),
        validation(
            f"variables.preferredAfter == variables.preferredBefore && ({_ONLY_NAMES})",
            "may add nothing to the affinity of a pod but names of nodes",
        ),
    ]
    matched = _by_controller(names, "pods", "UPDATE")
    return validating_policy(f"{names.name}-gated-pods", matched, variables, validations)


_SAME_STATUS = """\
oldObject.status.all(k, k == 'nominatedNodeName'
  || (k in object.status && object.status[k] == oldObject.status[k]))
&& object.status.all(k, k == 'nominatedNodeName' || k in oldObject.status)"""


def _nominations(names: ManifestNames) -> list[Object]:
    """Of the status of pods only the nominated node, which the scheduler then tries first."""
    matched = _by_controller(names, "pods/status", "UPDATE")
    validations = [
        validation(SAME_METADATA, "may change no metadata of a pod"),
        validation(
            _SAME_STATUS, "may change nothing of the status of a pod but its nominated node"
        ),
    ]
    variables = {"byTheServer": BY_THE_SERVER}
    return validating_policy(f"{names.name}-nominations", matched, variables, validations)


def _by_controller(
    names: ManifestNames, resource: str, *operations: str, group: str = ""
) -> Matched:
    return Matched(
        group=group,
        resources=(resource,),
        operations=operations,
        conditions={_COMPONENT: account_condition(names)},
    )


# -- the gate -------------------------------------------------------------------------------------


_IS_REPLACEMENT = """\
object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false)
  && o.uid == params.?status.?source.?owner.?uid.orValue(''))"""
_ADD_GATE = f"""\
Object{{spec: Object.spec{{schedulingGates: [
  Object.spec.schedulingGates{{name: '{GATE}'}}]}}}}"""


def _gate(names: ManifestNames) -> list[Object]:
    """Pods whose controller is the owner of a job's pod get our gate when they are created."""
    name = f"{names.name}-gate"
    spec = {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "paramKind": {"apiVersion": API_VERSION, "kind": KIND},
        "matchConstraints": Matched(resources=("pods",), operations=("CREATE",)).rules,
        "matchConditions": [{"name": "replacement", "expression": _IS_REPLACEMENT}],
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": _ADD_GATE},
            }
        ],
    }
    binding = {
        "policyName": name,
        "paramRef": {
            "selector": {"matchLabels": {GATE_LABEL: "true"}},
            "parameterNotFoundAction": "Allow",
        },
    }
    return [
        admission_object("MutatingAdmissionPolicy", name, spec),
        admission_object("MutatingAdmissionPolicyBinding", name, binding),
    ]
