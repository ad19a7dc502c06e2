"""Each strategy, end to end: what is wrong in a cluster is put right, and then left in peace.

A world goes wrong as real ones do: workloads are placed by the scheduler, and nodes change under
them. Whether it is wrong is not for resettle to say (`violations.py` does). Then runs follow one
another until one finds nothing to move.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest

from tests.e2e.cluster.packing_scheduler import packing_scheduler
from tests.e2e.cluster.policies import OURS, UPSTREAM, Args, policy
from tests.e2e.cluster.violation_scenarios import (
    PREFERRED,
    REQUIRED,
    a_preferred_node_joins,
    copies_crowd_a_node,
    nodes_are_left_with_little,
    nodes_are_tainted,
    nodes_lose_a_label,
    nodes_turn_out_to_share_a_rack,
    one_node_takes_all,
    racks_are_added,
    racks_were_closed,
    some_pods_crash,
    some_pods_fail,
    some_pods_restart,
)
from tests.e2e.cluster.violations import (
    Wrongs,
    copies_on_one_node,
    crashing_pods,
    failed_pods,
    hardly_used,
    lopsided,
    pods_off_preferred_nodes,
    pods_off_their_nodes,
    pods_on_tainted_nodes,
    pods_too_near,
    restless_pods,
    uneven,
)
from tests.e2e.cluster.workloads import Arrange, look, uids, until_nothing_moves
from tests.e2e.cluster.workspace import Room
from tests.e2e.processes.run import Account, settled
from tools.control_plane.api import Api
from tools.control_plane.plane import Access


class Case(NamedTuple):
    """A strategy, how its kind of wrong comes about, and how to tell."""

    strategy: str
    args: Args
    arrange: Arrange
    wrongs: Wrongs
    elsewhere: bool = True
    """Whether it is the place that was wrong, so that replacements must have another."""


SHARES = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
CASES = [
    pytest.param(
        Case(
            "PodLifeTime",
            {"maxPodLifeTimeSeconds": 1, "states": ["CrashLoopBackOff"]},
            some_pods_crash,
            crashing_pods,
            elsewhere=False,
        ),
        id="PodLifeTime",
    ),
    pytest.param(
        Case(
            "RemoveFailedPods",
            {"minPodLifetimeSeconds": 0, "reasons": ["Shutdown"]},
            some_pods_fail,
            failed_pods,
            elsewhere=False,
        ),
        id="RemoveFailedPods",
    ),
    pytest.param(
        Case(
            "RemovePodsHavingTooManyRestarts",
            {"podRestartThreshold": 40},
            some_pods_restart,
            restless_pods(40),
            elsewhere=False,
        ),
        id="RemovePodsHavingTooManyRestarts",
    ),
    pytest.param(
        Case("RemovePodsViolatingNodeTaints", {}, nodes_are_tainted, pods_on_tainted_nodes),
        id="RemovePodsViolatingNodeTaints",
    ),
    pytest.param(
        Case(
            "RemovePodsViolatingNodeAffinity",
            {"nodeAffinityType": [REQUIRED]},
            nodes_lose_a_label,
            pods_off_their_nodes,
        ),
        id="RemovePodsViolatingNodeAffinity, required",
    ),
    pytest.param(
        Case(
            "RemovePodsViolatingNodeAffinity",
            {"nodeAffinityType": [PREFERRED]},
            a_preferred_node_joins,
            pods_off_preferred_nodes,
        ),
        id="RemovePodsViolatingNodeAffinity, preferred",
    ),
    pytest.param(
        Case(
            "RemovePodsViolatingInterPodAntiAffinity",
            {},
            nodes_turn_out_to_share_a_rack,
            pods_too_near("rack"),
        ),
        id="RemovePodsViolatingInterPodAntiAffinity",
    ),
    pytest.param(
        Case("RemoveDuplicates", {}, copies_crowd_a_node, copies_on_one_node),
        id="RemoveDuplicates",
    ),
    pytest.param(
        Case(
            "RemovePodsViolatingTopologySpreadConstraint",
            {},
            racks_are_added,
            uneven("rack"),
        ),
        id="RemovePodsViolatingTopologySpreadConstraint, hard",
    ),
    pytest.param(
        Case(
            "RemovePodsViolatingTopologySpreadConstraint",
            {"constraints": ["ScheduleAnyway"]},
            racks_were_closed,
            uneven("rack"),
        ),
        id="RemovePodsViolatingTopologySpreadConstraint, soft",
    ),
    pytest.param(
        Case("LowNodeUtilization", SHARES, one_node_takes_all, lopsided(20, 50)),
        id="LowNodeUtilization",
    ),
]
VERSIONS = [pytest.param(UPSTREAM, id="v1alpha2"), pytest.param(OURS, id="v1")]


@pytest.mark.parametrize("api_version", VERSIONS)
@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_put_right_and_then_left_in_peace(
    case: Case, api_version: str, account: Account, api: Api, room: Room
) -> None:
    put_right(case, api_version, account, api, room)


@pytest.fixture(scope="module")
def packing(plane: Access, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler that fills nodes up, as HighNodeUtilization takes for granted."""
    with packing_scheduler(plane, tmp_path_factory.mktemp("packing")) as name:
        yield name


@pytest.mark.parametrize("api_version", VERSIONS)
def test_nodes_that_are_hardly_used_are_emptied_where_the_scheduler_packs(
    api_version: str, account: Account, api: Api, room: Room, packing: str
) -> None:
    mishap = partial(nodes_are_left_with_little, scheduler=packing)
    case = Case("HighNodeUtilization", {"thresholds": {"cpu": 20}}, mishap, hardly_used(20))

    put_right(case, api_version, account, api, room)

    assert {it["spec"]["nodeName"] for it in room.running()} == {room.nodes[0]}


def put_right(case: Case, api_version: str, account: Account, api: Api, room: Room) -> None:
    """Has the room go wrong, and holds what the strategy promises."""
    case.arrange(room)
    before = look(room)
    assert case.wrongs(before), "the world is not as it should be for this test"

    chosen = policy(api_version, case.strategy, case.args, room)
    runs = until_nothing_moves(account, chosen, room)

    after = look(room)
    assert case.wrongs(after) == []
    assert len(runs) > 1, "nothing was moved"
    assert {line["plugin"] for run in runs for line in run.told("evicted")} == {case.strategy}
    if case.elsewhere:
        left = {line["node"] for run in runs for line in run.told("evicted")}
        new = [it for it in after.pods if it["metadata"]["uid"] not in uids(before.pods)]
        assert new
        assert left.isdisjoint(it["spec"]["nodeName"] for it in new)
    settled(api, account, *runs)
