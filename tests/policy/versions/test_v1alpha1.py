"""`descheduler/v1alpha1`: what each strategy becomes, what is lost, and whose line is blamed."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.model.selectors import LabelSelector
from resettle.policy.args import Args, Namespaces, SelectingArgs
from tests.policy.fakes import (
    AffinityArgs,
    DuplicatesArgs,
    EvictorArgs,
    FailedArgs,
    HighArgs,
    LifeArgs,
    LowArgs,
    PriorityThreshold,
    RestartsArgs,
    SpreadArgs,
    TaintsArgs,
)
from tests.policy.harness import OLD_HEAD, document, errors, load, warnings

NAMESPACES = Namespaces(exclude=("kube-system",))
SELECTOR = LabelSelector(match_labels={"app": "web"})
BOTH = "namespaces: {exclude: [kube-system]}, labelSelector: {matchLabels: {app: web}}"
ONE = "namespaces: {exclude: [kube-system]}"
CHOSEN: dict[str, Any] = {"namespaces": NAMESPACES, "label_selector": SELECTOR}


def strategy(name: str, params: str, top: str = "") -> str:
    """An old document with one enabled strategy, whose params stand on line 6."""
    body = f"strategies:\n  {name}:\n    enabled: true\n    params: {{{params}}}\n{top}"
    return document(body, OLD_HEAD)


@pytest.mark.parametrize(
    ("name", "params", "point", "args"),
    [
        pytest.param(
            "RemoveDuplicates",
            f"{ONE}, removeDuplicates: {{excludeOwnerKinds: [ReplicaSet]}}",
            "balance",
            DuplicatesArgs(namespaces=NAMESPACES, exclude_owner_kinds=("ReplicaSet",)),
        ),
        pytest.param(
            "LowNodeUtilization",
            f"{ONE}, nodeResourceUtilizationThresholds: {{thresholds: {{cpu: 20}}, "
            "targetThresholds: {cpu: 50}, useDeviationThresholds: true, numberOfNodes: 3}",
            "balance",
            LowArgs(
                thresholds={"cpu": 20},
                target_thresholds={"cpu": 50},
                use_deviation_thresholds=True,
                number_of_nodes=3,
                evictable_namespaces=NAMESPACES,
            ),
        ),
        pytest.param(
            "HighNodeUtilization",
            f"{ONE}, nodeResourceUtilizationThresholds: "
            "{thresholds: {cpu: 20}, numberOfNodes: 3}",
            "balance",
            HighArgs(thresholds={"cpu": 20}, number_of_nodes=3, evictable_namespaces=NAMESPACES),
        ),
        pytest.param(
            "RemovePodsViolatingInterPodAntiAffinity",
            BOTH,
            "deschedule",
            SelectingArgs(**CHOSEN),
        ),
        pytest.param(
            "RemovePodsViolatingNodeAffinity",
            f"{BOTH}, nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]",
            "deschedule",
            AffinityArgs(
                node_affinity_type=("requiredDuringSchedulingIgnoredDuringExecution",), **CHOSEN
            ),
        ),
        pytest.param(
            "RemovePodsViolatingNodeTaints",
            f"{BOTH}, includePreferNoSchedule: true, excludedTaints: [a=b]",
            "deschedule",
            TaintsArgs(include_prefer_no_schedule=True, excluded_taints=("a=b",), **CHOSEN),
        ),
        pytest.param(
            "RemovePodsViolatingTopologySpreadConstraint",
            BOTH,
            "balance",
            SpreadArgs(constraints=("DoNotSchedule",), topology_balance_node_fit=True, **CHOSEN),
            id="spread, hard constraints",
        ),
        pytest.param(
            "RemovePodsViolatingTopologySpreadConstraint",
            "includeSoftConstraints: true",
            "balance",
            SpreadArgs(
                constraints=("DoNotSchedule", "ScheduleAnyway"), topology_balance_node_fit=True
            ),
            id="spread, soft constraints too",
        ),
        pytest.param(
            "RemovePodsHavingTooManyRestarts",
            f"{BOTH}, podsHavingTooManyRestarts: "
            "{podRestartThreshold: 9, includingInitContainers: true}",
            "deschedule",
            RestartsArgs(pod_restart_threshold=9, including_init_containers=True, **CHOSEN),
        ),
        pytest.param(
            "PodLifeTime",
            f"{BOTH}, podLifeTime: {{maxPodLifeTimeSeconds: 60, states: [Running], "
            "podStatusPhases: [Pending]}",
            "deschedule",
            LifeArgs(max_pod_life_time_seconds=60, states=("Pending", "Running"), **CHOSEN),
            id="PodLifeTime, phases before states",
        ),
        pytest.param(
            "RemoveFailedPods",
            f"{BOTH}, failedPods: {{excludeOwnerKinds: [Job], minPodLifetimeSeconds: 5, "
            "reasons: [OOM], includingInitContainers: true}",
            "deschedule",
            FailedArgs(
                exclude_owner_kinds=("Job",),
                min_pod_lifetime_seconds=5,
                reasons=("OOM",),
                including_init_containers=True,
                **CHOSEN,
            ),
        ),
    ],
)
def test_an_enabled_strategy_becomes_a_profile(
    name: str, params: str, point: str, args: Args
) -> None:
    policy = load(strategy(name, params))

    (profile,) = policy.profiles
    assert policy.api_version == "descheduler/v1alpha1"
    assert policy.warnings == ()
    assert profile.name == f"strategy-{name}-profile"
    assert profile.args == {"DefaultEvictor": EvictorArgs(), name: args}
    assert {at: names for at, names in profile.enabled.items() if names} == {
        point: (name,),
        "filter": ("DefaultEvictor",),
        "preevictionfilter": ("DefaultEvictor",),
    }


@pytest.mark.parametrize(
    ("name", "params", "top", "guard"),
    [
        pytest.param("RemoveFailedPods", "nodeFit: true", "", EvictorArgs(node_fit=True)),
        pytest.param("RemoveFailedPods", "nodeFit: false", "", EvictorArgs(node_fit=False)),
        pytest.param(
            "PodLifeTime",
            "nodeFit: true, podLifeTime: {maxPodLifeTimeSeconds: 5}",
            "",
            EvictorArgs(),
            id="PodLifeTime never looks for a fit",
        ),
        pytest.param(
            "RemoveFailedPods",
            "thresholdPriority: 0",
            "",
            EvictorArgs(priority_threshold=PriorityThreshold(value=0)),
        ),
        pytest.param(
            "RemoveFailedPods",
            "thresholdPriorityClassName: high",
            "",
            EvictorArgs(priority_threshold=PriorityThreshold(name="high")),
        ),
        pytest.param(
            "RemoveFailedPods",
            "",
            "evictLocalStoragePods: true\nevictSystemCriticalPods: true\nignorePvcPods: true\n"
            "evictFailedBarePods: true\nevictDaemonSetPods: true\n",
            EvictorArgs(
                evict_local_storage_pods=True,
                evict_system_critical_pods=True,
                ignore_pvc_pods=True,
                evict_failed_bare_pods=True,
                evict_daemon_set_pods=True,
            ),
            id="switches of the top level",
        ),
    ],
)
def test_the_guard_of_each_profile_is_set_up(
    name: str, params: str, top: str, guard: EvictorArgs
) -> None:
    (profile,) = load(strategy(name, params, top)).profiles

    assert profile.args["DefaultEvictor"] == guard


def test_limits_and_node_selector_stay_and_profiles_are_sorted_by_strategy() -> None:
    policy = load(
        document(
            """
            nodeSelector: pool=blue
            maxNoOfPodsToEvictPerNode: 1
            maxNoOfPodsToEvictPerNamespace: 2
            strategies:
              RemoveFailedPods: {enabled: true}
              RemoveDuplicates: {enabled: true}
              PodLifeTime: {enabled: false, params: {podLifeTime: {states: [Sleeping]}}}
              LowNodeUtilization:
            """,
            OLD_HEAD,
        )
    )

    assert policy.limits.node == 1
    assert policy.limits.namespace == 2
    assert policy.node_selector.matches({"pool": "blue"})
    assert not policy.node_selector.matches({})
    assert [profile.name for profile in policy.profiles] == [
        "strategy-RemoveDuplicates-profile",
        "strategy-RemoveFailedPods-profile",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            document("strategies: {PodLifetim: {enabled: false}}", OLD_HEAD),
            "3:14: strategies.PodLifetim no strategy is named `PodLifetim`; "
            "did you mean `PodLifeTime`?",
            id="an unknown strategy, even disabled",
        ),
        pytest.param(
            strategy("RemoveFailedPods", "thresholdPriority: 5, thresholdPriorityClassName: a"),
            "6:33: strategies.RemoveFailedPods.params.thresholdPriority both `thresholdPriority` "
            "and `thresholdPriorityClassName` are set; keep one of the two",
            id="two thresholds",
        ),
        pytest.param(
            strategy("PodLifeTime", ""),
            "6:13: strategies.PodLifeTime.params with no criterion set, every pod would match; "
            "set `maxPodLifeTimeSeconds`, `states`, or both",
            id="the plugin objects",
        ),
        pytest.param(
            strategy("PodLifeTime", "podLifeTime: {podStatusPhases: [Pending, Sleeping]}"),
            "6:55: strategies.PodLifeTime.params.podLifeTime.podStatusPhases[1] "
            "`Sleeping` is not a state",
            id="blamed on the older key",
        ),
        pytest.param(
            strategy("PodLifeTime", "podLifeTime: {podStatusPhases: [a], states: [Sleeping]}"),
            "6:59: strategies.PodLifeTime.params.podLifeTime.states[0] `Sleeping` is not a state",
            id="blamed on the newer key",
        ),
        pytest.param(
            strategy(
                "LowNodeUtilization",
                "nodeResourceUtilizationThresholds: "
                "{thresholds: {cpu: 120}, targetThresholds: {cpu: 5}}",
            ),
            "6:68: strategies.LowNodeUtilization.params.nodeResourceUtilizationThresholds."
            "thresholds.cpu 120 is not a percentage; write a number from 0 to 100",
            id="a value the plugin's type refuses",
        ),
        pytest.param(
            strategy("LowNodeUtilization", "nodeResourceUtilizationThresholds: {thresholds: a}"),
            "6:62: strategies.LowNodeUtilization.params.nodeResourceUtilizationThresholds."
            "thresholds `a` is not a mapping; write lines of `key: value`",
            id="a wrong type is reported once",
        ),
        pytest.param(
            strategy(
                "LowNodeUtilization",
                "thresholds: {cpu: 1}, nodeResourceUtilizationThresholds:"
                " {thresholds: {cpu: 2}, targetThresholds: {cpu: 3}}",
            ),
            "6:14: strategies.LowNodeUtilization.params.thresholds `thresholds` belongs under "
            "`strategies.<name>.params.nodeResourceUtilizationThresholds`, not here",
            id="a key at the wrong level",
        ),
        pytest.param(
            strategy("RemoveFailedPods", "").replace("enabled", "labelSelector: {}\n    enabled"),
            "5:5: strategies.RemoveFailedPods.labelSelector `labelSelector` belongs under "
            "`strategies.<name>.params`, not here",
            id="a key beside params",
        ),
        pytest.param(
            strategy("RemoveFailedPods", "", "profiles: []"),
            "7:1: profiles `profiles` belongs to `apiVersion: descheduler/v1alpha2`, not here",
            id="a key of the newer version",
        ),
        pytest.param(
            strategy("RemoveFailedPods", "namespaces: {include: [a], exclude: [b]}"),
            "6:26: strategies.RemoveFailedPods.params.namespaces both `include` and `exclude` are "
            "set; keep one of the two lists",
            id="namespaces",
        ),
    ],
)
def test_a_mistake_is_reported_at_the_line_it_was_written(text: str, problem: str) -> None:
    assert errors(text) == [problem]


def test_a_switch_for_all_profiles_is_blamed_once() -> None:
    text = document(
        """
        evictLocalStoragePods: perhaps
        strategies: {RemoveFailedPods: {enabled: true}, RemoveDuplicates: {enabled: true}}
        """,
        OLD_HEAD,
    )

    assert errors(text) == [
        "3:24: evictLocalStoragePods `perhaps` is not true or false; write `true` or `false`"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            strategy("RemoveDuplicates", "labelSelector: {}"),
            "6:29: strategies.RemoveDuplicates.params.labelSelector `labelSelector` has no effect "
            "on `RemoveDuplicates` in `descheduler/v1alpha1`; remove it",
            id="selector for duplicates",
        ),
        pytest.param(
            strategy(
                "HighNodeUtilization",
                "labelSelector: {}, nodeResourceUtilizationThresholds: {thresholds: {cpu: 2}}",
            ),
            "6:29: strategies.HighNodeUtilization.params.labelSelector `labelSelector` has no "
            "effect on `HighNodeUtilization` in `descheduler/v1alpha1`; remove it",
            id="selector for utilization",
        ),
        pytest.param(
            strategy("RemovePodsViolatingNodeTaints", "includedTaints: [a]"),
            "6:30: strategies.RemovePodsViolatingNodeTaints.params.includedTaints `includedTaints` "
            "has no effect on `RemovePodsViolatingNodeTaints` in `descheduler/v1alpha1`; "
            "convert the policy and set `includedTaints` there",
            id="included taints",
        ),
        pytest.param(
            document("strategies: {RemoveFailedPods: {enabled: true, weight: 3}}", OLD_HEAD),
            "3:56: strategies.RemoveFailedPods.weight `weight` has no effect; remove it",
            id="weight",
        ),
        pytest.param(
            strategy("PodLifeTime", "nodeFit: true, podLifeTime: {maxPodLifeTimeSeconds: 1}"),
            "6:23: strategies.PodLifeTime.params.nodeFit `nodeFit` has no effect on `PodLifeTime` "
            "in `descheduler/v1alpha1`; convert the policy and set it there",
            id="a fit for PodLifeTime",
        ),
        pytest.param(
            strategy("RemoveFailedPods", "podLifeTime: {maxPodLifeTimeSeconds: 1}"),
            "6:51: strategies.RemoveFailedPods.params.podLifeTime.maxPodLifeTimeSeconds "
            "`maxPodLifeTimeSeconds` has no effect on `RemoveFailedPods` in "
            "`descheduler/v1alpha1`; remove it",
            id="params of another strategy",
        ),
    ],
)
def test_what_the_conversion_drops_is_a_warning(text: str, expected: str) -> None:
    assert errors(text) == []
    assert warnings(text) == [expected]
