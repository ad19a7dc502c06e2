"""Requests of a run: the grace period, events, and no writes in a dry run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.cluster.policies import OURS, UPSTREAM, policy
from tests.e2e.cluster.workloads import create_deployment, run_once, uids, wait_until_old
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.run import Account, assert_audit_agrees
from tests.e2e.random_clusters.valid_objects import FINALIZER
from tools.control_plane.api import Api, Object

TOO_OLD = {"maxPodLifeTimeSeconds": 1}
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
VERSIONS = [pytest.param(UPSTREAM, id="v1alpha2"), pytest.param(OURS, id="v1")]


@pytest.mark.parametrize(
    ("grace", "seen"),
    [
        pytest.param({}, 30, id="of the pod, by default"),
        pytest.param({"gracePeriodSeconds": 7}, 7, id="of the policy"),
        pytest.param({"gracePeriodSeconds": 0}, 0, id="zero"),
    ],
)
def test_pods_have_the_grace_period_of_the_policy(
    grace: dict[str, int], seen: int, account: Account, api: Api, workspace: Workspace
) -> None:
    create_deployment(workspace, "web", 2)
    before = workspace.list_pods()
    wait_until_old(workspace)

    with pods_kept_by_finalizers(workspace, before):
        run = run_once(account, policy(UPSTREAM, "PodLifeTime", TOO_OLD, workspace, top=grace))
        leaving = [
            pod["metadata"]
            for pod in workspace.list_pods()
            if "deletionTimestamp" in pod["metadata"]
        ]

    assert {meta["uid"] for meta in leaving} == run.evicted == uids(before)
    assert {meta["deletionGracePeriodSeconds"] for meta in leaving} == {seen}
    assert_audit_agrees(api, account, run)


@contextmanager
def pods_kept_by_finalizers(workspace: Workspace, pods: list[Object]) -> Iterator[None]:
    """Keeps deleted pods visible with finalizers while the block lasts."""
    paths = [f"{workspace.pods_path}/{pod['metadata']['name']}" for pod in pods]
    try:
        for path in paths:
            workspace.api.patch(path, {"metadata": {"finalizers": [FINALIZER]}}).granted()
        yield
    finally:
        for path in paths:
            workspace.api.patch(path, {"metadata": {"finalizers": None}})


@contextmanager
def evictions_denied(api: Api, workspace: Workspace) -> Iterator[None]:
    """Denies every eviction in the workspace while the block lasts."""
    operation = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    rule = {**operation, "resources": ["pods/eviction"]}
    in_workspace = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": workspace.name}}
    }
    denial = {
        "matchConstraints": {"resourceRules": [rule], **in_workspace},
        "validations": [{"expression": "false", "message": "no evictions today"}],
    }
    kinds = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    binding = {"policyName": workspace.name, "validationActions": ["Deny"]}
    try:
        for kind, spec in zip(kinds, (denial, binding), strict=True):
            made = {"metadata": {"name": workspace.name}, "spec": spec}
            api.post(f"{ADMISSION}/{kind}", made).granted()
        eventually("evictions denied", lambda: not _would_evict(api, workspace))
        yield
    finally:
        for kind in kinds:
            api.delete(f"{ADMISSION}/{kind}/{workspace.name}")


def _would_evict(api: Api, workspace: Workspace) -> bool:
    name = workspace.list_pods()[0]["metadata"]["name"]
    meta = {"metadata": {"name": name}, "deleteOptions": {"dryRun": ["All"]}}
    kind = {"apiVersion": "policy/v1", "kind": "Eviction"}
    return api.post(f"{workspace.pods_path}/{name}/eviction", {**kind, **meta}).fine


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(
            {"evictionFailureEventNotification": True}, True, id="if the policy wants them"
        ),
        pytest.param({}, False, id="not otherwise"),
    ],
)
@pytest.mark.parametrize("api_version", VERSIONS)
def test_refused_evictions_are_reported_as_events(
    wanted: dict[str, bool],
    expected: bool,
    api_version: str,
    account: Account,
    api: Api,
    workspace: Workspace,
) -> None:
    create_deployment(workspace, "web", 3)
    before = uids(workspace.list_pods())
    wait_until_old(workspace)

    with evictions_denied(api, workspace):
        run = run_once(account, policy(api_version, "PodLifeTime", TOO_OLD, workspace, top=wanted))

    assert run.evicted == set()
    assert uids(workspace.list_pods()) == before
    events = api.items(f"/apis/events.k8s.io/v1/namespaces/{workspace.name}/events")
    ours = [
        event for event in events if event.get("reportingController") == "sigs.k8s.io.descheduler"
    ]
    assert {event["regarding"]["uid"] for event in ours} == (before if expected else set())
    assert all((event["type"], event["reason"]) == ("Warning", "EvictionFailed") for event in ours)
    assert all("no evictions today" in event["note"] for event in ours)
    assert_audit_agrees(api, account, run)


@pytest.mark.parametrize("api_version", VERSIONS)
def test_a_dry_run_writes_nothing_cycle_after_cycle(
    api_version: str, account: Account, api: Api, workspace: Workspace
) -> None:
    create_deployment(workspace, "web", 3)
    before = uids(workspace.list_pods())
    wait_until_old(workspace)
    every_second = ("--dry-run", "--descheduling-interval", "1s")

    with account.run(policy(api_version, "PodLifeTime", TOO_OLD, workspace), *every_second) as run:
        run.wait_for("cycle done", 3)
        assert run.stop() == 0, run.log_text

    would_evict = {line["pod"] for line in run.lines_of("would evict")}
    assert would_evict <= {
        f"{workspace.name}/{pod['metadata']['name']}" for pod in workspace.list_pods()
    }
    assert len(run.lines_of("would evict")) >= 2 * len(would_evict) > 0
    assert uids(workspace.list_pods()) == before
    requests = {
        (request["verb"], request["objectRef"]["resource"]) for request in account.requests()
    }
    own_review = ("create", "selfsubjectaccessreviews")
    assert {verb for verb, _ in requests - {own_review}} == {"list", "watch"}
    assert_audit_agrees(api, account, run)
