"""Events about evictions as `kubectl get events` shows them."""

from __future__ import annotations

import re

from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.installing.terminal import Terminal
from tests.e2e.processes.run import Account, assert_audit_agrees
from tools.control_plane.api import Api

from .test_run import old_pods_policy, wait_until_old


def test_kubectl_shows_what_moved_a_pod_and_why(
    account: Account, api: Api, workspace: Workspace, terminal: Terminal
) -> None:
    workspace.deploy("web", replicas=2)
    wait_until_old(workspace)

    with account.run(old_pods_policy(workspace)) as run:
        assert run.wait_for_exit() == 0, run.log_text
    moved = {line["pod"].partition("/")[2]: line for line in run.lines_of("evicted")}
    assert_audit_agrees(api, account, run)

    def rows() -> list[list[str]]:
        words = ("get", "events", "-n", workspace.name, "--field-selector", "reason=PodLifeTime")
        return [
            re.split(r"  +", line.rstrip())
            for line in terminal.output_of("kubectl", *words, "--no-headers").splitlines()
        ]

    eventually("two events", lambda: len(rows()) == 2)
    assert len(moved) == 2
    for _, kind, reason, about, message in rows():
        line = moved[about.removeprefix("pod/")]
        assert (kind, reason) == ("Normal", line["plugin"])
        assert message == (
            f"pod eviction from {line['node']} node by sigs.k8s.io/descheduler; "
            f"{line['plugin']} in profile {line['profile']}: {line['reason']}"
        )
