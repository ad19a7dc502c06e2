"""What becomes of a pod that is gone: whose it was, and whether somebody makes another.

A stand-in for kube-scheduler: where replacements and waiting pods go.

It filters as the planner does and chooses by the same forecast, but knows nothing of what a plugin
had hoped for: a pod may well come back to the node it left.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct, structs

from resettle.model.pod import Pod, State
from resettle.model.snapshot import Snapshot
from resettle.placement.projection import Outlook

DAEMON_SET = ("DaemonSet",)


def replaced(pod: Pod) -> bool:
    """Whether a controller makes another once this one is gone.

    A bare pod has nobody to do so, a finished one has been counted already, and the kubelet's own
    pods live and die with their node.
    """
    template = pod.template
    return bool(template.owners) and not (pod.finished or template.mirror or template.static)


def tied_to_node(pod: Pod) -> bool:
    """Whether its replacement belongs to the same node, be it full or empty."""
    return pod.template.owned_by(DAEMON_SET)


def reborn(pod: Pod, node: str | None, at: datetime, cycle: int) -> Pod:
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
    """Whose pod it is, as people would say."""
    owner = next(iter(pod.owners), None)
    return f"{owner.kind} {pod.namespace}/{owner.name}" if owner else f"pod {pod.key}"


class Placed(Struct, frozen=True):
    """A pod, and the node it goes to; None while no node takes it."""

    pod: Pod
    node: str | None


class Waits(Struct, frozen=True):
    """A pod without a node, and what rules the nodes out."""

    pod: Pod
    why: str


def placed(snapshot: Snapshot, pods: Iterable[Pod]) -> list[Placed]:
    """Where each of these pods goes, one after the other; bound ones are taken to have left."""
    outlook = Outlook(snapshot)
    found = []
    for pod in pods:
        takers = outlook.takers(pod)
        if tied_to_node(pod) and pod.node:
            takers &= snapshot.fleet.only(pod.node)
        node = outlook.likeliest(pod, takers) if takers else None
        # A pod that finds no node holds none, wherever it was before.
        outlook.move(pod, node or "")
        found.append(Placed(pod, node))
    return found


def waiting_in(snapshot: Snapshot) -> list[Pod]:
    """Pods that the scheduler has yet to place: the most important first, then the oldest."""
    unbound = snapshot.population.on("")
    waiting = [pod for pod in unbound if not pod.finished and not pod.terminating]
    return sorted(waiting, key=lambda pod: (-(pod.spec.priority or 0), pod.seniority()))


def why_they_wait(snapshot: Snapshot) -> tuple[Waits, ...]:
    """Each pod that waits for a node, with the nodes counted by what rules them out."""
    waiting = waiting_in(snapshot)
    if not waiting:
        return ()
    outlook, everyone = Outlook(snapshot), snapshot.fleet.everyone
    return tuple(
        Waits(pod, ", ".join(f"{it.nodes.bit_count()} {it.says}" for it in found) or "no node")
        for pod in waiting
        for found in [outlook.ruled_out(pod, everyone)]
    )
