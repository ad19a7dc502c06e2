"""RemovePodsViolatingNodeTaints in `resettle/v1`: taints of a node's life, and young ones."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from resettle.framework import Plan
from resettle.model import IMPROVED, PARITY
from resettle.plugins.remove_pods_violating_node_taints import (
    KEYS,
    PLUGIN,
    Args,
    is_lifecycle_taint,
    min_age,
)
from resettle.testing import NOW, NodeBuilder, World, cluster, node, plan, pod
from resettle.testing.builders import before
from tests.plugins.harness import faults

Object = dict[str, Any]
OURS = "resettle/v1"
FREELY = {"maxPercentOfPodsToEvict": 100, "maxPercentOfNodesToEvictFrom": 100}
TAINT = "dedicated=batch:NoSchedule"
HISTORY_KEY = ("test", PLUGIN.name)
"""Profile and plugin under which the history is kept."""


def tainted(*taints: str, name: str = "n1", aged: str | None = None) -> NodeBuilder:
    """A node with taints, all of them so old by its own account where an age is given."""
    built = node(name, taints=taints)
    if aged is not None:
        for taint in built.node["spec"]["taints"]:
            taint["timeAdded"] = before(aged)
    return built


def drawn(
    *nodes: NodeBuilder,
    history: Any = None,
    version: str = OURS,
    later: timedelta = timedelta(),
    **args: Any,
) -> Plan:
    """The plan for these nodes, a pod on each, and a free node beside them."""
    held = [each.holding(pod(f"on-{each.node['metadata']['name']}")) for each in nodes]
    world = cluster(*held, node("free").holding(pod("copy")), now=NOW + later)
    return plan(
        PLUGIN,
        world,
        policy=FREELY if version == OURS else {},
        api_version=version,
        history=history,
        watching=[each.node["metadata"]["name"] for each in nodes],
        **args,
    ).plan


def moved(plan: Plan) -> list[str]:
    return sorted(move.pod.node for move in plan.moves)


def stopped(plan: Plan) -> tuple[str, str]:
    (run,) = plan.runs
    return (run.stopped.code, run.stopped.says) if run.stopped else ("", "")


# -- the life cycle of nodes ----------------------------------------------------------------------


@pytest.mark.parametrize("key", sorted(KEYS))
def test_a_taint_of_the_life_cycle_does_not_count(key: str) -> None:
    taint = f"{key}:NoSchedule"

    assert moved(drawn(tainted(taint))) == []
    assert moved(drawn(tainted(taint), version="descheduler/v1alpha2")) == ["n1"]


@pytest.mark.parametrize(
    ("key", "belongs"),
    [
        ("startup-taint.cluster-autoscaler.kubernetes.io/gpu-driver", True),
        ("aws-node-termination-handler/spot-itn", True),
        ("node.kubernetes.io/unschedulable", True),
        ("node.kubernetes.io/purpose", False),
        ("ToBeDeleted", False),
        ("dedicated", False),
    ],
)
def test_some_are_reported_by_how_their_key_begins(key: str, belongs: bool) -> None:
    assert is_lifecycle_taint(key) is belongs


CORDON = "node.kubernetes.io/unschedulable"


@pytest.mark.parametrize(
    ("args", "goes"),
    [
        pytest.param({}, [], id="unnamed"),
        pytest.param({"includedTaints": [CORDON]}, ["n1"], id="named"),
        pytest.param({"includedTaints": [f"{CORDON}=yes"]}, ["n1"], id="named with its value"),
        pytest.param({"includedTaints": [f"{CORDON}=no"]}, [], id="named with another value"),
        pytest.param({"includedTaints": ["other"]}, [], id="another one is named"),
        pytest.param({"excludedTaints": ["other"]}, [], id="excluding one includes no other"),
        pytest.param({"minTaintAge": "0s"}, [], id="an age has nothing to do with it"),
    ],
)
def test_a_taint_of_the_life_cycle_counts_where_it_is_named(args: Object, goes: list[str]) -> None:
    assert moved(drawn(tainted(f"{CORDON}=yes:NoSchedule"), **args)) == goes


# -- young taints ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aged", "args", "goes"),
    [
        pytest.param("9m59s", {}, [], id="too young"),
        pytest.param("10m", {}, ["n1"], id="exactly of age counts"),
        pytest.param("5m", {"minTaintAge": "5m"}, ["n1"], id="an age that is written"),
        pytest.param("1h", {"minTaintAge": "2h"}, [], id="a greater age"),
        pytest.param("0s", {"minTaintAge": "0s"}, ["n1"], id="no age at all"),
        pytest.param("-5m", {}, [], id="added in the future"),
        pytest.param(None, {}, ["n1"], id="of unknown age in a single plan"),
    ],
)
def test_a_taint_counts_once_it_is_of_age(aged: str | None, args: Object, goes: list[str]) -> None:
    assert moved(drawn(tainted(TAINT, aged=aged), **args)) == goes


def test_v1alpha2_asks_for_no_age_and_remembers_nothing() -> None:
    plan = drawn(tainted(TAINT, aged="1s"), version="descheduler/v1alpha2")

    assert moved(plan) == ["n1"]
    assert plan.history == {}


@pytest.mark.parametrize(
    ("args", "ours", "theirs"),
    [
        pytest.param(Args(), "0:10:00", "0:00:00", id="unsaid"),
        pytest.param(Args(min_taint_age="0s"), "0:00:00", "0:00:00", id="none"),
        pytest.param(Args(min_taint_age="1h"), "1:00:00", "1:00:00", id="an hour"),
    ],
)
def test_how_old_a_taint_must_be(args: Args, ours: str, theirs: str) -> None:
    assert [str(min_age(args, semantics)) for semantics in (IMPROVED, PARITY)] == [ours, theirs]


def test_a_young_taint_hides_no_older_one() -> None:
    both = node("n1", taints=["young=1:NoSchedule", "old=1:NoSchedule"])
    both.node["spec"]["taints"][0]["timeAdded"] = before("1m")
    (move,) = drawn(both).moves

    assert "old=1:NoSchedule" in move.reason


# -- from cycle to cycle --------------------------------------------------------------------------


def test_a_taint_that_appears_between_cycles_counts_from_when_it_was_first_met() -> None:
    minute = timedelta(minutes=1)
    first = drawn(tainted(name="n1"), tainted(TAINT, name="n2"))
    second = drawn(
        tainted(TAINT, name="n1"),
        tainted(TAINT, name="n2"),
        later=5 * minute,
        history=first.history,
    )
    third = drawn(
        tainted(TAINT, name="n1"),
        tainted(TAINT, name="n2"),
        later=14 * minute,
        history=second.history,
    )
    fourth = drawn(
        tainted(TAINT, name="n1"),
        tainted(TAINT, name="n2"),
        later=15 * minute,
        history=third.history,
    )

    assert moved(first) == ["n2"], "what the first cycle finds counts as old"
    assert moved(second) == ["n2"]
    assert moved(third) == ["n2"], "nine minutes after it was met"
    assert moved(fourth) == ["n1", "n2"], "ten minutes after it was met"


def test_the_age_in_the_api_wins_over_the_remembered_age() -> None:
    met_just_now = {HISTORY_KEY: {"n1": {TAINT: NOW.isoformat()}}}

    assert moved(drawn(tainted(TAINT), history=met_just_now)) == []
    assert moved(drawn(tainted(TAINT, aged="1h"), history=met_just_now)) == ["n1"]


def test_a_taint_that_is_gone_is_forgotten_and_young_again_when_it_returns() -> None:
    with_it = drawn(tainted(TAINT)).history
    without = drawn(tainted(), history=with_it).history

    assert moved(drawn(tainted(TAINT), history=with_it)) == ["n1"]
    assert moved(drawn(tainted(TAINT), history=without)) == []


def test_a_node_that_was_not_ready_keeps_its_history() -> None:
    def world(ready: bool) -> World:
        held = node("n1", taints=[TAINT], ready=ready).holding(pod("it"))
        return cluster(held, node("n2").holding(pod("copy")), node("n3"))

    def cycle(ready: bool, history: Any) -> Plan:
        return plan(PLUGIN, world(ready), policy=FREELY, api_version=OURS, history=history).plan

    known = cycle(True, None).history

    assert moved(cycle(True, cycle(False, known).history)) == ["n1"]


def test_a_cycle_that_ends_at_its_limit_remembers_all_the_same() -> None:
    nodes = [tainted(TAINT, name=f"n{i}").holding(pod(f"p{i}")) for i in range(3)]
    planned = plan(
        PLUGIN,
        cluster(*nodes, node("free")),
        policy={"maxNoOfPodsToEvictTotal": 0},
        api_version=OURS,
    ).plan

    assert set(planned.history[HISTORY_KEY]) == {"n0", "n1", "n2"}


# -- nothing in silence ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "stop"),
    [
        pytest.param(
            [tainted()],
            ("no-candidate", "no taint of any node is checked by this policy"),
            id="no taint",
        ),
        pytest.param(
            [tainted("a=1:NoExecute")],
            ("no-candidate", "no taint of any node is checked by this policy"),
            id="one that never counts",
        ),
        pytest.param(
            [tainted(f"{CORDON}:NoSchedule", name=f"n{i}") for i in range(2)],
            (
                "taints-ignored",
                "no taint of any node is checked by this policy; ignored: 2 node lifecycle taints",
            ),
            id="of the life cycle",
        ),
        pytest.param(
            [tainted(TAINT, f"{CORDON}:NoSchedule", aged="1m")],
            (
                "taints-ignored",
                "no taint of any node is checked by this policy; "
                "ignored: 1 node lifecycle taints, 1 younger than `minTaintAge`",
            ),
            id="young and of the life cycle",
        ),
        pytest.param(
            [tainted(TAINT), tainted(TAINT, aged="1m", name="n2")], ("", ""), id="one counts"
        ),
    ],
)
def test_where_only_ignored_taints_are_found_the_plugin_says_so(
    nodes: list[NodeBuilder], stop: tuple[str, str]
) -> None:
    assert stopped(drawn(*nodes)) == stop


def test_notes_on_a_node_name_the_taints_that_do_not_count_and_why() -> None:
    notes = drawn(tainted(TAINT, f"{CORDON}:NoSchedule", aged="3m")).notes

    assert [(note.subject, note.code, note.says) for note in notes] == [
        (
            "n1",
            "taint-ignored",
            f"its taint {TAINT} is ignored: it is 3m old, `minTaintAge` is 10m",
        ),
        (
            "n1",
            "taint-ignored",
            f"its taint {CORDON}:NoSchedule is ignored: it is a node lifecycle taint; "
            "name it in `includedTaints` to have it checked",
        ),
    ]


# -- a better place -------------------------------------------------------------------------------


def test_for_a_soft_taint_a_pod_needs_a_node_without_such_a_taint() -> None:
    soft = "quiet=1:PreferNoSchedule"
    here = node("n1", taints=[soft]).holding(pod("it"))
    there = node("n2", taints=[soft]).holding(pod("copy", tolerations=[{"operator": "Exists"}]))

    def asked(*more: NodeBuilder) -> tuple[list[str], dict[str, int]]:
        planned = plan(
            PLUGIN,
            cluster(here, there, *more),
            policy=FREELY,
            api_version=OURS,
            includePreferNoSchedule=True,
        )
        return planned.evicts, planned.refused

    assert asked() == ([], {"no-better-node": 1})
    assert asked(node("n3")) == (["it"], {})


@pytest.mark.parametrize(
    ("age", "places"),
    [
        pytest.param("10m", [], id="a duration"),
        pytest.param("10", ["minTaintAge"], id="a bare number"),
        pytest.param("soon", ["minTaintAge"], id="a word"),
    ],
)
def test_the_age_is_a_duration(age: str, places: list[str]) -> None:
    assert faults(PLUGIN, api_version=OURS, minTaintAge=age) == places
