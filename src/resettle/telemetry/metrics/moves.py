"""The metrics of a component that moves pods: moves by response, moves in flight, controllers.

A run adds its cycles to them (`run`). The migration controller has nothing but these, and a build
of its own name, so that an absent run is noticed while a migration controller is scraped.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable

from resettle import __version__
from resettle.eviction.in_flight import InFlightMove, MoveStage
from resettle.framework.mover import MoveResponse, MoveResult
from resettle.framework.plan import Move
from resettle.runtime.status import ComponentStatus, ControllerStatus, LastCycle
from resettle.telemetry.metrics import catalogue
from resettle.telemetry.metrics.registry import ComponentMetrics

SUCCESS, ERROR, BACKGROUND = "success", "error", "background"
"""Results of evictions, as upstream names them."""

IMMEDIATE_RESULTS = {
    MoveResult.EVICTED: SUCCESS,
    MoveResult.SHOWN: SUCCESS,  # so it counts in a dry run
    MoveResult.BACKGROUND: BACKGROUND,
    MoveResult.BUDGET: ERROR,
    MoveResult.WEBHOOK: ERROR,
    MoveResult.ERROR: ERROR,
}
"""Moves that were not requested count nowhere, and those whose response was lost count later."""


def final_result(entry: InFlightMove, left: bool) -> str:
    """The result of a move that was in flight; empty if it has been counted, or was not ours."""
    counted = entry.stage in (MoveStage.EVICTED, MoveStage.REQUESTED)
    if counted or not entry.plugin:
        return ""
    return SUCCESS if left else ERROR


class MoveMetrics(ComponentMetrics):
    """Counts moves, and shows those in flight and the controllers that make some."""

    def reset(self) -> None:
        """Start all metrics at zero."""
        super().reset()
        self._pods_evicted = self._counter(catalogue.PODS_EVICTED)
        self._moves = self._counter(catalogue.MOVES)
        self._in_flight = self._gauge(catalogue.IN_FLIGHT)
        self._controller_running = self._gauge(catalogue.CONTROLLER_RUNNING)
        self._controller_restarts = self._gauge(catalogue.CONTROLLER_RESTARTS)
        self._controller_figures = self._gauge(catalogue.CONTROLLER_FIGURES)

    def move_sent(self, move: Move, response: MoveResponse) -> None:
        """Count a move by the result in its response."""
        self._moves.labels(move.profile, move.plugin, response.result).inc()
        if result := IMMEDIATE_RESULTS.get(response.result):
            pod = move.pod
            self._count_evictions(result, move.plugin, move.profile, pod.namespace, pod.node)

    def move_ended(self, entry: InFlightMove, left: bool) -> None:
        """Count a move that was in flight until now."""
        if result := final_result(entry, left):
            pod = entry.pod
            self._count_evictions(result, entry.plugin, entry.profile, pod.namespace, pod.node)

    def cycle_ended(self, cycle: LastCycle) -> None:
        """Ignore it: a component without cycles has nothing to count."""

    def _count_evictions(
        self, result: str, plugin: str, profile: str, namespace: str, node: str, count: int = 1
    ) -> None:
        self._pods_evicted.labels(result, plugin, profile, namespace, node).inc(count)

    def update(self, status: ComponentStatus) -> None:
        """Set the gauges from the status."""
        super().update(status)
        for stage in MoveStage:
            self._in_flight.labels(stage).set(status.in_flight.get(stage, 0))
        self._update_controllers(status.controllers)

    def _update_controllers(self, controllers: Iterable[ControllerStatus]) -> None:
        """Set the gauges of the controllers, and drop those of controllers that are no more."""
        for gauge in (
            self._controller_running,
            self._controller_restarts,
            self._controller_figures,
        ):
            gauge.clear()
        for controller in controllers:
            labels = (controller.profile, controller.name)
            self._controller_running.labels(*labels).set(controller.running)
            self._controller_restarts.labels(*labels).set(controller.restarts)
            for figure, value in controller.figures.items():
                self._controller_figures.labels(*labels, figure).set(value)


class MigrationControllerMetrics(MoveMetrics):
    """The metrics of `resettle migration-controller`."""

    def reset(self) -> None:
        """Start all metrics at zero."""
        super().reset()
        build = (__version__, platform.python_version())
        self._gauge(catalogue.MIGRATION_CONTROLLER_BUILD_INFO).labels(*build).set(1)
