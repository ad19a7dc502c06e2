"""Brings a cluster into a state that a strategy should correct: one function for each violation.

Every pod is placed correctly; then nodes or the reported status of pods change.
"""

from __future__ import annotations

from tests.e2e.cluster.workloads import (
    cordon_all_but,
    create_deployment,
    create_replica_set,
    label,
    report_crashes,
    report_restarts,
    report_status,
    uncordon_all,
    wait_until_old,
)
from tests.e2e.cluster.workspace import Workspace, eventually

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def crash_some_pods(workspace: Workspace) -> None:
    create_deployment(workspace, "web", 6)
    report_crashes(workspace, workspace.list_pods()[:3])
    wait_until_old(workspace)


def fail_some_pods(workspace: Workspace) -> None:
    create_deployment(workspace, "web", 6)
    for pod in workspace.list_pods()[:2]:
        report_status(workspace, pod, phase="Failed", reason="Shutdown")
    # The controller creates a replacement as soon as it sees a failed pod.
    eventually("replacements", lambda: len(workspace.list_ready_pods()) == 6)


def restart_some_pods(workspace: Workspace) -> None:
    create_deployment(workspace, "web", 6)
    report_restarts(workspace, workspace.list_pods()[:3], times=40)


def taint_two_nodes(workspace: Workspace) -> None:
    create_deployment(workspace, "web", 12)
    taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
    for name in workspace.nodes[:2]:
        workspace.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [taint]}}).granted()


def remove_node_labels(workspace: Workspace) -> None:
    for name in workspace.nodes[:3]:
        label(workspace, name, tier="fast")
    fast = {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["fast"]}]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [fast]}}}
    create_deployment(workspace, "web", 6, affinity=affinity)
    label(workspace, workspace.nodes[0], tier=None)
    label(workspace, workspace.nodes[5], tier="fast")


def add_preferred_nodes(workspace: Workspace) -> None:
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    affinity = {"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": ssd}]}}
    create_deployment(workspace, "web", 3, affinity=affinity)
    free = sorted(set(workspace.nodes) - {pod["spec"]["nodeName"] for pod in workspace.list_pods()})
    for name in free:
        label(workspace, name, disk="ssd")


def put_nodes_in_one_rack(workspace: Workspace) -> None:
    for i, name in enumerate(workspace.nodes):
        label(workspace, name, rack=f"r{i}")
    apart = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "web"}}}
    create_deployment(workspace, "web", 3, affinity={"podAntiAffinity": {REQUIRED: [apart]}})
    used_nodes = sorted(pod["spec"]["nodeName"] for pod in workspace.list_pods())
    label(workspace, used_nodes[0], rack="shared")
    label(workspace, used_nodes[1], rack="shared")


def put_duplicates_on_one_node(workspace: Workspace) -> None:
    cordon_all_but(workspace, workspace.nodes[0])
    create_deployment(workspace, "web", 4)
    uncordon_all(workspace)


def add_racks(workspace: Workspace) -> None:
    label(workspace, workspace.nodes[0], rack="a")
    create_deployment(workspace, "web", 6, topologySpreadConstraints=[_over_racks("DoNotSchedule")])
    label(workspace, workspace.nodes[1], rack="b")
    label(workspace, workspace.nodes[2], rack="c")


def place_pods_in_one_rack(workspace: Workspace) -> None:
    for name, rack in zip(workspace.nodes, "abcabc", strict=True):
        label(workspace, name, rack=rack)
    cordon_all_but(workspace, workspace.nodes[0], workspace.nodes[3])
    create_deployment(
        workspace, "web", 6, topologySpreadConstraints=[_over_racks("ScheduleAnyway")]
    )
    uncordon_all(workspace)


def _over_racks(otherwise: str) -> dict[str, object]:
    return {
        "maxSkew": 1,
        "topologyKey": "rack",
        "whenUnsatisfiable": otherwise,
        "labelSelector": {"matchLabels": {"app": "web"}},
    }


def fill_one_node(workspace: Workspace) -> None:
    cordon_all_but(workspace, workspace.nodes[0])
    create_deployment(workspace, "web", 12, cpu="500m")
    uncordon_all(workspace)


def leave_nodes_underused(workspace: Workspace, scheduler: str) -> None:
    """Leaves two nodes with a few small pods of this scheduler; a third is well used."""
    full, sparse, sparser = workspace.nodes[:3]
    create_replica_set(workspace, "bulk", {full: 3}, cpu="1", schedulerName=scheduler)
    create_replica_set(workspace, "small", {sparse: 3, sparser: 1}, schedulerName=scheduler)
