"""HighNodeUtilization: empty nodes that are hardly used, so that they can go.

Only the scheduler decides where the pods land; this helps where it packs nodes rather than spreads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.verdict import Band, NotProposed, Stopped
from resettle.framework.view import View
from resettle.model.objects import Node
from resettle.model.pod import Pod
from resettle.plugins.node_utilization.improved import Relief
from resettle.plugins.node_utilization.upstream import (
    ALL_UNDER,
    NO_DESTINATION,
    NO_UNDERUTILIZED,
    Balance,
    EvictableNamespaces,
    Source,
    exclude_only,
    move_load,
    threshold_problems,
    too_few_under,
)
from resettle.policy.args import Args as PluginArgs
from resettle.policy.problems import Problem
from resettle.utilization.bands import UNDER, Bands, Scale, banded, offered, shares
from resettle.utilization.describe import nearest, tell_bands, told
from resettle.utilization.usage import BASIC, Requests


class Args(PluginArgs, frozen=True, kw_only=True):
    """Arguments of HighNodeUtilization."""

    thresholds: dict[str, float] = {}
    """A node with no resource above these is hardly used."""
    number_of_nodes: int = 0
    """Do nothing unless more nodes than this are hardly used."""
    eviction_modes: tuple[Literal["OnlyThresholdingResources"], ...] = ()
    """Only pods that request one of the resources in `thresholds`."""
    evictable_namespaces: EvictableNamespaces | None = None
    """Namespaces whose pods stay."""

    def problems(self) -> Iterator[Problem]:
        yield from exclude_only(self.evictable_namespaces)
        yield from threshold_problems(self.thresholds, "thresholds")


def balance(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Proposes pods of the emptiest nodes while the others have room."""
    tell_bands(view.prepared(args, bands_of), Requests(view), draft)
    if stop := _nothing_to_do(args, view):
        return stop
    under, destinations = _parted(args, view)
    habits = draft.semantics
    load = Balance(
        Requests(view),
        args.thresholds,
        dict.fromkeys(args.thresholds, 100.0),
        destinations,
        tolerations_counted=habits.tolerations_counted,
    )
    sources = [Source(node, load) for node in sorted(under, key=load.heft)]

    def concerned(pod: Pod) -> bool:
        return concerns(pod, args, bystanders=habits.bystanders_moved)

    def because(source: Source) -> str:
        return f"{source.node.name} is hardly used and could be emptied"

    if not habits.weak_fit:
        return Relief(load, destinations, view, draft).empty(sources, concerned, because)
    return move_load(
        sources,
        load,
        view,
        draft,
        keep_going=lambda _: load.has_room,
        concerns=concerned,
        because=because,
    )


def _parted(args: Args, view: View) -> tuple[list[Node], list[Node]]:
    """Nodes that are hardly used, and nodes that could take their pods."""
    bands = view.prepared(args, bands_of)
    return bands.under, [node for node in bands.within if not node.unschedulable]


def _nothing_to_do(args: Args, view: View) -> Stopped | None:
    under, destinations = _parted(args, view)
    if not under:
        return NO_UNDERUTILIZED
    if len(under) <= args.number_of_nodes:
        return too_few_under(len(under), args.number_of_nodes)
    if len(under) == len(view.nodes):
        return ALL_UNDER
    return None if destinations else NO_DESTINATION


def concerns(pod: Pod, args: Args, *, bystanders: bool) -> bool:
    """Whether the plugin may touch the pod: by namespace, and by what it requests.

    With thresholds on such things as GPUs alone, pods that use none of them are bystanders.
    """
    if args.evictable_namespaces is not None and not args.evictable_namespaces.admits(
        pod.namespace
    ):
        return False
    if not bystanders and args.thresholds.keys().isdisjoint(BASIC):
        return any(pod.spec.requests.get(name, 0) > 0 for name in args.thresholds)
    return not args.eviction_modes or bool(pod.spec.requested & args.thresholds.keys())


def bands_of(args: Args, view: View) -> Bands:
    """Nodes in scope that are hardly used, and the others: there is no line to be over."""
    usage = Requests(view)
    rows = {
        node: shares(usage.of_node(node), offered(node), args.thresholds) for node in view.nodes
    }
    return banded(view.nodes, rows, Scale(low=args.thresholds, high={}, cordoned_too=True))


def band(args: Args, view: View, node: Node) -> Band | None:
    """Where the thresholds put a node in scope."""
    bands = view.prepared(args, bands_of)
    name = bands.of(node)
    if name is None:
        return None
    row = bands.measured[node]
    return told(name, node, row, args.thresholds, "threshold", Requests(view))


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Whether the pod's node is in good use, or nothing can be done about it."""
    node = view.fleet.get(pod.node)
    found = band(args, view, node) if node else None
    if found is None:
        return None
    if found.name != UNDER:
        return NotProposed("node-used", found.says)
    if stop := _nothing_to_do(args, view):
        return NotProposed(stop.code, f"{found.says}, but {stop.says}")
    if concerns(pod, args, bystanders=view.semantics.bystanders_moved):
        return None
    if args.evictable_namespaces and not args.evictable_namespaces.admits(pod.namespace):
        said = f"its namespace {pod.namespace} is left out by `evictableNamespaces`"
        return NotProposed("namespace-left-out", said)
    return NotProposed("no-relief", "requests nothing of what the thresholds are about")


def near_misses(args: Args, view: View) -> Iterator[str]:
    """Nodes that are nearly empty enough to be emptied."""
    bands, usage = view.prepared(args, bands_of), Requests(view)
    return nearest(bands.within, bands.measured, args.thresholds, "threshold", usage, below=False)


PLUGIN = Plugin(
    name="HighNodeUtilization",
    args=Args,
    balance=balance,
    unfinished_only=True,
    why_not_proposed=why_not_proposed,
    near_misses=near_misses,
    band=band,
)
