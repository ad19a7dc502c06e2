"""How many pods of one workload may move: the numbers behind the rules, as functions of values.

The default limit never falls while a workload grows: 1 of up to 3 replicas, 2 from 4 on, and a
tenth of them from 30 on.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from resettle.framework.view import View
from resettle.model.pod import Pod
from resettle.model.workloads import Workload
from resettle.plugins.migration_limits.args import Args

FEW_REPLICAS = 3
"""Of so many replicas one may move at a time."""
DEFAULT_PERCENT = 10


def limit_of(written: int | str | None, desired: int) -> int:
    """The limit for a workload with so many replicas; at least 1, at most all of them.

    A percentage is rounded down.
    """
    if written is None:
        limit = 1 if desired <= FEW_REPLICAS else max(2, desired * DEFAULT_PERCENT // 100)
    elif isinstance(written, str):
        limit = max(1, int(written.removesuffix("%")) * desired // 100)
    else:
        limit = written
    return min(limit, desired)


def is_available(pod: Pod) -> bool:
    """Whether the pod serves: it is ready and stays."""
    return pod.state.ready and not pod.terminating and not pod.finished


class WorkloadCounts:
    """One workload in one view: its limits, and the pods of it that count against them."""

    def __init__(self, workload: Workload, args: Args, view: View) -> None:
        self.workload = workload
        self.desired = workload.desired
        self.max_migrating = limit_of(args.max_migrating_per_workload, workload.desired)
        self.max_unavailable = limit_of(args.max_unavailable_per_workload, workload.desired)
        self.is_rolling_out = view.snapshot.workloads.is_rolling_out(workload)
        self.controllers = tuple(view.snapshot.workloads.controllers_of(workload))
        pods = view.pods_of(workload)
        self._available = frozenset(pod.uid for pod in pods if is_available(pod))
        self._leaving = view.leaving

    def leaving(self, *, besides: Pod) -> list[Pod]:
        """The pods of the workload that are on their way; finished pods serve no more anyway."""
        return [
            pod
            for uid in self.controllers
            for pod in self._leaving.of_controller(uid)
            if pod.uid != besides.uid and not pod.finished
        ]

    def moving(self, *, besides: Pod) -> int:
        """How many moves of pods of the workload are under way, also of pods that are gone."""
        departed = sum(map(self._leaving.count_departed, self.controllers))
        return len(self.leaving(besides=besides)) + departed

    def unavailable(self, *, besides: Pod) -> int:
        """How many of the other replicas are missing, not ready, or on their way.

        The pod itself is not counted, so a pod that is not ready does not stand in its own way.
        """
        others = self._available - {besides.uid}
        staying = len(others) - sum(pod.uid in others for pod in self.leaving(besides=besides))
        return max(self.desired - 1 - staying, 0)


class Rate(Struct, frozen=True):
    """So many moves in a time, of which a burst may follow each other at once: a token bucket."""

    count: int
    span: timedelta
    burst: int

    def wait(self, times: Iterable[datetime], now: datetime) -> timedelta:
        """How long until one more move is allowed after those at these times; zero for now.

        A move always takes a token where there is one, also if it was not allowed by this limit.
        """
        tokens, last = float(self.burst), now
        for i, at in enumerate(sorted(times)):
            if i:
                tokens = min(self.burst, tokens + self._refill(at - last))
            tokens, last = max(tokens - 1, 0), at
        tokens = min(self.burst, tokens + self._refill(now - last))
        # A millionth of a token, so that no rounding error makes a move wait for another cycle.
        missing = 1 - tokens - 1e-6
        return max(missing, 0) * self.span / self.count if missing > 0 else timedelta()

    def _refill(self, passed: timedelta) -> float:
        return max(passed, timedelta()) / self.span * self.count
