"""DefaultEvictor on real objects: pods stay while protected, and are evicted without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.e2e.cluster.policies import OURS, UPSTREAM, Args, policy
from tests.e2e.cluster.protected_pods import IMPORTANT, protected_pods, report_start_times
from tests.e2e.cluster.workloads import create_deployment, run_once, wait_until_old
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.processes.run import Account, assert_audit_agrees
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

TOO_OLD = {"maxPodLifeTimeSeconds": 1}
STRICT: Args = {
    "podProtections": {"extraEnabled": ["PodsWithPVC"]},
    "labelSelector": {"matchExpressions": [{"key": "stays", "operator": "DoesNotExist"}]},
    "priorityThreshold": {"value": IMPORTANT},
    "noEvictionPolicy": "Mandatory",
    "minReplicas": 2,
    "minPodAge": "1h",
    "nodeFit": True,
}
PROTECTED = ["PodsWithLocalStorage", "DaemonSetPods", "SystemCriticalPods", "FailedBarePods"]
LENIENT: Args = {
    "podProtections": {"defaultDisabled": PROTECTED},
    "minReplicas": 0,
    "nodeFit": False,
}

VERSIONS = [pytest.param(UPSTREAM, id="v1alpha2"), pytest.param(OURS, id="v1")]


class TwoRuns(NamedTuple):
    """The results of a run with all protections, and then of one with as few as possible."""

    api_version: str
    evicted: set[str]
    """Apps with pods that were evicted."""
    refusals: Counter[str]
    evicted_later: set[str]
    refusals_later: Counter[str]


@pytest.fixture(scope="module", params=VERSIONS)
def two_runs(
    request: pytest.FixtureRequest, plane: Access, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TwoRuns]:
    """Creates one workload for each protection, and runs twice."""
    version, folder = request.param, tmp_path_factory.mktemp("protected-pods")
    with (
        plane.api() as api,
        Workspace(api) as workspace,
        Account(plane, api, folder) as account,
        protected_pods(workspace),
    ):
        yield run_twice(version, api, workspace, account)


def run_twice(version: str, api: Api, workspace: Workspace, account: Account) -> TwoRuns:
    """Runs with both policies; returns what was evicted and refused."""
    report_start_times(workspace)
    wait_until_old(workspace)
    apps = apps_by_uid(workspace)
    strict = run_once(account, policy(version, "PodLifeTime", TOO_OLD, workspace, evictor=STRICT))
    wait_until_old(workspace)
    apps |= apps_by_uid(workspace)
    free = policy(version, "PodLifeTime", TOO_OLD, workspace, evictor=LENIENT)
    lenient = run_once(account, free, "--client-connection-qps", "100")
    assert_audit_agrees(api, account, strict, lenient)
    return TwoRuns(
        version,
        {apps[uid] for uid in strict.evicted},
        Counter(strict.lines_of("cycle done")[0]["refusals"]),
        {apps[uid] for uid in lenient.evicted},
        Counter(lenient.lines_of("cycle done")[0].get("refusals")),
    )


def apps_by_uid(workspace: Workspace) -> dict[str, str]:
    return {
        pod["metadata"]["uid"]: pod["metadata"]["labels"]["app"] for pod in workspace.list_pods()
    }


@pytest.mark.parametrize(
    ("app", "code"),
    [
        pytest.param("single", "min-replicas", id="fewer pods of an owner than minReplicas"),
        pytest.param("young", "min-age", id="pods that started less than minPodAge ago"),
        pytest.param("critical", "system-critical", id="pods that the system needs"),
        pytest.param("important", "priority", id="pods at the priority threshold"),
        pytest.param("with-local-storage", "local-storage", id="pods with local storage"),
        pytest.param("with-claim", "volume-claim", id="pods with a volume claim"),
        pytest.param("unselected", "not-selected", id="pods that the label selector leaves out"),
        pytest.param("pinned", "no-node-fits", id="pods that fit no other node"),
        pytest.param("prefers-to-stay", "prefers-no-eviction", id="pods that prefer no eviction"),
        pytest.param("daemon", "daemon-set", id="pods of a DaemonSet"),
        pytest.param("bare-and-failed", "no-owner", id="failed pods without an owner"),
    ],
)
def test_protected_pods_stay_and_are_evicted_without_the_protection(
    two_runs: TwoRuns, app: str, code: str
) -> None:
    assert app not in two_runs.evicted
    assert two_runs.refusals[code]
    assert app in two_runs.evicted_later


@pytest.mark.parametrize(
    ("app", "code"),
    [
        pytest.param("bare", "no-owner", id="pods without an owner"),
        pytest.param("mirror", "mirror-pod", id="pods that a kubelet mirrors"),
    ],
)
def test_some_pods_stay_whatever_the_policy_says(two_runs: TwoRuns, app: str, code: str) -> None:
    assert app not in two_runs.evicted | two_runs.evicted_later
    assert two_runs.refusals_later[code] == 1


def test_pods_without_a_protection_are_evicted(two_runs: TwoRuns) -> None:
    assert "plain" in two_runs.evicted
    assert two_runs.evicted - {"evict-false"} == {"plain", "evict-true"}


def test_the_evict_annotation_overrides_a_protection(two_runs: TwoRuns) -> None:
    assert "with-local-storage" not in two_runs.evicted, "protected by its volume"
    assert "evict-true" in two_runs.evicted, "the same volume, and the annotation"


def test_the_value_of_the_evict_annotation_counts_in_resettle_v1(two_runs: TwoRuns) -> None:
    assert ("evict-false" in two_runs.evicted) is (two_runs.api_version == UPSTREAM)
    assert two_runs.refusals["opted-out"] == (0 if two_runs.api_version == UPSTREAM else 3)


@pytest.mark.parametrize("api_version", VERSIONS)
def test_a_priority_threshold_may_be_the_name_of_a_class(
    api_version: str, account: Account, api: Api, workspace: Workspace
) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.post(classes, {"metadata": {"name": workspace.name}, "value": IMPORTANT}).granted()
    try:
        create_deployment(workspace, "plain", 3)
        create_deployment(workspace, "important", 3, priorityClassName=workspace.name)
        apps = apps_by_uid(workspace)
        wait_until_old(workspace)
        named = {"priorityThreshold": {"name": workspace.name}}

        run = run_once(
            account, policy(api_version, "PodLifeTime", TOO_OLD, workspace, evictor=named)
        )

        assert {apps[uid] for uid in run.evicted} == {"plain"}
        assert_audit_agrees(api, account, run)
    finally:
        api.delete(f"{classes}/{workspace.name}")


@pytest.mark.parametrize("api_version", VERSIONS)
def test_pods_without_a_budget_stay_if_the_policy_protects_them(
    api_version: str, account: Account, api: Api, workspace: Workspace
) -> None:
    create_deployment(workspace, "covered", 3)
    create_deployment(workspace, "uncovered", 3)
    workspace.create_budget("covered", max_unavailable=1)
    apps = apps_by_uid(workspace)
    wait_until_old(workspace)
    only_covered = {"podProtections": {"extraEnabled": ["PodsWithoutPDB"]}}

    run = run_once(
        account, policy(api_version, "PodLifeTime", TOO_OLD, workspace, evictor=only_covered)
    )

    assert [apps[uid] for uid in run.evicted] == ["covered"]
    assert run.lines_of("cycle done")[0]["refusals"] == {"budget": 2, "no-budget": 3}
    assert_audit_agrees(api, account, run)


@pytest.mark.parametrize("api_version", VERSIONS)
def test_pods_are_evicted_only_in_selected_namespaces(
    api_version: str, account: Account, api: Api, workspace: Workspace
) -> None:
    with Workspace(api) as other:
        for each in (workspace, other):
            create_deployment(each, "web", 2)
        wait_until_old(workspace)
        wait_until_old(other)
        chosen = {"matchLabels": {"kubernetes.io/metadata.name": workspace.name}}
        evictor = {"namespaceLabelSelector": chosen}

        run = run_once(
            account, policy(api_version, "PodLifeTime", TOO_OLD, workspace, other, evictor=evictor)
        )

        evicted_namespaces = {line["pod"].partition("/")[0] for line in run.lines_of("evicted")}
        assert evicted_namespaces == {workspace.name}
        assert run.lines_of("cycle done")[0]["refusals"]["namespace-not-selected"] == 2
        assert_audit_agrees(api, account, run)
