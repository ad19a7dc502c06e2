"""Short words for tests of soft taints: nodes with a use, and what they should be marked with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from resettle.controllers.soft_taints.desired import NodeTaints, TaintScheme, taints_for_bands
from resettle.framework.view import View
from resettle.model.constraints import PREFER_NO_SCHEDULE, Taint
from resettle.model.objects import Node
from resettle.model.selectors import EVERYTHING, Selector
from resettle.model.semantics import IMPROVED
from resettle.model.snapshot import Snapshot
from resettle.policy.document import PREFIXES, SoftTaints
from resettle.utilization.bands import BandLimits as Lines
from resettle.utilization.bands import Bands, sort_into_bands
from resettle.utilization.usage import RequestedUsage, UsageProblem

METRIC = "MetricResource"
KUBERNETES, OPENSHIFT = PREFIXES["Levels"], PREFIXES["OpenShift"]
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
APPROPRIATE = Taint(f"{OPENSHIFT}/appropriate", PREFER_NO_SCHEDULE, "true")
OVER = Taint(f"{OPENSHIFT}/overutilized", PREFER_NO_SCHEDULE, "true")
FIRST = Taint(f"{KUBERNETES}/overutilized", PREFER_NO_SCHEDULE, "level1")
SECOND = Taint(f"{KUBERNETES}/overutilized-2", PREFER_NO_SCHEDULE, "level2")
THIRD = Taint(f"{KUBERNETES}/overutilized-3", PREFER_NO_SCHEDULE, "level3")
LEVELS = (FIRST, SECOND, THIRD)


def node(name: str, *taints: Taint, **more: Any) -> Node:
    return Node(name, more.pop("labels", {}), taints, **more)


def static(low: float, high: float) -> Lines:
    return Lines(low={METRIC: low}, high={METRIC: high})


def off_mean(low: float, high: float) -> Lines:
    return Lines(low={METRIC: low}, high={METRIC: high}, from_mean=True)


def scheme(**written: Any) -> TaintScheme:
    return TaintScheme(SoftTaints(**written))


def snapshot_of(nodes: Iterable[Node]) -> Snapshot:
    return Snapshot.of(nodes=nodes, pods=(), taken_at=NOW)


def view_of(nodes: Iterable[Node], selector: Selector = EVERYTHING) -> View:
    return View(snapshot_of(nodes), IMPROVED, selector)


def bands_of(used: Mapping[Node, float | None], lines: Lines) -> Bands:
    """The bands of nodes with this use; None for a node without a measurement."""
    measured = {name: {METRIC: share} for name, share in used.items() if share is not None}
    return sort_into_bands(used, measured, lines)


class Figures(RequestedUsage):
    """Figures that are known for all nodes except those without a measurement."""

    def __init__(self, used: Mapping[Node, float | None]) -> None:
        super().__init__(view_of(used))
        self._used = used

    def problem(self, node: Node) -> UsageProblem | None:
        if self._used[node] is None:
            return UsageProblem("usage-stale", "has a figure that is an hour old")
        return None


def wanted(
    used: Mapping[Node, float | None],
    lines: Lines,
    marked: TaintScheme,
    *,
    others: Iterable[Node] = (),
    selector: Selector = EVERYTHING,
) -> NodeTaints:
    """What each node should have; `others` are there and not balanced."""
    view = view_of([*used, *others], selector)
    return taints_for_bands(view, bands_of(used, lines), Figures(used), marked)


def taints(node_taints: NodeTaints) -> dict[str, tuple[Taint, ...]]:
    return {name: desired.taints for name, desired in node_taints.items()}
