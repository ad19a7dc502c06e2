"""A stand-in for kube-scheduler and controllers: which pods are replaced, and where they go.

It filters and scores as the planner's projection does, but does not know what a plugin expected: a
replacement may return to the node that its pod was evicted from.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct, structs

from resettle.model.pod import Pod, State
from resettle.model.snapshot import Snapshot
from resettle.placement.projection import Projection

DAEMON_SET = ("DaemonSet",)


def is_replaced(pod: Pod) -> bool:
    """Whether a controller creates another pod when this one is deleted.

    A bare pod has no controller, a finished one has been counted already, and static pods belong to
    the kubelet of their node.
    """
    template = pod.template
    return bool(template.owners) and not (pod.finished or template.mirror or template.static)


def is_tied_to_node(pod: Pod) -> bool:
    """Whether its replacement belongs to the same node, however full that is."""
    return pod.template.owned_by(DAEMON_SET)


def replacement_of(pod: Pod, node: str | None, at: datetime, cycle: int) -> Pod:
    """The replacement of a pod, running on a node, or waiting for one."""
    return structs.replace(
        pod,
        uid=f"{pod.uid.split('~')[0]}~{cycle}",
        node=node or "",
        created=at,
        started=at if node else None,
        state=State(phase="Running" if node else "Pending", qos=pod.qos, ready=node is not None),
        terminating=False,
        own_claims=(),
        since=b"",
    )


def workload(pod: Pod) -> str:
    """The workload of the pod, as people would write it."""
    owner = next(iter(pod.owners), None)
    return f"{owner.kind} {pod.namespace}/{owner.name}" if owner else f"pod {pod.key}"


class Placement(Struct, frozen=True):
    """A pod and its node; None if no node is feasible."""

    pod: Pod
    node: str | None


class WaitingPod(Struct, frozen=True):
    """A pending pod, and why no node is feasible."""

    pod: Pod
    why: str


def place_pods(snapshot: Snapshot, pods: Iterable[Pod]) -> list[Placement]:
    """Place these pods one after the other; bound ones count as evicted from their node."""
    projection = Projection(snapshot)
    placements = []
    for pod in pods:
        feasible = projection.feasible_nodes(pod)
        if is_tied_to_node(pod) and pod.node:
            feasible &= snapshot.node_index.only(pod.node)
        node = projection.highest_scored_node(pod, feasible) if feasible else None
        # A pod without a feasible node takes no capacity, wherever it was before.
        projection.move(pod, node or "")
        placements.append(Placement(pod, node))
    return placements


def pods_to_schedule(snapshot: Snapshot) -> list[Pod]:
    """Pending pods in the order of the scheduler: highest priority first, then the oldest."""
    unbound = snapshot.pod_index.on("")
    waiting = [pod for pod in unbound if not pod.finished and not pod.terminating]
    return sorted(waiting, key=lambda pod: (-(pod.spec.priority or 0), pod.seniority()))


def explain_waiting(snapshot: Snapshot) -> tuple[WaitingPod, ...]:
    """Each pending pod, with the number of nodes by why they are not feasible."""
    waiting = pods_to_schedule(snapshot)
    if not waiting:
        return ()
    projection, all_nodes = Projection(snapshot), snapshot.node_index.all_nodes
    return tuple(
        WaitingPod(
            pod,
            ", ".join(f"{rejection.nodes.bit_count()} {rejection.says}" for rejection in rejections)
            or "no node",
        )
        for pod in waiting
        for rejections in [projection.ruled_out(pod, all_nodes)]
    )
