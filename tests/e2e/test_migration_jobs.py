"""Jobs that hold a place before they evict: where the place is, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.workloads import cordon_all_but, create_deployment, uncordon_all
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.harness import (
    conditions_of,
    create_job,
    job_policy,
    start_controller,
    wait_for_end,
    wait_until_clean,
)
from tools.control_plane.api import Api
from tools.control_plane.plane import Access


@pytest.fixture
def controller_account(plane: Access, api: Api, tmp_path: Path) -> Iterator[ControllerAccount]:
    """The shipped account of the migration controller."""
    with ControllerAccount(plane, api, tmp_path) as account:
        yield account


@pytest.mark.parametrize("steering", ["None", "Soft", "Hard", "Gate"])
def test_the_replacement_lands_on_the_one_node_with_room(
    steering: str,
    controller_account: ControllerAccount,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    source, target, *_ = workspace.nodes
    cordon_all_but(workspace, source)
    create_deployment(workspace, "web", 2, cpu="1")
    uncordon_all(workspace)
    cordon_all_but(workspace, target)
    victim = workspace.list_ready_pods()[0]
    policy = job_policy(controller_account, steering=steering)

    with start_controller(controller_account, tmp_path, policy) as controller:
        name = create_job(api, victim)
        status = wait_for_end(api, name, controller)
        assert status["phase"] == "Succeeded", (status, controller.log_text)
        wait_until_clean(api, controller_account)
        assert controller.stop() == 0, controller.log_text

    assert status["nodeName"] == target
    replacement = status["podRef"]
    pods = {pod["metadata"]["name"]: pod for pod in workspace.list_ready_pods()}
    assert victim["metadata"]["name"] not in pods
    assert pods[replacement["name"]]["spec"]["nodeName"] == target
    assert conditions_of(status)["ReservationScheduled"][0] == "True"
