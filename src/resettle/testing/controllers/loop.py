"""Life in a pocket cluster: controllers that act on a store until nothing is left to do.

    life = Life(pocket.store, clock)
    life.settle()                          # everybody has had their say
    life.pass_time(timedelta(minutes=5))   # and again, whenever something is due

Each round everybody looks at what is there by then. It is over when a round has nothing to write.

What a controller sees: all objects of the kinds that matter, at one instant.

A sight is read, never written. What it takes to find pods by owner or node is worked out once, for
whoever asks first.

A store as controllers look at it: kept up to date by what changes, never listed anew.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from resettle.errors import ResettleError
from resettle.testing.api_server.clock import HandClock
from resettle.testing.api_server.storage.store import Store
from resettle.testing.controllers.daemon_sets_and_jobs import DaemonSets, jobs
from resettle.testing.controllers.disruption_budgets import budgets
from resettle.testing.controllers.kubelet import Kubelets, Pace
from resettle.testing.controllers.nodes_and_volumes import garbage, taints, volumes
from resettle.testing.controllers.observed import Mirror, key_of
from resettle.testing.controllers.replicas import deployments, replica_sets, stateful_sets
from resettle.testing.controllers.scheduler import Models, Scheduler
from resettle.testing.controllers.writes import Controller, Later, Put, Write

ROUNDS = 1000
"""So many times everybody may have their say at one instant."""


class Restless(ResettleError):
    """Controllers that never come to rest undo each other's work; one of them is wrong."""


class Life:
    """The controllers of one store; time passes only when it is told to.

    Use it from one thread. Requests that reach the server meanwhile are seen at the next call.
    """

    def __init__(self, store: Store, clock: HandClock, pace: Pace | None = None) -> None:
        self._store = store
        self._clock = clock
        self._mirror = Mirror(store)
        models = Models()
        self.controllers: dict[str, Controller] = {
            "garbage collector": garbage,
            "taints": taints,
            "deployments": deployments,
            "replica sets": replica_sets,
            "stateful sets": stateful_sets,
            "daemon sets": DaemonSets(models),
            "jobs": jobs,
            "volumes": volumes,
            "scheduler": Scheduler(models),
            "kubelets": Kubelets(pace or Pace()),
            "budgets": budgets,
        }
        """Who acts, in order; a test may add one of its own."""

    def settle(self) -> datetime | None:
        """Lets everybody act until nothing changes; when something is due next, if anything is."""
        told: dict[str, list[Write]] = {}
        for _ in range(ROUNDS):
            due: list[datetime] = []
            told = {name: self._turn(act, due) for name, act in self.controllers.items()}
            if not any(told.values()):
                return min(due, default=None)
        restless = next((name, writes) for name, writes in told.items() if writes)
        raise Restless(
            f"the pocket cluster does not come to rest: after {ROUNDS} rounds the {restless[0]} "
            f"would still write {_named(restless[1][0])}; see which other controller undoes it"
        )

    def pass_time(self, by: timedelta) -> None:
        """Winds the clock, and lets everybody act at each moment when something is due."""
        end = self._clock() + by
        while (due := self.settle()) is not None and due <= end:
            self._clock.wind(due - self._clock())
        self._clock.wind(end - self._clock())
        self.settle()

    def close(self) -> None:
        """Ends it; the store stays as it is."""
        self._mirror.close()

    def _turn(self, act: Controller, due: list[datetime]) -> list[Write]:
        """What one controller has written; what it wants to come back to is noted."""
        writes: list[Write] = []
        for asked in act(self._mirror.sight(self._clock())):
            if isinstance(asked, Later):
                due.append(asked.at)
            else:
                writes.append(asked)
        for write in writes:
            write.carry_out(self._store)
        return writes


def _named(write: Write) -> str:
    if isinstance(write, Put):
        return f"{write.object['kind']} {key_of(write.object)}"
    return f"{write.kind} {write.key.removeprefix('/')}"
