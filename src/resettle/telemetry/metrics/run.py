"""The metrics of a run: counted as things happen, or set when they are fetched.

Evictions count one by one, for a large cycle may take an hour. All else is counted once a cycle, or
read from the status when metrics are fetched. Figures of single nodes are 50,000 lines at 5,000
nodes, each constant until the next cycle: they are formatted here, ten times as fast as
prometheus_client would, once a cycle, and only if they are fetched.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from functools import cached_property

from resettle import __version__
from resettle.cycle import CycleReport
from resettle.framework.mover import MoveResult
from resettle.framework.plan import NodeUtilizationSummary, PluginRun
from resettle.framework.verdict import Limit
from resettle.model.snapshot import Snapshot
from resettle.runtime.status import ComponentStatus, LastCycle, Result
from resettle.telemetry.metrics import catalogue
from resettle.telemetry.metrics.catalogue import Metric
from resettle.telemetry.metrics.moves import MoveMetrics
from resettle.utilization.bands import BANDS, OVER, UNDER, WITHIN

LIMIT_RESULTS = {
    Limit.TOTAL: "maximum number of evicted pods per a descheduling cycle reached",
    Limit.NODE: "maximum number of evicted pods per node reached",
    Limit.NAMESPACE: "maximum number of evicted pods per namespace reached",
}


# -- figures of nodes ----------------------------------------------------------------------------

EXPOSED_PLUGIN = "LowNodeUtilization"
"""The plugin of which OpenShift's descheduler exposes every node."""
_CLASSIFICATION = {UNDER: 0, WITHIN: 1, OVER: 2}
_NO_SURVEY = NodeUtilizationSummary(bands={}, shares={})
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Line = tuple[str, float]
"""Labels, as they are written between the braces, and a value."""


class NodeFigures:
    """How many nodes are in which band, and of one plugin the figures of each node."""

    def __init__(self, runs: Iterable[PluginRun] = ()) -> None:
        self._runs = tuple(run for run in runs if run.utilization_summaries)

    @cached_property
    def text(self) -> bytes:
        """The lines of Prometheus' text format."""
        # Their labels name no profile: where several have the plugin, the last one is exposed.
        surveys = (
            run.utilization_summaries[0]
            for run in reversed(self._runs)
            if run.plugin == EXPOSED_PLUGIN
        )
        last = next(surveys, _NO_SURVEY)
        parts = (
            *_metric(catalogue.NODES, _count_lines(self._runs)),
            *_metric(catalogue.NODE_UTILIZATION, _utilization_lines(last)),
            *_metric(catalogue.NODE_THRESHOLD, _threshold_lines(last)),
            *_metric(catalogue.NODE_BAND, _classification_lines(last)),
            *_metric(catalogue.THRESHOLD_MODE, [("", last.from_mean)] if last.bands else []),
        )
        return "".join(parts).encode()


def _metric(metric: Metric, lines: Iterable[Line]) -> Iterator[str]:
    name = metric.name
    yield f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"
    for labels, value in lines:
        yield f"{name}{{{labels}}} {value:.9g}\n" if labels else f"{name} {value:.9g}\n"


def _count_lines(runs: Iterable[PluginRun]) -> Iterator[Line]:
    for run in runs:
        profile, plugin = run.profile.translate(_ESCAPES), run.plugin.translate(_ESCAPES)
        for band in BANDS:
            count = sum(len(survey.bands.get(band, ())) for survey in run.utilization_summaries)
            yield f'profile="{profile}",plugin="{plugin}",band="{band}"', count


def _utilization_lines(survey: NodeUtilizationSummary) -> Iterator[Line]:
    for node, row in survey.shares.items():
        for resource, share in row.items():
            yield f'node="{node}",resource="{resource.translate(_ESCAPES)}"', share / 100


def _threshold_lines(survey: NodeUtilizationSummary) -> Iterator[Line]:
    thresholds = [
        (f'resource="{resource.translate(_ESCAPES)}",threshold_type="{kind}"', line / 100)
        for kind, lines in (("low", survey.low), ("high", survey.high))
        for resource, line in lines.items()
    ]
    for node in survey.shares:
        for labels, line in thresholds:
            yield f'node="{node}",{labels}', line


def _classification_lines(survey: NodeUtilizationSummary) -> Iterator[Line]:
    for band, number in _CLASSIFICATION.items():
        for node in survey.bands.get(band, ()):
            yield f'node="{node}"', number


# -- the metrics ---------------------------------------------------------------------------------


class RunMetrics(MoveMetrics):
    """Observes a run and counts; `observe_cycle` is called with each cycle."""

    def reset(self) -> None:
        """Start all metrics at zero."""
        super().reset()
        self._add_upstream()
        self._add_cycles()
        self._add_plans()

    def _add_upstream(self) -> None:
        self._loop_duration = self._histogram(catalogue.LOOP_DURATION)
        self._strategy_duration = self._histogram(catalogue.STRATEGY_DURATION)
        python, short = platform.python_version(), ".".join(__version__.split(".")[:2])
        build = (f"python{python}", short, __version__, "", "")
        self._gauge(catalogue.UPSTREAM_BUILD_INFO).labels(*build).set(1)
        self._gauge(catalogue.BUILD_INFO).labels(__version__, python).set(1)

    def _add_cycles(self) -> None:
        self._cycles = self._counter(catalogue.CYCLES)
        for result in Result:
            self._cycles.labels(result)  # a rate needs a start at zero
        self._last_time = self._gauge(catalogue.LAST_CYCLE_TIME)
        self._last_duration = self._gauge(catalogue.LAST_CYCLE_DURATION)
        self._last_result = self._gauge(catalogue.LAST_CYCLE_RESULT)
        self._interval = self._gauge(catalogue.INTERVAL)
        self._phase_duration = self._histogram(catalogue.PHASE_DURATION)

    def _add_plans(self) -> None:
        self._point_duration = self._histogram(catalogue.POINT_DURATION)
        self._point_runs = self._counter(catalogue.POINT_RUNS)
        self._verdicts = self._counter(catalogue.VERDICTS)
        self._plan_moves = self._gauge(catalogue.PLAN_MOVES)
        self._plan_pods = self._gauge(catalogue.PLAN_PODS)
        self._plan_nodes = self._gauge(catalogue.PLAN_NODES)
        self._node_figures = NodeFigures()
        self._templates = self._gauge(catalogue.TEMPLATES_PER_POD)

    # -- as it happens --------------------------------------------------------------------------

    def cycle_ended(self, cycle: LastCycle) -> None:
        """Count a cycle."""
        self._cycles.labels(cycle.result).inc()
        self._loop_duration.observe(cycle.took)

    # -- once a cycle ---------------------------------------------------------------------------

    def observe_cycle(self, snapshot: Snapshot, report: CycleReport) -> None:
        """Count what a cycle decided, and how long it took."""
        for phase, seconds in report.phases.items():
            self._phase_duration.labels(phase).observe(seconds)
        for (profile, plugin, point), seconds in report.turns.items():
            self._strategy_duration.labels(plugin, profile).observe(seconds)
            self._point_duration.labels(point, profile, plugin).observe(seconds)
        for drawn in report.rounds:
            for run in drawn.plan.runs:
                self._count(run)
        plan, pods = report.plan, snapshot.pod_index
        self._plan_moves.set(sum(len(drawn.plan.moves) for drawn in report.rounds))
        self._plan_pods.set(plan.pods)
        self._plan_nodes.set(plan.nodes_in_scope)
        self._node_figures = NodeFigures(plan.runs)
        self._templates.set(len(pods.templates) / len(pods) if len(pods) else 0.0)

    def _count(self, run: PluginRun) -> None:
        plugin = (run.profile, run.plugin)
        ending = "failed" if run.error else "stopped" if run.stopped else "done"
        for label in ("done", "stopped", "failed"):
            self._point_runs.labels(run.point, *plugin, label).inc(label == ending)
        self._moves.labels(*plugin, MoveResult.EVICTED)  # so that the first one shows in a rate
        for verdict, count in (("admitted", run.admitted), ("moving", run.already_moving)):
            self._verdicts.labels(*plugin, verdict, "").inc(count)
        for code, count in run.refused.items():
            self._verdicts.labels(*plugin, "refused", code).inc(count)
        for limited in run.limited:
            if result := LIMIT_RESULTS.get(limited.limit):
                labels = (run.plugin, run.profile, limited.namespace, limited.node)
                self._count_evictions(result, *labels, count=limited.proposals)

    # -- when metrics are fetched ----------------------------------------------------------------

    def update(self, status: ComponentStatus) -> None:
        """Set the gauges from the status."""
        super().update(status)
        self._interval.set(status.interval)
        if last := status.last:
            self._last_time.set(last.ended_at.timestamp())
            self._last_duration.set(last.took)
        for result in Result:
            self._last_result.labels(result).set(last is not None and result is last.result)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format; may be called by another thread."""
        return super().text() + self._node_figures.text
