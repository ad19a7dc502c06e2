"""A descheduler: who takes a turn when, over which nodes, behind which guards, in which order."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.framework import (
    Args,
    Descheduler,
    Draft,
    Plugin,
    Refusal,
    default_registry,
)
from resettle.framework.view import View
from resettle.model.pod import Pod
from resettle.model.selectors import parse_selector
from resettle.testing import NodeBuilder, World, cluster, node, plan_policy, pod
from tests.framework.harness import guarded_by, instance

INSTALLED = default_registry()
LOCAL = [{"name": "v", "emptyDir": {}}]
AT = "descheduler/v1alpha2"
OURS = "resettle/v1"


def take_all(args: Any, view: View, draft: Draft) -> None:
    """Wants every pod of every node gone, in the order that the profile says."""
    for each_node in view.nodes:
        for each in draft.sort(draft.presort(view.active_on(each_node))):
            draft.propose(each, because="all must go")


ALL = Plugin(name="All", deschedule=take_all, balance=take_all)
MORE = Plugin(name="More", deschedule=take_all, balance=take_all)
REGISTRY = INSTALLED.with_plugins(ALL, MORE)


def profile(
    name: str = "it", *, config: dict[str, dict[str, Any]] | None = None, **sets: Any
) -> dict[str, Any]:
    """A profile; a set is a list of enabled names, or a whole `{enabled, disabled}`."""
    plugins = {
        point: names if isinstance(names, dict) else {"enabled": names}
        for point, names in sets.items()
    }
    named = {name for names in plugins.values() for name in names.get("enabled", ())}
    args: dict[str, Any] = {name: {} for name in sorted(named)} | (config or {})
    return {
        "name": name,
        "plugins": plugins,
        "pluginConfig": [{"name": name, "args": given} for name, given in args.items()],
    }


SINGLES_TOO: dict[str, Any] = {"DefaultEvictor": {"minReplicas": 0}}


def two_nodes(*pods: Any) -> World:
    return cluster(node("n1").holding(*pods), node("n2"))


def test_all_deschedule_plugins_run_before_all_balance_plugins() -> None:
    document = {
        "profiles": [
            profile("one", deschedule=["More", "All"], balance=["All"]),
            profile("two", deschedule=["All"], balance=["More", "All"]),
        ]
    }
    runs = plan_policy(document, two_nodes(), registry=REGISTRY).plan.runs

    assert [(run.point, run.profile, run.plugin) for run in runs] == [
        ("deschedule", "one", "More"),
        ("deschedule", "one", "All"),
        ("deschedule", "two", "All"),
        ("balance", "one", "All"),
        ("balance", "two", "More"),
        ("balance", "two", "All"),
    ]


def test_a_profile_that_enables_nothing_does_nothing() -> None:
    document = {
        "profiles": [profile(), profile("two", config={"PodLifeTime": {"states": ["Running"]}})]
    }
    plan = plan_policy(document, two_nodes(pod("a"))).plan

    assert (plan.moves, plan.runs, plan.skipped) == ((), (), None)


def test_a_policy_without_profiles_does_nothing() -> None:
    plan = plan_policy({"profiles": []}, two_nodes(pod("a"))).plan

    assert (plan.moves, plan.runs, plan.nodes, plan.pods) == ((), (), 2, 1)


@pytest.mark.parametrize(
    ("limit", "admitted", "code"),
    [
        pytest.param("maxNoOfPodsToEvictTotal", [2, 1], "limit-total", id="total"),
        pytest.param("maxNoOfPodsToEvictPerNode", [2, 1], "limit-node", id="node"),
        pytest.param("maxNoOfPodsToEvictPerNamespace", [2, 1], "limit-namespace", id="namespace"),
    ],
)
def test_limits_hold_for_all_profiles_together(limit: str, admitted: list[int], code: str) -> None:
    config = {name: {"labelSelector": {"matchLabels": {"of": name}}} for name in ("one", "two")}
    document = {
        limit: 3,
        "profiles": [
            profile(
                name,
                deschedule=["PodLifeTime"],
                config={"PodLifeTime": {"maxPodLifeTimeSeconds": 1, **config[name]}},
            )
            for name in ("one", "two")
        ],
    }
    pods = [pod(f"{name}-{i}", labels={"of": name}) for name in ("one", "two") for i in range(2)]
    planned = plan_policy(document, two_nodes(*pods))

    assert [run.admitted for run in planned.plan.runs] == admitted
    assert planned.refused == {code: 1}


def test_each_profile_has_its_own_guards() -> None:
    document = {
        "profiles": [
            profile("strict", deschedule=["All"]),
            profile(
                "lax",
                deschedule=["All"],
                config={"DefaultEvictor": {"evictLocalStoragePods": True}},
            ),
        ]
    }
    planned = plan_policy(document, two_nodes(pod("a", volumes=LOCAL)), registry=REGISTRY)

    assert [(move.profile, move.pod.name) for move in planned.plan.moves] == [("lax", "a")]
    assert planned.refused == {"local-storage": 1}


@pytest.mark.parametrize(
    ("selector", "evicts"),
    [
        pytest.param(None, {"blue", "red", "plain", "cordoned"}, id="all ready nodes"),
        pytest.param("pool", {"blue", "red"}, id="those that the selector selects"),
        pytest.param(
            "pool!=red", {"blue", "plain", "cordoned"}, id="those that it does not exclude"
        ),
        pytest.param("pool in (blue, red)", {"blue", "red"}, id="a set"),
    ],
)
def test_a_cycle_works_on_ready_nodes_that_the_policy_selects(
    selector: str | None, evicts: set[str]
) -> None:
    world = cluster(
        node("n1", labels={"pool": "blue"}).holding(pod("blue")),
        node("n2", labels={"pool": "red"}).holding(pod("red")),
        node("n3", ready=None).holding(pod("plain")),
        node("n4", cordoned=True).holding(pod("cordoned")),
        node("n5", ready=False, labels={"pool": "blue"}).holding(pod("unready")),
    )
    document = {"profiles": [profile(deschedule=["All"])]} | (
        {"nodeSelector": selector} if selector else {}
    )
    planned = plan_policy(document, world, registry=REGISTRY)

    assert set(planned.evicts) == evicts
    assert (planned.plan.nodes, planned.plan.nodes_in_scope) == (5, len(evicts))


@pytest.mark.parametrize(
    ("nodes", "selector", "says"),
    [
        pytest.param([], "", "no node is ready and selected; moving pods", id="no node at all"),
        pytest.param(
            [node("n1")], "", "only one node is ready and selected; moving", id="one node"
        ),
        pytest.param(
            [node("n1"), node("n2", ready=False)],
            "",
            "only one node is ready and selected (1 unready or not selected); moving",
            id="one of two is ready",
        ),
        pytest.param(
            [node("n1"), node("n2")],
            "pool=blue",
            "no node is ready and selected (2 unready or not selected); moving",
            id="none is selected",
        ),
    ],
)
def test_with_fewer_than_two_nodes_nothing_runs(
    nodes: list[NodeBuilder], selector: str, says: str
) -> None:
    world = cluster(*nodes, pod("pending"))
    descheduler = Descheduler(
        profiles=(guarded_by(deschedule=(instance(ALL),)),), node_selector=parse_selector(selector)
    )
    plan = descheduler.draw_plan(world.snapshot())

    assert plan.skipped is not None
    assert plan.skipped.code == "too-few-nodes"
    assert plan.skipped.says.startswith(says)
    assert (plan.moves, plan.runs) == ((), ())


def test_pods_that_are_on_no_node_are_never_looked_at() -> None:
    document = {"profiles": [profile(deschedule=["All"])]}
    world = cluster(node("n1").holding(pod("a")), node("n2"), pod("unscheduled", phase="Pending"))

    assert plan_policy(document, world, registry=REGISTRY).evicts == ["a"]


OFF = {"disabled": ["DefaultEvictor"]}


@pytest.mark.parametrize(
    ("version", "sets", "evicts", "refused"),
    [
        pytest.param(OURS, {}, [], {"local-storage": 1}, id="DefaultEvictor guards every profile"),
        pytest.param(OURS, {"filter": OFF}, ["a"], {}, id="resettle: it can be turned off"),
        pytest.param(AT, {"filter": OFF}, [], {"local-storage": 1}, id="v1alpha2: it cannot"),
        pytest.param(
            OURS, {"preevictionfilter": OFF}, [], {"local-storage": 1}, id="at one point only"
        ),
        pytest.param(
            OURS,
            {"filter": {"enabled": ["Keeper"], **OFF}},
            [],
            {"kept": 1},
            id="resettle: an own guard in its place",
        ),
        pytest.param(
            AT,
            {"filter": ["Keeper"]},
            [],
            {"local-storage": 1},
            id="v1alpha2: it comes before others",
        ),
        pytest.param(
            AT,
            {"filter": ["Keeper", "DefaultEvictor"]},
            [],
            {"kept": 1},
            id="unless it is listed later",
        ),
        pytest.param(
            OURS,
            {"deschedule": {"enabled": ["All"], "disabled": ["All"]}},
            [],
            {},
            id="resettle: a disabled strategy does not run",
        ),
        pytest.param(
            AT,
            {"deschedule": {"enabled": ["All"], "disabled": ["All"]}},
            [],
            {"local-storage": 1},
            id="v1alpha2: it runs",
        ),
    ],
)
def test_plugins_can_be_disabled(
    version: str, sets: dict[str, Any], evicts: list[str], refused: dict[str, int]
) -> None:
    def keep(args: Args, view: View, pod: Pod) -> Refusal | None:
        return Refusal("kept", "is kept")

    registry = REGISTRY.with_plugins(Plugin(name="Keeper", filter=keep))
    document = {"profiles": [profile(**{"deschedule": ["All"], **sets})]}
    planned = plan_policy(
        document, two_nodes(pod("a", volumes=LOCAL)), registry=registry, api_version=version
    )

    assert planned.evicts == evicts
    assert planned.refused == refused


def aged() -> World:
    return two_nodes(
        pod("young", age="1h", priority=1), pod("old", age="3h", priority=1), pod("mid", age="2h")
    )


@pytest.mark.parametrize("point", ["presort", "sort"])
@pytest.mark.parametrize(
    ("sorters", "config", "order"),
    [
        pytest.param(["AgeSort"], {}, ["old", "mid", "young"], id="oldest first"),
        pytest.param(
            ["AgeSort"],
            {"AgeSort": {"order": "YoungestFirst"}},
            ["young", "mid", "old"],
            id="youngest",
        ),
        pytest.param(
            ["PrioritySort", "AgeSort"], {}, ["mid", "old", "young"], id="one after the other"
        ),
    ],
)
def test_sorters_order_what_is_walked_and_proposed(
    point: str, sorters: list[str], config: dict[str, Any], order: list[str]
) -> None:
    sets: dict[str, Any] = {"deschedule": ["All"], point: sorters}
    document = {
        "maxNoOfPodsToEvictTotal": 3,
        "profiles": [profile(config=config | SINGLES_TOO, **sets)],
    }
    ours = plan_policy(document, aged(), registry=REGISTRY, api_version=OURS)
    theirs = plan_policy(document, aged(), registry=REGISTRY, api_version=AT)
    unsorted = plan_policy({"profiles": [profile(deschedule=["All"])]}, aged(), registry=REGISTRY)

    assert ours.evicts == order
    assert theirs.evicts == unsorted.evicts


def test_of_two_orders_the_sort_decides_and_the_presort_breaks_its_ties() -> None:
    document = {
        "maxNoOfPodsToEvictTotal": 3,
        "profiles": [
            profile(
                deschedule=["All"], presort=["AgeSort"], sort=["PrioritySort"], config=SINGLES_TOO
            )
        ],
    }

    assert plan_policy(document, aged(), registry=REGISTRY, api_version=OURS).evicts == [
        "mid",
        "old",
        "young",
    ]


def test_a_sort_takes_the_place_of_a_strategy_s_own_order() -> None:
    life: dict[str, Any] = {
        "PodLifeTime": {"maxPodLifeTimeSeconds": 1},
        "AgeSort": {"order": "YoungestFirst"},
    }
    document = {
        "maxNoOfPodsToEvictTotal": 1,
        "profiles": [profile(deschedule=["PodLifeTime"], sort=["AgeSort"], config=life)],
    }

    assert plan_policy(document, aged(), api_version=OURS).evicts == ["young"]
    assert plan_policy(document, aged(), api_version=AT).evicts == ["old"]


def test_a_sort_says_which_copies_leave_not_which_stay() -> None:
    """The first copy walked is the original, one more of four may stay: the two oldest leave."""
    cheap = {"controller.kubernetes.io/pod-deletion-cost": "-1"}
    world = two_nodes(
        pod("original", annotations=cheap),
        *(pod(age, age=age) for age in ("2h", "3h", "4h")),
    )
    document = {
        "maxNoOfPodsToEvictTotal": 4,
        "profiles": [
            profile(balance=["RemoveDuplicates"], presort=["DeletionCostSort"], sort=["AgeSort"])
        ],
    }

    assert plan_policy(document, world, api_version=OURS).evicts == ["4h", "3h"]
