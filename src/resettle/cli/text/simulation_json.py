"""A simulation for programs: keys are stable, new ones may join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from resettle.simulate.measures import Load
from resettle.simulate.ping_pong import Rally
from resettle.simulate.result import Chapter, Story, became
from resettle.simulate.scheduler import workload
from resettle.simulate.simulation import Landing


def stories_document(stories: Sequence[Story]) -> dict[str, Any]:
    """What is simulated, and a run for each policy."""
    first = stories[0]
    return {
        "snapshot": {
            "nodes": len(first.loads),
            "pods": first.pods,
            "taken_at": _instant(first.taken_at),
        },
        "interval_seconds": first.interval.total_seconds(),
        "start": {"nodes": _nodes(first.loads), "troubles": dict(first.troubles)},
        "runs": [_run(story) for story in stories],
    }


def _run(story: Story) -> dict[str, Any]:
    return {
        "policy": story.policy,
        "soft_taints": story.tainting,
        "settled_after": story.settled_after,
        "stopped_early": story.stopped_early,
        "totals": {
            "cycles": len(story.cycles),
            "moves": story.moves,
            "returned": story.returned,
            "ping_pong": sum(rally.times for rally in story.ping_pong),
            "waiting": len(story.waits),
            "restarts": [
                {"workload": name, "pods": times} for name, times in story.restarts.items()
            ],
        },
        "ping_pong": [_rally(rally) for rally in story.ping_pong],
        "waiting": [
            {"namespace": it.pod.namespace, "name": it.pod.name, "why": it.why}
            for it in story.waits
        ],
        "cycles": [_cycle(chapter) for chapter in story.chapters],
    }


def _cycle(chapter: Chapter) -> dict[str, Any]:
    cycle = chapter.cycle
    return {
        "number": cycle.number,
        "at": _instant(cycle.at),
        "events": list(chapter.events),
        "tainted": [
            {"name": name, "taints": [str(it) for it in taints]}
            for name, taints in cycle.tainted.items()
        ],
        "landings": [_landing(landing) for landing in cycle.landings],
        "came_in": [
            {"namespace": it.pod.namespace, "name": it.pod.name, "node": it.node}
            for it in cycle.came_in
        ],
        "waiting": cycle.waiting,
        "troubles": dict(cycle.troubles),
        "ping_pong": len(cycle.ping_pong),
        "nodes": _nodes(cycle.after),
    }


def _landing(landing: Landing) -> dict[str, Any]:
    return {
        "namespace": landing.pod.namespace,
        "name": landing.pod.name,
        "workload": workload(landing.pod),
        "from": landing.pod.node,
        "to": landing.node or None,
        "became": became(landing),
        "plugin": landing.plugin,
        "profile": landing.profile,
        "reason": landing.reason,
    }


def _rally(rally: Rally) -> dict[str, Any]:
    return {
        "workload": rally.workload,
        "times": rally.times,
        "pods": list(rally.pods),
        "plugins": list(rally.plugins),
        "nodes": list(rally.nodes),
    }


def _nodes(loads: Mapping[str, Load]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "cpu_percent": _rounded(load.cpu),
            "memory_percent": _rounded(load.memory),
            "pods": load.pods,
            "measured_percent": _rounded(load.measured),
        }
        for name, load in loads.items()
    ]


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 1)


def _instant(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
