"""How replacements are kept from returning to the node that the pod leaves: taints and gates."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from signal import SIGKILL
from threading import Thread
from typing import Any

import pytest

from resettle.model.migration_job import GATE, GATE_LABEL, JOBS_PATH
from tests.e2e.cluster.workloads import cordon_all_but, create_deployment, uncordon_all
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.harness import (
    create_job,
    read_job,
    start_controller,
    wait_for_end,
    wait_until_clean,
)
from tests.e2e.migration.scene import APP, Scene, held_place_policy
from tools.control_plane.api import Object

MOVES = 5


@pytest.mark.parametrize("lingers", [False, True], ids=["quick end", "slow end"])
@pytest.mark.parametrize("steering", ["None", "Soft", "Hard", "Gate"])
def test_replacements_of_steered_moves_do_not_return(
    steering: str,
    lingers: bool,
    controller_account: ControllerAccount,
    workspace: Workspace,
    tmp_path: Path,
    record_property: Any,
) -> None:
    source = workspace.nodes[0]
    cordon_all_but(workspace, source)
    labels = {"example.com/lingers": "yes"} if lingers else {}
    for number in range(MOVES):
        create_deployment(workspace, f"app-{number}", 1, cpu="1500m", labels=labels)
    uncordon_all(workspace)
    victims = workspace.list_ready_pods()
    policy = held_place_policy(controller_account, steering=steering)

    with start_controller(controller_account, tmp_path, policy) as controller:
        names = [create_job(workspace.api, victim) for victim in victims]
        ends = [wait_for_end(workspace.api, name, controller) for name in names]
        wait_until_clean(workspace.api, controller_account)

    assert [status["phase"] for status in ends] == ["Succeeded"] * MOVES, ends
    landed = Counter(_landed(workspace, status, source) for status in ends)
    record_property("landed", dict(landed))
    if steering in ("Hard", "Gate"):
        assert landed["source"] == 0
    if steering == "Gate":
        assert landed["reserved"] == MOVES


def _landed(workspace: Workspace, status: Object, source: str) -> str:
    """Where the replacement is: on the reserved node, back on the source, or elsewhere."""
    path = f"{workspace.pods_path}/{status['podRef']['name']}"
    node = workspace.api.get(path).granted()["spec"]["nodeName"]
    return {status["nodeName"]: "reserved", source: "source"}.get(node, "elsewhere")


@pytest.mark.parametrize(
    ("steering", "effect"), [("Soft", "PreferNoSchedule"), ("Hard", "NoSchedule")]
)
@pytest.mark.parametrize("delete", [True, False], ids=["job deleted", "job kept"])
def test_no_taint_is_left_after_a_kill(
    delete: bool,
    steering: str,
    effect: str,
    controller_account: ControllerAccount,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    policy = held_place_policy(controller_account, steering=steering)
    with Scene(workspace, controller_account) as scene:
        scene.start_workload()

        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_after_eviction()
            assert scene.taints() == [effect]
            controller.signal(SIGKILL)
            controller.wait_for_exit()
        assert scene.taints() == [effect]
        scene.let_pod_go()
        if delete:
            workspace.api.delete(f"{JOBS_PATH}/{name}").granted()

        with scene.start_controller(tmp_path, policy) as controller:
            if not delete:
                assert wait_for_end(workspace.api, name, controller)["phase"] == "Succeeded"
            wait_until_clean(workspace.api, controller_account)
        assert scene.taints() == []


def test_no_taint_is_kept_while_an_eviction_waits_for_a_budget(
    controller_account: ControllerAccount, workspace: Workspace, tmp_path: Path
) -> None:
    policy = held_place_policy(controller_account, steering="Hard")
    with Scene(workspace, controller_account) as scene:
        scene.start_workload()

        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_before_eviction()
            eventually("no taint", lambda: scene.taints() == [])
            assert scene.has_victim()
            scene.allow_eviction()
            status = wait_for_end(workspace.api, name, controller)
            wait_until_clean(workspace.api, controller_account)

        assert status["phase"] == "Succeeded", status
        assert _landed(workspace, status, scene.source) == "reserved"


# -- gates -----------------------------------------------------------------------------------------


def test_pods_that_a_workload_adds_meanwhile_are_not_held_up(
    controller_account: ControllerAccount, workspace: Workspace, tmp_path: Path
) -> None:
    policy = held_place_policy(controller_account, steering="Gate")
    with Scene(workspace, controller_account) as scene:
        scene.start_workload(cpu="1")

        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_before_eviction(*workspace.nodes)
            assert read_job(workspace.api, name)["metadata"]["labels"][GATE_LABEL] == "true"
            _scale(workspace, 3)
            eventually("three pods", lambda: len(workspace.list_ready_pods()) == 3)
            scene.allow_eviction()
            status = wait_for_end(workspace.api, name, controller)
            wait_until_clean(workspace.api, controller_account)

        assert status["phase"] == "Succeeded", status
        assert _landed(workspace, status, scene.source) == "reserved"


@pytest.mark.parametrize("turn", range(3))
def test_a_workload_grows_in_the_moment_of_the_eviction(
    turn: int, controller_account: ControllerAccount, workspace: Workspace, tmp_path: Path
) -> None:
    policy = held_place_policy(controller_account, steering="Gate")
    with Scene(workspace, controller_account) as scene:
        scene.start_workload(cpu="1")

        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.create_job_with(*workspace.nodes)
            grow = Thread(target=_scale_at_eviction, args=(scene, name, 4))
            grow.start()
            status = wait_for_end(workspace.api, name, controller)
            grow.join()
            eventually("four pods", lambda: len(workspace.list_ready_pods()) == 4)
            wait_until_clean(workspace.api, controller_account)

        assert status["phase"] == "Succeeded", status
        assert _landed(workspace, status, scene.source) == "reserved"


def _scale_at_eviction(scene: Scene, job: str, replicas: int) -> None:
    """Scales the workload as soon as the job is about to ask its pod to leave."""
    eventually(
        "a gate",
        lambda: GATE_LABEL in (read_job(scene.api, job)["metadata"].get("labels") or {}),
    )
    _scale(scene.workspace, replicas)


def _scale(workspace: Workspace, replicas: int) -> None:
    path = f"/apis/apps/v1/namespaces/{workspace.name}/deployments/{APP}"
    workspace.api.patch(path, {"spec": {"replicas": replicas}}).granted()


@pytest.mark.parametrize("delete", [True, False], ids=["job deleted", "job kept"])
def test_a_gated_pod_is_released_by_the_next_controller(
    delete: bool, controller_account: ControllerAccount, workspace: Workspace, tmp_path: Path
) -> None:
    policy = held_place_policy(controller_account, steering="Gate", defaultJobTTL="60s")
    with Scene(workspace, controller_account, kind="StatefulSet") as scene:
        scene.start_workload()

        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_after_eviction(scene.source, scene.target)
            controller.signal(SIGKILL)
            controller.wait_for_exit()
        scene.let_pod_go()
        replacement = eventually("a gated pod", scene.new_pod)
        assert replacement is not None
        assert {"name": GATE} in replacement["spec"]["schedulingGates"]
        if delete:
            workspace.api.delete(f"{JOBS_PATH}/{name}").granted()

        with scene.start_controller(tmp_path, policy) as controller:
            landed = scene.wait_for_new_pod()
            if not delete:
                status = wait_for_end(workspace.api, name, controller)
                assert status["phase"] == "Succeeded", status
                assert landed["spec"]["nodeName"] == scene.target
            wait_until_clean(workspace.api, controller_account)
        assert landed["metadata"]["uid"] == replacement["metadata"]["uid"]
