"""Each habit of upstream, kept and dropped: what one policy decides with it, and without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from resettle.framework import Plugin
from resettle.model.semantics import IMPROVED, PARITY, Semantics
from resettle.plugins import (
    high_node_utilization,
    low_node_utilization,
    pod_life_time,
    remove_duplicates,
    remove_pods_violating_inter_pod_anti_affinity,
    remove_pods_violating_node_affinity,
    remove_pods_violating_node_taints,
    remove_pods_violating_topology_spread_constraint,
)
from resettle.testing import World, cluster, node, plan, plan_policy, pod, query_answer, spread
from tests.plugins.builders import NO_LIMITS, NO_MINIMUM

LIFE = pod_life_time.PLUGIN
SPREAD = remove_pods_violating_topology_spread_constraint.PLUGIN
ANTI = remove_pods_violating_inter_pod_anti_affinity.PLUGIN
AFFINITY = remove_pods_violating_node_affinity.PLUGIN
TAINTS = remove_pods_violating_node_taints.PLUGIN
COPIES = remove_duplicates.PLUGIN
LOW = low_node_utilization.PLUGIN
HIGH = high_node_utilization.PLUGIN

WEB = {"app": "web"}
POOL = {"pool": "blue"}
OLD = {"maxPodLifeTimeSeconds": 3600}
GPU = "nvidia.com/gpu"


class Habit(NamedTuple):
    """A world in which one flag decides."""

    flag: str
    base: Semantics
    plugin: Plugin
    args: Mapping[str, Any]
    world: World
    kept: set[str]
    """Who goes while the habit is kept."""
    dropped: set[str]
    evictor: Mapping[str, Any] = {}
    policy: Mapping[str, Any] = {}
    fails: bool = False
    """Whether the plugin fails while the habit is kept."""


def spread_pod(name: str, **more: Any) -> dict[str, Any]:
    return pod(name, labels=WEB, spread=[spread(labels=WEB)], **more)


def preferring(name: str, wanted: str, **more: Any) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [wanted]}]}
    rows = [{"weight": 1, "preference": term}]
    return pod(
        name,
        affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": rows}},
        **more,
    )


def choosy(name: str, *terms: str) -> dict[str, Any]:
    """A copy that accepts several pools, in the order given."""
    rows = [
        {"matchExpressions": [{"key": "pool", "operator": "In", "values": [term]}]}
        for term in terms
    ]
    required = {"nodeSelectorTerms": rows}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return pod(name, affinity={"nodeAffinity": {key: required}})


PREFERRED = {"nodeAffinityType": ["preferredDuringSchedulingIgnoredDuringExecution"]}
HALF_FULL = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}

HABITS = [
    Habit(
        "weak_fit",
        PARITY,
        LIFE,
        OLD,
        cluster(
            node("n1").holding(pod("old", labels=WEB)),
            node("n2").holding(pod("shy", age="1m", away_from=WEB)),
        ),
        kept={"old"},
        dropped=set(),
        evictor={"nodeFit": True},
    ),
    Habit(
        "moves_take_no_place",
        IMPROVED,
        TAINTS,
        {},
        cluster(
            node("n1", taints=["leave:NoSchedule"]).holding(pod("a", cpu="3"), pod("b", cpu="3")),
            node("n2", cpu="4"),
        ),
        kept={"a", "b"},
        dropped={"either"},
    ),
    Habit(
        "moves_without_gain",
        IMPROVED,
        TAINTS,
        {"includePreferNoSchedule": True},
        cluster(
            node("n1", taints=["busy:PreferNoSchedule"]).holding(pod("a")),
            node("n2", taints=["busy:PreferNoSchedule"]),
        ),
        kept={"a"},
        dropped=set(),
    ),
    Habit(
        "important_pods_spread_first",
        PARITY,
        SPREAD,
        {},
        cluster(
            node("n1", zone="a").holding(
                spread_pod("major", priority=100), spread_pod("minor", priority=1)
            ),
            node("n2", zone="b"),
        ),
        kept={"major"},
        dropped={"minor"},
    ),
    Habit(
        "spread_sees_only_evictable",
        PARITY,
        SPREAD,
        {},
        cluster(
            node("n1", zone="a").holding(spread_pod("a"), spread_pod("bare", owner=None)),
            node("n2", zone="b"),
        ),
        kept=set(),
        dropped={"a"},
    ),
    Habit(
        "spread_rule_by_rule",
        structs.replace(IMPROVED, spread_moves_strangers=True),
        SPREAD,
        {},
        cluster(
            node("n1", zone="a", labels=POOL).holding(
                spread_pod("a0", node_selector=POOL), spread_pod("a1", node_selector=POOL)
            ),
            node("n2", zone="b", labels=POOL).holding(spread_pod("b0", node_selector=POOL)),
            node("n3", zone="c").holding(*(pod(f"c{i}", labels=WEB) for i in range(3))),
        ),
        kept={"one of three"},
        dropped=set(),
    ),
    Habit(
        "spread_moves_strangers",
        PARITY,
        SPREAD,
        {},
        cluster(
            node("n1", zone="a").holding(
                pod("stranger", labels=WEB, priority=100), spread_pod("stating")
            ),
            node("n2", zone="b"),
        ),
        kept={"stranger"},
        dropped={"stating"},
    ),
    Habit(
        "one_sided_anti_affinity",
        IMPROVED,
        ANTI,
        {},
        cluster(
            node("n1").holding(
                pod("stating", away_from={"app": "db"}, priority=100),
                pod("meant", labels={"app": "db"}, priority=1),
            ),
            node("n2"),
        ),
        kept={"stating"},
        dropped={"meant"},
    ),
    Habit(
        "tolerations_counted",
        PARITY,
        LOW,
        HALF_FULL,
        cluster(
            node("n1").holding(
                *(pod(f"p{i}", cpu="1", tolerations=[{"operator": "Exists"}]) for i in range(3))
            ),
            node("n2", taints=["one:NoSchedule", "two:NoSchedule"]),
        ),
        kept=set(),
        dropped={"one of three"},
    ),
    Habit(
        "bystanders_moved",
        PARITY,
        HIGH,
        {"thresholds": {GPU: 60}},
        cluster(
            node("n1", resources={GPU: "4"}).holding(
                pod("idle", cpu="1"), pod("training", requests={GPU: "1"})
            ),
            node("n2", resources={GPU: "8"}).holding(pod("busy", requests={GPU: "6"})),
        ),
        kept={"idle", "training"},
        dropped={"training"},
    ),
    Habit(
        "figures_judged_together",
        IMPROVED,
        LOW,
        {
            "thresholds": {"MetricResource": 20},
            "targetThresholds": {"MetricResource": 50},
            "metricsUtilization": {"source": "Prometheus", "prometheus": {"query": "busy"}},
        },
        cluster(
            node("n1").holding(pod("a", cpu="1"), pod("agent", cpu="2", owner="DaemonSet/agent")),
            node("n2"),
            node("n3").holding(pod("b", cpu="3")),
            query_answer("busy", {"n1": 0.9, "n2": 0.1}),
        ),
        kept=set(),
        dropped={"a"},
        policy={"metricsProviders": [{"source": "Prometheus", "prometheus": {"url": "http://p"}}]},
        fails=True,
    ),
    Habit(
        "control_plane_balanced",
        IMPROVED,
        LOW,
        HALF_FULL,
        cluster(
            node("n1").holding(pod("a", cpu="2500m")),
            node("n2").holding(pod("b", cpu="1200m")),
            node("boss", cpu="16", labels={"node-role.kubernetes.io/control-plane": ""}),
        ),
        kept={"a"},
        dropped=set(),
    ),
    Habit(
        "preference_beyond_reach",
        IMPROVED,
        AFFINITY,
        PREFERRED,
        cluster(
            node("n1").holding(preferring("a", "fast", cpu="2")),
            node("n2", cpu="1", labels={"disk": "fast"}),
            node("n3"),
        ),
        kept={"a"},
        dropped=set(),
    ),
    Habit(
        "replicas_counted_loosely",
        IMPROVED,
        LIFE,
        OLD,
        cluster(node("n1").holding(pod("a"), pod("b")), node("n2")),
        kept={"a", "b"},
        dropped={"either"},
        evictor={"minReplicas": 2},
    ),
    Habit(
        "copies_compared_by_spelling",
        PARITY,
        COPIES,
        {},
        cluster(
            node("n1").holding(pod("a"), pod("b"), pod("c")),
            node("n2", cordoned=True),
            node("n3", cordoned=True),
        ),
        kept={"two of three"},
        dropped=set(),
    ),
    Habit(
        "ephemeral_claims_unseen",
        PARITY,
        LIFE,
        OLD,
        cluster(
            node("n1").holding(pod("a", volumes=[{"name": "scratch", "ephemeral": {}}])),
            node("n2"),
        ),
        kept={"a"},
        dropped=set(),
        evictor={"podProtections": {"extraEnabled": ["PodsWithPVC"]}},
    ),
    Habit(
        "any_evict_annotation",
        PARITY,
        LIFE,
        OLD,
        cluster(
            node("n1").holding(
                pod("a", annotations={"descheduler.alpha.kubernetes.io/evict": "false"})
            ),
            node("n2"),
        ),
        kept={"a"},
        dropped=set(),
    ),
    Habit(
        "permissive_defaults",
        PARITY,
        LIFE,
        OLD,
        cluster(node("n1").holding(pod("the-only-replica")), node("n2")),
        kept={"the-only-replica"},
        dropped=set(),
    ),
]


def goes(habit: Habit, *, kept: bool) -> list[str]:
    semantics = structs.replace(habit.base, **{habit.flag: kept})
    improved = habit.base is not PARITY
    planned = plan(
        habit.plugin,
        habit.world,
        evictor={**NO_MINIMUM, **habit.evictor} if improved else habit.evictor,
        policy={**habit.policy, **(NO_LIMITS if improved else {})},
        api_version="resettle/v1" if improved else "descheduler/v1alpha2",
        semantics=semantics,
        **habit.args,
    )
    assert bool(planned.errors) is (kept and habit.fails)
    return planned.evicts


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.flag)
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "dropped"])
def test_a_habit_decides_who_goes(habit: Habit, kept: bool) -> None:
    expected = habit.kept if kept else habit.dropped
    pods = goes(habit, kept=kept)
    match sorted(expected):
        case ["either"] | ["one of three"]:
            assert len(pods) == 1
        case ["two of three"]:
            assert len(pods) == 2
        case _:
            assert set(pods) == expected


def test_every_habit_is_shown_both_ways() -> None:
    shown = {habit.flag for habit in HABITS} | {"repeat_spends_limits"}

    assert shown == set(Semantics.__struct_fields__)


def test_a_pod_proposed_twice_spends_the_limit_twice_only_while_that_habit_is_kept() -> None:
    def profile(name: str, plugin: str, args: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "name": name,
            "pluginConfig": [{"name": plugin, "args": args}],
            "plugins": {"deschedule": {"enabled": [plugin]}},
        }

    document = {
        "maxNoOfPodsToEvictTotal": 2,
        "profiles": [
            profile("one", "RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 1}),
            profile("two", "PodLifeTime", OLD),
        ],
    }
    # Who opts in is not seen to be on its way out already.
    opts_in = {"descheduler.alpha.kubernetes.io/evict": "true"}
    first = pod("first", restarts=5, age="2d", annotations=opts_in)
    world = cluster(node("n1").holding(first, pod("second")), node("n2"))

    def goes_with(kept: bool) -> list[str]:
        semantics = structs.replace(PARITY, repeat_spends_limits=kept)
        return plan_policy(document, world, semantics=semantics).evicts

    assert goes_with(True) == ["first"]
    assert goes_with(False) == ["first", "second"]
