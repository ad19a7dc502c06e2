"""What kubernetes-sigs/descheduler (upstream) does and `resettle/v1` does differently.

`UPSTREAM_BEHAVIOURS` has one entry for each flag of `Semantics`, under its name; `SAFE_DEFAULTS`
are the values that `resettle/v1` uses where a policy sets nothing, and that `false` or `0` turns
off. `resettle policy convert` prints those that concern a policy; docs/policy/semantics.md lists
all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from resettle.policy.args import DEFAULT_EVICTOR

TAINTS = "RemovePodsViolatingNodeTaints"
NODE_FIT = True
MIN_REPLICAS = 2
MIN_POD_AGE = "10m"
MIN_TAINT_AGE = "10m"
PERCENT_OF_PODS = 1.0
PERCENT_OF_NODES = 5.0


class SafeDefault(Struct, frozen=True, kw_only=True):
    """One default: where it applies, what it does, and how to turn it off."""

    plugin: str = ""
    """The plugin whose argument it is; empty for a key of the top level."""
    unless: tuple[str, ...]
    """Keys that replace the default once any of them is written."""
    says: str
    remedy: str


SAFE_DEFAULTS = (
    SafeDefault(
        unless=("maxNoOfPodsToEvictTotal", "maxPercentOfPodsToEvict"),
        says=f"at most {PERCENT_OF_PODS:g}% of all pods move in a cycle",
        remedy="write `maxPercentOfPodsToEvict: 100` for no such limit",
    ),
    SafeDefault(
        unless=("maxPercentOfNodesToEvictFrom",),
        says=f"pods leave at most {PERCENT_OF_NODES:g}% of the nodes in a cycle",
        remedy="write `maxPercentOfNodesToEvictFrom: 100` for no such limit",
    ),
    SafeDefault(
        plugin=DEFAULT_EVICTOR,
        unless=("nodeFit",),
        says="`nodeFit` is on",
        remedy="write `nodeFit: false` to keep it off",
    ),
    SafeDefault(
        plugin=DEFAULT_EVICTOR,
        unless=("minReplicas",),
        says=f"`minReplicas` is {MIN_REPLICAS}, so the only pod of an owner stays",
        remedy="write `minReplicas: 0` to let it go",
    ),
    SafeDefault(
        plugin=DEFAULT_EVICTOR,
        unless=("minPodAge",),
        says=f"`minPodAge` is {MIN_POD_AGE}, so pods that have just started stay",
        remedy="write `minPodAge: 0s` to let them go",
    ),
    SafeDefault(
        plugin=TAINTS,
        unless=("includedTaints",),
        says="node lifecycle taints are ignored",
        remedy="list every taint to check in `includedTaints`",
    ),
    SafeDefault(
        plugin=TAINTS,
        unless=("minTaintAge",),
        says=f"taints younger than {MIN_TAINT_AGE} are ignored",
        remedy="write `minTaintAge: 0s` to check them",
    ),
)

LOW, HIGH = "LowNodeUtilization", "HighNodeUtilization"
DUPLICATES = "RemoveDuplicates"
NODE_AFFINITY = "RemovePodsViolatingNodeAffinity"
ANTI_AFFINITY = "RemovePodsViolatingInterPodAntiAffinity"
SPREAD = "RemovePodsViolatingTopologySpreadConstraint"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class WrittenKeys(NamedTuple):
    """The keys that a policy writes: of its top level, and one profile's arguments by plugin."""

    top: dict[str, Any]
    args: dict[str, dict[str, Any]]


def _always(written: WrittenKeys) -> bool:
    return True


class UpstreamBehaviour(Struct, frozen=True, kw_only=True):
    """What upstream does, what `resettle/v1` does instead, and which policies it concerns."""

    upstream: str
    resettle: str
    plugins: tuple[str, ...] = ()
    """The plugins it concerns; empty for every plugin that proposes pods."""
    matters: Callable[[WrittenKeys], bool] = _always
    """Whether it concerns a profile that runs such a plugin."""


def sets_limits(written: WrittenKeys) -> bool:
    """Whether the policy has a limit of its own."""
    return any(key.startswith("maxNoOf") for key in written.top)


def counts_replicas(written: WrittenKeys) -> bool:
    """Whether pods of owners with few replicas are protected."""
    return int(written.args.get(DEFAULT_EVICTOR, {}).get("minReplicas", 2)) > 1


def protects(name: str) -> Callable[[WrittenKeys], bool]:
    """A predicate: whether DefaultEvictor has an extra protection enabled."""
    older = {"PodsWithPVC": "ignorePvcPods", "PodsWithoutPDB": "ignorePodsWithoutPDB"}

    def matters(written: WrittenKeys) -> bool:
        evictor = written.args.get(DEFAULT_EVICTOR, {})
        named = evictor.get("podProtections", {}).get("extraEnabled", ())
        return name in named or bool(evictor.get(older.get(name, "")))

    return matters


def _prefers(written: WrittenKeys) -> bool:
    return PREFERRED in written.args.get(NODE_AFFINITY, {}).get("nodeAffinityType", ())


def _measures(written: WrittenKeys) -> bool:
    return "metricsUtilization" in written.args.get(LOW, {})


UPSTREAM_BEHAVIOURS = {
    "repeat_spends_limits": UpstreamBehaviour(
        upstream="A pod that two plugins propose is evicted twice, and both times count towards "
        "the limits.",
        resettle="A pod that two plugins propose moves once and counts once towards the limits.",
        matters=sets_limits,
    ),
    "weak_fit": UpstreamBehaviour(
        upstream="A node fits by its labels, taints and free requests, and by the pod's own "
        "anti-affinity on that one node.",
        resettle="A pod moves only if some node would take it by every filter of kube-scheduler "
        "that the snapshot can answer for: volumes, host ports, spread, affinity both ways over "
        "whole domains.",
    ),
    "moves_take_no_place": UpstreamBehaviour(
        upstream="Free capacity is computed as if nothing had been planned yet, so many pods may "
        "count on the same free capacity.",
        resettle="A planned move uses capacity on its node, and later pods get what is left.",
    ),
    "moves_without_gain": UpstreamBehaviour(
        upstream="A pod goes even where the scheduler could only put it back, or somewhere no "
        "better.",
        resettle="A pod moves only if some node that would take it is better by the plugin's own "
        "measure, and the scheduler would not rather put it back.",
        plugins=(LOW, HIGH, DUPLICATES, NODE_AFFINITY, TAINTS, ANTI_AFFINITY, SPREAD),
    ),
    "important_pods_spread_first": UpstreamBehaviour(
        upstream="Of the pods in a crowded domain those of the highest priority go first.",
        resettle="Of the pods in a crowded domain the least important go first.",
        plugins=(SPREAD,),
    ),
    "spread_sees_only_evictable": UpstreamBehaviour(
        upstream="A domain is as full as it has pods that could be evicted; others are not "
        "counted.",
        resettle="A domain is as full as the scheduler sees it, with the pods that may not leave.",
        plugins=(SPREAD,),
    ),
    "spread_rule_by_rule": UpstreamBehaviour(
        upstream="Each constraint is balanced separately, `minDomains` is not read, domains of "
        "excluded nodes count, and pods that cannot move count as moved.",
        resettle="All constraints of a pod are kept together, `minDomains` is read, and only nodes "
        "in scope and pods that really move are counted.",
        plugins=(SPREAD,),
    ),
    "spread_moves_strangers": UpstreamBehaviour(
        upstream="Pods that a constraint selects are moved even if they state none themselves.",
        resettle="Only pods that state the constraint are moved for it.",
        plugins=(SPREAD,),
    ),
    "one_sided_anti_affinity": UpstreamBehaviour(
        upstream="Only the pod that states the rule is looked at and leaves; pods are compared by "
        "name alone, and namespace selectors are not read.",
        resettle="The rule holds both ways, namespace selectors are read, and of two pods in "
        "conflict the less important one leaves.",
        plugins=(ANTI_AFFINITY,),
    ),
    "tolerations_counted": UpstreamBehaviour(
        upstream="A destination needs at least as many tolerations as it has taints, the soft ones "
        "included.",
        resettle="A destination is open to a pod that tolerates its hard taints, with however few "
        "tolerations.",
        plugins=(LOW, HIGH),
    ),
    "bystanders_moved": UpstreamBehaviour(
        upstream="Pods are moved off a full node although they use nothing of what it is short of.",
        resettle="Pods that use nothing of what the thresholds are about stay.",
        plugins=(LOW, HIGH),
    ),
    "figures_judged_together": UpstreamBehaviour(
        upstream="One node whose measured figure is missing or impossible keeps all others from "
        "being balanced, and of two figures for a node the later counts.",
        resettle="A node whose measured figure is missing, impossible, old or one of several is "
        "passed over, and the others are balanced as long as they are the larger part.",
        plugins=(LOW,),
        matters=_measures,
    ),
    "control_plane_balanced": UpstreamBehaviour(
        upstream="Nodes of the control plane are balanced as any others.",
        resettle="Nodes of the control plane are left out, unless they are workers as well or "
        "`nodeSelector` names their role.",
        plugins=(LOW,),
    ),
    "preference_beyond_reach": UpstreamBehaviour(
        upstream="A preferred node is a reason to leave even if it cannot take the pod, so the pod "
        "comes back and leaves again.",
        resettle="A preferred node is a reason to leave only if it would take the pod.",
        plugins=(NODE_AFFINITY,),
        matters=_prefers,
    ),
    "replicas_counted_loosely": UpstreamBehaviour(
        upstream="`minReplicas` counts finished and terminating pods, and the plan's own moves do "
        "not lower the count.",
        resettle="`minReplicas` counts pods that run or will run, less those the plan has moved.",
        plugins=(DEFAULT_EVICTOR,),
        matters=counts_replicas,
    ),
    "copies_compared_by_spelling": UpstreamBehaviour(
        upstream="Copies whose affinity terms are in another order count as different, an affinity "
        "that cannot be read suits every node, and cordoned nodes count as places.",
        resettle="Copies are compared by the meaning of their affinity, and only nodes that could "
        "take a copy count as places.",
        plugins=(DUPLICATES,),
    ),
    "ephemeral_claims_unseen": UpstreamBehaviour(
        upstream="`PodsWithPVC` does not see generic ephemeral volumes, whose claims are deleted "
        "with the pod.",
        resettle="`PodsWithPVC` protects pods with generic ephemeral volumes too.",
        plugins=(DEFAULT_EVICTOR,),
        matters=protects("PodsWithPVC"),
    ),
    "any_evict_annotation": UpstreamBehaviour(
        upstream="The evict annotation lifts every protection whatever its value, `false` "
        "included.",
        resettle="The evict annotation with the value `false`, `no` or `0` keeps its pod from "
        "leaving.",
        plugins=(DEFAULT_EVICTOR,),
    ),
    "permissive_defaults": UpstreamBehaviour(
        upstream="What a policy leaves unsaid is permitted: no limit, no fit check, no minimum of "
        "replicas or age, every taint a reason to leave.",
        resettle="What a policy leaves unsaid has a safe default.",
    ),
}
