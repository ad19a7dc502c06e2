"""The metrics at work: counted as things happen, or read off when somebody asks.

Evictions count one by one, for a large cycle may take an hour. All else is counted once a cycle, or
looked up when the metrics are fetched.
"""

from __future__ import annotations

import platform

from resettle import __version__
from resettle.cycle import Report
from resettle.evict.ledger import Entry, Stage
from resettle.framework.mover import Ending, Outcome
from resettle.framework.plan import Move, PluginRun
from resettle.loop.status import LastCycle, Result, Status
from resettle.model.snapshot import Snapshot
from resettle.serving import catalogue
from resettle.serving.instruments import Instruments
from resettle.serving.results import AT_ONCE, LIMITED, in_the_end
from resettle.serving.standing import Standing


class Meters(Instruments):
    """A `RunObserver` that counts; `reported` is the observer of its cycles."""

    def reset(self) -> None:
        """Has everything begin at zero again."""
        super().reset()
        self._of_the_peer()
        self._of_cycles()
        self._of_plans()
        self._of_how_it_stands()

    def _of_the_peer(self) -> None:
        self._pods_evicted = self._counter(catalogue.PODS_EVICTED)
        self._loop_duration = self._histogram(catalogue.LOOP_DURATION)
        self._strategy_duration = self._histogram(catalogue.STRATEGY_DURATION)
        python, short = platform.python_version(), ".".join(__version__.split(".")[:2])
        build = (f"python{python}", short, __version__, "", "")
        self._gauge(catalogue.PEER_BUILD_INFO).labels(*build).set(1)
        self._gauge(catalogue.BUILD_INFO).labels(__version__, python).set(1)

    def _of_cycles(self) -> None:
        self._cycles = self._counter(catalogue.CYCLES)
        for result in Result:
            self._cycles.labels(result)  # a rate wants a beginning at zero
        self._last_time = self._gauge(catalogue.LAST_CYCLE_TIME)
        self._last_duration = self._gauge(catalogue.LAST_CYCLE_DURATION)
        self._last_result = self._gauge(catalogue.LAST_CYCLE_RESULT)
        self._interval = self._gauge(catalogue.INTERVAL)
        self._phase_duration = self._histogram(catalogue.PHASE_DURATION)

    def _of_plans(self) -> None:
        self._point_duration = self._histogram(catalogue.POINT_DURATION)
        self._point_runs = self._counter(catalogue.POINT_RUNS)
        self._verdicts = self._counter(catalogue.VERDICTS)
        self._plan_moves = self._gauge(catalogue.PLAN_MOVES)
        self._plan_pods = self._gauge(catalogue.PLAN_PODS)
        self._plan_nodes = self._gauge(catalogue.PLAN_NODES)
        self._standing = Standing()
        self._templates = self._gauge(catalogue.TEMPLATES_PER_POD)
        self._moves = self._counter(catalogue.MOVES)

    def _of_how_it_stands(self) -> None:
        self._in_flight = self._gauge(catalogue.IN_FLIGHT)

    # -- as it happens --------------------------------------------------------------------------

    def moved(self, move: Move, outcome: Outcome) -> None:
        """Counts a move by what came of it."""
        self._moves.labels(move.profile, move.plugin, outcome.ending).inc()
        if result := AT_ONCE.get(outcome.ending):
            pod = move.pod
            self._evicted(result, move.plugin, move.profile, pod.namespace, pod.node)

    def settled(self, entry: Entry, left: bool) -> None:
        """Counts a move whose end was open until now."""
        if result := in_the_end(entry, left):
            pod = entry.pod
            self._evicted(result, entry.plugin, entry.profile, pod.namespace, pod.node)

    def cycle_ended(self, cycle: LastCycle) -> None:
        """Counts a cycle."""
        self._cycles.labels(cycle.result).inc()
        self._loop_duration.observe(cycle.took)

    # -- once a cycle ---------------------------------------------------------------------------

    def reported(self, snapshot: Snapshot, report: Report) -> None:
        """Counts what a cycle decided, and notes how long it took to."""
        for phase, seconds in report.phases.items():
            self._phase_duration.labels(phase).observe(seconds)
        for (profile, plugin, point), seconds in report.turns.items():
            self._strategy_duration.labels(plugin, profile).observe(seconds)
            self._point_duration.labels(point, profile, plugin).observe(seconds)
        for one in report.rounds:
            for run in one.plan.runs:
                self._count(run)
        plan, pods = report.plan, snapshot.population
        self._plan_moves.set(sum(len(one.plan.moves) for one in report.rounds))
        self._plan_pods.set(plan.pods)
        self._plan_nodes.set(plan.nodes_in_scope)
        self._standing = Standing(plan.runs)
        self._templates.set(len(pods.templates) / len(pods) if len(pods) else 0.0)

    def _count(self, run: PluginRun) -> None:
        who = (run.profile, run.plugin)
        ended = "failed" if run.error else "stopped" if run.stopped else "done"
        for way in ("done", "stopped", "failed"):
            self._point_runs.labels(run.point, *who, way).inc(way == ended)
        self._moves.labels(*who, Ending.EVICTED)  # so that the first one shows in a rate
        for verdict, count in (("admitted", run.admitted), ("moving", run.already_moving)):
            self._verdicts.labels(*who, verdict, "").inc(count)
        for code, count in run.refused.items():
            self._verdicts.labels(*who, "refused", code).inc(count)
        for met in run.limited:
            if result := LIMITED.get(met.limit):
                who_and_where = (run.plugin, run.profile, met.namespace, met.node)
                self._evicted(result, *who_and_where, count=met.proposals)

    def _evicted(
        self, result: str, plugin: str, profile: str, namespace: str, node: str, count: int = 1
    ) -> None:
        self._pods_evicted.labels(result, plugin, profile, namespace, node).inc(count)

    # -- when somebody asks ---------------------------------------------------------------------

    def look(self, status: Status) -> None:
        """Reads off how it stands."""
        super().look(status)
        for stage in Stage:
            self._in_flight.labels(stage).set(status.in_flight.get(stage, 0))
        self._interval.set(status.interval)
        if last := status.last:
            self._last_time.set(last.ended_at.timestamp())
            self._last_duration.set(last.took)
        for result in Result:
            self._last_result.labels(result).set(last is not None and result is last.result)

    def text(self) -> bytes:
        """All of it in Prometheus' text format; may be called by another thread."""
        return super().text() + self._standing.text
