"""Which nodes are balanced: ready ones that the policy selects, and no control plane unasked.

A control-plane node looks empty, takes no pods, and would drag every mean down. It is left out
unless it is a worker as well, or the policy's `nodeSelector` names its role.
"""

from __future__ import annotations

from resettle.framework.view import View
from resettle.model.node import Node

CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
WORKER = "node-role.kubernetes.io/worker"


def balanced(view: View) -> list[Node]:
    """The nodes in scope whose load counts, in order."""
    return [node for node in view.nodes if not left_out(view, node)]


def left_out(view: View, node: Node) -> bool:
    """Whether a node in scope is left out as one of the control plane."""
    if view.semantics.control_plane_balanced or WORKER in node.labels:
        return False
    named = {it.key for it in view.node_selector.requirements}
    return any(role in node.labels and role not in named for role in CONTROL_PLANE)
