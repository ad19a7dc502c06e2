"""Extension points in a run: filters that must all agree, sorters that decide the order."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.e2e.cluster.policies import OURS, UPSTREAM, Plugins, policy
from tests.e2e.cluster.protected_pods import SCRATCH
from tests.e2e.cluster.workloads import (
    NO_BACKGROUND_EVICTIONS,
    cordon_all_but,
    create_deployment,
    pods_of,
    run_once,
    uncordon_all,
    wait_until_old,
)
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.processes.command import RESETTLE
from tests.e2e.processes.run import Account, assert_audit_agrees
from tests.examples.harness import install
from tools.control_plane.api import Api

TOO_OLD = {"maxPodLifeTimeSeconds": 1}
COST = "controller.kubernetes.io/pod-deletion-cost"
VERSIONS = [pytest.param(UPSTREAM, id="v1alpha2"), pytest.param(OURS, id="v1")]


@pytest.fixture(scope="module")
def installed_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installs the example package, which has a filter and a sorter; returns the folder."""
    return install(ROOT / "examples" / "moving-day", tmp_path_factory.mktemp("site"))


@pytest.fixture
def moving_day(installed_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the plugins of the package available to runs."""
    monkeypatch.setenv("PYTHONPATH", str(installed_package))


# -- filters ---------------------------------------------------------------------------------------


def hours_from_now(hours: int) -> str:
    """Two hours of the day that begin so many hours from now, as MovingHours reads them."""
    begin = datetime.now(UTC).hour + hours
    return f"{begin % 24:02}-{(begin + 2) % 24:02}"


@pytest.fixture
def day_and_night(workspace: Workspace) -> dict[str, str]:
    """Apps by uid: MovingHours refuses `night`, DefaultEvictor refuses `with-local-storage`."""
    create_deployment(workspace, "day", 3)
    create_deployment(workspace, "night", 3, labels={"move-hours": hours_from_now(6)})
    create_deployment(workspace, "with-local-storage", 3, volumes=[SCRATCH])
    wait_until_old(workspace)
    return {
        pod["metadata"]["uid"]: pod["metadata"]["labels"]["app"] for pod in workspace.list_pods()
    }


@pytest.mark.usefixtures("moving_day")
@pytest.mark.parametrize("api_version", VERSIONS)
def test_a_pod_is_evicted_only_if_every_filter_allows_it(
    api_version: str,
    account: Account,
    api: Api,
    workspace: Workspace,
    day_and_night: dict[str, str],
) -> None:
    both: Plugins = {"filter": {"MovingHours": {}}}

    run = run_once(account, policy(api_version, "PodLifeTime", TOO_OLD, workspace, plugins=both))

    assert {day_and_night[uid] for uid in run.evicted} == {"day"}
    refusals = run.lines_of("cycle done")[0]["refusals"]
    assert (refusals["outside-hours"], refusals["local-storage"]) == (3, 3)
    refused_pod = pods_of(workspace.list_pods(), "night")[0]["metadata"]["name"]
    assert "MovingHours" in explain(account, run.policy, f"{workspace.name}/{refused_pod}")
    assert_audit_agrees(api, account, run)


def explain(account: Account, policy: Path, pod: str) -> str:
    """Runs `resettle explain` for a pod with this policy and account; returns what it prints."""
    words = ["explain", "pod", pod, "--policy", str(policy)]
    words += ["--kubeconfig", str(account.kubeconfig)]
    done = subprocess.run(
        [RESETTLE, *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("moving_day")
def test_the_default_filter_can_be_replaced(
    account: Account,
    api: Api,
    workspace: Workspace,
    day_and_night: dict[str, str],
) -> None:
    other = policy(OURS, "PodLifeTime", TOO_OLD, workspace, plugins={"filter": {"MovingHours": {}}})
    other["profiles"][0]["plugins"]["filter"]["disabled"] = ["DefaultEvictor"]

    run = run_once(account, other)

    assert {day_and_night[uid] for uid in run.evicted} == {"day", "with-local-storage"}
    assert_audit_agrees(api, account, run)


# -- sorters ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("moving_day")
@pytest.mark.parametrize(
    ("api_version", "sort", "first"),
    [
        pytest.param(OURS, {}, "oldest", id="the oldest, by default"),
        pytest.param(
            OURS, {"AgeSort": {"order": "YoungestFirst"}}, "many", id="the youngest, by AgeSort"
        ),
        pytest.param(OURS, {"UtilizationSort": {}}, "large", id="the largest, by UtilizationSort"),
        pytest.param(OURS, {"DeletionCostSort": {}}, "cheap", id="the cheapest, DeletionCostSort"),
        pytest.param(OURS, {"ReplicasSort": {}}, "many", id="one of many, by ReplicasSort"),
        pytest.param(UPSTREAM, {"UtilizationSort": {}}, "oldest", id="in v1alpha2 the oldest"),
    ],
)
def test_a_sorter_decides_which_pods_are_evicted_before_a_limit_ends_the_cycle(
    api_version: str,
    sort: dict[str, Any],
    first: str,
    account: Account,
    api: Api,
    workspace: Workspace,
) -> None:
    create_deployment(workspace, "oldest", 3)
    wait_until_old(workspace, 1)
    create_deployment(workspace, "large", 3, cpu="1")
    create_deployment(workspace, "cheap", 3, annotations={COST: "-10"})
    wait_until_old(workspace, 1)
    create_deployment(workspace, "many", 4)
    wait_until_old(workspace)
    apps = {
        pod["metadata"]["uid"]: pod["metadata"]["labels"]["app"] for pod in workspace.list_pods()
    }
    two, plugins = {"maxNoOfPodsToEvictTotal": 2}, {"sort": sort}
    chosen = policy(api_version, "PodLifeTime", TOO_OLD, workspace, plugins=plugins, top=two)

    run = run_once(account, chosen, *NO_BACKGROUND_EVICTIONS)

    assert [apps[uid] for uid in run.evicted] == [first, first], run.log_text
    warned = any("`sort` has no effect" in line["says"] for line in run.lines_of("policy warning"))
    assert warned is (api_version == UPSTREAM)
    assert_audit_agrees(api, account, run)


@pytest.mark.parametrize(
    "costs",
    [pytest.param("12345", id="the first by name"), pytest.param("54321", id="the last by name")],
)
def test_a_presorter_decides_which_duplicate_stays(
    costs: str, account: Account, api: Api, workspace: Workspace
) -> None:
    cordon_all_but(workspace, workspace.nodes[0])
    create_deployment(workspace, "web", len(costs))
    uncordon_all(workspace)
    names = sorted(pod["metadata"]["name"] for pod in workspace.list_pods())
    for name, cost in zip(names, costs, strict=True):
        change = {"metadata": {"annotations": {COST: cost}}}
        workspace.api.patch(f"{workspace.pods_path}/{name}", change).granted()
    before = {
        pod["metadata"]["uid"]: pod["metadata"]["annotations"][COST]
        for pod in workspace.list_pods()
    }
    cheapest: Plugins = {"presort": {"DeletionCostSort": {}}}

    run = run_once(account, policy(OURS, "RemoveDuplicates", {}, workspace, plugins=cheapest))

    assert [cost for uid, cost in before.items() if uid not in run.evicted] == ["1"]
    assert_audit_agrees(api, account, run)
