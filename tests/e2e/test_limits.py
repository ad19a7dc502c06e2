"""Limits, percentages and budgets hold in each cycle, and the next cycle continues."""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import Any

import pytest

from tests.e2e.cluster.policies import OURS, UPSTREAM, policy
from tests.e2e.cluster.workloads import (
    NO_BACKGROUND_EVICTIONS,
    cordon_all_but,
    create_deployment,
    report_restarts,
    uids,
    uncordon_all,
)
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.run import Account, Run, assert_audit_agrees
from tools.control_plane.api import Api

STRATEGY, ARGS = "RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 40}
"""Replacements have not restarted yet, so each pod is evicted once."""
SHORT_INTERVAL = ("--descheduling-interval", "500ms", *NO_BACKGROUND_EVICTIONS)
TOTAL, NODE = "maxNoOfPodsToEvictTotal", "maxNoOfPodsToEvictPerNode"
NAMESPACE = "maxNoOfPodsToEvictPerNamespace"
VERSIONS = [pytest.param(UPSTREAM, id="v1alpha2"), pytest.param(OURS, id="v1")]
Line = dict[str, Any]


def cycles(run: Run) -> list[list[Line]]:
    """The evictions of each finished cycle."""
    evicted: list[list[Line]] = [[]]
    for line in list(run.lines):
        if line["msg"] == "evicted":
            evicted[-1].append(line)
        elif line["msg"] == "cycle done":
            evicted.append([])
    return evicted[:-1]


def evictions_by_cycle(run: Run, moves: int) -> list[list[Line]]:
    """Waits for so many evictions and two cycles without; returns the evictions of each cycle."""
    run.wait_for("evicted", moves)
    run.wait_for_more("cycle done", 3)
    assert run.stop() == 0, run.log_text
    by_cycle = cycles(run)
    assert by_cycle[-2:] == [[], []], "no evictions after that"
    return by_cycle


def most_alike(evictions: list[Line], fact: str) -> int:
    """The largest number of evictions with the same value of this fact."""
    return max(Counter(line[fact] for line in evictions).values(), default=0)


def with_namespace(evictions: list[Line]) -> list[Line]:
    return [{"namespace": line["pod"].partition("/")[0]} for line in evictions]


@pytest.mark.parametrize("api_version", VERSIONS)
@pytest.mark.parametrize(
    ("limits", "at_first"),
    [
        pytest.param({TOTAL: 3}, 3, id="three in all"),
        pytest.param({NODE: 2}, 6, id="two of each of three nodes"),
        pytest.param({NAMESPACE: 2}, 4, id="two of each of two namespaces"),
        pytest.param({TOTAL: 3, NODE: 2, NAMESPACE: 2}, 3, id="all of these together"),
    ],
)
def test_limits_hold_in_a_cycle_and_the_next_continues(
    limits: dict[str, int],
    at_first: int,
    api_version: str,
    account: Account,
    api: Api,
    workspace: Workspace,
    second_workspace: Workspace,
) -> None:
    cordon_all_but(workspace, *workspace.nodes[:2])
    cordon_all_but(second_workspace, second_workspace.nodes[0])
    create_deployment(workspace, "web", 6)
    create_deployment(second_workspace, "web", 4)
    bad = [*workspace.list_pods(), *second_workspace.list_pods()]
    for each in (workspace, second_workspace):
        report_restarts(each, each.list_pods(), times=40)
        uncordon_all(each)
    chosen = policy(api_version, STRATEGY, ARGS, workspace, second_workspace, top=limits)

    with account.run(chosen, *SHORT_INTERVAL) as run:
        by_cycle = evictions_by_cycle(run, len(bad))

    assert len(by_cycle[0]) == at_first
    assert max(map(len, by_cycle)) <= limits.get(TOTAL, 10)
    assert max(most_alike(cycle, "node") for cycle in by_cycle) <= limits.get(NODE, 10)
    assert max(most_alike(with_namespace(cycle), "namespace") for cycle in by_cycle) <= limits.get(
        NAMESPACE, 10
    )
    assert run.evicted == uids(bad)
    assert_audit_agrees(api, account, run)


def test_a_cycle_evicts_from_a_percentage_of_the_nodes(
    account: Account, api: Api, workspace: Workspace
) -> None:
    create_deployment(workspace, "web", 12)
    report_restarts(workspace, workspace.list_pods(), times=40)
    bad = workspace.list_pods()
    assert {pod["spec"]["nodeName"] for pod in bad} == set(workspace.nodes)
    chosen = policy(OURS, STRATEGY, ARGS, workspace, top={"maxPercentOfNodesToEvictFrom": 33})

    with account.run(chosen, *SHORT_INTERVAL) as run:
        by_cycle = evictions_by_cycle(run, len(bad))

    node_counts = [len({line["node"] for line in cycle}) for cycle in by_cycle]
    assert node_counts[0] == max(node_counts) == 2, "a third of six nodes"
    assert run.evicted == uids(bad)
    assert_audit_agrees(api, account, run)


def test_a_cycle_evicts_a_percentage_of_all_pods(
    account: Account, api: Api, workspace: Workspace
) -> None:
    create_deployment(workspace, "web", 12)
    report_restarts(workspace, workspace.list_pods(), times=40)
    bad = workspace.list_pods()
    # Pods of other tests count as well, so the limit is calculated from what each cycle saw.
    percent = 100 * 3 / len(api.items("/api/v1/pods"))
    chosen = policy(OURS, STRATEGY, ARGS, workspace, top={"maxPercentOfPodsToEvict": percent})

    with account.run(chosen, *SHORT_INTERVAL) as run:
        by_cycle = evictions_by_cycle(run, len(bad))

    seen = [line["pods"] for line in run.lines_of("cycle done")]
    allowed = [max(1, ceil(percent * pods / 100 - 1e-9)) for pods in seen]
    assert len(by_cycle[0]) == min(allowed[0], 11)
    assert all(len(cycle) <= most for cycle, most in zip(by_cycle, allowed, strict=True))
    assert run.evicted == uids(bad)
    assert_audit_agrees(api, account, run)


@pytest.mark.parametrize("api_version", VERSIONS)
def test_a_budget_is_never_exceeded(
    api_version: str, account: Account, api: Api, workspace: Workspace
) -> None:
    create_deployment(workspace, "web", 6)
    report_restarts(workspace, workspace.list_pods(), times=40)
    bad = workspace.list_pods()
    workspace.create_budget("web", max_unavailable=2)

    with account.run(policy(api_version, STRATEGY, ARGS, workspace), *SHORT_INTERVAL) as run:
        by_cycle = evictions_by_cycle(run, len(bad))

    assert len(by_cycle[0]) == max(map(len, by_cycle)) == 2
    assert run.lines_of("cycle done")[0]["refusals"]["budget"] == 4
    assert run.evicted == uids(bad)
    assert_audit_agrees(api, account, run)


def test_a_used_up_budget_stops_evictions_until_replacements_are_ready(
    account: Account, api: Api, workspace: Workspace
) -> None:
    create_deployment(workspace, "web", 6)
    report_restarts(workspace, workspace.list_pods(), times=40)
    bad = workspace.list_pods()
    workspace.create_budget("web", max_unavailable=2)
    workspace.cordon()

    with account.run(policy(UPSTREAM, STRATEGY, ARGS, workspace), *SHORT_INTERVAL) as run:
        run.wait_for("evicted", 2)
        run.wait_for_more("cycle done", 3)
        assert len(run.evicted) == len(account.evictions()) == 2
        assert len(workspace.list_ready_pods()) == 4

        uncordon_all(workspace)
        evictions_by_cycle(run, len(bad))

    eventually("replacements", lambda: len(workspace.list_ready_pods()) == 6)
    assert run.evicted == uids(bad)
    assert_audit_agrees(api, account, run)
