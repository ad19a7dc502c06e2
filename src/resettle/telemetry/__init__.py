"""What others can see of a component: metrics, health and traces.

`endpoint.py` puts the HTTPS endpoint together, `routes.py` has its paths and health checks,
`metrics/` the metrics, `tracing.py` the traces. Importing this package imports neither aiohttp nor
prometheus_client nor OpenTelemetry; they are imported when something is served or traced.
Components know nothing of it: they are given observers and tracers, and are asked for their status.
"""

from resettle.telemetry.endpoint import (
    Endpoint,
    EndpointSettings,
    build_run_metrics,
    build_soft_tainter_metrics,
)

__all__ = ["Endpoint", "EndpointSettings", "build_run_metrics", "build_soft_tainter_metrics"]
