"""LowNodeLoad: move pods off nodes whose measured load stays high.

Like Koordinator's plugin of this name, on any Kubernetes: pools of nodes with their own thresholds;
a node is hot only after several samples in a row; the pod that best fits the excess goes; then the
node rests until its figures show the move.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import Struct

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.verdict import Band, NotProposed, Stopped
from resettle.framework.view import View
from resettle.model.measurements import MetricsQuery
from resettle.model.objects import Node
from resettle.model.pod import Pod
from resettle.plugins._common import LIMIT_REACHED, namespace_excluded
from resettle.plugins.low_node_load.args import Args, NodePool
from resettle.plugins.low_node_load.hot_nodes import HotNodeReliever
from resettle.plugins.node_utilization.upstream import (
    ALL_UNDER,
    NO_UNDERUTILIZED,
    NONE_OVER,
    too_few_under,
)
from resettle.utilization.bands import OVER, Bands, nodes_to_balance, sort_into_bands
from resettle.utilization.describe import (
    describe_band,
    nodes_near_limit,
    report_bands,
    why_control_plane_stays,
    why_not_over,
)
from resettle.utilization.history import (
    AdjustedUsage,
    BandSample,
    InFlight,
    Streak,
    still_in_flight,
    update_streaks,
)
from resettle.utilization.metrics_args import usage_of, usage_questions
from resettle.utilization.usage import Usage, node_shares

NOT_HOT_YET = Stopped("not-hot-yet", "no node has been too busy often enough in a row")
COOLING_DOWN = Stopped("cooling-down", "pods were moved off every hot node a moment ago")


class Memory(Struct, frozen=True, kw_only=True):
    """What is known from earlier cycles."""

    streaks: dict[str, dict[str, Streak]] = {}
    """By pool and node."""
    moved: tuple[InFlight, ...] = ()


class PoolBands(NamedTuple):
    """A pool with its nodes in their bands."""

    pool: NodePool
    bands: Bands


class LoadBands:
    """The bands of all pools, and the usage behind them; a node is in the first pool it matches."""

    def __init__(self, args: Args, view: View, moved: tuple[InFlight, ...] = ()) -> None:
        self.usage: Usage = AdjustedUsage(usage_of(args.metrics, view), moved)
        self.pools: list[PoolBands] = []
        left = nodes_to_balance(view)
        for pool in args.pools:
            nodes = [node for node in left if pool.takes(node)]
            left = [node for node in left if not pool.takes(node)]
            if nodes:
                shares = node_shares(self.usage, nodes, pool.low_thresholds, view)
                self.pools.append(PoolBands(pool, sort_into_bands(nodes, shares, pool.limits)))
        self.outside = frozenset(left)
        """Nodes that no pool takes."""

    def bands_of(self, node: Node) -> Bands | None:
        """The bands of the pool that the node is in."""
        return next((pool.bands for pool in self.pools if pool.bands.of(node)), None)


def balance(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Propose pods of hot nodes, pool by pool."""
    known = msgspec.convert(draft.recall() or {}, Memory)
    moved = list(still_in_flight(known.moved, view))
    load_bands = LoadBands(args, view, tuple(moved))
    streaks: dict[str, dict[str, Streak]] = {}
    resting = {move.source for move in moved}
    stops: list[Stopped | None] = []
    for _, bands in load_bands.pools:
        report_bands(bands, load_bands.usage, draft)
    for pool, bands in load_bands.pools:
        samples = {
            node.name: BandSample(bands.of(node) == OVER, load_bands.usage.measured_at(node))
            for node in bands.measured
        }
        now = view.taken_at
        streaks[pool.name] = update_streaks(
            known.streaks.get(pool.name, {}), samples, args.hot_node_condition(pool), now
        )
        hot = _hot(bands, streaks[pool.name], pool, resting, draft)
        stop = _nothing_to_do(args, bands, hot, resting)
        if stop is None:
            reliever = HotNodeReliever(
                pool,
                bands,
                load_bands.usage,
                view,
                draft,
                concerns=lambda pod: concerns(args, pod),
                node_fit=args.node_fit,
            )
            stop = reliever.relieve(hot)
            moved += reliever.moved
        stops.append(stop)
        if stop is LIMIT_REACHED:
            break
    draft.remember(msgspec.to_builtins(Memory(streaks=streaks, moved=tuple(moved))))
    return next((stop for stop in reversed(stops) if stop), None) if all(stops) else None


def _hot(
    bands: Bands, streaks: dict[str, Streak], pool: NodePool, resting: set[str], draft: Draft
) -> list[Node]:
    """Nodes that are over, were so often enough in a row, and had no pods moved off just now."""
    hot = []
    for node in bands.over:
        streak = streaks[node.name]
        if node.name in resting:
            draft.note(node, "cooling-down", "had pods moved off it a moment ago")
        elif not streak.hot:
            needed = pool.condition.consecutive_abnormalities
            says = f"has been too busy in {streak.over} of {needed} samples in a row"
            draft.note(node, "not-hot-yet", says)
        else:
            hot.append(node)
    return hot


def _nothing_to_do(args: Args, bands: Bands, hot: list[Node], resting: set[str]) -> Stopped | None:
    if not bands.over:
        return NONE_OVER
    if not hot:
        cooling = all(node.name in resting for node in bands.over)
        return COOLING_DOWN if cooling else NOT_HOT_YET
    under = len(bands.under)
    if not under:
        return NO_UNDERUTILIZED
    if under <= args.number_of_nodes:
        return too_few_under(under, args.number_of_nodes)
    return ALL_UNDER if under == len(bands.measured) + len(bands.unknown) else None


def concerns(args: Args, pod: Pod) -> bool:
    """Whether the pod may be moved: by namespace, and by its labels."""
    if args.evictable_namespaces and not args.evictable_namespaces.admits(pod.namespace):
        return False
    selectors = [entry.selector.compile() for entry in args.pod_selectors if entry.selector]
    return not selectors or any(
        selector is not None and selector.matches(pod.labels) for selector in selectors
    )


# -- explanations ---------------------------------------------------------------------------------


def measures(args: Args) -> frozenset[MetricsQuery]:
    """What has to be measured."""
    return usage_questions(args.metrics)


def band(args: Args, view: View, node: Node) -> Band | None:
    """Where the thresholds of its pool put a node."""
    load_bands = view.prepare_once(args, LoadBands)
    bands = load_bands.bands_of(node)
    return (
        describe_band(node, bands, load_bands.usage, "low threshold", "high threshold")
        if bands
        else None
    )


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Why the plugin leaves the pod alone: its node is not too busy, or it is not selected."""
    node = view.node_index.get(pod.node)
    if node is None:
        return None
    load_bands = view.prepare_once(args, LoadBands)
    if node in load_bands.outside:
        return NotProposed("node-not-selected", f"{node.name} is in none of the plugin's pools")
    node_band = band(args, view, node)
    if node_band is None:
        return why_control_plane_stays(node)
    if node_band.name != OVER:
        return why_not_over(node_band, load_bands.usage.problem(node))
    if args.evictable_namespaces and not args.evictable_namespaces.admits(pod.namespace):
        return namespace_excluded(pod, "evictableNamespaces")
    if not concerns(args, pod):
        return NotProposed("labels-left-out", "its labels are not selected by `podSelectors`")
    return None


def near_misses(args: Args, view: View) -> Iterator[str]:
    """Nodes that are nearly too busy; where none is idle enough, those that nearly are."""
    load_bands = view.prepare_once(args, LoadBands)
    for _, bands in load_bands.pools:
        yield from nodes_near_limit(bands, load_bands.usage, "low threshold", "high threshold")


PLUGIN = Plugin(
    name="LowNodeLoad",
    args=Args,
    balance=balance,
    measures=measures,
    reads=lambda args: frozenset({"history"}),
    unfinished_only=True,
    why_not_proposed=why_not_proposed,
    near_misses=near_misses,
    band=band,
)
