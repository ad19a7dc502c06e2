"""What strategies share: proposing the pods of one node, and the usual reasons to stop.

A limit of a node ends the turn of that node only; the limit of the cycle ends the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from resettle.framework.draft import Draft
from resettle.framework.verdict import Limit, NotProposed, Stopped
from resettle.model.node_index import NodeSet
from resettle.model.pod import Pod

NO_CANDIDATE = Stopped("no-candidate", "no matching pods")
LIMIT_REACHED = Stopped("limit-total", "the limit of moves in one cycle is reached")


class SweepResult(Enum):
    """How a sweep over the pods of one node ended."""

    NEXT_NODE = "go on with the next node"
    LIMIT_REACHED = "the limit of moves in one cycle is reached"


def propose_each(
    draft: Draft,
    pods: Iterable[Pod],
    because: Callable[[Pod], str],
    onto: Callable[[Pod], NodeSet] | None = None,
) -> SweepResult:
    """Propose the pods of one node until its limit or the cycle's is reached."""
    for pod in pods:
        better = onto(pod) if onto else None
        match draft.propose(pod, because=because(pod), onto=better).limit:
            case Limit.NODE | Limit.NODES:
                return SweepResult.NEXT_NODE
            case Limit.TOTAL:
                return SweepResult.LIMIT_REACHED
    return SweepResult.NEXT_NODE


# -- reasons why a pod is not proposed ------------------------------------------------------------


def namespace_excluded(pod: Pod, key: str) -> NotProposed:
    """The pod's namespace is excluded by the argument of this key."""
    says = f"its namespace {pod.namespace} is excluded by `{key}`"
    return NotProposed("namespace-left-out", says)


def owner_excluded(pod: Pod, key: str) -> NotProposed:
    """The kind of the pod's owner is excluded by the argument of this key."""
    kinds = ", ".join(owner.kind for owner in pod.owners) or "nothing"
    return NotProposed("other-owner", f"is owned by {kinds}, which `{key}` excludes")


NO_EXIT_CODE = NotProposed(
    "other-exit-code", "none of its containers ended with one of the `exitCodes`"
)
