"""HighNodeUtilization: drain nodes that are hardly used, so that they can be removed.

The scheduler decides where the pods land: useful where it packs nodes (MostAllocated).
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
from resettle.plugins._common import namespace_excluded
from resettle.plugins.node_utilization.improved import LoadReliever
from resettle.plugins.node_utilization.upstream import (
    ALL_UNDER,
    NO_DESTINATION,
    NO_UNDERUTILIZED,
    Balance,
    EvictableNamespaces,
    SourceNode,
    exclude_only,
    move_load,
    threshold_problems,
    too_few_under,
)
from resettle.policy.args import Args as PluginArgs
from resettle.policy.problems import Problem
from resettle.utilization.bands import (
    UNDER,
    BandLimits,
    Bands,
    node_capacity,
    shares,
    sort_into_bands,
)
from resettle.utilization.describe import band_with_figures, nearest_to_limit, report_bands
from resettle.utilization.usage import BASIC, RequestedUsage


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
    """Propose pods of the emptiest nodes while the others have room."""
    report_bands(view.prepare_once(args, bands_of), RequestedUsage(view), draft)
    if stop := _nothing_to_do(args, view):
        return stop
    under, destinations = _sources_and_destinations(args, view)
    semantics = draft.semantics
    load = Balance(
        RequestedUsage(view),
        args.thresholds,
        dict.fromkeys(args.thresholds, 100.0),
        destinations,
        tolerations_counted=semantics.tolerations_counted,
    )
    sources = [SourceNode(node, load) for node in sorted(under, key=load.total_usage)]

    def may_move(pod: Pod) -> bool:
        return concerns(pod, args, bystanders=semantics.bystanders_moved)

    def because(source: SourceNode) -> str:
        return f"{source.node.name} is at {source.figures(args.thresholds)}"

    if not semantics.weak_fit:
        return LoadReliever(load, destinations, view, draft).drain(sources, may_move, because)
    return move_load(
        sources,
        load,
        view,
        draft,
        keep_going=lambda _: load.has_room,
        concerns=may_move,
        because=because,
    )


def _sources_and_destinations(args: Args, view: View) -> tuple[list[Node], list[Node]]:
    """Nodes that are hardly used, and nodes that could take their pods."""
    bands = view.prepare_once(args, bands_of)
    return bands.under, [node for node in bands.within if not node.unschedulable]


def _nothing_to_do(args: Args, view: View) -> Stopped | None:
    under, destinations = _sources_and_destinations(args, view)
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
    """Nodes in scope that are hardly used, and the others: there is no high limit."""
    usage = RequestedUsage(view)
    rows = {
        node: shares(usage.of_node(node), node_capacity(node), args.thresholds)
        for node in view.nodes
    }
    return sort_into_bands(
        view.nodes, rows, BandLimits(low=args.thresholds, high={}, include_cordoned=True)
    )


def band(args: Args, view: View, node: Node) -> Band | None:
    """Where the thresholds put a node in scope."""
    bands = view.prepare_once(args, bands_of)
    name = bands.of(node)
    if name is None:
        return None
    row = bands.measured[node]
    return band_with_figures(name, node, row, args.thresholds, "threshold", RequestedUsage(view))


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Why the plugin leaves the pod alone: its node is used enough, or nothing can be done."""
    node = view.node_index.get(pod.node)
    node_band = band(args, view, node) if node else None
    if node_band is None:
        return None
    if node_band.name != UNDER:
        return NotProposed("node-used", node_band.says)
    if stop := _nothing_to_do(args, view):
        return NotProposed(stop.code, f"{node_band.says}, but {stop.says}")
    if concerns(pod, args, bystanders=view.semantics.bystanders_moved):
        return None
    if args.evictable_namespaces and not args.evictable_namespaces.admits(pod.namespace):
        return namespace_excluded(pod, "evictableNamespaces")
    return NotProposed("no-relief", "requests none of the resources in `thresholds`")


def near_misses(args: Args, view: View) -> Iterator[str]:
    """Nodes that are nearly empty enough to be drained."""
    bands, usage = view.prepare_once(args, bands_of), RequestedUsage(view)
    return nearest_to_limit(
        bands.within, bands.measured, args.thresholds, "threshold", usage, below=False
    )


PLUGIN = Plugin(
    name="HighNodeUtilization",
    args=Args,
    balance=balance,
    unfinished_only=True,
    why_not_proposed=why_not_proposed,
    near_misses=near_misses,
    band=band,
)
