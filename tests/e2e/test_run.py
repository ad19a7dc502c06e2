"""`resettle run` on a real control plane: a single cycle, and a dry run."""

from __future__ import annotations

from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.command import life_time_policy
from tests.e2e.processes.run import Account, assert_audit_agrees
from tools.control_plane.api import Api


def old_pods_policy(workspace: Workspace, seconds: int = 1, **more: object) -> dict[str, object]:
    """A policy by which pods of the workspace are too old after this time."""
    policy = life_time_policy("descheduler/v1alpha2", workspace.name, **more)
    policy["profiles"][0]["pluginConfig"][0]["args"]["maxPodLifeTimeSeconds"] = seconds
    return policy


def wait_until_old(workspace: Workspace) -> None:
    """Waits until the pods of the workspace are older than the policy allows."""
    eventually("old pods", lambda: _seconds_old(workspace) > 2)


def test_one_cycle_evicts_the_old_pods_and_ends(
    account: Account, api: Api, workspace: Workspace
) -> None:
    workspace.deploy("web", replicas=6)
    before = {pod["metadata"]["uid"] for pod in workspace.list_pods()}
    wait_until_old(workspace)

    with account.run(old_pods_policy(workspace)) as run:
        assert run.wait_for_exit() == 0, run.log_text

    assert run.evicted == before
    assert_audit_agrees(api, account, run)
    events = api.items(f"/apis/events.k8s.io/v1/namespaces/{workspace.name}/events")
    our_events = [
        event for event in events if event.get("reportingController") == "sigs.k8s.io.descheduler"
    ]
    assert {event["regarding"]["uid"] for event in our_events} == before
    assert {(event["type"], event["reason"], event["action"]) for event in our_events} == {
        ("Normal", "PodLifeTime", "Descheduled")
    }
    eventually("replacements", lambda: len(workspace.list_ready_pods()) == 6)


def test_a_dry_run_logs_evictions_and_does_nothing(
    account: Account, api: Api, workspace: Workspace
) -> None:
    workspace.deploy("web", replicas=6)
    wait_until_old(workspace)

    with account.run(old_pods_policy(workspace), "--dry-run") as run:
        assert run.wait_for_exit() == 0, run.log_text

    assert len(run.lines_of("would evict")) == 6
    writes = [request for request in account.requests() if request["verb"] not in ("list", "watch")]
    assert {request["objectRef"]["resource"] for request in writes} <= {"selfsubjectaccessreviews"}


def _seconds_old(workspace: Workspace) -> float:
    from datetime import UTC, datetime

    created = [
        datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
        for pod in workspace.list_pods()
    ]
    return min(
        ((datetime.now(UTC) - created_at).total_seconds() for created_at in created), default=0.0
    )
