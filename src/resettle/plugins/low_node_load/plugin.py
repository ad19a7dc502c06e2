"""LowNodeLoad: take load off nodes that have been measured to be hot, again and again.

What Koordinator's plugin of that name is for, on any Kubernetes: pools of nodes with lines of their
own, nodes that count as hot only after several samples in a row, the pod moved that best fits the
excess, and rest for a node until its figures show what has moved.
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
from resettle.model.measurements import Question
from resettle.model.objects import Node
from resettle.model.pod import Pod
from resettle.plugins._common import LIMIT_REACHED
from resettle.plugins.low_node_load.args import Args, NodePool
from resettle.plugins.low_node_load.hot_nodes import Hotspots
from resettle.plugins.node_utilization.upstream import (
    ALL_UNDER,
    NO_UNDERUTILIZED,
    NONE_OVER,
    too_few_under,
)
from resettle.utilization.bands import OVER, Bands, balanced, banded
from resettle.utilization.describe import band_of, nearly, not_over, on_control_plane, tell_bands
from resettle.utilization.history import (
    Foreseen,
    InFlight,
    Sighting,
    Streak,
    followed,
    still_in_flight,
)
from resettle.utilization.metrics_args import questions, usage_of
from resettle.utilization.usage import Usage, measured

NOT_HOT_YET = Stopped("not-hot-yet", "no node has been too busy often enough in a row")
COOLING_DOWN = Stopped("cooling-down", "every hot node has given pods away a moment ago")


class Memory(Struct, frozen=True, kw_only=True):
    """What is known from the cycles before."""

    streaks: dict[str, dict[str, Streak]] = {}
    """By pool and node."""
    moved: tuple[InFlight, ...] = ()


class Pool(NamedTuple):
    """A pool with its nodes in their bands."""

    pool: NodePool
    bands: Bands


class Seen:
    """All pools, and the figures behind them; each node is in the first pool that takes it."""

    def __init__(self, args: Args, view: View, moved: tuple[InFlight, ...] = ()) -> None:
        self.usage: Usage = Foreseen(usage_of(args.metrics, view), moved)
        self.pools: list[Pool] = []
        left = balanced(view)
        for pool in args.pools:
            nodes = [node for node in left if pool.takes(node)]
            left = [node for node in left if not pool.takes(node)]
            if nodes:
                shares = measured(self.usage, nodes, pool.low_thresholds, view)
                self.pools.append(Pool(pool, banded(nodes, shares, pool.scale)))
        self.outside = frozenset(left)
        """Nodes that no pool takes."""

    def bands_of(self, node: Node) -> Bands | None:
        """The bands of the pool that the node is in."""
        return next((it.bands for it in self.pools if it.bands.of(node)), None)


def balance(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Proposes pods of hot nodes, pool by pool."""
    known = msgspec.convert(draft.recall() or {}, Memory)
    moved = list(still_in_flight(known.moved, view))
    seen = Seen(args, view, tuple(moved))
    streaks: dict[str, dict[str, Streak]] = {}
    resting = {it.source for it in moved}
    stops: list[Stopped | None] = []
    for _, bands in seen.pools:
        tell_bands(bands, seen.usage, draft)
    for pool, bands in seen.pools:
        sightings = {
            node.name: Sighting(bands.of(node) == OVER, seen.usage.taken(node))
            for node in bands.measured
        }
        now = view.taken_at
        streaks[pool.name] = followed(
            known.streaks.get(pool.name, {}), sightings, args.patience(pool), now
        )
        hot = _hot(bands, streaks[pool.name], pool, resting, draft)
        stop = _nothing_to_do(args, bands, hot, resting)
        if stop is None:
            spots = Hotspots(
                pool,
                bands,
                seen.usage,
                view,
                draft,
                concerns=lambda pod: concerns(args, pod),
                node_fit=args.node_fit,
            )
            stop = spots.relieve(hot)
            moved += spots.moved
        stops.append(stop)
        if stop is LIMIT_REACHED:
            break
    draft.remember(msgspec.to_builtins(Memory(streaks=streaks, moved=tuple(moved))))
    return next((stop for stop in reversed(stops) if stop), None) if all(stops) else None


def _hot(
    bands: Bands, streaks: dict[str, Streak], pool: NodePool, resting: set[str], draft: Draft
) -> list[Node]:
    """Nodes that are over, have been so often enough, and have not just given pods away."""
    found = []
    for node in bands.over:
        streak = streaks[node.name]
        if node.name in resting:
            draft.note(node, "cooling-down", "has given pods away a moment ago")
        elif not streak.hot:
            needed = pool.condition.consecutive_abnormalities
            says = f"has been too busy in {streak.over} of {needed} samples in a row"
            draft.note(node, "not-hot-yet", says)
        else:
            found.append(node)
    return found


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
    chosen = [it.selector.compiled() for it in args.pod_selectors if it.selector]
    return not chosen or any(it is not None and it.matches(pod.labels) for it in chosen)


# -- for whoever asks -----------------------------------------------------------------------------


def measures(args: Args) -> frozenset[Question]:
    """What has to be measured."""
    return questions(args.metrics)


def band(args: Args, view: View, node: Node) -> Band | None:
    """Where the lines of its pool put a node."""
    seen = view.prepared(args, Seen)
    bands = seen.bands_of(node)
    return band_of(node, bands, seen.usage, "low line", "high line") if bands else None


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Whether the pod's node is not too busy, or the plugin is not to touch the pod."""
    node = view.fleet.get(pod.node)
    if node is None:
        return None
    seen = view.prepared(args, Seen)
    if node in seen.outside:
        return NotProposed("node-not-selected", f"{node.name} is in none of the plugin's pools")
    found = band(args, view, node)
    if found is None:
        return on_control_plane(node)
    if found.name != OVER:
        return not_over(found, seen.usage.doubt(node))
    if args.evictable_namespaces and not args.evictable_namespaces.admits(pod.namespace):
        said = f"its namespace {pod.namespace} is left out by `evictableNamespaces`"
        return NotProposed("namespace-left-out", said)
    if not concerns(args, pod):
        return NotProposed("labels-left-out", "its labels are not selected by `podSelectors`")
    return None


def near_misses(args: Args, view: View) -> Iterator[str]:
    """Nodes that are nearly too busy; where none is idle enough, those that nearly are."""
    seen = view.prepared(args, Seen)
    for _, bands in seen.pools:
        yield from nearly(bands, seen.usage, "low line", "high line")


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
