"""A controller of others in real runs: with the leader, after failures, by its own rights."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.e2e.cluster.workloads import pod_spec, report_status
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.command import RESETTLE
from tests.e2e.processes.run import Account, Policy, assert_audit_agrees
from tests.examples.harness import install
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
OFTEN = ("--descheduling-interval", "1s")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example package is, which brings a controller that deletes finished pods."""
    return install(ROOT / "examples" / "tidy-finished", tmp_path_factory.mktemp("site"))


@pytest.fixture(autouse=True)
def tidy_finished(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller, in reach of runs."""
    monkeypatch.setenv("PYTHONPATH", str(installed))


def tidying(workspace: Workspace, after_seconds: int = 1, **top: Any) -> Policy:
    """A policy that deletes the finished pods of one workspace, and moves none."""
    evictor = {
        "labelSelector": {"matchLabels": {"home": workspace.name}},
        "minPodAge": "0s",
        "podProtections": {"defaultDisabled": ["FailedBarePods"]},
    }
    return {
        "apiVersion": "resettle/v1",
        "kind": "DeschedulerPolicy",
        **top,
        "profiles": [
            {
                "name": "tidy",
                "pluginConfig": [
                    {"name": "DefaultEvictor", "args": evictor},
                    {"name": "TidyFinished", "args": {"afterSeconds": after_seconds}},
                ],
                "plugins": {"controller": {"enabled": ["TidyFinished"]}},
            }
        ],
    }


@pytest.fixture
def rules(workspace: Workspace, tmp_path: Path) -> list[dict[str, Any]]:
    """The rules that `resettle rbac` derives from the policy, those of the lease among them."""
    file = tmp_path / "for-rbac.yaml"
    file.write_text(yaml.safe_dump(tidying(workspace)))
    words = ["rbac", "--policy", str(file), "--leader-elect"]
    done = subprocess.run(
        [RESETTLE, *words], capture_output=True, text=True, check=True, timeout=60
    )
    roles = [item for item in yaml.safe_load_all(done.stdout) if item and "rules" in item]
    return [rule for role in roles for rule in role["rules"]]


@pytest.fixture
def tidier(
    plane: Access, api: Api, tmp_path: Path, rules: list[dict[str, Any]]
) -> Iterator[Account]:
    """An account with the rights that the policy needs, and no others."""
    with Account(plane, api, tmp_path, rules) as made:
        yield made


def finished_pod(workspace: Workspace, name: str, phase: str = "Failed") -> None:
    """A pod without an owner that has come to its end."""
    labels = {"home": workspace.name}
    body = {"metadata": {"name": name, "labels": labels}, "spec": pod_spec(workspace, {})}
    workspace.api.post(workspace.pods_path, body).granted()
    (pod,) = eventually(
        f"{name} is ready",
        lambda: [item for item in workspace.list_ready_pods() if _named(item, name)],
    )
    report_status(workspace, pod, phase=phase)


def _named(pod: dict[str, Any], name: str) -> bool:
    return bool(pod["metadata"]["name"] == name)


def is_gone(workspace: Workspace, name: str) -> bool:
    return workspace.api.get(f"{workspace.pods_path}/{name}").status == 404


def test_finished_pods_are_deleted_beside_the_cycles_by_derived_rights(
    tidier: Account, api: Api, workspace: Workspace, rules: list[dict[str, Any]]
) -> None:
    assert any("delete" in rule["verbs"] and "pods" in rule["resources"] for rule in rules)
    finished_pod(workspace, "first")

    with tidier.run(tidying(workspace), "--descheduling-interval", "1h") as run:
        run.wait_for("finished pod deleted", pod=f"{workspace.name}/first")
        finished_pod(workspace, "second")
        run.wait_for("finished pod deleted", pod=f"{workspace.name}/second")
        assert run.stop() == 0, run.log_text

    assert is_gone(workspace, "first")
    assert len(run.lines_of("cycle done")) == 1, "no cycle was needed"
    assert [line["controller"] for line in run.lines_of("controller stopped")] == ["TidyFinished"]
    deleted = [item for item in tidier.requests() if item["verb"] == "delete"]
    assert {item["responseStatus"]["code"] for item in deleted} == {200}
    assert_audit_agrees(api, tidier, run)


def test_only_the_leader_runs_it_and_the_next_leader_goes_on(
    tidier: Account, api: Api, workspace: Workspace
) -> None:
    lease = ("--leader-elect", "--leader-elect-resource-namespace", workspace.name)
    fast = ("--leader-elect-lease-duration", "4s", "--leader-elect-renew-deadline", "3s")
    words = (*OFTEN, *lease, *fast, "--leader-elect-retry-period", "500ms")
    with tidier.run(tidying(workspace), *words) as first:
        first.wait_for("controller started")
        with tidier.run(tidying(workspace), *words) as second:
            finished_pod(workspace, "first")
            first.wait_for("finished pod deleted")
            assert second.lines_of("controller started") == []

            assert first.stop() == 0, first.log_text
            assert first.lines_of("controller stopped")
            second.wait_for("controller started")
            finished_pod(workspace, "second")
            second.wait_for("finished pod deleted")
            assert second.stop() == 0, second.log_text
    assert is_gone(workspace, "second")
    assert_audit_agrees(api, tidier, first, second)


def test_one_that_fails_is_started_again_until_it_works(
    tidier: Account, api: Api, workspace: Workspace, rules: list[dict[str, Any]]
) -> None:
    with tidier.run(tidying(workspace), *OFTEN) as run:
        run.wait_for("controller started")
        without = [
            {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "delete"]}
            for rule in rules
            if rule["verbs"] != ["delete"]
        ]
        api.patch(f"{ROLES}/{tidier.name}", {"rules": without}).granted()
        eventually("the right is gone", lambda: not may_delete(api, tidier))
        finished_pod(workspace, "first")
        (failed, *_) = run.wait_for("controller failed", 2)
        assert "the API server answered 403" in failed["reason"]
        assert not is_gone(workspace, "first")

        api.patch(f"{ROLES}/{tidier.name}", {"rules": rules}).granted()
        run.wait_for("finished pod deleted")
        assert run.stop() == 0, run.log_text
    pauses = [line["again_in"] for line in run.lines_of("controller failed")]
    assert pauses[:2] == [1.0, 2.0]


def may_delete(api: Api, account: Account) -> bool:
    what = {"verb": "delete", "resource": "pods", "namespace": "default"}
    review = {"spec": {"user": account.user, "resourceAttributes": what}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(api.post(path, review).granted()["status"]["allowed"])


def test_without_its_rights_no_run_begins(account: Account, workspace: Workspace) -> None:
    with account.run(tidying(workspace), *OFTEN) as run:
        assert run.wait_for_exit() == 1

    (line,) = run.lines_of("could not run")
    assert "delete" in line["reason"]
    assert run.lines_of("controller started") == []


def test_another_policy_ends_it_or_starts_it_anew(tidier: Account, workspace: Workspace) -> None:
    with tidier.run(tidying(workspace), *OFTEN) as run:
        run.wait_for("controller started")
        finished_pod(workspace, "first")
        run.wait_for("finished pod deleted")
        run.policy.write_text(json.dumps(tidying(workspace, 3600)))
        run.wait_for("controller started", 2)
        finished_pod(workspace, "second")
        run.wait_for_more("cycle done", 3)
        assert run.stop() == 0, run.log_text
    assert not is_gone(workspace, "second"), "it is kept for an hour now"
    assert len(run.lines_of("finished pod deleted")) == 1
