"""Arguments of LowNodeLoad: thresholds, weights and anomaly conditions, global or for each pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated

from msgspec import Meta, Struct, structs

from resettle.model.objects import Node
from resettle.model.selectors import EVERYTHING, LabelSelector
from resettle.plugins.node_utilization.upstream import threshold_problems
from resettle.policy.args import Args as PluginArgs
from resettle.policy.args import (
    Duration,
    Namespaces,
    Unsigned,
    include_exclude_problems,
    parse_duration,
    selector_problems,
)
from resettle.policy.problems import Problem
from resettle.utilization.bands import BandLimits
from resettle.utilization.history import HotNodeCondition
from resettle.utilization.metrics_args import RawMetricsUtilization, metrics_problems

Positive = Annotated[int, Meta(gt=0)]


class Part(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A part of the arguments."""


class AnomalyCondition(Part, frozen=True, kw_only=True):
    """How many samples in a row make a node hot, and how long it rests after a move."""

    consecutive_abnormalities: Positive = 5
    """Fresh samples in a row above a high threshold that make a node hot; with 1 the first does."""
    consecutive_normalities: Positive = 3
    """Fresh samples in a row below them, after which it is hot no more."""
    cooldown: Duration = "2m"
    """How long a node rests after a move, and how long figures take to show one."""

    @property
    def rest(self) -> timedelta:
        """How long figures take to show a move."""
        return parse_duration(self.cooldown)


class PodSelector(Part, frozen=True, kw_only=True):
    """Pods that may be moved."""

    name: str = ""
    """What you call it."""
    selector: LabelSelector | None = None
    """The labels of the pods."""


class NodePool(Part, frozen=True, kw_only=True):
    """Nodes with thresholds of their own; what is not set is as for all nodes."""

    name: str = ""
    """A name of its own."""
    node_selector: LabelSelector | None = None
    """The nodes of the pool."""
    use_deviation_thresholds: bool = False
    """Percentages count from the mean of the pool; not taken over from above."""
    low_thresholds: dict[str, float] = {}
    """A node of the pool with no resource above these is idle."""
    high_thresholds: dict[str, float] = {}
    """A node of the pool with one resource above these is too busy."""
    resource_weights: dict[str, float] = {}
    """How much each resource counts in the pool."""
    anomaly_condition: AnomalyCondition | None = None
    """When a node of the pool is hot; all of it, or as above."""

    def takes(self, node: Node) -> bool:
        """Whether the pool's selector matches the node."""
        chosen = self.node_selector.compile() if self.node_selector else EVERYTHING
        return chosen is not None and chosen.matches(node.labels)

    @property
    def limits(self) -> BandLimits:
        """The low and high limits of the pool."""
        return BandLimits(
            low=self.low_thresholds,
            high=self.high_thresholds,
            from_mean=self.use_deviation_thresholds,
        )

    @property
    def condition(self) -> AnomalyCondition:
        """When a node of the pool is hot."""
        return self.anomaly_condition or AnomalyCondition()

    def weight(self, resource: str) -> float:
        """How much a resource counts compared to others."""
        return max(self.resource_weights.get(resource, 1.0), 0.0) or 1.0

    def problems(self, *at: str | int) -> Iterator[Problem]:
        """What is wrong with its own keys."""
        for key, thresholds in (
            ("lowThresholds", self.low_thresholds),
            ("highThresholds", self.high_thresholds),
        ):
            for problem in threshold_problems(thresholds, key):
                yield structs.replace(problem, at=(*at, *problem.at))
        for name in sorted(self.low_thresholds.keys() ^ self.high_thresholds.keys()):
            if self.low_thresholds and self.high_thresholds:
                yield Problem(
                    what=f"`{name}` has only one of its two thresholds",
                    fix="name the same resources in `lowThresholds` and `highThresholds`",
                    at=(*at, "lowThresholds"),
                )
        if not self.use_deviation_thresholds:
            for name, low in self.low_thresholds.items():
                if low > self.high_thresholds.get(name, 100):
                    yield Problem(
                        what=f"{low:g} is above the high threshold {self.high_thresholds[name]:g}",
                        fix="`lowThresholds` says what is idle, `highThresholds` what is too busy",
                        at=(*at, "lowThresholds", name),
                    )
        for problem in selector_problems(self.node_selector, "nodeSelector"):
            yield structs.replace(problem, at=(*at, *problem.at))


class Args(PluginArgs, frozen=True, kw_only=True):
    """Arguments of LowNodeLoad."""

    number_of_nodes: Unsigned = 0
    """Do nothing unless more nodes than this are idle."""
    node_metric_expiration_seconds: Positive = 180
    """Figures older than this are not used."""
    evictable_namespaces: Namespaces | None = None
    """Whose pods may be moved; all pods count as load."""
    pod_selectors: tuple[PodSelector, ...] = ()
    """Pods that may be moved; one of the list is enough."""
    node_fit: bool = True
    """A pod goes only if an idle node stays below its high thresholds with it."""
    node_selector: LabelSelector | None = None
    """Of the nodes that no pool takes, only these."""
    use_deviation_thresholds: bool = False
    """Percentages count from the mean of the pool."""
    low_thresholds: dict[str, float] = {}
    """A node with no resource above these is idle and may take pods; needed unless pools have
    their own."""
    high_thresholds: dict[str, float] = {}
    """A node with one resource above these is too busy; the same resources as in
    `lowThresholds`."""
    resource_weights: dict[str, float] = {}
    """How much each counts when nodes and pods are compared; 1 by default."""
    anomaly_condition: AnomalyCondition | None = None
    """When a node is hot."""
    detector_cache_timeout: Duration = "5m"
    """How long it is remembered how often a node was hot while no new sample comes."""
    node_pools: tuple[NodePool, ...] = ()
    """Nodes with thresholds of their own; each node is in the first pool that selects it."""
    metrics_utilization: RawMetricsUtilization | None = None
    """Where usage is read from, if not from the metrics API."""

    @property
    def metrics(self) -> RawMetricsUtilization:
        """Where usage is read from: the metrics API unless the policy names another source."""
        named = self.metrics_utilization or RawMetricsUtilization(source="KubernetesMetrics")
        age = named.max_age or f"{self.node_metric_expiration_seconds}s"
        return RawMetricsUtilization(
            metrics_server=named.metrics_server,
            source=named.source,
            prometheus=named.prometheus,
            max_age=age,
        )

    @property
    def pools(self) -> tuple[NodePool, ...]:
        """Each pool, complete; all nodes that none of them takes come last."""
        named = tuple(self._with_defaults(pool) for pool in self.node_pools)
        rest = NodePool(
            node_selector=self.node_selector,
            use_deviation_thresholds=self.use_deviation_thresholds,
            low_thresholds=self.low_thresholds,
            high_thresholds=self.high_thresholds,
            resource_weights=self.resource_weights,
            anomaly_condition=self.anomaly_condition,
        )
        return (*named, rest) if self.low_thresholds or self.high_thresholds else named

    def hot_node_condition(self, pool: NodePool) -> HotNodeCondition:
        """When a node of the pool is hot, and for how long that is remembered."""
        return HotNodeCondition(
            over=pool.condition.consecutive_abnormalities,
            calm=pool.condition.consecutive_normalities,
            forgotten_after=parse_duration(self.detector_cache_timeout),
        )

    def _with_defaults(self, pool: NodePool) -> NodePool:
        return NodePool(
            name=pool.name,
            node_selector=pool.node_selector,
            use_deviation_thresholds=pool.use_deviation_thresholds,
            low_thresholds=pool.low_thresholds or self.low_thresholds,
            high_thresholds=pool.high_thresholds or self.high_thresholds,
            resource_weights=pool.resource_weights or self.resource_weights,
            anomaly_condition=pool.anomaly_condition or self.anomaly_condition,
        )

    def problems(self) -> Iterator[Problem]:
        yield from include_exclude_problems(self.evictable_namespaces, "evictableNamespaces")
        yield from selector_problems(self.node_selector, "nodeSelector")
        for i, chosen in enumerate(self.pod_selectors):
            for problem in selector_problems(chosen.selector, "selector"):
                yield structs.replace(problem, at=("podSelectors", i, *problem.at))
        if self.low_thresholds or self.high_thresholds or not self.node_pools:
            yield from self.pools[-1].problems() if self.pools else NodePool().problems()
        for i, pool in enumerate(self.node_pools):
            yield from self._with_defaults(pool).problems("nodePools", i)
        yield from self._pool_names()
        thresholds: Mapping[str, Mapping[str, float]] = {
            "lowThresholds": self.low_thresholds,
            "highThresholds": self.high_thresholds,
        }
        yield from metrics_problems(self.metrics, **thresholds)

    def _pool_names(self) -> Iterator[Problem]:
        seen: set[str] = set()
        for i, pool in enumerate(self.node_pools):
            if not pool.name or pool.name in seen:
                yield Problem(
                    what=f"two pools are named `{pool.name}`"
                    if pool.name
                    else "a pool has no name",
                    fix="give each pool a name of its own",
                    at=("nodePools", i, "name"),
                )
            seen.add(pool.name)
