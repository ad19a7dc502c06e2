"""LowNodeUtilization: move pods off nodes that are too full while others are nearly empty."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from resettle.errors import ResettleError
from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.verdict import Band, Stopped, Unwanted
from resettle.load.bands import Shares, around, average, offered, shares, within
from resettle.load.usage import Requests, Usage
from resettle.model.node import Node
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.plugins.fullness import nearest, told
from resettle.plugins.node_utilization import (
    ALL_UNDER,
    NO_UNDERUTILIZED,
    NONE_OVER,
    Balance,
    Source,
    exclude_only,
    extended,
    move_load,
    threshold_problems,
    too_few_under,
)
from resettle.plugins.relief import Relief
from resettle.policy.args import Args as PluginArgs
from resettle.policy.args import Namespaces, Unsigned
from resettle.policy.problem import Problem

METRIC = "MetricResource"


class EvictionLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of this plugin alone, for each of its runs."""

    node: Unsigned | None = None


class Query(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Prometheus query."""

    query: str = ""


class MetricsUtilization(
    Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Where usage comes from, if not from requests."""

    metrics_server: bool = False
    source: str = ""
    prometheus: Query | None = None


class Args(PluginArgs, frozen=True, kw_only=True):
    """Arguments of LowNodeUtilization."""

    thresholds: dict[str, float] = {}
    target_thresholds: dict[str, float] = {}
    use_deviation_thresholds: bool = False
    number_of_nodes: int = 0
    evictable_namespaces: Namespaces | None = None
    eviction_limits: EvictionLimits | None = None
    metrics_utilization: MetricsUtilization | None = None

    def problems(self) -> Iterator[Problem]:
        yield from exclude_only(self.evictable_namespaces)
        yield from threshold_problems(self.thresholds, "thresholds")
        yield from threshold_problems(self.target_thresholds, "targetThresholds")
        yield from self._mismatches()
        if self.metrics_utilization:
            yield from self._metrics_problems(self.metrics_utilization)

    def _mismatches(self) -> Iterator[Problem]:
        if not self.thresholds or not self.target_thresholds:
            return
        for name in sorted(self.thresholds.keys() ^ self.target_thresholds.keys()):
            key, other = "thresholds", "targetThresholds"
            if name in self.target_thresholds:
                key, other = other, key
            yield Problem(
                what=f"`{name}` stands in `{key}` but not in `{other}`",
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

    def _metrics_problems(self, metrics: MetricsUtilization) -> Iterator[Problem]:
        at = "metricsUtilization"
        if metrics.source == "KubernetesMetrics":
            if metrics.metrics_server:
                yield Problem(
                    what="`metricsServer` does not go together with `source: KubernetesMetrics`",
                    fix="remove `metricsServer`, which says the same",
                    at=(at, "metricsServer"),
                )
            if metrics.prometheus:
                yield Problem(
                    what="`prometheus` does not go together with `source: KubernetesMetrics`",
                    fix="remove `prometheus`, or write `source: Prometheus`",
                    at=(at, "prometheus"),
                )
        elif metrics.source == "Prometheus":
            if metrics.prometheus is None or not metrics.prometheus.query:
                yield Problem(
                    what="`prometheus.query` is missing",
                    fix="write the query whose result, from 0 to 1, is the use of each node",
                    at=(at, "prometheus"),
                )
            for key, names in (
                ("thresholds", self.thresholds),
                ("targetThresholds", self.target_thresholds),
            ):
                if names and set(names) != {METRIC}:
                    yield Problem(
                        what=f"with Prometheus, `{key}` must name `{METRIC}` and nothing else",
                        fix=f"write `{METRIC}: <percent>`",
                        at=(key,),
                    )
        elif metrics.source or not metrics.metrics_server:
            yield Problem(
                what=f"`{metrics.source}` is not a source of metrics",
                fix="write `KubernetesMetrics` or `Prometheus`",
                at=(at, "source"),
            )


class UsageMissingError(ResettleError):
    """The figures a plugin is to decide on are not there; it then decides nothing."""


def usage_for(args: Args, snapshot: Snapshot) -> Usage:
    """The source the arguments name."""
    metrics = args.metrics_utilization
    if metrics is None:
        return Requests(snapshot)
    source = metrics.source or "KubernetesMetrics"
    raise UsageMissingError(
        f"the snapshot holds no usage from {source}; nothing is moved without it"
    )


def reads(args: Args) -> frozenset[str]:
    """Usage, where it is not taken from requests."""
    return frozenset({"usage"}) if args.metrics_utilization else frozenset()


class Bands:
    """Nodes that are too empty, nodes that are too full, and the limits that say so."""

    def __init__(self, args: Args, nodes: tuple[Node, ...], usage: Usage) -> None:
        measured: dict[Node, Shares] = {
            node: shares(usage.of_node(node), offered(node), args.thresholds) for node in nodes
        }
        self.low, self.high = dict(args.thresholds), dict(args.target_thresholds)
        if args.use_deviation_thresholds:
            mean = average(measured.values(), args.thresholds)
            self.low = around(mean, args.thresholds, -1)
            self.high = around(mean, args.target_thresholds, +1)
        self.under = [
            node for node in nodes if not node.unschedulable and within(measured[node], self.low)
        ]
        below = set(self.under)
        self.over = [
            node for node in nodes if node not in below and not within(measured[node], self.high)
        ]
        above = set(self.over)
        self.open = [node for node in nodes if node not in above and not node.unschedulable]
        """Nodes that may take pods without harm: the underutilized ones, and those within."""


def balance(args: Args, snapshot: Snapshot, draft: Draft) -> Stopped | None:
    """Proposes pods of the fullest nodes until these, or the room elsewhere, are within limits."""
    usage = usage_for(args, snapshot)
    bands = Bands(args, snapshot.nodes, usage)
    if stop := _nothing_to_do(args, bands, snapshot):
        return stop
    habits = draft.semantics
    load = Balance(
        usage,
        extended(args.thresholds),
        bands.high,
        bands.under,
        tolerations_counted=habits.tolerations_counted,
    )
    fullest_first = sorted(bands.over, key=load.heft, reverse=True)
    limit = args.eviction_limits.node if args.eviction_limits else None
    excluded = args.evictable_namespaces

    def concerns(pod: Pod) -> bool:
        return excluded is None or excluded.admits(pod.namespace)

    def because(source: Source) -> str:
        return f"{source.node.name} is at {source.above(bands.high)}"

    sources = [Source(node, load) for node in fullest_first]
    if not habits.weak_fit:
        relief = Relief(load, bands.open, snapshot, draft)
        return relief.lighten(sources, concerns, because, limit)
    return move_load(
        sources,
        load,
        snapshot,
        draft,
        keep_going=lambda source: source.overfull and load.has_room,
        concerns=concerns,
        because=because,
        per_node=limit,
    )


def _nothing_to_do(args: Args, bands: Bands, snapshot: Snapshot) -> Stopped | None:
    under = len(bands.under)
    if not under:
        return NO_UNDERUTILIZED
    if under <= args.number_of_nodes:
        return too_few_under(under, args.number_of_nodes)
    if under == len(snapshot.nodes):
        return ALL_UNDER
    return None if bands.over else NONE_OVER


class Seen:
    """All nodes in scope with what they use, for whoever asks about one of them."""

    def __init__(self, args: Args, snapshot: Snapshot) -> None:
        usage = usage_for(args, snapshot)
        self.bands = Bands(args, snapshot.nodes, usage)
        self.measured = {
            node: shares(usage.of_node(node), offered(node), args.thresholds)
            for node in snapshot.nodes
        }
        self.under, self.over = frozenset(self.bands.under), frozenset(self.bands.over)


def band(args: Args, snapshot: Snapshot, node: Node) -> Band | None:
    """Where the thresholds put a node in scope."""
    seen = snapshot.prepared(args, Seen)
    if node not in seen.measured:
        return None
    if node in seen.under:
        return told("under", node, seen.measured[node], seen.bands.low, "threshold")
    name = "over" if node in seen.over else "within"
    return told(name, node, seen.measured[node], seen.bands.high, "target")


def overlooks(args: Args, snapshot: Snapshot, pod: Pod) -> Unwanted | None:
    """Whether the pod's node is not too full, or nothing can be done about it."""
    node = snapshot.fleet.get(pod.node)
    found = band(args, snapshot, node) if node else None
    if found is None:
        return None
    if found.name != "over":
        return Unwanted("node-under" if found.name == "under" else "node-within", found.says)
    if stop := _nothing_to_do(args, snapshot.prepared(args, Seen).bands, snapshot):
        return Unwanted(stop.code, f"{found.says}, but {stop.says}")
    excluded = args.evictable_namespaces
    if excluded is not None and not excluded.admits(pod.namespace):
        said = f"its namespace {pod.namespace} is left out by `evictableNamespaces`"
        return Unwanted("namespace-left-out", said)
    return None


def near_misses(args: Args, snapshot: Snapshot) -> Iterator[str]:
    """Nodes that are nearly too full; where none is empty enough, those that nearly are."""
    seen = snapshot.prepared(args, Seen)
    between = [node for node in seen.measured if node not in seen.under | seen.over]
    if not seen.under:
        open_nodes = [node for node in seen.measured if not node.unschedulable]
        return nearest(open_nodes, seen.measured, seen.bands.low, "threshold", below=False)
    return nearest(between, seen.measured, seen.bands.high, "target", below=True)


PLUGIN = Plugin(
    name="LowNodeUtilization",
    args=Args,
    balance=balance,
    reads=reads,
    unfinished_only=True,
    overlooks=overlooks,
    near_misses=near_misses,
    band=band,
)
