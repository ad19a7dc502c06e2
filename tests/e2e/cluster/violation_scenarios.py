"""How worlds go wrong: one function for each mishap, which real workloads and nodes come to.

The scheduler places every pod by the rules of its day; then nodes change, or what a kubelet tells.
"""

from __future__ import annotations

from tests.e2e.cluster.workloads import (
    crashing,
    label,
    old_enough,
    open_all,
    open_only,
    report,
    restarted,
    scale,
    workload,
)
from tests.e2e.cluster.workspace import Room, eventually

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def some_pods_crash(room: Room) -> None:
    workload(room, "web", 6)
    crashing(room, room.running()[:3])
    old_enough(room)


def some_pods_fail(room: Room) -> None:
    workload(room, "web", 6)
    for pod in room.running()[:2]:
        report(room, pod, phase="Failed", reason="Shutdown")
    # Its controller has made another by the time a failed pod is noticed.
    eventually("pods in their stead", lambda: len(room.ready()) == 6)


def some_pods_restart(room: Room) -> None:
    workload(room, "web", 6)
    restarted(room, room.running()[:3], times=40)


def nodes_are_tainted(room: Room) -> None:
    workload(room, "web", 12)
    taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
    for name in room.nodes[:2]:
        room.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [taint]}}).granted()


def nodes_lose_a_label(room: Room) -> None:
    for name in room.nodes[:3]:
        label(room, name, tier="fast")
    fast = {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["fast"]}]}
    wish = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [fast]}}}
    workload(room, "web", 6, affinity=wish)
    label(room, room.nodes[0], tier=None)
    label(room, room.nodes[5], tier="fast")


def a_preferred_node_joins(room: Room) -> None:
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    wish = {"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": ssd}]}}
    workload(room, "web", 3, affinity=wish)
    free = sorted(set(room.nodes) - {it["spec"]["nodeName"] for it in room.running()})
    for name in free:
        label(room, name, disk="ssd")


def nodes_turn_out_to_share_a_rack(room: Room) -> None:
    for i, name in enumerate(room.nodes):
        label(room, name, rack=f"r{i}")
    apart = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "web"}}}
    workload(room, "web", 3, affinity={"podAntiAffinity": {REQUIRED: [apart]}})
    taken = sorted(it["spec"]["nodeName"] for it in room.running())
    label(room, taken[0], rack="shared")
    label(room, taken[1], rack="shared")


def copies_crowd_a_node(room: Room) -> None:
    open_only(room, room.nodes[0])
    workload(room, "web", 4)
    open_all(room)


def racks_are_added(room: Room) -> None:
    label(room, room.nodes[0], rack="a")
    workload(room, "web", 6, topologySpreadConstraints=[_over_racks("DoNotSchedule")])
    label(room, room.nodes[1], rack="b")
    label(room, room.nodes[2], rack="c")


def racks_were_closed(room: Room) -> None:
    for name, rack in zip(room.nodes, "abcabc", strict=True):
        label(room, name, rack=rack)
    open_only(room, room.nodes[0], room.nodes[3])
    workload(room, "web", 6, topologySpreadConstraints=[_over_racks("ScheduleAnyway")])
    open_all(room)


def _over_racks(otherwise: str) -> dict[str, object]:
    return {
        "maxSkew": 1,
        "topologyKey": "rack",
        "whenUnsatisfiable": otherwise,
        "labelSelector": {"matchLabels": {"app": "web"}},
    }


def one_node_takes_all(room: Room) -> None:
    open_only(room, room.nodes[0])
    workload(room, "web", 12, cpu="500m")
    open_all(room)


def nodes_are_left_with_little(room: Room, scheduler: str) -> None:
    """Two nodes have a few small pods that this scheduler placed; a third is in good use."""
    full, sparse, sparser = room.nodes[:3]
    open_only(room, full)
    workload(room, "bulk", 3, cpu="1", schedulerName=scheduler)
    open_only(room, sparse)
    workload(room, "crumbs", 3, schedulerName=scheduler)
    open_only(room, sparser)
    scale(room, "crumbs", 4)
    open_all(room)
