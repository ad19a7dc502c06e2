"""Jobs that hold a place before they evict: where the place is, and who gets it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster.workloads import create_deployment, label, report_status
from tests.e2e.cluster.workspace import Workspace, eventually, poll
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.harness import (
    conditions_of,
    job_policy,
    wait_for_end,
    wait_until_clean,
)
from tests.e2e.migration.scene import APP, CPU, Scene, held_place_policy
from tests.e2e.processes.run import AuditedUser
from tools.control_plane.api import Object
from tools.control_plane.plane import Access

SLOW_START_SECONDS = 3.0


@pytest.mark.parametrize("steering", ["None", "Soft", "Hard", "Gate"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_replacement_lands_on_the_one_node_with_room(
    kind: str,
    steering: str,
    controller_account: ControllerAccount,
    workspace: Workspace,
    plane: Access,
    tmp_path: Path,
) -> None:
    policy = held_place_policy(controller_account, steering=steering)
    with Scene(workspace, controller_account, kind=kind) as scene:
        scene.start_workload()
        audited = AuditedUser(plane, controller_account.user)

        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_before_eviction()
            placeholder = scene.placeholder()
            assert placeholder is not None
            assert placeholder["spec"]["nodeName"] == scene.target
            assert audited.evictions() == []
            assert scene.has_victim()

            scene.allow_eviction()
            status = wait_for_end(workspace.api, name, controller)
            assert status["phase"] == "Succeeded", f"{status['message']}\n{controller.log_text}"
            wait_until_clean(workspace.api, controller_account)
            assert controller.stop() == 0, controller.log_text

        assert status["nodeName"] == scene.target
        assert scene.wait_for_new_pod()["spec"]["nodeName"] == scene.target
        assert conditions_of(status)["ReservationBound"] == ("True", "OnReservedNode")
        assert [eviction.uid for eviction in audited.evictions()] == [
            scene.victim["metadata"]["uid"]
        ]
        _assert_order(audited, controller_account)
        # A placeholder may come before the API server knows its class; it is created again then.
        own = f"/api/v1/namespaces/{controller_account.namespace}/pods"
        assert set(audited.forbidden_requests()) <= {own}


def _assert_order(audited: AuditedUser, account: ControllerAccount) -> None:
    """Asserts that the placeholder was created before the pod was asked to leave."""
    made = [
        (request["verb"], request["objectRef"].get("subresource", ""))
        for request in audited.requests()
        if request["objectRef"].get("resource") == "pods"
        and "dryRun" not in request["requestURI"]
        and request["verb"] == "create"
    ]
    assert made[0] == ("create", ""), made
    assert ("create", "eviction") in made[1:]


@pytest.mark.parametrize(
    ("node_fit", "says"), [(False, "Insufficient cpu"), (True, "no other node would take it")]
)
def test_without_room_elsewhere_the_pod_is_never_asked_to_leave(
    node_fit: bool,
    says: str,
    controller_account: ControllerAccount,
    workspace: Workspace,
    plane: Access,
    tmp_path: Path,
) -> None:
    policy = job_policy(controller_account, evictor={"nodeFit": node_fit}, reserveTimeout="3s")
    with Scene(workspace, controller_account) as scene:
        scene.start_workload()
        scene.open(*(node for node in workspace.nodes if node != scene.source))
        create_deployment(workspace, "others", len(workspace.nodes) - 1, cpu=CPU)
        scene.open(*workspace.nodes)
        audited = AuditedUser(plane, controller_account.user)

        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.create_job()
            for _ in poll(60):
                assert scene.has_victim()
                if scene.status(name).get("phase") == "Failed":
                    break
            status = wait_for_end(workspace.api, name, controller)
            wait_until_clean(workspace.api, controller_account)

        assert (status["phase"], status["reason"]) == ("Failed", "Unschedulable")
        assert says in status["message"]
        assert scene.has_victim()
        assert audited.eviction_requests() == []


# -- what the pod asks of its node -----------------------------------------------------------------


def _select_node(scene: Scene) -> Object:
    for name in (scene.source, scene.target):
        label(scene.workspace, name, disk="fast")
    return {"nodeSelector": {"workspace": scene.workspace.name, "disk": "fast"}}


def _tolerate_taint(scene: Scene) -> Object:
    """The pod tolerates the taint of the target and not that of all others."""
    for name in scene.workspace.nodes:
        if name != scene.source:
            key = "example.com/mine" if name == scene.target else "example.com/theirs"
            taint = {"key": key, "effect": "NoSchedule"}
            scene.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [taint]}}).granted()
    return {"tolerations": [{"key": "example.com/mine", "operator": "Exists"}]}


def _avoid_others(scene: Scene) -> Object:
    """The pod must not be beside pods that are on all nodes but source and target."""
    _occupy_others(scene)
    term = {
        "labelSelector": {"matchLabels": {"app": "others"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    }


def _want_host_port(scene: Scene) -> Object:
    ports = [{"containerPort": 80, "hostPort": 8080}]
    wanted = {"requests": {"cpu": "1", "memory": "16Mi"}}
    container = {"name": "main", "image": "registry.example/app:1", "resources": wanted}
    containers = {"containers": [{**container, "ports": ports}]}
    _occupy_others(scene, **containers)
    return containers


def _want_volume(scene: Scene) -> Object:
    """The pod has a volume of the zone that source and target are in."""
    space, name = scene.workspace.name, f"{scene.workspace.name}-volume"
    for node in (scene.source, scene.target):
        label(scene.workspace, node, **{"topology.kubernetes.io/zone": f"{space}-zone"})
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [f"{space}-zone"]}
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    claim = {
        "namespace": space,
        "name": "data",
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
    }
    volume = {
        "metadata": {"name": name},
        "spec": {
            "capacity": size,
            "accessModes": modes,
            "storageClassName": "",
            "claimRef": claim,
            "csi": {"driver": "example.com", "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
        },
    }
    scene.create_cluster_object("/api/v1/persistentvolumes", volume)
    spec = {"accessModes": modes, "storageClassName": "", "resources": {"requests": size}}
    body = {
        "metadata": {
            "name": "data",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {**spec, "volumeName": name},
    }
    claims = f"/api/v1/namespaces/{space}/persistentvolumeclaims"
    scene.api.post(claims, body).granted()
    bound = {"status": {"phase": "Bound", "accessModes": modes, "capacity": size}}
    scene.api.patch(f"{claims}/data/status", bound).granted()
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def _occupy_others(scene: Scene, **spec: Any) -> None:
    others = [name for name in scene.workspace.nodes if name not in (scene.source, scene.target)]
    scene.open(*others)
    spread = {"podAntiAffinity": _required_apart("others")}
    create_deployment(scene.workspace, "others", len(others), affinity=spread, **spec)


def _required_apart(app: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


@pytest.mark.parametrize(
    "constrain",
    [
        pytest.param(_select_node, id="node selector"),
        pytest.param(_tolerate_taint, id="taints"),
        pytest.param(_avoid_others, id="anti-affinity"),
        pytest.param(_want_host_port, id="host port"),
        pytest.param(_want_volume, id="zonal volume"),
    ],
)
def test_the_place_is_on_a_node_that_the_pod_accepts(
    constrain: Callable[[Scene], Object],
    controller_account: ControllerAccount,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    policy = held_place_policy(controller_account, steering="Gate")
    with Scene(workspace, controller_account) as scene:
        spec = constrain(scene)
        scene.start_workload(cpu="1", **spec)
        assert scene.victim["spec"]["nodeName"] == scene.source

        with scene.start_controller(tmp_path, policy) as controller:
            # Every node has room by now, the pod's own too: only the constraints decide.
            name = scene.hold_before_eviction(*workspace.nodes)
            placeholder = scene.placeholder()
            assert placeholder is not None
            assert placeholder["spec"]["nodeName"] == scene.target
            scene.allow_eviction()
            status = wait_for_end(workspace.api, name, controller)
            wait_until_clean(workspace.api, controller_account)

        assert status["phase"] == "Succeeded", status
        assert scene.wait_for_new_pod()["spec"]["nodeName"] == scene.target


def test_nothing_but_its_job_knows_the_placeholder(
    controller_account: ControllerAccount, workspace: Workspace, tmp_path: Path
) -> None:
    api = workspace.api
    policy = held_place_policy(controller_account)
    with Scene(workspace, controller_account) as scene:
        scene.start_workload()
        for space in (workspace.name, controller_account.namespace):
            service = {"selector": {"app": APP}, "ports": [{"port": 80}]}
            body = {"metadata": {"name": APP}, "spec": service}
            api.post(f"/api/v1/namespaces/{space}/services", body).granted()
        own = controller_account.namespace
        template = {
            "metadata": {"labels": {"app": APP}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": APP}}, "template": template}
        replica_sets = f"/apis/apps/v1/namespaces/{own}/replicasets"
        api.post(replica_sets, {"metadata": {"name": APP}, "spec": spec}).granted()
        budgets = f"/apis/policy/v1/namespaces/{own}/poddisruptionbudgets"
        budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": APP}}}
        api.post(budgets, {"metadata": {"name": APP}, "spec": budget}).granted()

        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_before_eviction()
            placeholder = scene.placeholder()
            assert placeholder is not None
            eventually(
                "a placeholder that runs",
                lambda: (scene.placeholder() or {})["status"]["phase"] == "Running",
            )
            # A Service leads to pods that have an address.
            for number, pod in enumerate((scene.victim, placeholder), 1):
                address = f"10.1.0.{number}"
                status = {"podIP": address, "podIPs": [{"ip": address}]}
                meta = pod["metadata"]
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
                api.patch(path, {"status": status}).granted()
            _await_controllers(scene, own)

            owners = placeholder["metadata"]["ownerReferences"]
            assert [(owner["kind"], owner["name"]) for owner in owners] == [
                ("PodMigrationJob", name)
            ]
            assert api.get(f"{replica_sets}/{APP}").granted()["status"]["replicas"] == 0
            deployment = f"/apis/apps/v1/namespaces/{workspace.name}/deployments/{APP}"
            assert api.get(deployment).granted()["status"]["replicas"] == 1
            assert api.get(f"{budgets}/{APP}").granted()["status"]["expectedPods"] == 0
            assert _endpoints(scene, own) == []
            assert _endpoints(scene, workspace.name) == [scene.victim["metadata"]["name"]]

            scene.allow_eviction()
            assert wait_for_end(api, name, controller)["phase"] == "Succeeded"


def _await_controllers(scene: Scene, own: str) -> None:
    """Waits until the controllers have counted pods: the budget that holds the pod, and ours."""
    budgets = f"/apis/policy/v1/namespaces/{own}/poddisruptionbudgets/{APP}"
    replica_sets = f"/apis/apps/v1/namespaces/{own}/replicasets/{APP}"

    def is_counted(path: str) -> bool:
        return bool(scene.api.get(path).granted()["status"].get("observedGeneration"))

    for path in (budgets, replica_sets):
        eventually("a status", partial(is_counted, path))
    eventually("endpoints", lambda: _endpoints(scene, scene.workspace.name))


def _endpoints(scene: Scene, namespace: str) -> list[str]:
    """Names of the pods in EndpointSlices of the namespace."""
    slices = scene.api.items(f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")
    return [
        endpoint["targetRef"]["name"]
        for found in slices
        for endpoint in found.get("endpoints") or ()
    ]


# -- when a move has succeeded ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_move_succeeds_only_once_the_replacement_is_ready(
    kind: str, controller_account: ControllerAccount, workspace: Workspace, tmp_path: Path
) -> None:
    policy = held_place_policy(controller_account, defaultJobTTL="60s")
    with Scene(workspace, controller_account, kind=kind, kubelet=False) as scene:
        scene.start_workload()

        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_unready()
            replacement = scene.new_pod()
            assert replacement is not None
            report_status(workspace, replacement, phase="Running", conditions=_ready("False"))
            for _ in poll(SLOW_START_SECONDS):
                assert scene.status(name).get("phase") == "Running"
            report_status(workspace, replacement, phase="Running", conditions=_ready("True"))
            status = wait_for_end(workspace.api, name, controller)
            wait_until_clean(workspace.api, controller_account)

        assert status["phase"] == "Succeeded", status
        assert conditions_of(status)["BoundPodReady"][0] == "True"
        assert status["podRef"]["uid"] == replacement["metadata"]["uid"]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_replacement_that_is_never_ready_fails_the_move(
    kind: str, controller_account: ControllerAccount, workspace: Workspace, tmp_path: Path
) -> None:
    policy = held_place_policy(controller_account, defaultJobTTL="60s")
    with Scene(workspace, controller_account, kind=kind, kubelet=False) as scene:
        scene.start_workload()

        with scene.start_controller(tmp_path, policy) as controller:
            name = scene.hold_unready()
            replacement = scene.new_pod()
            assert replacement is not None
            report_status(workspace, replacement, phase="Running", conditions=_ready("False"))
            scene.end_ttl(name)
            status = wait_for_end(workspace.api, name, controller)
            wait_until_clean(workspace.api, controller_account)

        assert (status["phase"], status["reason"]) == ("Failed", "ReplacementNotReady")
        assert scene.target in status["message"]


def _ready(status: str) -> list[Object]:
    scheduled = {"type": "PodScheduled", "status": "True"}
    return [scheduled, {"type": "Ready", "status": status}]
