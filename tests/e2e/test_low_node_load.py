"""LowNodeLoad on a real control plane: when nothing moves, how much capacity is filled, and pools.

Nodes that are neither hot nor idle have pods that request about what is used there, so that the
scheduler prefers the idle nodes too; the planner refuses a move to any other node.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from resettle.plugins.node_utilization.upstream import NO_UNDERUTILIZED, NONE_OVER, too_few_under
from tests.e2e.cluster.hot_nodes import (
    SHORT_INTERVAL,
    low_node_load_policy,
    place_pods_on_first_node,
    policy,
    wait_for_cycles,
)
from tests.e2e.cluster.workloads import cordon_all_but, create_deployment, label, uncordon_all
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.processes.run import Account, Run, assert_audit_agrees
from tests.e2e.servers.metrics_api import RULES_WITH_METRICS, UsageMetrics
from tests.e2e.soft_taints.builders import fill_node
from tools.control_plane.api import Api, Object
from tools.control_plane.plane import Access

VERBOSE = (*SHORT_INTERVAL, "-v", "1")
EXPIRED = timedelta(minutes=10)
"""Older than metrics may be, however long the test takes."""
WITHIN = "2"
"""A quarter of a node: neither hot nor idle."""


@pytest.fixture
def account(plane: Access, api: Api, tmp_path: Path) -> Iterator[Account]:
    """A ServiceAccount that may also read the metrics API."""
    with Account(plane, api, tmp_path, RULES_WITH_METRICS) as made:
        yield made


@pytest.fixture
def figures(workspace: Workspace) -> Iterator[UsageMetrics]:
    with UsageMetrics(workspace) as made:
        yield made


# -- when nothing moves --------------------------------------------------------------------------


class LoadTest(NamedTuple):
    """A workspace whose first node has pods that each use a quarter of it."""

    workspace: Workspace
    figures: UsageMetrics

    @property
    def hot(self) -> str:
        return self.workspace.nodes[0]

    @property
    def idle(self) -> str:
        return self.workspace.nodes[1]

    def set_schedulable(self, node: str, schedulable: bool) -> None:
        path = f"/api/v1/nodes/{node}"
        self.workspace.api.patch(path, {"spec": {"unschedulable": not schedulable}}).granted()


SetLoads = Callable[[LoadTest], None]


def request_a_quarter(workspace: Workspace, *nodes: str) -> None:
    for name in nodes:
        fill_node(workspace, name, 25)


def make_one_hot(test: LoadTest) -> None:
    test.figures.nodes(n0="6")


def make_one_hot_one_idle(test: LoadTest) -> None:
    test.figures.nodes(n0="6", n1="100m", others=WITHIN)


def make_none_idle(test: LoadTest) -> None:
    test.figures.nodes(n0="6", others=WITHIN)


def make_all_idle(test: LoadTest) -> None:
    test.figures.nodes()


def expire_the_hot_one(test: LoadTest) -> None:
    make_one_hot(test)
    test.figures.set_age(test.hot, EXPIRED)


def expire_the_idle_one(test: LoadTest) -> None:
    make_one_hot_one_idle(test)
    test.figures.set_age(test.idle, EXPIRED)


def cordon_the_idle_one(test: LoadTest) -> None:
    test.set_schedulable(test.idle, schedulable=False)
    make_one_hot_one_idle(test)


def uncordon_the_idle_one(test: LoadTest) -> None:
    test.set_schedulable(test.idle, schedulable=True)


@pytest.mark.parametrize(
    ("before", "says", "after"),
    [
        pytest.param(make_none_idle, NO_UNDERUTILIZED, make_one_hot_one_idle, id="no idle node"),
        pytest.param(make_all_idle, NONE_OVER, make_one_hot, id="all nodes idle"),
        pytest.param(expire_the_hot_one, NONE_OVER, make_one_hot, id="old metrics of the hot node"),
        pytest.param(
            expire_the_idle_one,
            NO_UNDERUTILIZED,
            make_one_hot_one_idle,
            id="old metrics of the idle node",
        ),
        pytest.param(
            cordon_the_idle_one,
            NO_UNDERUTILIZED,
            uncordon_the_idle_one,
            id="the idle node is cordoned",
        ),
    ],
)
def test_nothing_moves_until_a_node_is_hot_and_another_idle(
    before: SetLoads,
    says: Any,
    after: SetLoads,
    figures: UsageMetrics,
    account: Account,
    workspace: Workspace,
    api: Api,
) -> None:
    test = LoadTest(workspace, figures)
    place_pods_on_first_node(workspace)
    request_a_quarter(workspace, *workspace.nodes[2:])
    figures.pods("2")
    before(test)
    with account.run(low_node_load_policy(workspace), *VERBOSE) as run:
        run.wait_for("plugin done", 2, stopped=says.says)
        assert account.eviction_requests() == []
        assert {line["stopped"] for line in run.lines_of("plugin done")} == {says.says}

        after(test)
        (evicted,) = run.wait_for("evicted")
        assert evicted["node"] == test.hot
        assert run.stop() == 0
    assert_audit_agrees(api, account, run)


def test_more_nodes_must_be_idle_than_the_policy_says(
    figures: UsageMetrics, account: Account, workspace: Workspace, api: Api
) -> None:
    place_pods_on_first_node(workspace)
    figures.pods("2")
    figures.nodes(n0="6")
    with account.run(low_node_load_policy(workspace, numberOfNodes=5), *VERBOSE) as run:
        run.wait_for("plugin done", 2, stopped=too_few_under(5, 5).says)
        assert account.eviction_requests() == []

        run.policy.write_text(json.dumps(low_node_load_policy(workspace, numberOfNodes=4)))
        run.wait_for("evicted")
        assert run.stop() == 0
    assert_audit_agrees(api, account, run)


def test_a_node_without_recent_metrics_takes_no_pods(
    figures: UsageMetrics, account: Account, workspace: Workspace, api: Api
) -> None:
    """The idle node with recent metrics has too little capacity; the other has enough."""
    place_pods_on_first_node(workspace)
    request_a_quarter(workspace, *workspace.nodes[3:])
    figures.pods("4")
    figures.nodes(n0="6", n1="100m", n2="1500m", others=WITHIN)
    figures.set_age(workspace.nodes[1], EXPIRED)
    with account.run(low_node_load_policy(workspace), *SHORT_INTERVAL) as run:
        wait_for_cycles(run, 3)
        assert account.eviction_requests() == []

        figures.nodes(n0="6", n1="100m", n2="1500m", others=WITHIN)
        run.wait_for("evicted")
        assert run.stop() == 0
    assert_audit_agrees(api, account, run)


# -- how much capacity is filled -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("idle", "moves"),
    [
        pytest.param("1500m", 1, id="for one pod"),
        pytest.param("100m", 2, id="for two"),
    ],
)
def test_as_many_pods_leave_hot_nodes_as_fit_on_the_idle_one(
    idle: str, moves: int, figures: UsageMetrics, account: Account, workspace: Workspace, api: Api
) -> None:
    """The idle node may be filled up to 4.8 cpu, and a pod uses 2."""
    for name, app in zip(workspace.nodes, ("left", "right"), strict=False):
        cordon_all_but(workspace, name)
        create_deployment(workspace, app, 2)
    uncordon_all(workspace)
    request_a_quarter(workspace, *workspace.nodes[:2], *workspace.nodes[3:])
    figures.pods("2")
    figures.nodes(n0="6", n1="6", n2=idle, others=WITHIN)
    resting = {"consecutiveAbnormalities": 1, "consecutiveNormalities": 1, "cooldown": "10m"}
    document = policy(
        workspace,
        "LowNodeLoad",
        lowThresholds={"cpu": 20},
        highThresholds={"cpu": 60},
        anomalyCondition=resting,
    )
    with account.run(document, *SHORT_INTERVAL) as run:
        run.wait_for("evicted", moves)
        wait_for_cycles(run, 3)
        assert run.stop() == 0

    assert len(run.lines_of("evicted")) == moves
    assert len({line["node"] for line in run.lines_of("evicted")}) == moves, "one from each"
    assert_audit_agrees(api, account, run)


# -- pools with their own mean -------------------------------------------------------------------

TEN_OFF: Object = {
    "useDeviationThresholds": True,
    "lowThresholds": {"cpu": 10},
    "highThresholds": {"cpu": 10},
    "anomalyCondition": {"consecutiveAbnormalities": 1, "cooldown": "10m"},
}


def pool(name: str) -> Object:
    return {"name": name, "nodeSelector": {"matchLabels": {name: "yes"}}, **TEN_OFF}


def create_two_pools(workspace: Workspace, figures: UsageMetrics, *, apart: bool) -> None:
    """Creates three busy nodes and three less busy ones; the first of each is the busiest.

    The busy ones are at 90, 20 and 20%, the others at 39, 5 and 5%. With `apart` their pods may
    run only on nodes of the same pool.
    """
    busy, quiet = workspace.nodes[:3], workspace.nodes[3:]
    for name in busy:
        label(workspace, name, busy="yes")
    for name in quiet:
        label(workspace, name, quiet="yes")
    for name, app, pool_label in ((busy[0], "large", "busy"), (quiet[0], "small", "quiet")):
        chosen = {"workspace": workspace.name, **({pool_label: "yes"} if apart else {})}
        cordon_all_but(workspace, name)
        create_deployment(workspace, app, 3, nodeSelector=chosen)
    uncordon_all(workspace)
    use = {"large": "1600m", "small": "1200m"}
    figures.pods(
        {
            pod["metadata"]["name"]: use[pod["metadata"]["labels"]["app"]]
            for pod in workspace.list_pods()
        }
    )
    figures.nodes(n0="7200m", n1="1600m", n2="1600m", n3="3100m", n4="400m", n5="400m")


def run_until_relieved(account: Account, document: Object) -> Run:
    """Runs until pods were evicted and three cycles more are done."""
    with account.run(document, *SHORT_INTERVAL) as run:
        run.wait_for("evicted")
        wait_for_cycles(run, 3)
        assert run.stop() == 0
    return run


@pytest.mark.parametrize("in_both", [False, True], ids=["each in one pool", "one in both"])
def test_each_pool_uses_its_own_mean_and_a_node_is_in_the_first_that_matches(
    in_both: bool, figures: UsageMetrics, account: Account, workspace: Workspace, api: Api
) -> None:
    """Means of 43 and 16%; with the busiest node in the second pool its mean would be 35%."""
    hottest, _, _, warmest, *_ = workspace.nodes
    create_two_pools(workspace, figures, apart=True)
    if in_both:
        label(workspace, hottest, quiet="yes")

    pools = [pool("busy"), pool("quiet")]
    run = run_until_relieved(account, policy(workspace, "LowNodeLoad", nodePools=pools))

    assert Counter(line["reason"] for line in run.lines_of("evicted")) == {
        f"{hottest} is at 90% cpu in use (target 53%)": 1,
        f"{hottest} is at 70% cpu in use (target 53%)": 1,
        f"{warmest} is at 39% cpu in use (target 26%)": 1,
    }
    assert_audit_agrees(api, account, run)


def test_a_single_pool_uses_the_mean_of_all_nodes(
    figures: UsageMetrics, account: Account, workspace: Workspace, api: Api
) -> None:
    """The mean is 30%, so 39% is not over the threshold."""
    create_two_pools(workspace, figures, apart=False)
    request_a_quarter(workspace, *workspace.nodes[1:4])

    run = run_until_relieved(account, policy(workspace, "LowNodeLoad", **TEN_OFF))

    targets = {line["reason"].partition("(")[2] for line in run.lines_of("evicted")}
    assert targets == {"target 40%)"}
    assert {line["node"] for line in run.lines_of("evicted")} == {workspace.nodes[0]}
    assert_audit_agrees(api, account, run)
