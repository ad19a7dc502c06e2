"""The mover of a profile in a run: one of an example package, and policies without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.e2e.cluster.policies import OURS, Plugins, policy
from tests.e2e.cluster.workloads import create_deployment, uids, wait_until_old
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.processes.run import RULES, Account, assert_audit_agrees
from tests.examples.harness import install
from tools.control_plane.api import Api, Object
from tools.control_plane.plane import Access

TOO_OLD = {"maxPodLifeTimeSeconds": 1}
LABEL = "resettle.example/please-leave"


@pytest.fixture(scope="module")
def installed_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installs the example package, whose mover labels pods; returns the folder."""
    return install(ROOT / "examples" / "please-leave", tmp_path_factory.mktemp("site"))


@pytest.fixture
def please_leave(installed_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the mover available to runs."""
    monkeypatch.setenv("PYTHONPATH", str(installed_package))


@pytest.fixture
def patching_account(plane: Access, api: Api, tmp_path: Path) -> Iterator[Account]:
    """A ServiceAccount that may label pods, and evict none."""
    may_patch = {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}
    others = [rule for rule in RULES if rule["resources"] != ["pods/eviction"]]
    with Account(plane, api, tmp_path, [*others, may_patch]) as made:
        yield made


def labelled_pods(workspace: Workspace) -> list[Object]:
    """The pods that have the label of the mover."""
    return [pod for pod in workspace.list_pods() if LABEL in pod["metadata"]["labels"]]


@pytest.mark.usefixtures("please_leave")
def test_pods_are_moved_by_the_mover_of_their_profile(
    patching_account: Account, api: Api, workspace: Workspace
) -> None:
    create_deployment(workspace, "web", 6)
    wait_until_old(workspace)
    mover: Plugins = {"evict": {"PleaseLeave": {}}}
    two = {"maxNoOfPodsToEvictPerNamespace": 2}
    replaced = policy(OURS, "PodLifeTime", TOO_OLD, workspace, plugins=mover, top=two)

    with patching_account.run(replaced, "--descheduling-interval", "500ms") as run:
        run.wait_for("moving in background", 2)
        run.wait_for_more("cycle done", 2)
        labelled = labelled_pods(workspace)
        assert len(labelled) == 2, "two are moving, and count towards the limit"
        assert {pod["metadata"]["labels"][LABEL] for pod in labelled} == {"PodLifeTime"}
        because = [pod["metadata"]["annotations"][f"{LABEL}-because"] for pod in labelled]
        assert all(" old, longer than 1s" in reason for reason in because), because

        for pod in labelled:
            workspace.api.delete(f"{workspace.pods_path}/{pod['metadata']['name']}").granted()
        run.wait_for("moving in background", 4)
        assert run.stop() == 0, run.log_text

    assert {line["uid"] for line in run.lines_of("moved in background")} == uids(labelled)
    patched = [request for request in patching_account.requests() if request["verb"] == "patch"]
    assert {request["responseStatus"]["code"] for request in patched} == {200}
    assert patching_account.eviction_requests() == []
    assert_audit_agrees(api, patching_account, run)


@pytest.mark.usefixtures("please_leave")
@pytest.mark.parametrize(
    ("plugins", "path", "problem"),
    [
        pytest.param(
            {"evict": {"enabled": ["EvictionAPI", "PleaseLeave"]}},
            "profiles[0].plugins.evict.enabled",
            "2 movers are enabled",
            id="two movers",
        ),
        pytest.param(
            {"evict": {"disabled": ["EvictionAPI"]}},
            "profiles[0].plugins.evict.disabled",
            "`EvictionAPI` is disabled",
            id="no mover",
        ),
        pytest.param(
            {"evict": {"enabled": ["DefaultEvictor"]}},
            "profiles[0].plugins.evict.enabled[0]",
            "`DefaultEvictor` cannot be enabled under `evict`",
            id="a filter as mover",
        ),
        pytest.param(
            {"sort": {"enabled": ["PleaseLeave"]}},
            "profiles[0].plugins.sort.enabled[0]",
            "`PleaseLeave` cannot be enabled under `sort`",
            id="a mover as sorter",
        ),
    ],
)
def test_a_policy_without_exactly_one_mover_is_refused_at_start(
    plugins: dict[str, Any],
    path: str,
    problem: str,
    workspace: Workspace,
    account: Account,
) -> None:
    wrong = policy(OURS, "PodLifeTime", TOO_OLD, workspace)
    wrong["profiles"][0]["plugins"] |= plugins

    with account.run(wrong) as run:
        assert run.wait_for_exit() == 1

    (line,) = run.lines_of("could not run")
    reason = line["reason"]
    assert path in reason
    assert problem in reason
    assert list(account.requests()) == [], "no request was sent to the API server"
