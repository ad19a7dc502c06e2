"""RemovePodsFromRetiredPools: move pods off the nodes of pools that are to be given back.

A pod is proposed only while some node of a pool that stays would take it: it should not wait
unscheduled, nor come back to where it was.
"""

from __future__ import annotations

from collections.abc import Iterator

from resettle.framework import Args as PluginArgs
from resettle.framework import Draft, Limit, Plugin, Problem, Stopped, View
from resettle.model import Node

NOTHING_RETIRED = Stopped("no-candidate", "no node in scope belongs to a retired pool")
NOTHING_STAYS = Stopped("nothing-stays", "every node in scope belongs to a retired pool")
LIMIT_REACHED = Stopped("limit-total", "the limit of moves in one cycle is reached")


class Args(PluginArgs, frozen=True, kw_only=True):
    """Arguments of RemovePodsFromRetiredPools."""

    retired: tuple[str, ...] = ()
    pool_label: str = "pool"

    def problems(self) -> Iterator[Problem]:
        if not self.retired:
            yield Problem(
                what="no pool is named, so no pod would ever move",
                fix="list the pools to empty, as in `retired: [blue]`",
                at=("retired",),
            )
        if not self.pool_label:
            yield Problem(
                what="without a label no node belongs to a pool",
                fix="name the node label that tells a node's pool",
                at=("poolLabel",),
            )


def retired_pool(node: Node, args: Args) -> str | None:
    """The retired pool that the node belongs to, or None when it stays."""
    pool = node.labels.get(args.pool_label)
    return pool if pool in args.retired else None


def deschedule(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Proposes the pods of every retired node that would find room on a node that stays."""
    retired = {node: pool for node in view.nodes if (pool := retired_pool(node, args))}
    if not retired:
        return NOTHING_RETIRED
    staying = view.in_scope & ~view.node_index.set_of(retired)
    if not staying:
        return NOTHING_STAYS
    reasons = {
        pod: f"{node.name} belongs to the retired pool {pool}"
        for node, pool in retired.items()
        for pod in draft.presort(view.active_on(node))
    }
    for pod in draft.sort(reasons):
        if not view.upstream_fit.feasible_elsewhere(pod, staying):
            draft.note(pod, "no-room", f"{reasons[pod]}, but no node that stays would take it")
        elif draft.propose(pod, because=reasons[pod], onto=staying).limit is Limit.TOTAL:
            return LIMIT_REACHED
    return None


PLUGIN = Plugin(name="RemovePodsFromRetiredPools", args=Args, deschedule=deschedule)
