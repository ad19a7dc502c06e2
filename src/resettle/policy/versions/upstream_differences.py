"""The habits of kubernetes-sigs/descheduler that `resettle/v1` drops, in words.

One entry for each flag of `Semantics`, under its name. `resettle policy convert` tells those that
touch a policy; docs/policy/semantics.md tells all of them.

Safe defaults: what `resettle/v1` goes by where a policy says nothing.

Whatever is written wins, be it `false` or `0`. Policies of the descheduler have none of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from resettle.policy.args import GUARD

TAINTS = "RemovePodsViolatingNodeTaints"
NODE_FIT = True
MIN_REPLICAS = 2
MIN_POD_AGE = "10m"
MIN_TAINT_AGE = "10m"
PERCENT_OF_PODS = 1.0
PERCENT_OF_NODES = 5.0


class SafeDefault(Struct, frozen=True, kw_only=True):
    """One default in words: where it applies, what it does, and what to do about it."""

    plugin: str = ""
    """Whose argument it is; empty for a key of the top level."""
    unless: tuple[str, ...]
    """Keys any of which, once written, stands in its place."""
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
        plugin=GUARD,
        unless=("nodeFit",),
        says="`nodeFit` is on",
        remedy="write `nodeFit: false` to keep it off",
    ),
    SafeDefault(
        plugin=GUARD,
        unless=("minReplicas",),
        says=f"`minReplicas` is {MIN_REPLICAS}, so the only pod of an owner stays",
        remedy="write `minReplicas: 0` to let it go",
    ),
    SafeDefault(
        plugin=GUARD,
        unless=("minPodAge",),
        says=f"`minPodAge` is {MIN_POD_AGE}, so pods that have just started stay",
        remedy="write `minPodAge: 0s` to let them go",
    ),
    SafeDefault(
        plugin=TAINTS,
        unless=("includedTaints",),
        says="taints of the life cycle of nodes do not count",
        remedy="list every taint that should in `includedTaints`",
    ),
    SafeDefault(
        plugin=TAINTS,
        unless=("minTaintAge",),
        says=f"taints younger than {MIN_TAINT_AGE} do not count",
        remedy="write `minTaintAge: 0s` to have them count",
    ),
)

LOW, HIGH = "LowNodeUtilization", "HighNodeUtilization"
DUPLICATES = "RemoveDuplicates"
NODE_AFFINITY = "RemovePodsViolatingNodeAffinity"
ANTI_AFFINITY = "RemovePodsViolatingInterPodAntiAffinity"
SPREAD = "RemovePodsViolatingTopologySpreadConstraint"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Written(NamedTuple):
    """What a policy writes: keys of its top level, and one profile's arguments by plugin."""

    top: dict[str, Any]
    args: dict[str, dict[str, Any]]


def _always(written: Written) -> bool:
    return True


class Habit(Struct, frozen=True, kw_only=True):
    """What the descheduler does, what `resettle/v1` does instead, and which policies notice."""

    peer: str
    ours: str
    plugins: tuple[str, ...] = ()
    """The plugins it touches; none named means every one that proposes pods."""
    matters: Callable[[Written], bool] = _always
    """Whether a profile that runs such a plugin would notice."""


def limited(written: Written) -> bool:
    """Whether the policy has a limit of its own."""
    return any(key.startswith("maxNoOf") for key in written.top)


def counts_replicas(written: Written) -> bool:
    """Whether owners with few pods are spared."""
    return int(written.args.get(GUARD, {}).get("minReplicas", 2)) > 1


def protects(name: str) -> Callable[[Written], bool]:
    """Whether DefaultEvictor has an extra protection switched on."""
    older = {"PodsWithPVC": "ignorePvcPods", "PodsWithoutPDB": "ignorePodsWithoutPDB"}

    def matters(written: Written) -> bool:
        guard = written.args.get(GUARD, {})
        named = guard.get("podProtections", {}).get("extraEnabled", ())
        return name in named or bool(guard.get(older.get(name, "")))

    return matters


def _prefers(written: Written) -> bool:
    return PREFERRED in written.args.get(NODE_AFFINITY, {}).get("nodeAffinityType", ())


def _measures(written: Written) -> bool:
    return "metricsUtilization" in written.args.get(LOW, {})


HABITS = {
    "repeat_spends_limits": Habit(
        peer="A pod that two plugins propose is evicted twice, and both times count towards the "
        "limits.",
        ours="A pod that two plugins propose moves once and counts once towards the limits.",
        matters=limited,
    ),
    "weak_fit": Habit(
        peer="A node fits by its labels, taints and free requests, and by the pod's own "
        "anti-affinity on that one node.",
        ours="A pod moves only if some node would take it by every filter of kube-scheduler that "
        "the snapshot can answer for: volumes, host ports, spread, affinity both ways over whole "
        "domains.",
    ),
    "moves_take_no_place": Habit(
        peer="Room is judged as if nothing had been planned yet, so many pods may count on one "
        "free place.",
        ours="A planned move takes its place, and later pods go by what is left.",
    ),
    "moves_without_gain": Habit(
        peer="A pod goes even where the scheduler could only put it back, or somewhere no better.",
        ours="A pod moves only if some node that would take it is better by the plugin's own "
        "measure, and the scheduler would not rather put it back.",
        plugins=(LOW, HIGH, DUPLICATES, NODE_AFFINITY, TAINTS, ANTI_AFFINITY, SPREAD),
    ),
    "important_pods_spread_first": Habit(
        peer="Of the pods in a crowded domain those of the highest priority go first.",
        ours="Of the pods in a crowded domain the least important go first.",
        plugins=(SPREAD,),
    ),
    "spread_sees_only_evictable": Habit(
        peer="A domain is as full as it has pods that could be evicted; others are not counted.",
        ours="A domain is as full as the scheduler sees it, with the pods that may not leave.",
        plugins=(SPREAD,),
    ),
    "spread_rule_by_rule": Habit(
        peer="Each constraint is solved for itself, `minDomains` is not read, domains of excluded "
        "nodes count, and pods that cannot move count as moved.",
        ours="All constraints of a pod are kept together, `minDomains` is read, and only nodes in "
        "scope and pods that really move are reckoned with.",
        plugins=(SPREAD,),
    ),
    "spread_moves_strangers": Habit(
        peer="Pods that a constraint selects are moved even if they state none themselves.",
        ours="Only pods that state the constraint are moved for it.",
        plugins=(SPREAD,),
    ),
    "one_sided_anti_affinity": Habit(
        peer="Only the pod that states the rule is looked at and leaves; pods are told apart by "
        "name alone, and namespace selectors are not read.",
        ours="The rule holds both ways, namespace selectors are read, and of two pods that are too "
        "near the less important one leaves.",
        plugins=(ANTI_AFFINITY,),
    ),
    "tolerations_counted": Habit(
        peer="A destination needs at least as many tolerations as it has taints, the soft ones "
        "included.",
        ours="A destination is open to a pod that tolerates its hard taints, with however few "
        "tolerations.",
        plugins=(LOW, HIGH),
    ),
    "bystanders_moved": Habit(
        peer="Pods are moved off a full node although they use nothing of what it is short of.",
        ours="Pods that use nothing of what the thresholds are about stay.",
        plugins=(LOW, HIGH),
    ),
    "figures_judged_together": Habit(
        peer="One node whose measured figure is missing or impossible keeps all others from being "
        "balanced, and of two figures for a node the later counts.",
        ours="A node whose measured figure is missing, impossible, old or one of several is passed "
        "over, and the others are balanced as long as they are the larger part.",
        plugins=(LOW,),
        matters=_measures,
    ),
    "control_plane_balanced": Habit(
        peer="Nodes of the control plane are balanced as any others.",
        ours="Nodes of the control plane are left out, unless they are workers as well or "
        "`nodeSelector` names their role.",
        plugins=(LOW,),
    ),
    "preference_beyond_reach": Habit(
        peer="A preferred node is a reason to leave even if it cannot take the pod, so the pod "
        "comes back and leaves again.",
        ours="A preferred node is a reason to leave only if it would take the pod.",
        plugins=(NODE_AFFINITY,),
        matters=_prefers,
    ),
    "replicas_counted_loosely": Habit(
        peer="`minReplicas` counts finished and terminating pods, and the plan's own moves do not "
        "lower the count.",
        ours="`minReplicas` counts pods that run or will run, less those the plan has moved.",
        plugins=(GUARD,),
        matters=counts_replicas,
    ),
    "copies_told_by_spelling": Habit(
        peer="Copies whose affinity terms stand in another order count as different, an affinity "
        "that cannot be read suits every node, and cordoned nodes count as places.",
        ours="Copies are told by what their affinity means, and only nodes that could take a copy "
        "count as places.",
        plugins=(DUPLICATES,),
    ),
    "ephemeral_claims_unseen": Habit(
        peer="`PodsWithPVC` does not see generic ephemeral volumes, whose claims are deleted with "
        "the pod.",
        ours="`PodsWithPVC` protects pods with generic ephemeral volumes too.",
        plugins=(GUARD,),
        matters=protects("PodsWithPVC"),
    ),
    "any_evict_annotation": Habit(
        peer="The evict annotation lifts every protection whatever its value, `false` included.",
        ours="The evict annotation with the value `false`, `no` or `0` keeps its pod from leaving.",
        plugins=(GUARD,),
    ),
    "permissive_defaults": Habit(
        peer="What a policy leaves unsaid is permitted: no limit, no fit check, no minimum of "
        "replicas or age, every taint a reason to leave.",
        ours="What a policy leaves unsaid has a safe default.",
    ),
}
