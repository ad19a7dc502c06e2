"""A descheduler of your own: strategy, filter and limits put together in code, without a policy.

Pods leave a cordoned node once it has been cordoned for some cycles in a row: long enough that
it will not be uncordoned in a minute. Run it with `python own_descheduler.py`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec import convert

from resettle.framework import (
    Args,
    Descheduler,
    Draft,
    ExtensionPoint,
    Instance,
    Limits,
    Plan,
    Plugin,
    Profile,
    Registry,
    Stopped,
    View,
    default_registry,
)
from resettle.model import IMPROVED
from resettle.testing import NOW, cluster, node, pod

PATIENT = Stopped("no-candidate", "no node has been cordoned for long enough")


class CordonArgs(Args, frozen=True, kw_only=True):
    cycles: int = 2


def deschedule(args: CordonArgs, view: View, draft: Draft) -> Stopped | None:
    """Proposes the pods of nodes that were cordoned in this cycle and in those just before."""
    before: dict[str, int] = draft.recall() or {}
    streaks = {node.name: before.get(node.name, 0) + 1 for node in view.nodes if node.unschedulable}
    draft.remember(streaks)
    due = [node for node in view.nodes if streaks.get(node.name, 0) >= args.cycles]
    for cordoned in due:
        reason = f"{cordoned.name} is cordoned for {streaks[cordoned.name]} cycles"
        for candidate in draft.sort(view.active_on(cordoned)):
            draft.propose(candidate, because=reason)
    return None if due else PATIENT


LEAVE_CORDONED = Plugin(
    name="LeaveCordonedNodes",
    args=CordonArgs,
    deschedule=deschedule,
    reads=lambda args: frozenset({"history"}),
)

# The names this program knows: one plugin of resettle's and one of its own.
PLUGINS = Registry([default_registry()["DefaultEvictor"], LEAVE_CORDONED])


def instance(name: str, point: str, **args: Any) -> Instance:
    """A plugin at an extension point, its arguments spelled as in a policy."""
    plugin = PLUGINS[name]
    return Instance(plugin, convert(args, plugin.args), ExtensionPoint(point))


FILTER_ARGS = {"minReplicas": 2, "nodeFit": True}
DESCHEDULER = Descheduler(
    profiles=(
        Profile(
            name="cordoned",
            deschedule=(instance("LeaveCordonedNodes", "deschedule", cycles=2),),
            filters=(instance("DefaultEvictor", "filter", **FILTER_ARGS),),
            pre_eviction_filters=(instance("DefaultEvictor", "preevictionfilter", **FILTER_ARGS),),
        ),
    ),
    limits=Limits(total=10, node=5),
    semantics=IMPROVED,
)


def describe(plan: Plan) -> str:
    """A plan in a few words."""
    lines = [f"{plan.taken_at:%H:%M}  {len(plan.moves)} of {plan.pods} pods would move"]
    lines += [f"       {move.pod.key} leaves: {move.reason}" for move in plan.moves]
    lines += [f"       {count} refused: {code}" for code, count in plan.refused.items()]
    lines += [f"       {run.plugin}: {run.stopped.says}" for run in plan.runs if run.stopped]
    return "\n".join(lines)


def main() -> None:
    """Draws the plans of two cycles, five minutes apart."""
    shop = (
        node("n1", cordoned=True).holding(
            pod("web-1", owner="ReplicaSet/web"),
            pod("ledger-1", owner="ReplicaSet/ledger"),
            pod("logs-1", owner="DaemonSet/logs"),
        ),
        node("n2").holding(pod("web-2", owner="ReplicaSet/web")),
    )
    first = DESCHEDULER.draw_plan(cluster(*shop).snapshot())
    print(describe(first))
    later = cluster(*shop, now=NOW + timedelta(minutes=5))
    print(describe(DESCHEDULER.draw_plan(later.snapshot(history=first.history))))


if __name__ == "__main__":
    main()
