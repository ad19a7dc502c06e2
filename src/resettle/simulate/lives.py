"""What becomes of a pod that is gone: whose it was, and whether somebody makes another."""

from __future__ import annotations

from datetime import datetime

from msgspec import structs

from resettle.model.pod import Pod, State

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
