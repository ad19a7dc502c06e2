"""A simulation for programs: keys are stable, new ones may be added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from resettle.simulate.measures import Load
from resettle.simulate.ping_pong import PingPongSummary
from resettle.simulate.result import CycleWithEvents, SimulationResult, move_result
from resettle.simulate.scheduler import workload
from resettle.simulate.simulation import SimulatedMove


def simulation_document(results: Sequence[SimulationResult]) -> dict[str, Any]:
    """The simulated cluster, and one run for each policy."""
    first = results[0]
    return {
        "snapshot": {
            "nodes": len(first.loads),
            "pods": first.pods,
            "taken_at": _instant(first.taken_at),
        },
        "interval_seconds": first.interval.total_seconds(),
        "start": {"nodes": _nodes(first.loads), "troubles": dict(first.violations)},
        "runs": [_run(result) for result in results],
    }


def _run(result: SimulationResult) -> dict[str, Any]:
    return {
        "policy": result.policy,
        "soft_taints": result.tainting,
        "settled_after": result.settled_after,
        "stopped_early": result.stopped_early,
        "totals": {
            "cycles": len(result.cycles),
            "moves": result.move_count,
            "returned": result.returned,
            "ping_pong": sum(summary.times for summary in result.ping_pong),
            "waiting": len(result.waiting_pods),
            "restarts": [
                {"workload": name, "pods": times}
                for name, times in result.evictions_by_workload.items()
            ],
        },
        "ping_pong": [_ping_pong(summary) for summary in result.ping_pong],
        "waiting": [
            {"namespace": waiter.pod.namespace, "name": waiter.pod.name, "why": waiter.why}
            for waiter in result.waiting_pods
        ],
        "cycles": [_cycle(entry) for entry in result.cycles_with_events],
    }


def _cycle(entry: CycleWithEvents) -> dict[str, Any]:
    cycle = entry.cycle
    return {
        "number": cycle.number,
        "at": _instant(cycle.at),
        "events": list(entry.events),
        "tainted": [
            {"name": name, "taints": [str(taint) for taint in taints]}
            for name, taints in cycle.tainted.items()
        ],
        "landings": [_move(move) for move in cycle.moves],
        "came_in": [
            {"namespace": placed.pod.namespace, "name": placed.pod.name, "node": placed.node}
            for placed in cycle.newly_scheduled
        ],
        "waiting": cycle.waiting,
        "troubles": dict(cycle.violations),
        "ping_pong": len(cycle.ping_pong),
        "nodes": _nodes(cycle.after),
    }


def _move(move: SimulatedMove) -> dict[str, Any]:
    return {
        "namespace": move.pod.namespace,
        "name": move.pod.name,
        "workload": workload(move.pod),
        "from": move.pod.node,
        "to": move.node or None,
        "became": move_result(move),
        "plugin": move.plugin,
        "profile": move.profile,
        "reason": move.reason,
    }


def _ping_pong(summary: PingPongSummary) -> dict[str, Any]:
    return {
        "workload": summary.workload,
        "times": summary.times,
        "pods": list(summary.pods),
        "plugins": list(summary.plugins),
        "nodes": list(summary.nodes),
    }


def _nodes(loads: Mapping[str, Load]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "cpu_percent": _round_percent(load.cpu),
            "memory_percent": _round_percent(load.memory),
            "pods": load.pods,
            "measured_percent": _round_percent(load.measured),
        }
        for name, load in loads.items()
    ]


def _round_percent(share: float | None) -> float | None:
    return None if share is None else round(share, 1)


def _instant(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
