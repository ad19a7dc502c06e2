"""The HTTPS endpoint of a component, put together from settings: metrics and health.

    endpoint = Endpoint(endpoint_settings, access, clock, log, build_soft_tainter_metrics)
    observer = endpoint.metrics or IGNORE_ROUNDS
    runner = soft_taint_runner(settings, access, plugins, clock, log, observer)
    async with endpoint.open(runner.status):
        await runner.run()

A component does not know the endpoint: the endpoint asks the component for its status. aiohttp and
prometheus_client are imported only where something is served.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from resettle.clock import Clock
from resettle.errors import InputError
from resettle.https import ServingCertificate, Tls
from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client
from resettle.log import Log
from resettle.rbac.permissions import METRICS_AUTHORIZATION
from resettle.rbac.reviews import require_permissions
from resettle.runtime.status import ComponentStatus

if TYPE_CHECKING:
    from resettle.https.authorization import Authorizer
    from resettle.https.server import HttpsServer
    from resettle.telemetry.metrics.moves import MigrationControllerMetrics
    from resettle.telemetry.metrics.registry import ComponentMetrics
    from resettle.telemetry.metrics.run import RunMetrics
    from resettle.telemetry.metrics.soft_tainter import SoftTainterMetrics

Metrics = TypeVar("Metrics", bound="ComponentMetrics")


class EndpointSettings(Struct, frozen=True, kw_only=True):
    """What is served, and where."""

    port: int
    """0 for any that is free."""
    address: str = "0.0.0.0"
    metrics: bool = True
    tls: Tls = Tls()
    protected: bool = False
    """Whether the API server decides who gets metrics."""
    optional: bool = False
    """Whether a taken port is a warning only."""


def build_run_metrics() -> RunMetrics:
    """The metrics of a run."""
    from resettle.telemetry.metrics.run import RunMetrics

    return RunMetrics()


def build_soft_tainter_metrics() -> SoftTainterMetrics:
    """The metrics of the soft tainter."""
    from resettle.telemetry.metrics.soft_tainter import SoftTainterMetrics

    return SoftTainterMetrics()


def build_migration_controller_metrics() -> MigrationControllerMetrics:
    """The metrics of the migration controller."""
    from resettle.telemetry.metrics.moves import MigrationControllerMetrics

    return MigrationControllerMetrics()


class Endpoint(Generic[Metrics]):
    """Serves metrics and health of a component.

    `settings` is None if nothing is served. `metrics` comes from `build_metrics`, and is None where
    metrics are not served.
    """

    def __init__(
        self,
        settings: EndpointSettings | None,
        access: Access,
        clock: Clock,
        log: Log,
        build_metrics: Callable[[], Metrics],
    ) -> None:
        self._settings = settings
        self._access = access
        self._clock = clock
        self._log = log
        self.metrics = build_metrics() if settings is not None and settings.metrics else None

    @asynccontextmanager
    async def open(self, status: Callable[[], ComponentStatus]) -> AsyncIterator[int]:
        """Serve while the block lasts; gives the port, 0 if nothing is served."""
        if self._settings is None:
            yield 0
            return
        async with Client(self._access, clock=self._clock) as client:
            authorizer = await self._authorizer(self._settings, client)
            server = self._server(self._settings, status, authorizer)
            if server is None:
                yield 0
                return
            async with server.run():
                yield server.port

    async def _authorizer(self, settings: EndpointSettings, client: Client) -> Authorizer | None:
        """Who decides about metrics; raises if we may not ask the API server about clients."""
        if not settings.protected or self.metrics is None:
            return None
        from resettle.https.authorization import ApiServerAuthorizer

        await require_permissions(client, METRICS_AUTHORIZATION)
        return ApiServerAuthorizer(client, self._clock, self._log)

    def _server(
        self,
        settings: EndpointSettings,
        status: Callable[[], ComponentStatus],
        authorizer: Authorizer | None,
    ) -> HttpsServer | None:
        """The server, or None if its port is taken and serving is optional."""
        from resettle.https.server import HttpsServer, listen
        from resettle.telemetry.routes import health_routes, metrics_routes

        certificate = ServingCertificate(settings.tls, settings.address, self._clock, self._log)
        source = certificate.check()
        try:
            listener = listen(settings.address, settings.port, "metrics and health")
        except InputError as error:
            if not settings.optional:
                raise
            self._log.warning("nothing is served", reason=str(error))
            return None
        server = HttpsServer(
            listener,
            certificate,
            self._log,
            protected=metrics_routes(self.metrics, status) if self.metrics else (),
            public=health_routes(status),
            authorizer=authorizer,
        )
        self._log.info(
            "serving",
            address=settings.address,
            port=server.port,
            certificate=source,
            metrics="off" if self.metrics is None else "protected" if authorizer else "open",
        )
        return server
