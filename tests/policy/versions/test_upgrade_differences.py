"""What `resettle policy convert --to resettle/v1` says will change: all of it, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from resettle.framework import default_registry
from resettle.model import Semantics
from resettle.policy.load import read_policy
from resettle.policy.versions.upgrade import Difference, differences
from resettle.policy.versions.upstream_differences import UPSTREAM_BEHAVIOURS

REGISTRY = default_registry()
QUIET = {"nodeFit": False, "minReplicas": 0, "minPodAge": "0s"}
LIMITS = {"maxPercentOfPodsToEvict": 50, "maxPercentOfNodesToEvictFrom": 50}
ALWAYS = {"weak_fit", "moves_take_no_place", "any_evict_annotation"}
"""Habits that no policy can do without noticing."""
ARGS: dict[str, dict[str, Any]] = {
    "HighNodeUtilization": {"thresholds": {"cpu": 20}},
    "LowNodeUtilization": {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}},
    "PodLifeTime": {"maxPodLifeTimeSeconds": 60},
    "RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 10},
    "RemovePodsViolatingNodeTaints": {"includedTaints": ["dedicated"], "minTaintAge": "1m"},
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def a_profile(
    strategy: str = "PodLifeTime",
    args: dict[str, Any] | None = None,
    evictor: dict[str, Any] | None = None,
    name: str = "tidy",
    **sets: Any,
) -> dict[str, Any]:
    """A profile of one strategy in which, all arguments are set unless stated otherwise."""
    point = "balance" if REGISTRY[strategy].balance else "deschedule"
    given = ARGS.get(strategy, {}) if args is None else args
    guard = QUIET if evictor is None else evictor
    configs = [{"name": "DefaultEvictor", "args": guard}, {"name": strategy, "args": given}]
    chosen = {point: {"enabled": [strategy]}, **sets}
    return {"name": name, "pluginConfig": configs, "plugins": chosen}


def reported_differences(
    *profiles: dict[str, Any], version: str = "descheduler/v1alpha2", **top: Any
) -> tuple[Difference, ...]:
    """The differences reported for a policy with these profiles."""
    document = {"apiVersion": version, "kind": "DeschedulerPolicy", "profiles": list(profiles)}
    text = yaml.safe_dump(document | (top or LIMITS))
    return differences(read_policy(text, name="p", plugins=REGISTRY, improved=True))


def habits(reported: tuple[Difference, ...]) -> set[str]:
    return {difference.behaviour for difference in reported}


def test_every_flag_has_its_words_and_every_word_its_flag() -> None:
    assert set(UPSTREAM_BEHAVIOURS) == set(Semantics.__struct_fields__)


@pytest.mark.parametrize("flag", UPSTREAM_BEHAVIOURS)
def test_a_habit_is_described_in_whole_sentences_and_of_plugins_that_exist(flag: str) -> None:
    habit = UPSTREAM_BEHAVIOURS[flag]

    assert all(
        sentence[0].isupper() or sentence[0] == "`" for sentence in (habit.upstream, habit.resettle)
    )
    assert all(sentence.endswith(".") for sentence in (habit.upstream, habit.resettle))
    assert set(habit.plugins) <= set(REGISTRY)


@pytest.mark.parametrize("version", ["descheduler/v1alpha2", "resettle/v1"])
def test_a_policy_that_looks_for_nothing_decides_nothing_differently(version: str) -> None:
    assert reported_differences(version=version) == ()
    assert reported_differences({"name": "idle"}, version=version) == ()


def test_a_policy_of_our_own_has_no_differences() -> None:
    assert reported_differences(a_profile(evictor={}), version="resettle/v1") == ()


def test_with_all_arguments_set_only_what_touches_every_policy_is_reported() -> None:
    assert habits(reported_differences(a_profile())) == ALWAYS


@pytest.mark.parametrize(
    ("strategy", "args", "flags"),
    [
        pytest.param(
            "LowNodeUtilization",
            None,
            {
                "moves_without_gain",
                "tolerations_counted",
                "bystanders_moved",
                "control_plane_balanced",
            },
            id="LowNodeUtilization",
        ),
        pytest.param(
            "HighNodeUtilization",
            None,
            {"moves_without_gain", "tolerations_counted", "bystanders_moved"},
            id="HighNodeUtilization",
        ),
        pytest.param(
            "RemoveDuplicates",
            None,
            {"moves_without_gain", "copies_compared_by_spelling"},
            id="RemoveDuplicates",
        ),
        pytest.param(
            "RemovePodsViolatingInterPodAntiAffinity",
            None,
            {"moves_without_gain", "one_sided_anti_affinity"},
            id="anti-affinity",
        ),
        pytest.param(
            "RemovePodsViolatingTopologySpreadConstraint",
            None,
            {
                "moves_without_gain",
                "important_pods_spread_first",
                "spread_sees_only_evictable",
                "spread_rule_by_rule",
                "spread_moves_strangers",
            },
            id="topology spread",
        ),
        pytest.param(
            "RemovePodsViolatingNodeAffinity",
            {"nodeAffinityType": [REQUIRED]},
            {"moves_without_gain"},
            id="required node affinity",
        ),
        pytest.param(
            "RemovePodsViolatingNodeAffinity",
            {"nodeAffinityType": [PREFERRED]},
            {"moves_without_gain", "preference_beyond_reach"},
            id="preferred node affinity",
        ),
        pytest.param("RemovePodsViolatingNodeTaints", None, {"moves_without_gain"}, id="taints"),
        pytest.param("RemoveFailedPods", None, set(), id="failed pods"),
        pytest.param("RemovePodsHavingTooManyRestarts", None, set(), id="restarts"),
    ],
)
def test_a_strategy_brings_the_habits_that_touch_it(
    strategy: str, args: dict[str, Any] | None, flags: set[str]
) -> None:
    reported = reported_differences(a_profile(strategy, args))

    assert habits(reported) == ALWAYS | flags
    assert {difference.about for difference in reported if difference.behaviour in flags} <= {
        strategy
    }


@pytest.mark.parametrize(
    ("evictor", "flag", "matters"),
    [
        pytest.param({"minReplicas": 3}, "replicas_counted_loosely", True, id="some replicas"),
        pytest.param({"minReplicas": 1}, "replicas_counted_loosely", False, id="one is no minimum"),
        pytest.param({"ignorePvcPods": True}, "ephemeral_claims_unseen", True, id="by older word"),
        pytest.param(
            {"podProtections": {"extraEnabled": ["PodsWithPVC"]}},
            "ephemeral_claims_unseen",
            True,
            id="by protection",
        ),
        pytest.param(
            {"podProtections": {"extraEnabled": ["PodsWithResourceClaims"]}},
            "ephemeral_claims_unseen",
            False,
            id="another protection",
        ),
    ],
)
def test_some_habits_matter_only_with_certain_arguments(
    evictor: dict[str, Any], flag: str, matters: bool
) -> None:
    assert (flag in habits(reported_differences(a_profile(evictor=QUIET | evictor)))) is matters


@pytest.mark.parametrize(
    ("top", "expected"),
    [
        pytest.param(LIMITS, False, id="shares alone"),
        pytest.param(LIMITS | {"maxNoOfPodsToEvictPerNode": 3}, True, id="a limit of old"),
    ],
)
def test_a_pod_proposed_twice_matters_where_there_were_limits(
    top: dict[str, Any], expected: bool
) -> None:
    assert ("repeat_spends_limits" in habits(reported_differences(a_profile(), **top))) is expected


# -- what is left unsaid --------------------------------------------------------------------------

SHARE_OF_PODS = (
    "at most 1% of all pods move in a cycle; write `maxPercentOfPodsToEvict: 100` for no such limit"
)
SHARE_OF_NODES = (
    "pods leave at most 5% of the nodes in a cycle; "
    "write `maxPercentOfNodesToEvictFrom: 100` for no such limit"
)


@pytest.mark.parametrize(
    ("top", "expected"),
    [
        pytest.param({"nodeSelector": "a"}, [SHARE_OF_PODS, SHARE_OF_NODES], id="no limits"),
        pytest.param({"maxNoOfPodsToEvictTotal": 9}, [SHARE_OF_NODES], id="a number of pods"),
        pytest.param({"maxPercentOfPodsToEvict": 9}, [SHARE_OF_NODES], id="a share of pods"),
        pytest.param({"maxPercentOfNodesToEvictFrom": 9}, [SHARE_OF_PODS], id="a share of nodes"),
    ],
)
def test_new_default_limits_are_reported(top: dict[str, Any], expected: list[str]) -> None:
    unsaid = [
        str(difference)
        for difference in reported_differences(a_profile(), **top)
        if difference.behaviour == "permissive_defaults"
    ]

    assert unsaid == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("nodeFit", "DefaultEvictor: `nodeFit` is on; write `nodeFit: false` to keep it off"),
        (
            "minReplicas",
            "DefaultEvictor: `minReplicas` is 2, so the only pod of an owner stays; "
            "write `minReplicas: 0` to let it go",
        ),
        (
            "minPodAge",
            "DefaultEvictor: `minPodAge` is 10m, so pods that have just started stay; "
            "write `minPodAge: 0s` to let them go",
        ),
    ],
)
def test_a_default_argument_of_the_evictor_is_reported(key: str, expected: str) -> None:
    evictor = {name: value for name, value in QUIET.items() if name != key}
    lines = [str(difference) for difference in reported_differences(a_profile(evictor=evictor))]

    assert lines.count(expected) == 1
    assert expected not in [str(difference) for difference in reported_differences(a_profile())]


@pytest.mark.parametrize(
    ("args", "lines"),
    [
        pytest.param({}, 2, id="neither lists nor age"),
        pytest.param({"excludedTaints": ["a"]}, 2, id="excluding names none"),
        pytest.param({"includedTaints": []}, 1, id="a list of names"),
        pytest.param({"minTaintAge": "0s"}, 1, id="an age"),
    ],
)
def test_taints_that_will_not_count_are_reported(args: dict[str, Any], lines: int) -> None:
    reported = reported_differences(a_profile("RemovePodsViolatingNodeTaints", args))

    assert [difference.behaviour for difference in reported].count("permissive_defaults") == lines


# -- what was read and not done -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        pytest.param(
            a_profile(sort={"enabled": ["PrioritySort", "AgeSort"]}),
            "`sort` takes effect with `PrioritySort` and `AgeSort`",
            id="sort",
        ),
        pytest.param(
            a_profile(presort={"enabled": ["AgeSort"]}),
            "`presort` takes effect with `AgeSort`",
            id="presort",
        ),
        pytest.param(
            a_profile(filter={"disabled": ["DefaultEvictor"]}),
            "`disabled` takes effect: no `DefaultEvictor` at `filter`",
            id="disabled",
        ),
        pytest.param(
            a_profile(evictor=QUIET | {"ignorePodsWithoutPDB": True}),
            "DefaultEvictor: `PodsWithoutPDB` protects pods without a disruption budget, "
            "and no longer every pod",
            id="PodsWithoutPDB",
        ),
    ],
)
def test_what_was_read_and_not_done_is_reported(profile: dict[str, Any], expected: str) -> None:
    assert expected in [str(difference) for difference in reported_differences(profile)]


# -- several profiles -----------------------------------------------------------------------------


def test_what_holds_for_all_profiles_is_reported_once_and_the_rest_with_their_names() -> None:
    lines = [
        str(difference)
        for difference in reported_differences(
            a_profile(evictor={"minReplicas": 0, "minPodAge": "0s"}, name="a"),
            a_profile("RemoveFailedPods", name="b"),
            a_profile("RemoveDuplicates", evictor={"minReplicas": 0, "minPodAge": "0s"}, name="c"),
        )
    ]

    assert sum("evict annotation" in line for line in lines) == 1
    assert [line.split(":")[0] for line in lines if "nodeFit" in line] == [
        "DefaultEvictor (profiles a, c)"
    ]
    assert [line.split(":")[0] for line in lines if "meaning of their affinity" in line] == [
        "RemoveDuplicates (profile c)"
    ]
