"""How the strategies here say that they had nothing to do, or could do no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from resettle.framework.draft import Draft
from resettle.framework.verdict import Limit, Stopped
from resettle.model.node_index import NodeSet
from resettle.model.pod import Pod

NO_CANDIDATE = Stopped("no-candidate", "no pod is one that this plugin looks for")
LIMIT_REACHED = Stopped("limit-total", "the limit of moves in one cycle is reached")


class Next(Enum):
    """How a sweep over the pods of one node ended."""

    NODE = "the next node"
    NOTHING = "the plugin is done: the cycle takes no more moves"


def propose_in_turn(
    draft: Draft,
    pods: Iterable[Pod],
    because: Callable[[Pod], str],
    onto: Callable[[Pod], NodeSet] | None = None,
) -> Next:
    """Proposes the pods of one node until its limit or the cycle's is reached."""
    for pod in pods:
        better = onto(pod) if onto else None
        match draft.propose(pod, because=because(pod), onto=better).limit:
            case Limit.NODE | Limit.NODES:
                return Next.NODE
            case Limit.TOTAL:
                return Next.NOTHING
    return Next.NODE
