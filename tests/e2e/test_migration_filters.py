"""Filters, limits of a cycle and budgets where pods move by jobs, and what is recorded of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from resettle.model.migration_job import JOBS_PATH
from tests.e2e.cluster.policies import OURS
from tests.e2e.cluster.service_accounts import run_resettle
from tests.e2e.cluster.workloads import (
    cordon_all_but,
    create_deployment,
    create_stateful_set,
    replace_pod,
    report_restarts,
    uids,
    uncordon_all,
)
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.fixtures import audited, controller_account, descheduler, shipped
from tests.e2e.migration.harness import (
    DIRECTLY,
    RESERVING,
    create_job,
    job_names,
    job_policy,
    job_status,
    start_controller,
    strategy_policy,
    wait_for_end,
    wait_for_ends,
    wait_for_message,
    wait_until_clean,
)
from tests.e2e.processes.run import Account, AuditedUser, Policy, Run, assert_audit_agrees
from tests.e2e.servers.metrics_endpoint import Endpoint
from tools.control_plane.api import Api, Object

__all__ = ["audited", "controller_account", "descheduler", "shipped"]
"""Fixtures."""
WRITES = ("create", "update", "patch", "delete", "deletecollection")
OFTEN = ("--descheduling-interval", "1s")


# -- filters ---------------------------------------------------------------------------------------


def test_only_pods_that_no_filter_refuses_move_and_the_refusal_names_its_filter(
    controller_account: ControllerAccount,
    audited: AuditedUser,
    descheduler: Account,
    api: Api,
    workspace: Workspace,
    second_workspace: Workspace,
    tmp_path: Path,
) -> None:
    for each in (workspace, second_workspace):
        create_deployment(each, "web", 2)
        report_restarts(each, each.list_pods(), times=40)
    label_namespace(api, workspace, moves="yes")
    moved, kept = workspace.list_ready_pods(), second_workspace.list_ready_pods()
    chosen = strategy_policy(
        controller_account.namespace,
        workspace,
        second_workspace,
        evictor={"namespaceLabelSelector": {"matchLabels": {"moves": "yes"}}},
        plugins={"filter": {"MigrationLimits": {"maxMigratingPerNode": 0}}},
    )

    with (
        start_controller(controller_account, tmp_path, chosen) as controller,
        descheduler.run(chosen, *OFTEN, "--v", "2") as run,
    ):
        run.wait_for("move requested", 2)
        wait_for_ends(api, job_names(api), controller)
        by_hand = create_job(api, kept[0])
        status = wait_for_end(api, by_hand, controller)
        assert run.stop() == controller.stop() == 0, run.log_text

    assert {line["uid"] for line in run.lines_of("move requested")} == uids(moved)
    assert sorted(eviction.uid for eviction in audited.evictions()) == sorted(uids(moved))
    assert uids(second_workspace.list_ready_pods()) == uids(kept)
    assert (status["phase"], status["reason"]) == ("Failed", "ForbiddenMigratePod")
    assert status["message"].startswith("DefaultEvictor does not let "), status["message"]
    assert "namespaceLabelSelector" in status["message"]
    assert_audit_agrees(api, audited, controller)


def label_namespace(api: Api, workspace: Workspace, **labels: str) -> None:
    path = f"/api/v1/namespaces/{workspace.name}"
    api.patch(path, {"metadata": {"labels": labels}}).granted()


@pytest.mark.parametrize("command", ["run", "migration-controller"])
@pytest.mark.parametrize(
    ("plugins", "config", "path", "says"),
    [
        pytest.param(
            {"evict": {"enabled": ["MigrationController", "EvictionAPI"]}},
            {},
            "profiles[0].plugins.evict",
            "one",
            id="two movers",
        ),
        pytest.param(
            {
                "evict": {"enabled": ["MigrationController"]},
                "filter": {"enabled": ["MigrationLimits"]},
            },
            {"MigrationLimits": {"skipEvictionGates": ["MaxMigratingPerNode", "MaxMigrating"]}},
            "profiles[0].pluginConfig[0].args.skipEvictionGates[1]",
            "no eviction gate is named `MaxMigrating`",
            id="an unknown gate",
        ),
        pytest.param(
            {
                "evict": {"enabled": ["MigrationController"]},
                "balance": {"enabled": ["MigrationLimits"]},
            },
            {},
            "profiles[0].plugins.balance.enabled[0]",
            "MigrationLimits",
            id="a filter as a strategy",
        ),
        pytest.param(
            {
                "evict": {"enabled": ["MigrationController"]},
                "controller": {"enabled": ["PodLifeTime"]},
            },
            {},
            "profiles[0].plugins.controller.enabled[0]",
            "PodLifeTime",
            id="a strategy as a controller",
        ),
    ],
)
def test_a_policy_with_a_mistake_is_refused_at_load_with_its_place(
    plugins: dict[str, Any],
    config: dict[str, Any],
    path: str,
    says: str,
    command: str,
    shipped: ControllerAccount,
    tmp_path: Path,
) -> None:
    configured = [{"name": name, "args": args} for name, args in config.items()]
    profile = {"name": "main", "pluginConfig": configured, "plugins": plugins}
    code, message = load(command, {"profiles": [profile]}, shipped, tmp_path)

    assert code == 1
    assert path in message, message
    assert says in message, message


def test_a_controller_of_jobs_without_a_mover_is_refused_at_load(
    shipped: ControllerAccount, tmp_path: Path
) -> None:
    profile = {"name": "main", "plugins": {"deschedule": {"enabled": ["RemoveFailedPods"]}}}
    code, message = load("migration-controller", {"profiles": [profile]}, shipped, tmp_path)

    assert code == 1
    assert "no profile has the mover MigrationController" in message
    assert "evict: {enabled: [MigrationController]}" in message


def load(
    command: str, document: Policy, account: ControllerAccount, folder: Path
) -> tuple[int, str]:
    """Exit code and messages of the command with this policy."""
    file = folder / "policy.json"
    file.write_text(json.dumps({"apiVersion": OURS, "kind": "DeschedulerPolicy", **document}))
    words = ("--kubeconfig", str(account.kubeconfig), "--policy", str(file), "--secure-port", "0")
    done = run_resettle(command, *words)
    return done.code, done.err


# -- limits of a cycle, dry runs -------------------------------------------------------------------


def test_limits_of_a_cycle_hold_for_jobs_and_the_next_cycle_continues(
    controller_account: ControllerAccount,
    audited: AuditedUser,
    descheduler: Account,
    api: Api,
    workspace: Workspace,
    second_workspace: Workspace,
    tmp_path: Path,
) -> None:
    cordon_all_but(workspace, *workspace.nodes[:2])
    cordon_all_but(second_workspace, second_workspace.nodes[0])
    create_deployment(workspace, "web", 6)
    create_deployment(second_workspace, "web", 4)
    bad = [*workspace.list_pods(), *second_workspace.list_pods()]
    for each in (workspace, second_workspace):
        report_restarts(each, each.list_pods(), times=40)
        uncordon_all(each)
    limits = {
        "maxNoOfPodsToEvictTotal": 3,
        "maxNoOfPodsToEvictPerNode": 2,
        "maxNoOfPodsToEvictPerNamespace": 2,
    }
    chosen = strategy_policy(controller_account.namespace, workspace, second_workspace, top=limits)

    with (
        start_controller(controller_account, tmp_path, chosen) as controller,
        descheduler.run(chosen, *OFTEN) as run,
    ):
        run.wait_for("move requested", len(bad))
        statuses = wait_for_ends(api, job_names(api), controller)
        run.wait_for_more("cycle done", 2)
        assert run.stop() == controller.stop() == 0, run.log_text

    by_cycle = requests_by_cycle(run)
    assert len(by_cycle[0]) == 3
    assert max(map(len, by_cycle)) == 3
    assert max(most_alike(line["node"] for line in cycle) for cycle in by_cycle) <= 2
    assert max(most_alike(line["pod"].split("/")[0] for line in cycle) for cycle in by_cycle) <= 2
    assert len(statuses) == len(bad), "one job for each pod"
    assert {status["phase"] for status in statuses.values()} == {"Succeeded"}
    assert sorted(eviction.uid for eviction in audited.evictions()) == sorted(uids(bad))
    assert descheduler.eviction_requests() == []
    assert_audit_agrees(api, audited, controller)


def requests_by_cycle(run: Run) -> list[list[Object]]:
    """The moves that each cycle requested."""
    requested: list[list[Object]] = [[]]
    for line in list(run.lines):
        if line["msg"] == "move requested":
            requested[-1].append(line)
        elif line["msg"] == "cycle done":
            requested.append([])
    return requested[:-1]


def most_alike(values: Iterable[str]) -> int:
    return max(Counter(values).values(), default=0)


def test_a_dry_run_writes_nothing_and_leaves_jobs_alone(
    controller_account: ControllerAccount,
    descheduler: Account,
    api: Api,
    workspace: Workspace,
) -> None:
    create_deployment(workspace, "web", 4)
    by_hand, *others = workspace.list_ready_pods()
    report_restarts(workspace, others, times=40)
    names = [create_job(api, by_hand), create_job(api, others[0], mode="EvictDirectly")]
    before = {job["metadata"]["name"]: job for job in api.items(JOBS_PATH)}
    chosen = strategy_policy(controller_account.namespace, workspace)
    chosen["profiles"][0]["plugins"]["controller"] = {"enabled": ["MigrationController"]}

    with descheduler.run(chosen, *OFTEN, "--dry-run") as run:
        run.wait_for("cycle done", 3)
        assert run.stop() == 0, run.log_text

    assert {job["metadata"]["name"]: job for job in api.items(JOBS_PATH)} == before
    assert set(before) == set(names)
    assert uids(workspace.list_ready_pods()) == uids([by_hand, *others])
    assert run.lines_of("controller started") == []
    shown = {line["pod"] for line in run.lines_of("would evict")}
    expected = {f"{workspace.name}/{pod['metadata']['name']}" for pod in others[1:]}
    assert shown == expected, "a pod with a job is not moved twice"
    written = [
        request["requestURI"]
        for request in descheduler.requests()
        if request["verb"] in WRITES and "authorization.k8s.io" not in request["requestURI"]
    ]
    assert written == []


# -- budgets and pods that are replaced ------------------------------------------------------------


def test_a_job_whose_budget_is_spent_fails_after_its_ttl_and_the_pod_lives(
    controller_account: ControllerAccount,
    audited: AuditedUser,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    create_deployment(workspace, "web", 3)
    before = workspace.list_ready_pods()
    workspace.create_budget("web", max_unavailable=0)
    chosen = job_policy(controller_account, **DIRECTLY)

    with start_controller(controller_account, tmp_path, chosen) as controller:
        name = create_job(api, before[0], ttl="6s")
        status = wait_for_end(api, name, controller)
        assert controller.stop() == 0, controller.log_text

    assert (status["phase"], status["reason"]) == ("Failed", "Timeout")
    assert "6s" in status["message"]
    assert "web" in status["message"], "it names the budget"
    assert audited.evictions() == []
    assert {request["responseStatus"]["code"] for request in audited.eviction_requests()} <= {429}
    assert uids(workspace.list_ready_pods()) == uids(before)
    assert controller.evicted == set()


def test_a_job_for_a_uid_leaves_the_next_pod_of_that_name_alone(
    controller_account: ControllerAccount,
    audited: AuditedUser,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    create_stateful_set(workspace, "db", 2)
    old = workspace.list_ready_pods()[0]
    replace_pod(workspace, old)
    pods = uids(workspace.list_ready_pods())
    chosen = job_policy(controller_account, **DIRECTLY)

    with start_controller(controller_account, tmp_path, chosen) as controller:
        reference = {key: old["metadata"][key] for key in ("namespace", "name", "uid")}
        status = wait_for_end(api, create_job(api, old, podRef=reference), controller)
        assert controller.stop() == 0, controller.log_text

    assert (status["phase"], status["reason"]) == ("Failed", "PodReplaced")
    assert "was replaced by another pod of that name" in status["message"]
    assert audited.eviction_requests() == []
    assert uids(workspace.list_ready_pods()) == pods


def test_a_pod_that_is_replaced_while_its_job_is_paused_lives(
    controller_account: ControllerAccount,
    audited: AuditedUser,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    cordon_all_but(workspace, workspace.nodes[0])
    create_stateful_set(workspace, "db", 2)
    old = workspace.list_ready_pods()[0]
    args = {**RESERVING, "defaultJobTTL": "5m"}
    chosen = job_policy(controller_account, evictor={"nodeFit": False}, **args)

    with start_controller(controller_account, tmp_path, chosen) as controller:
        name = create_job(api, old)
        wait_for_message(api, name, "nodes are available")  # the placeholder finds no node
        api.patch(f"{JOBS_PATH}/{name}", {"spec": {"paused": True}}).granted()
        replace_pod(workspace, old)
        pods = uids(workspace.list_ready_pods())
        uncordon_all(workspace)
        assert job_status(api, name)["phase"] == "Running"
        api.patch(f"{JOBS_PATH}/{name}", {"spec": {"paused": False}}).granted()
        status = wait_for_end(api, name, controller)
        wait_until_clean(api, controller_account)
        assert controller.stop() == 0, controller.log_text

    assert (status["phase"], status["reason"]) == ("Failed", "PodReplaced")
    assert audited.eviction_requests() == []
    assert uids(workspace.list_ready_pods()) == pods


# -- events and metrics ----------------------------------------------------------------------------


def test_events_metrics_and_the_audit_log_agree(
    controller_account: ControllerAccount,
    audited: AuditedUser,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    create_deployment(workspace, "web", 4)
    create_deployment(workspace, "single", 1)
    pods = workspace.list_ready_pods()
    web = [pod for pod in pods if pod["metadata"]["labels"]["app"] == "web"]
    (single,) = (pod for pod in pods if pod not in web)
    endpoint = Endpoint(tmp_path)
    chosen = job_policy(
        controller_account,
        plugins={"filter": {"enabled": ["MigrationLimits"]}},
        **{**DIRECTLY, "defaultJobTTL": "5m"},
    )

    with start_controller(controller_account, tmp_path, chosen, *endpoint.flags) as controller:
        names = [create_job(api, pod) for pod in web]
        refused, held = create_job(api, single), create_job(api, single, paused=True)
        statuses = wait_for_ends(api, [*names, refused], controller)
        phases = {status["phase"] for name, status in statuses.items() if name != refused}
        assert phases == {"Succeeded"}

        def figures_agree() -> bool:
            return phase_figures(endpoint) == phases_in_api(api)

        eventually("figures of phases as in the API", figures_agree)
        assert phases_in_api(api) == {"succeeded": 4, "failed": 1, "pending": 1}
        eventually("four evictions counted", lambda: evictions_counted(endpoint) == 4)
        for name in (*names, refused):
            eventually(f"events of {name}", partial(job_events, api, name))
        assert controller.stop() == 0, controller.log_text

    assert job_status(api, held).get("phase") in (None, "Pending")
    assert len(audited.evictions()) == 4
    assert_audit_agrees(api, audited, controller)
    eventually("an event on each pod", lambda: pods_with_event(api, workspace) == uids(web))
    assert {"Accepted", "Evicting", "Complete"} <= set(job_events(api, names[0]))
    assert job_events(api, refused) == ["ForbiddenMigratePod"]


def pods_with_event(api: Api, workspace: Workspace) -> set[str]:
    """The uids of pods with an event about their eviction."""
    return {
        event["regarding"]["uid"]
        for event in api.items(f"/apis/events.k8s.io/v1/namespaces/{workspace.name}/events")
        if event.get("note", "").startswith("pod eviction from ")
    }


def job_events(api: Api, name: str) -> list[str]:
    """The reasons of the events about a job, in order."""
    events = [
        event
        for event in api.items("/apis/events.k8s.io/v1/namespaces/default/events")
        if event["regarding"].get("kind") == "PodMigrationJob"
        and event["regarding"]["name"] == name
    ]
    return [event["reason"] for event in sorted(events, key=lambda event: event["eventTime"])]


def phases_in_api(api: Api) -> dict[str, int]:
    """How many jobs have each phase."""
    phases = Counter(
        (job.get("status") or {}).get("phase", "Pending") for job in api.items(JOBS_PATH)
    )
    return {phase.lower(): count for phase, count in phases.items()}


def phase_figures(endpoint: Endpoint) -> dict[str, int]:
    """How many jobs have each phase, as the metrics say."""
    return {
        reading.labels["figure"].removeprefix("jobs-"): int(reading.value)
        for reading in endpoint.metrics()
        if reading.name == "resettle_controller_figure" and reading.value
    }


def evictions_counted(endpoint: Endpoint) -> float:
    """The evictions that the metrics count."""
    return sum(
        reading.value
        for reading in endpoint.metrics()
        if reading.name == "descheduler_pods_evicted_total"
        and reading.labels["result"] == "success"
    )
