"""Each strategy, end to end: violations in a cluster are corrected, and then nothing moves.

Violations come about as in real clusters: workloads are placed by the scheduler, and then nodes
change. They are found without resettle (`violations.py`). Then resettle runs until a run finds
nothing to move.
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
    add_preferred_nodes,
    add_racks,
    crash_some_pods,
    fail_some_pods,
    fill_one_node,
    leave_nodes_underused,
    place_pods_in_one_rack,
    put_duplicates_on_one_node,
    put_nodes_in_one_rack,
    remove_node_labels,
    restart_some_pods,
    taint_two_nodes,
)
from tests.e2e.cluster.violations import (
    FindViolations,
    crashing_pods,
    duplicate_pods,
    failed_pods,
    pods_off_preferred_nodes,
    pods_on_tainted_nodes,
    pods_sharing,
    pods_violating_affinity,
    pods_with_restarts,
    unbalanced_nodes,
    underused_nodes,
    uneven_spread,
)
from tests.e2e.cluster.workloads import SetUp, read_cluster, run_until_nothing_moves, uids
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.processes.run import Account, assert_audit_agrees
from tools.control_plane.api import Api
from tools.control_plane.plane import Access


class Case(NamedTuple):
    """A strategy, a function that causes its violation, and one that finds it."""

    strategy: str
    args: Args
    set_up: SetUp
    find_violations: FindViolations
    elsewhere: bool = True
    """Whether replacements must be on other nodes."""


SHARES = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
CASES = [
    pytest.param(
        Case(
            "PodLifeTime",
            {"maxPodLifeTimeSeconds": 1, "states": ["CrashLoopBackOff"]},
            crash_some_pods,
            crashing_pods,
            elsewhere=False,
        ),
        id="PodLifeTime",
    ),
    pytest.param(
        Case(
            "RemoveFailedPods",
            {"minPodLifetimeSeconds": 0, "reasons": ["Shutdown"]},
            fail_some_pods,
            failed_pods,
            elsewhere=False,
        ),
        id="RemoveFailedPods",
    ),
    pytest.param(
        Case(
            "RemovePodsHavingTooManyRestarts",
            {"podRestartThreshold": 40},
            restart_some_pods,
            pods_with_restarts(40),
            elsewhere=False,
        ),
        id="RemovePodsHavingTooManyRestarts",
    ),
    pytest.param(
        Case("RemovePodsViolatingNodeTaints", {}, taint_two_nodes, pods_on_tainted_nodes),
        id="RemovePodsViolatingNodeTaints",
    ),
    pytest.param(
        Case(
            "RemovePodsViolatingNodeAffinity",
            {"nodeAffinityType": [REQUIRED]},
            remove_node_labels,
            pods_violating_affinity,
        ),
        id="RemovePodsViolatingNodeAffinity, required",
    ),
    pytest.param(
        Case(
            "RemovePodsViolatingNodeAffinity",
            {"nodeAffinityType": [PREFERRED]},
            add_preferred_nodes,
            pods_off_preferred_nodes,
        ),
        id="RemovePodsViolatingNodeAffinity, preferred",
    ),
    pytest.param(
        Case(
            "RemovePodsViolatingInterPodAntiAffinity",
            {},
            put_nodes_in_one_rack,
            pods_sharing("rack"),
        ),
        id="RemovePodsViolatingInterPodAntiAffinity",
    ),
    pytest.param(
        Case("RemoveDuplicates", {}, put_duplicates_on_one_node, duplicate_pods),
        id="RemoveDuplicates",
    ),
    pytest.param(
        Case(
            "RemovePodsViolatingTopologySpreadConstraint",
            {},
            add_racks,
            uneven_spread("rack"),
        ),
        id="RemovePodsViolatingTopologySpreadConstraint, hard",
    ),
    pytest.param(
        Case(
            "RemovePodsViolatingTopologySpreadConstraint",
            {"constraints": ["ScheduleAnyway"]},
            place_pods_in_one_rack,
            uneven_spread("rack"),
        ),
        id="RemovePodsViolatingTopologySpreadConstraint, soft",
    ),
    pytest.param(
        Case("LowNodeUtilization", SHARES, fill_one_node, unbalanced_nodes(20, 50)),
        id="LowNodeUtilization",
    ),
]
VERSIONS = [pytest.param(UPSTREAM, id="v1alpha2"), pytest.param(OURS, id="v1")]


@pytest.mark.parametrize("api_version", VERSIONS)
@pytest.mark.parametrize("case", CASES)
def test_violations_are_corrected_and_then_nothing_moves(
    case: Case, api_version: str, account: Account, api: Api, workspace: Workspace
) -> None:
    assert_corrected(case, api_version, account, api, workspace)


@pytest.fixture(scope="module")
def packing(plane: Access, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler that packs, which HighNodeUtilization relies on."""
    with packing_scheduler(plane, tmp_path_factory.mktemp("packing")) as name:
        yield name


@pytest.mark.parametrize("api_version", VERSIONS)
def test_underused_nodes_are_drained_if_the_scheduler_packs(
    api_version: str, account: Account, api: Api, workspace: Workspace, packing: str
) -> None:
    set_up = partial(leave_nodes_underused, scheduler=packing)
    case = Case("HighNodeUtilization", {"thresholds": {"cpu": 20}}, set_up, underused_nodes(20))

    assert_corrected(case, api_version, account, api, workspace)

    assert {pod["spec"]["nodeName"] for pod in workspace.list_pods()} == {workspace.nodes[0]}


def assert_corrected(
    case: Case, api_version: str, account: Account, api: Api, workspace: Workspace
) -> None:
    """Causes the violation, and asserts that the strategy corrects it."""
    case.set_up(workspace)
    before = read_cluster(workspace)
    assert case.find_violations(before), "there is no violation to correct"

    chosen = policy(api_version, case.strategy, case.args, workspace)
    runs = run_until_nothing_moves(account, chosen, workspace)

    after = read_cluster(workspace)
    assert case.find_violations(after) == []
    assert len(runs) > 1, "nothing was moved"
    assert {line["plugin"] for run in runs for line in run.lines_of("evicted")} == {case.strategy}
    if case.elsewhere:
        left = {line["node"] for run in runs for line in run.lines_of("evicted")}
        new = [pod for pod in after.pods if pod["metadata"]["uid"] not in uids(before.pods)]
        assert new
        assert left.isdisjoint(pod["spec"]["nodeName"] for pod in new)
    assert_audit_agrees(api, account, *runs)
