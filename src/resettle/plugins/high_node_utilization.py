"""HighNodeUtilization: empty nodes that are hardly used, so that they can go.

Only the scheduler decides where the pods land; this helps where it packs nodes rather than spreads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.verdict import Stopped
from resettle.load.bands import offered, shares, within
from resettle.load.usage import Requests
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.plugins.node_utilization import (
    ALL_UNDER,
    NO_DESTINATION,
    NO_UNDERUTILIZED,
    Balance,
    Source,
    exclude_only,
    extended,
    move_load,
    threshold_problems,
    too_few_under,
)
from resettle.policy.args import Args as PluginArgs
from resettle.policy.args import Namespaces
from resettle.policy.problem import Problem


class Args(PluginArgs, frozen=True, kw_only=True):
    """Arguments of HighNodeUtilization."""

    thresholds: dict[str, float] = {}
    number_of_nodes: int = 0
    eviction_modes: tuple[Literal["OnlyThresholdingResources"], ...] = ()
    evictable_namespaces: Namespaces | None = None

    def problems(self) -> Iterator[Problem]:
        yield from exclude_only(self.evictable_namespaces)
        yield from threshold_problems(self.thresholds, "thresholds")


def balance(args: Args, snapshot: Snapshot, draft: Draft) -> Stopped | None:
    """Proposes pods of the emptiest nodes while the others have room."""
    usage = Requests(snapshot)
    measured = {
        node: shares(usage.of_node(node), offered(node), args.thresholds) for node in snapshot.nodes
    }
    under = [node for node in snapshot.nodes if within(measured[node], args.thresholds)]
    emptied = set(under)
    destinations = [
        node for node in snapshot.nodes if node not in emptied and not node.unschedulable
    ]
    if not under:
        return NO_UNDERUTILIZED
    if len(under) <= args.number_of_nodes:
        return too_few_under(len(under), args.number_of_nodes)
    if len(under) == len(snapshot.nodes):
        return ALL_UNDER
    if not destinations:
        return NO_DESTINATION
    load = Balance(
        usage, extended(args.thresholds), dict.fromkeys(args.thresholds, 100.0), destinations
    )
    return move_load(
        [Source(node, load) for node in sorted(under, key=load.heft)],
        load,
        snapshot,
        draft,
        keep_going=lambda _: load.has_room,
        concerns=lambda pod: concerns(pod, args),
        because=lambda source: f"{source.node.name} is hardly used and could be emptied",
    )


def concerns(pod: Pod, args: Args) -> bool:
    """Whether the plugin may touch the pod: by namespace, and by what it requests."""
    if args.evictable_namespaces is not None and not args.evictable_namespaces.admits(
        pod.namespace
    ):
        return False
    return not args.eviction_modes or bool(pod.spec.requested & args.thresholds.keys())


PLUGIN = Plugin(name="HighNodeUtilization", args=Args, balance=balance)
