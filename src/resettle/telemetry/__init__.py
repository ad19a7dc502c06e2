"""Metrics, health and traces of a component.

`endpoint` serves them over `https`, `routes` answers health checks, `metrics` has every metric, and
`tracing` sends spans by OTLP (OpenTelemetry is imported only when a collector is named). It only
observes. Start with `endpoint`. `cli` imports it.

Import from outside: `tracing`.
"""

from resettle.telemetry.endpoint import (
    Endpoint,
    EndpointSettings,
    build_migration_controller_metrics,
    build_run_metrics,
    build_soft_tainter_metrics,
)

__all__ = [
    "Endpoint",
    "EndpointSettings",
    "build_migration_controller_metrics",
    "build_run_metrics",
    "build_soft_tainter_metrics",
]
