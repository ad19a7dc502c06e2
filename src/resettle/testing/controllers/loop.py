"""Runs the controllers on a store until nothing is left to do.

    controllers = ControllerLoop(server.store, clock)
    controllers.settle()                          # every controller acts until nothing changes
    controllers.pass_time(timedelta(minutes=5))   # and again, whenever something is due

In each round every controller sees the objects as they are by then. A round with no writes is the
last one.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from resettle.errors import ResettleError
from resettle.testing.api_server.clock import ManualClock
from resettle.testing.api_server.storage.store import Store
from resettle.testing.controllers.daemon_sets_and_jobs import DaemonSets, jobs
from resettle.testing.controllers.disruption_budgets import budgets
from resettle.testing.controllers.kubelet import Durations, Kubelets
from resettle.testing.controllers.nodes_and_volumes import collect_garbage, taints, volumes
from resettle.testing.controllers.observed import ClusterCache, key_of
from resettle.testing.controllers.replicas import deployments, replica_sets, stateful_sets
from resettle.testing.controllers.scheduler import Models, Scheduler
from resettle.testing.controllers.writes import Controller, Later, Put, Write

ROUNDS = 1000
"""How many times all controllers may run at one instant."""


class NeverSettles(ResettleError):
    """The controllers undo each other's work without end; one of them is wrong."""


class ControllerLoop:
    """The controllers of one store; time passes only in `pass_time`.

    Use it from one thread. Requests that reach the server meanwhile are handled at the next call.
    """

    def __init__(
        self, store: Store, clock: ManualClock, durations: Durations | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._cache = ClusterCache(store)
        models = Models()
        self.controllers: dict[str, Controller] = {
            "garbage collector": collect_garbage,
            "taints": taints,
            "deployments": deployments,
            "replica sets": replica_sets,
            "stateful sets": stateful_sets,
            "daemon sets": DaemonSets(models),
            "jobs": jobs,
            "volumes": volumes,
            "scheduler": Scheduler(models),
            "kubelets": Kubelets(durations or Durations()),
            "budgets": budgets,
        }
        """The controllers in order; a test may add its own."""

    def settle(self) -> datetime | None:
        """Run all controllers until nothing changes; return when something is due next, or None."""
        written: dict[str, list[Write]] = {}
        for _ in range(ROUNDS):
            due: list[datetime] = []
            written = {name: self._run(act, due) for name, act in self.controllers.items()}
            if not any(written.values()):
                return min(due, default=None)
        unsettled = next((name, writes) for name, writes in written.items() if writes)
        raise NeverSettles(
            f"the test cluster does not settle: after {ROUNDS} rounds the {unsettled[0]} "
            f"would still write {_describe(unsettled[1][0])}; see which other controller undoes it"
        )

    def pass_time(self, by: timedelta) -> None:
        """Advance the clock, and run all controllers at each moment when something is due."""
        end = self._clock() + by
        while (due := self.settle()) is not None and due <= end:
            self._clock.advance(due - self._clock())
        self._clock.advance(end - self._clock())
        self.settle()

    def close(self) -> None:
        """Ends it; the store stays as it is."""
        self._cache.close()

    def _run(self, act: Controller, due: list[datetime]) -> list[Write]:
        """Run one controller, do its writes and return them; add times it waits for to `due`."""
        writes: list[Write] = []
        for asked in act(self._cache.observe(self._clock())):
            if isinstance(asked, Later):
                due.append(asked.at)
            else:
                writes.append(asked)
        for write in writes:
            write.carry_out(self._store)
        return writes


def _describe(write: Write) -> str:
    if isinstance(write, Put):
        return f"{write.object['kind']} {key_of(write.object)}"
    return f"{write.kind} {write.key.removeprefix('/')}"
