"""Places that are lost or given up: what becomes of the pod, of the place, and of the job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from signal import SIGKILL

import pytest

from resettle.model.migration_job import JOBS_PATH
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.harness import (
    conditions_of,
    wait_for_end,
    wait_until_clean,
)
from tests.e2e.migration.scene import Scene, held_place_policy
from tests.e2e.processes.run import AuditedUser, Run
from tools.control_plane.plane import Access

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def _create_urgent_pod(scene: Scene) -> str:
    """A pod of higher priority, for which there is room only where the placeholder is."""
    name = f"{scene.workspace.name}-urgent"
    scene.create_cluster_object(CLASSES, {"metadata": {"name": name}, "value": 1000})
    return scene.create_pod("urgent", scene.target, priorityClassName=name)


def _wait_for_node(scene: Scene, path: str) -> str:
    """Waits until the pod has a node, and returns that."""
    return str(eventually("a node", lambda: scene.api.get(path).granted()["spec"].get("nodeName")))


# -- a pod of higher priority ----------------------------------------------------------------------


@pytest.mark.parametrize("placeholder_priority", ["Hold", "Yield"])
def test_a_place_taken_before_the_eviction_leaves_the_pod_alone(
    placeholder_priority: str,
    controller_account: ControllerAccount,
    workspace: Workspace,
    plane: Access,
    tmp_path: Path,
) -> None:
    policy = held_place_policy(controller_account, placeholderPriority=placeholder_priority)
    with Scene(workspace, controller_account) as scene:
        scene.start_workload()
        audited = AuditedUser(plane, controller_account.user)

        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_before_eviction()
            urgent = _create_urgent_pod(scene)
            assert _wait_for_node(scene, urgent) == scene.target
            status = wait_for_end(workspace.api, name, controller)
            wait_until_clean(workspace.api, controller_account)

        assert (status["phase"], status["reason"]) == ("Failed", "ReservationPreempted")
        assert scene.target in status["message"]
        assert scene.has_victim()
        assert audited.evictions() == []


def test_a_place_taken_after_the_eviction_is_reported(
    controller_account: ControllerAccount, workspace: Workspace, tmp_path: Path
) -> None:
    policy = held_place_policy(controller_account, steering="Hard")
    with Scene(workspace, controller_account, kind="StatefulSet") as scene:
        scene.start_workload()

        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_after_eviction(scene.source, scene.target)
            urgent = _create_urgent_pod(scene)
            assert _wait_for_node(scene, urgent) == scene.target
            scene.let_pod_go()
            replacement = eventually("a replacement", scene.new_pod)
            assert replacement is not None
            eventually("a claim", lambda: scene.status(name).get("podRef"))
            scene.end_ttl(name)
            status = wait_for_end(workspace.api, name, controller)
            wait_until_clean(workspace.api, controller_account)

        assert (status["phase"], status["reason"]) == ("Failed", "HandoverTimeout")
        # Without the taint of the job the source takes it back.
        assert scene.wait_for_new_pod()["spec"]["nodeName"] == scene.source


def test_a_replacement_on_another_node_is_reported(
    controller_account: ControllerAccount, workspace: Workspace, tmp_path: Path
) -> None:
    other = workspace.nodes[2]
    policy = held_place_policy(controller_account, steering="Hard")
    with Scene(workspace, controller_account, kind="StatefulSet") as scene:
        scene.start_workload()

        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_after_eviction()
            urgent = _create_urgent_pod(scene)
            assert _wait_for_node(scene, urgent) == scene.target
            scene.open(other)
            scene.let_pod_go()
            status = wait_for_end(workspace.api, name, controller)
            wait_until_clean(workspace.api, controller_account)

        assert status["phase"] == "Succeeded", status
        assert conditions_of(status)["ReservationBound"] == ("True", "OnOtherNode")
        assert scene.wait_for_new_pod()["spec"]["nodeName"] == other


# -- nobody there at the hand-over -----------------------------------------------------------------


def _kill(controller: Run) -> None:
    controller.signal(SIGKILL)
    controller.wait_for_exit()


def test_a_placeholder_that_yields_gives_way_without_the_controller(
    controller_account: ControllerAccount, workspace: Workspace, tmp_path: Path
) -> None:
    policy = held_place_policy(controller_account, placeholderPriority="Yield")
    with Scene(workspace, controller_account, kind="StatefulSet") as scene:
        scene.start_workload()

        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_after_eviction()
            _kill(controller)
        scene.let_pod_go()

        assert scene.wait_for_new_pod()["spec"]["nodeName"] == scene.target
        eventually("no placeholder", lambda: scene.placeholder() is None)
        with scene.start_controller(tmp_path, policy) as controller:
            status = wait_for_end(workspace.api, name, controller)
            wait_until_clean(workspace.api, controller_account)
        assert status["phase"] == "Succeeded", status
        assert conditions_of(status)["ReservationBound"] == ("True", "OnReservedNode")


@pytest.mark.parametrize("placeholder_priority", ["Hold", "Yield"])
@pytest.mark.parametrize("delete", [True, False], ids=["job deleted", "job kept"])
def test_what_a_killed_controller_leaves_is_removed(
    delete: bool,
    placeholder_priority: str,
    controller_account: ControllerAccount,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    policy = held_place_policy(
        controller_account, placeholderPriority=placeholder_priority, steering="None"
    )
    with Scene(workspace, controller_account, kind="StatefulSet") as scene:
        scene.start_workload()

        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_after_eviction()
            _kill(controller)
        scene.open(scene.source)
        scene.let_pod_go()
        assert scene.wait_for_new_pod()["spec"]["nodeName"] == scene.source
        assert scene.placeholder() is not None

        if delete:
            workspace.api.delete(f"{JOBS_PATH}/{name}").granted()
            eventually("garbage collection", lambda: scene.placeholder() is None)
        with scene.start_controller(tmp_path, policy) as controller:
            if not delete:
                status = wait_for_end(workspace.api, name, controller)
                assert status["phase"] == "Succeeded", status
                assert conditions_of(status)["ReservationBound"] == ("True", "OnOtherNode")
            wait_until_clean(workspace.api, controller_account)
        scene.open(scene.target)
        scene.assert_room_on(scene.target)


# -- jobs that end early, in each step -------------------------------------------------------------


def _delete_job(scene: Scene, name: str) -> None:
    scene.api.delete(f"{JOBS_PATH}/{name}").granted()


def _end_ttl(scene: Scene, name: str) -> None:
    scene.end_ttl(name)


def _delete_node(scene: Scene, name: str) -> None:
    scene.api.delete(f"/api/v1/nodes/{scene.target}").granted()


INTERRUPTIONS = {"job deleted": _delete_job, "ttl over": _end_ttl, "node deleted": _delete_node}
Interrupt = Callable[[Scene, str], None]


@pytest.mark.parametrize(
    ("interruption", "reason"),
    [("job deleted", ""), ("ttl over", "Timeout")],
)
def test_a_job_ends_while_its_placeholder_has_no_node(
    interruption: str,
    reason: str,
    controller_account: ControllerAccount,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    policy = held_place_policy(controller_account, reserveTimeout="60s")
    with Scene(workspace, controller_account) as scene:
        scene.start_workload()
        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_without_place()
            INTERRUPTIONS[interruption](scene, name)
            _assert_ended(scene, name, reason, controller)
        assert scene.has_victim()
        scene.open(scene.target)
        scene.assert_room_on(scene.target)


@pytest.mark.parametrize("steering", ["Hard", "Gate"])
@pytest.mark.parametrize(
    ("interruption", "reason"),
    [("job deleted", ""), ("ttl over", "Timeout"), ("node deleted", "NodeGone")],
)
def test_a_job_ends_while_its_place_is_held(
    interruption: str,
    reason: str,
    steering: str,
    controller_account: ControllerAccount,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    policy = held_place_policy(controller_account, steering=steering)
    with Scene(workspace, controller_account) as scene:
        scene.start_workload()
        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_before_eviction()
            INTERRUPTIONS[interruption](scene, name)
            _assert_ended(scene, name, reason, controller)
        assert scene.has_victim()
        if interruption != "node deleted":
            scene.assert_room_on(scene.target)


@pytest.mark.parametrize("steering", ["Hard", "Gate"])
@pytest.mark.parametrize(("interruption", "reason"), [("job deleted", ""), ("ttl over", "Timeout")])
def test_a_job_ends_while_its_pod_leaves(
    interruption: str,
    reason: str,
    steering: str,
    controller_account: ControllerAccount,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    policy = held_place_policy(controller_account, steering=steering)
    with Scene(workspace, controller_account, kind="StatefulSet") as scene:
        scene.start_workload()
        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_after_eviction()
            INTERRUPTIONS[interruption](scene, name)
            _assert_ended(scene, name, reason, controller)
            scene.assert_room_on(scene.target)
            scene.let_pod_go()
            # There is no way back, and nothing is in the way of the new pod.
            assert scene.wait_for_new_pod()["spec"]["nodeName"] == scene.target


def test_a_node_is_deleted_under_the_placeholder_while_the_pod_leaves(
    controller_account: ControllerAccount, workspace: Workspace, tmp_path: Path
) -> None:
    other = workspace.nodes[2]
    with Scene(workspace, controller_account, kind="StatefulSet") as scene:
        scene.start_workload()
        with scene.start_controller(tmp_path, held_place_policy(controller_account)) as controller:
            name = scene.hold_after_eviction()
            _delete_node(scene, name)
            workspace.nodes.remove(scene.target)
            scene.open(other)
            scene.let_pod_go()
            status = wait_for_end(workspace.api, name, controller)
            wait_until_clean(workspace.api, controller_account)
        assert status["phase"] == "Succeeded", status
        assert conditions_of(status)["ReservationBound"] == ("True", "OnOtherNode")
        assert scene.wait_for_new_pod()["spec"]["nodeName"] == other


@pytest.mark.parametrize("interruption", ["job deleted", "ttl over", "node deleted"])
def test_a_job_ends_while_its_replacement_starts(
    interruption: str,
    controller_account: ControllerAccount,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    with Scene(workspace, controller_account, kubelet=False) as scene:
        scene.start_workload()
        with scene.start_controller(tmp_path, held_place_policy(controller_account)) as controller:
            name = scene.hold_unready()
            replacement = scene.new_pod()
            assert replacement is not None
            assert scene.placeholder() is None
            INTERRUPTIONS[interruption](scene, name)
            if interruption == "node deleted":
                workspace.nodes.remove(scene.target)
                scene.end_ttl(name)
            _assert_ended(
                scene,
                name,
                "" if interruption == "job deleted" else "ReplacementNotReady",
                controller,
            )
        assert not scene.has_victim()
        now = scene.new_pod()
        assert now is not None
        assert now["metadata"]["uid"] == replacement["metadata"]["uid"]


def _assert_ended(scene: Scene, name: str, reason: str, controller: Run) -> None:
    """Asserts that the job failed for that reason, or is gone if there is none; nothing is left."""
    if reason:
        status = wait_for_end(scene.api, name, controller)
        assert (status["phase"], status["reason"]) == ("Failed", reason), status
    else:
        eventually("no job", lambda: scene.api.get(f"{JOBS_PATH}/{name}").status == 404)
    wait_until_clean(scene.api, scene.account)
