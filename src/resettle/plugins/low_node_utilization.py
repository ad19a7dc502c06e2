"""LowNodeUtilization: move pods off nodes that are too full while others are nearly empty."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.verdict import Band, NotProposed, Stopped
from resettle.framework.view import View
from resettle.model.measurements import MetricsQuery
from resettle.model.objects import Node
from resettle.model.pod import Pod
from resettle.plugins._common import namespace_excluded
from resettle.plugins.node_utilization.improved import LoadReliever
from resettle.plugins.node_utilization.upstream import (
    ALL_UNDER,
    NO_UNDERUTILIZED,
    NONE_OVER,
    Balance,
    EvictableNamespaces,
    SourceNode,
    exclude_only,
    move_load,
    threshold_problems,
    too_few_under,
)
from resettle.policy.args import Args as PluginArgs
from resettle.policy.args import Unsigned
from resettle.policy.problems import Problem
from resettle.utilization.bands import OVER, Bands
from resettle.utilization.describe import (
    NodeBands,
    bands_of,
    describe_band,
    nodes_near_limit,
    report_bands,
    why_control_plane_stays,
    why_not_over,
)
from resettle.utilization.metrics_args import (
    MetricsUtilization,
    metrics_problems,
    usage_of,
    usage_questions,
)


class EvictionLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of this plugin alone, for each of its runs."""

    node: Unsigned | None = None
    """Moves from one node in one run of the plugin; with Prometheus, where it is 1 unless written,
    in `resettle/v1` also moves to one node."""


class Args(PluginArgs, frozen=True, kw_only=True):
    """Arguments of LowNodeUtilization."""

    thresholds: dict[str, float] = {}
    """A node with no resource above these is nearly empty."""
    target_thresholds: dict[str, float] = {}
    """A node with one resource above these is too full; the same resources as in `thresholds`."""
    use_deviation_thresholds: bool = False
    """Percentages count from the average of all nodes: down for `thresholds`, up for
    `targetThresholds`."""
    number_of_nodes: int = 0
    """Do nothing unless more nodes than this are nearly empty."""
    evictable_namespaces: EvictableNamespaces | None = None
    """Namespaces whose pods stay."""
    eviction_limits: EvictionLimits | None = None
    """Limits of this plugin alone."""
    metrics_utilization: MetricsUtilization | None = None
    """Where usage is read from, if not from what pods request."""

    def problems(self) -> Iterator[Problem]:
        yield from exclude_only(self.evictable_namespaces)
        yield from threshold_problems(self.thresholds, "thresholds")
        yield from threshold_problems(self.target_thresholds, "targetThresholds")
        yield from self._mismatches()
        if self.metrics_utilization:
            yield from metrics_problems(
                self.metrics_utilization,
                thresholds=self.thresholds,
                targetThresholds=self.target_thresholds,
            )

    def _mismatches(self) -> Iterator[Problem]:
        if not self.thresholds or not self.target_thresholds:
            return
        for name in sorted(self.thresholds.keys() ^ self.target_thresholds.keys()):
            key, other = "thresholds", "targetThresholds"
            if name in self.target_thresholds:
                key, other = other, key
            yield Problem(
                what=f"`{name}` is in `{key}` but not in `{other}`",
                fix="name the same resources in both",
                at=(key, name),
            )
        if self.use_deviation_thresholds:
            return
        for name, low in self.thresholds.items():
            if low <= 100 and low > self.target_thresholds.get(name, 100):
                yield Problem(
                    what=f"{low:g} is above the target threshold {self.target_thresholds[name]:g}",
                    fix="`thresholds` says what is too empty, `targetThresholds` what is too full",
                    at=("thresholds", name),
                )


def measures(args: Args) -> frozenset[MetricsQuery]:
    """What has to be measured, where usage is not taken from requests."""
    return usage_questions(args.metrics_utilization)


def balance(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Propose pods of the fullest nodes until these are within limits or there is no more room."""
    usage = usage_of(args.metrics_utilization, view)
    bands = bands_of(args, view, usage)
    report_bands(bands, usage, draft)
    if stop := _nothing_to_do(args, bands):
        return stop
    semantics = draft.semantics
    load = Balance(
        usage,
        args.thresholds,
        bands.high,
        bands.under,
        tolerations_counted=semantics.tolerations_counted,
    )
    fullest_first = sorted(bands.over, key=load.total_usage, reverse=True)
    limit = args.eviction_limits.node if args.eviction_limits else None
    excluded = args.evictable_namespaces

    def concerns(pod: Pod) -> bool:
        return excluded is None or excluded.admits(pod.namespace)

    def because(source: SourceNode) -> str:
        return f"{source.node.name} is at {source.above(bands.high)}"

    sources = [SourceNode(node, load) for node in fullest_first]
    if not semantics.weak_fit:
        if not usage.knows_pods:
            # The usage of a pod is unknown, so it could push a node that is within to over.
            reliever = LoadReliever(load, bands.under, view, draft)
            return reliever.relieve_blind(sources, concerns, because, 1 if limit is None else limit)
        reliever = LoadReliever(load, bands.possible_targets, view, draft)
        return reliever.relieve(sources, concerns, because, limit)
    return move_load(
        sources,
        load,
        view,
        draft,
        keep_going=lambda source: source.is_over and load.has_room,
        concerns=concerns,
        because=because,
        per_node=limit,
    )


def _nothing_to_do(args: Args, bands: Bands) -> Stopped | None:
    under = len(bands.under)
    if not under:
        return NO_UNDERUTILIZED
    if under <= args.number_of_nodes:
        return too_few_under(under, args.number_of_nodes)
    if under == len(bands.measured) + len(bands.unknown):
        return ALL_UNDER
    return None if bands.over else NONE_OVER


def band(args: Args, view: View, node: Node) -> Band | None:
    """Where the thresholds put a node in scope."""
    node_bands = view.prepare_once(args, NodeBands)
    return describe_band(node, node_bands.bands, node_bands.usage, "threshold", "target")


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Why the plugin leaves the pod alone: its node is not too full, or nothing can be done."""
    node = view.node_index.get(pod.node)
    if node is None:
        return None
    node_band = band(args, view, node)
    if node_band is None:
        return why_control_plane_stays(node)
    node_bands = view.prepare_once(args, NodeBands)
    if node_band.name != OVER:
        return why_not_over(node_band, node_bands.usage.problem(node))
    if stop := _nothing_to_do(args, node_bands.bands):
        return NotProposed(stop.code, f"{node_band.says}, but {stop.says}")
    excluded = args.evictable_namespaces
    if excluded is not None and not excluded.admits(pod.namespace):
        return namespace_excluded(pod, "evictableNamespaces")
    return None


def near_misses(args: Args, view: View) -> Iterator[str]:
    """Nodes that are nearly over; where no node is under, those that nearly are."""
    node_bands = view.prepare_once(args, NodeBands)
    return nodes_near_limit(node_bands.bands, node_bands.usage, "threshold", "target")


PLUGIN = Plugin(
    name="LowNodeUtilization",
    args=Args,
    balance=balance,
    measures=measures,
    unfinished_only=True,
    why_not_proposed=why_not_proposed,
    near_misses=near_misses,
    band=band,
)
