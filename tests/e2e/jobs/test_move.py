"""`resettle move` on a real control plane, with the migration controller beside it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.workloads import cordon_all_but, create_deployment, uncordon_all
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.harness import (
    job_policy,
    read_job,
    start_controller,
    wait_until_clean,
)
from tests.e2e.migration.jobs import delete_jobs
from tests.e2e.processes.command import RESETTLE, Done
from tools.control_plane.api import Api
from tools.control_plane.papers import ADMIN
from tools.control_plane.plane import Access


@pytest.fixture
def controller_account(plane: Access, api: Api, tmp_path: Path) -> Iterator[ControllerAccount]:
    """The shipped account of the migration controller."""
    with ControllerAccount(plane, api, tmp_path) as account:
        yield account
        delete_jobs(api)


def run_move(kubeconfig: Path, *words: str) -> Done:
    """Runs `resettle move`."""
    done = subprocess.run(
        [RESETTLE, "move", "--kubeconfig", str(kubeconfig), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_move_waits_until_the_replacement_is_ready_on_the_named_node(
    plane: Access,
    controller_account: ControllerAccount,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    source, target = workspace.nodes[0], workspace.nodes[3]
    cordon_all_but(workspace, source)
    create_deployment(workspace, "web", 1)
    uncordon_all(workspace)
    (pod,) = workspace.list_ready_pods()
    policy = job_policy(controller_account, steering="Gate")
    config = plane.papers.kubeconfig(ADMIN)

    with start_controller(controller_account, tmp_path, policy) as run:
        key = f"{workspace.name}/{pod['metadata']['name']}"
        done = run_move(config, key, "--to", target, "--wait", "--reason", "to see it move")
        wait_until_clean(api, controller_account)
        missing = run_move(config, f"{workspace.name}/nothing", "--wait")
        assert run.stop() == 0, run.log_text

    name = done.out.strip()
    job = read_job(api, name)
    assert done.code == 0, done.err
    assert job["status"]["phase"] == "Succeeded"
    assert job["metadata"]["annotations"]["resettle.dev/evict-reason"] == "to see it move"
    lines = done.err.splitlines()
    assert f"a place is held on {target}" in lines
    assert lines[-1].startswith("done: ")
    (replacement,) = workspace.list_ready_pods()
    assert replacement["spec"]["nodeName"] == target
    assert missing == (
        1,
        "",
        f"error: there is no pod {workspace.name}/nothing; see"
        f" `kubectl get pods -n {workspace.name}`\n",
    )
