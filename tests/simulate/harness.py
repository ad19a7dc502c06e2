"""Simulations with a scripted plugin, which moves the pods that the test names for each cycle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from resettle.framework import Args, Descheduler, Draft, Plugin, build_descheduler, default_registry
from resettle.framework.view import View
from resettle.model.snapshot import Snapshot
from resettle.policy.load import load_policy
from resettle.simulate.events import Event
from resettle.simulate.result import SimulationResult, run_simulation
from resettle.simulate.simulation import SimulatedCycle, Simulation, Tainter
from resettle.testing import World
from resettle.testing.builders import Object

EVICT = {"descheduler.alpha.kubernetes.io/evict": ""}
FIVE_MINUTES = timedelta(minutes=5)


class Script(Args, frozen=True, kw_only=True):
    """Cycle to the names of pods; `always` are those of every cycle."""

    cycles: dict[str, tuple[str, ...]] = {}
    always: tuple[str, ...] = ()


def follow(args: Script, view: View, draft: Draft) -> None:
    """Proposes the pods of this cycle; which one it is, the plugin has to remember."""
    cycle = (draft.recall() or 0) + 1
    draft.remember(cycle)
    wanted = (*args.cycles.get(str(cycle), ()), *args.always)
    for pod in view.pods:
        if pod.name in wanted and pod.node:
            draft.propose(pod, because="the script says so")


SCRIPT = Plugin(name="Script", args=Script, deschedule=follow)
REGISTRY = default_registry().with_plugins(SCRIPT)


def planner(document: Mapping[str, Any]) -> Descheduler:
    """The descheduler of a policy, as a document."""
    return build_descheduler(
        load_policy(json.dumps(document), name="policy", plugins=REGISTRY), REGISTRY
    )


def scripted(
    cycles: Mapping[int, Sequence[str]] | None = None, always: Sequence[str] = ()
) -> Descheduler:
    """A descheduler that proposes these pods by cycle."""
    args = {
        "cycles": {str(number): list(names) for number, names in (cycles or {}).items()},
        "always": list(always),
    }
    profile = {
        "name": "test",
        "pluginConfig": [{"name": "Script", "args": args}],
        "plugins": {"deschedule": {"enabled": ["Script"]}},
    }
    header = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    return planner({**header, "profiles": [profile]})


def on_stage(world: World, script: Descheduler, interval: timedelta = FIVE_MINUTES) -> Simulation:
    return Simulation(script, world.snapshot(), interval)


def simulate(
    world: World,
    script: Descheduler,
    *,
    cycles: int = 10,
    events: Sequence[Event] = (),
    until_settled: bool = False,
    interval: timedelta = FIVE_MINUTES,
    tainter: Tainter | None = None,
) -> SimulationResult:
    return run_simulation(
        "policy.yaml",
        script,
        world.snapshot(),
        interval=interval,
        cycles=cycles,
        events=events,
        until_settled=until_settled,
        tainter=tainter,
    )


def landed(cycle: SimulatedCycle) -> dict[str, str | None]:
    """Where the pods that moved are now, by name."""
    return {landing.pod.name: landing.node for landing in cycle.moves}


def homes(snapshot: Snapshot) -> dict[str, str]:
    """Where every pod is, by name; empty while it waits."""
    return {pod.name: pod.node for pod in snapshot.pods}


def objects(*things: Object) -> Snapshot:
    """Objects alone, as an event would bring them."""
    return World(things).snapshot()
