"""The metrics of the soft tainter: counted round by round, or set when they are fetched.

No label names a node: the number of lines grows with the policy, not with the cluster.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum

from msgspec import structs

from resettle import __version__
from resettle.controllers.soft_taints.apply import PatchResult, WriteResult
from resettle.controllers.soft_taints.desired import OVERUTILIZED
from resettle.controllers.soft_taints.reconcile import ReconcileResult
from resettle.controllers.soft_taints.runner import LastRound, RoundResult
from resettle.runtime.status import ComponentStatus
from resettle.telemetry.metrics import catalogue
from resettle.telemetry.metrics.registry import ComponentMetrics
from resettle.utilization.bands import OVER, UNDER, UNKNOWN, WITHIN

BANDS = (UNDER, WITHIN, OVER, UNKNOWN)


class Write(StrEnum):
    """What can result for a node whose taints are to be written."""

    SET = "set"
    """A taint was set or changed, and others may have been removed with it."""
    REMOVED = "removed"
    """Taints were removed and none was set."""
    CONFLICT = "conflict"
    """Another client wrote the node first; it is read and tried again."""
    ALREADY_SO = "already-so"
    GONE = "gone"
    FAILED = "failed"
    UNSENT = "unsent"
    """Nothing more could be sent in that round."""


class SoftTainterMetrics(ComponentMetrics):
    """Observes the soft tainter and counts."""

    def __init__(self) -> None:
        self._last: LastRound | None = None
        self._bands = Counter[str](dict.fromkeys(BANDS, 0))
        self._taints = Counter[str]({OVERUTILIZED: 0})
        self._doubts = Counter[str]()
        super().__init__()

    def reset(self) -> None:
        """Start all metrics at zero."""
        super().reset()
        self._rounds = self._counter(catalogue.ROUNDS)
        self._writes = self._counter(catalogue.WRITES)
        # A rate needs a start at zero.
        for result in RoundResult:
            self._rounds.labels(result)
        for write in Write:
            self._writes.labels(write)
        self._last_time = self._gauge(catalogue.LAST_ROUND_TIME)
        self._last_duration = self._gauge(catalogue.LAST_ROUND_DURATION)
        self._last_result = self._gauge(catalogue.LAST_ROUND_RESULT)
        self._interval = self._gauge(catalogue.ROUND_INTERVAL)
        self._nodes = self._gauge(catalogue.NODES_BY_BAND)
        self._marked = self._gauge(catalogue.MARKED_NODES)
        self._in_doubt = self._gauge(catalogue.NODES_IN_DOUBT)
        build = (__version__, platform.python_version())
        self._gauge(catalogue.SOFT_TAINTER_BUILD_INFO).labels(*build).set(1)

    def round_ended(self, last: LastRound) -> None:
        """Count a round, and what it wrote."""
        self._last = structs.replace(last, reconciled=None)  # nodes are counted, not kept
        self._rounds.labels(last.result).inc()
        if last.reconciled is not None:
            self._count(last.reconciled)

    def _count(self, reconciled: ReconcileResult) -> None:
        for written in reconciled.results:
            for write in _writes(written):
                self._writes.labels(write).inc()
        desired = reconciled.desired.values()
        taints = (taint.key.rpartition("/")[2] for wanted in desired for taint in wanted.taints)
        self._bands = _recount(self._bands, (wanted.band for wanted in desired if wanted.band))
        self._taints = _recount(self._taints, taints)
        self._doubts = _recount(
            self._doubts, (wanted.problem for wanted in desired if wanted.problem)
        )

    def update(self, status: ComponentStatus) -> None:
        """Set the gauges from the status."""
        super().update(status)
        self._interval.set(status.interval)
        last = self._last
        if last is not None:
            self._last_time.set(last.ended_at.timestamp())
            self._last_duration.set(last.took)
        for result in RoundResult:
            self._last_result.labels(result).set(last is not None and result is last.result)
        for gauge, counts in (
            (self._nodes, self._bands),
            (self._marked, self._taints),
            (self._in_doubt, self._doubts),
        ):
            for value, count in counts.items():
                gauge.labels(value).set(count)


def _recount(before: Counter[str], values: Iterable[str]) -> Counter[str]:
    """How often each value occurs; a value that occurred before and does not now is 0."""
    counts = Counter(dict.fromkeys(before, 0))
    counts.update(values)
    return counts


def _writes(written: PatchResult) -> Iterator[Write]:
    for _ in range(written.conflicts):
        yield Write.CONFLICT
    if written.result is WriteResult.WRITTEN:
        yield Write.SET if written.patch.added else Write.REMOVED
    else:
        yield Write(written.result)
