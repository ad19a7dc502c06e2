"""Traces of cycles, sent to a collector by OTLP over gRPC from a thread of its own.

    runDeschedulerLoop
    ├── runProfiles                    one for each plan that was drawn
    │   ├── deschedule (profile)
    │   │   ├── PodLifeTime
    │   │   └── RemoveFailedPods
    │   └── balance (profile)
    │       └── LowNodeUtilization
    └── EvictPod                       one for each move that was asked for

Names and attributes are those of kubernetes-sigs/descheduler where it has them. A collector that is
away costs traces and nothing else: what waits too long is dropped, the log says so once, and a stop
waits a moment at most. This module imports OpenTelemetry: import it only if a collector is named.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from threading import Thread

import grpc
from msgspec import Struct
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from resettle import __version__
from resettle.errors import InputError
from resettle.framework.mover import ApiRequests, Mover, MoveResponse, MoveResult, Options
from resettle.framework.plan import Move, Turn
from resettle.log import Log

LARGEST_QUEUE = 20_000
"""Spans that wait to be sent; a large cycle evicts thousands of pods."""
SEND_SECONDS = 3
"""How long one batch may take."""
LAST_SECONDS = 10
"""How long a stop waits for the last spans; a collector that is away is given up sooner."""
_DONE = (MoveResult.EVICTED, MoveResult.BACKGROUND, MoveResult.REQUESTED)
_FAULTS = (MoveResult.UNKNOWN, MoveResult.ERROR)


class TracingSettings(Struct, frozen=True, kw_only=True):
    """The collector, and under which names spans are sent to it."""

    endpoint: str
    """`host:port` of an OTLP collector that speaks gRPC."""
    ca_cert: str = ""
    """The file of the authority that signed its certificate; empty for no TLS."""
    service: str = "descheduler"
    namespace: str = ""
    sample_rate: float = 1.0
    """The share of cycles that are traced, from 0 to 1."""

    def read_authority(self) -> bytes | None:
        """The certificate of the authority that signed the collector's; None for no TLS."""
        if not self.ca_cert:
            return None
        try:
            return Path(self.ca_cert).read_bytes()
        except OSError as error:
            raise InputError(
                f"--otel-transport-ca-cert: `{self.ca_cert}` cannot be read: "
                f"{error.strerror or error}; check the path"
            ) from None


@contextmanager
def send_traces(tracing: TracingSettings, log: Log) -> Iterator[TracedSpans]:
    """Spans that are sent to the collector; at the end of the block the last ones are sent too."""
    authority = tracing.read_authority()
    exporter = OTLPSpanExporter(
        endpoint=tracing.endpoint,
        insecure=authority is None,
        credentials=grpc.ssl_channel_credentials(authority) if authority else None,
        timeout=SEND_SECONDS,
    )
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(tracing.sample_rate)),
        resource=Resource.create(
            {
                "service.name": tracing.service,
                "service.namespace": tracing.namespace,
                "service.version": __version__,
            }
        ),
        shutdown_on_exit=False,
    )
    processor = BatchSpanProcessor(
        exporter,
        max_queue_size=LARGEST_QUEUE,
        schedule_delay_millis=1000,
        export_timeout_millis=SEND_SECONDS * 1000,
    )
    provider.add_span_processor(processor)
    with _log_warnings_of_exporter(log):
        try:
            yield TracedSpans(provider.get_tracer("resettle", __version__))
        finally:
            # OpenTelemetry would try for a minute; a stop must not take so long.
            last = Thread(target=provider.shutdown, name="traces", daemon=True)
            last.start()
            last.join(LAST_SECONDS)


@contextmanager
def _log_warnings_of_exporter(log: Log) -> Iterator[None]:
    """Send the log of OpenTelemetry to our log while the block lasts."""
    logger = logging.getLogger("opentelemetry")
    handler = _Handler(log)
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


class _Handler(logging.Handler):
    """Logs a warning once, until there is another."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record."""
        self._log.only_when_new("traces").warning("traces dropped", reason=record.getMessage())


class TracedSpans:
    """Sends a span for each step of a run."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def cycle(self) -> AbstractContextManager[object]:
        """The root of a trace."""
        return self._tracer.start_as_current_span("runDeschedulerLoop")

    @contextmanager
    def planning(self) -> Iterator[TracedPlanning]:
        """The plan, within the cycle."""
        with self._tracer.start_as_current_span("runProfiles") as span:
            planning = TracedPlanning(self._tracer, span)
            try:
                yield planning
            finally:
                planning.close()

    def wrap_mover(self, mover: Mover) -> Mover:
        """The mover, with a span around each move."""
        return TracedMover(mover, self._tracer)


class TracedPlanning:
    """A plan being drawn; turns at one point of one profile stand together."""

    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span
        self._at: tuple[str, str] | None = None
        self._group = ExitStack()

    @contextmanager
    def turn(self, turn: Turn) -> Iterator[None]:
        """A plugin's turn; the first one of a point opens the span of that point."""
        facts = {"profile": turn.profile, "operation": turn.point}
        if self._at != (turn.profile, turn.point):
            self._group.close()
            self._at = turn.profile, turn.point
            started = self._tracer.start_as_current_span(turn.point, attributes=facts)
            self._group.enter_context(started)
        attributes = {"plugin": turn.plugin, **facts}
        with self._tracer.start_as_current_span(turn.plugin, attributes=attributes):
            yield

    def close(self) -> None:
        """Ends the span of the last point; asked on the thread that drew."""
        self._group.close()

    def record_result(self, moves: int, errors: Sequence[str]) -> None:
        """Note the result of the plan."""
        self._span.set_attribute("moves", moves)
        for error in errors:
            self._span.add_event("Plugin Execution Failed", {"err": error})
        if errors:
            self._span.set_status(Status(StatusCode.ERROR))


class TracedMover:
    """A mover with a span around each move."""

    def __init__(self, mover: Mover, tracer: Tracer) -> None:
        self._mover = mover
        self._tracer = tracer

    async def move(self, move: Move, options: Options, requests: ApiRequests) -> MoveResponse:
        """Move the pod, in a span; returns the response."""
        pod = move.pod
        facts = {
            "podName": pod.name,
            "podNamespace": pod.namespace,
            "node": pod.node,
            "plugin": move.plugin,
            "profile": move.profile,
            "reason": move.reason,
            "operation": "evict",
        }
        with self._tracer.start_as_current_span("EvictPod", attributes=facts) as span:
            response = await self._mover.move(move, options, requests)
            # A third-party mover may return anything; the executor checks it.
            result = getattr(response, "result", None)
            span.set_attribute("ending", str(result))
            if result not in _DONE:
                reason = str(getattr(response, "message", response))
                span.add_event("Eviction Failed", {"node": pod.node, "err": reason})
            if result in _FAULTS:
                span.set_status(Status(StatusCode.ERROR))
            return response
