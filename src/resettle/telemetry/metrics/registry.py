"""The metrics registry of one component: what every component exposes, and the text of it.

Role, policy and cache age have the same names in all components; Prometheus keeps them apart by the
job. What prometheus_client writes differs from upstream in two points. Counters could not have the
older name `descheduler_pods_evicted`, since it ends them all in `_total`: so metrics with an older
name are written as the same lines once more. And a bucket is `1.0` where it is `1` in Go, which
would be another series.
"""

from __future__ import annotations

import math
import re

import prometheus_client as prometheus

from resettle.runtime.status import ComponentStatus, Role
from resettle.telemetry.metrics import catalogue
from resettle.telemetry.metrics.catalogue import RUN_CATALOGUE, Metric

_OLDER_NAMES = {
    metric.name.encode(): metric.older_name.encode()
    for metric in RUN_CATALOGUE
    if metric.older_name
}
_WHOLE_BUCKET = re.compile(rb'\ble="(\d+)\.0"')


class ComponentMetrics:
    """What is common to the metrics of all components."""

    def __init__(self) -> None:
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.reset()

    def reset(self) -> None:
        """Start all metrics at zero."""
        self._registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self._registry)
        self._cache_age = self._gauge(catalogue.CACHE_AGE)
        self._cache_synced = self._gauge(catalogue.CACHE_SYNCED)
        self._role = self._gauge(catalogue.ROLE)
        self._policy_usable = self._gauge(catalogue.POLICY_USABLE)
        self._policy_time = self._gauge(catalogue.POLICY_TIME)

    def _counter(self, metric: Metric) -> prometheus.Counter:
        return prometheus.Counter(metric.name, metric.help, metric.labels, registry=self._registry)

    def _gauge(self, metric: Metric) -> prometheus.Gauge:
        return prometheus.Gauge(metric.name, metric.help, metric.labels, registry=self._registry)

    def _histogram(self, metric: Metric) -> prometheus.Histogram:
        return prometheus.Histogram(
            metric.name, metric.help, metric.labels, registry=self._registry, buckets=metric.buckets
        )

    def update(self, status: ComponentStatus) -> None:
        """Set the gauges from the status."""
        for role in Role:
            self._role.labels(role).set(role is status.role)
        self._cache_synced.set(status.ages is not None)
        self._cache_age.clear()
        for kind, age in (status.ages or {}).items():
            if math.isfinite(age):
                self._cache_age.labels(kind).set(age)
        self._policy_usable.set(status.policy_usable)
        taken_at = status.policy_taken_at
        self._policy_time.set(taken_at.timestamp() if taken_at else 0.0)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format; may be called by another thread."""
        return as_upstream(prometheus.generate_latest(self._registry))


def as_upstream(text: bytes) -> bytes:
    """The text with buckets as Go writes them, and with older names appended."""
    text = _WHOLE_BUCKET.sub(rb'le="\1"', text)
    lines = text.splitlines(keepends=True)
    parts = [text]
    for name, older in _OLDER_NAMES.items():
        starts = (name, b"# HELP %b " % name, b"# TYPE %b " % name)
        parts += [_with_older_name(line, name, older) for line in lines if line.startswith(starts)]
    return b"".join(parts)


def _with_older_name(line: bytes, name: bytes, older: bytes) -> bytes:
    if line.startswith(b"# HELP "):
        return b"# HELP %b Deprecated: the older name of %b.\n" % (older, name)
    return line.replace(name, older, 1)
