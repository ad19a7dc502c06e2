"""Metrics of one component: made as the catalogue has them, and what every component tells.

The part played in leader election, the policy and the age of what is known have one name in all of
them; Prometheus tells them apart by the job.
"""

from __future__ import annotations

import math

import prometheus_client as prometheus

from resettle.loop.status import Role, Status
from resettle.serving import catalogue
from resettle.serving.catalogue import Meter
from resettle.serving.exposition import as_the_peer


class Instruments:
    """What is common to the metrics of all components."""

    def __init__(self) -> None:
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.reset()

    def reset(self) -> None:
        """Has everything begin at zero again."""
        self._registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self._registry)
        self._cache_age = self._gauge(catalogue.CACHE_AGE)
        self._cache_synced = self._gauge(catalogue.CACHE_SYNCED)
        self._role = self._gauge(catalogue.ROLE)
        self._policy_usable = self._gauge(catalogue.POLICY_USABLE)
        self._policy_time = self._gauge(catalogue.POLICY_TIME)

    def _counter(self, meter: Meter) -> prometheus.Counter:
        return prometheus.Counter(meter.name, meter.says, meter.labels, registry=self._registry)

    def _gauge(self, meter: Meter) -> prometheus.Gauge:
        return prometheus.Gauge(meter.name, meter.says, meter.labels, registry=self._registry)

    def _histogram(self, meter: Meter) -> prometheus.Histogram:
        return prometheus.Histogram(
            meter.name, meter.says, meter.labels, registry=self._registry, buckets=meter.buckets
        )

    def look(self, status: Status) -> None:
        """Reads off how it stands."""
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
        """All of it in Prometheus' text format; may be called by another thread."""
        return as_the_peer(prometheus.generate_latest(self._registry))
