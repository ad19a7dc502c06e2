"""Sends spans to a collector by OTLP over gRPC, from a thread of its own.

A collector that is away costs traces and nothing else: what waits too long is dropped, the log says
so once, and a stop waits a moment at most.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import grpc
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from resettle import __version__
from resettle.log import Log
from resettle.tracing.settings import Tracing
from resettle.tracing.spans import TracedSpans

LARGEST_QUEUE = 20_000
"""Spans that wait to be sent; a large cycle evicts thousands of pods."""
SEND_SECONDS = 3
"""How long one batch may take."""
LAST_SECONDS = 10
"""How long a stop waits for the last of them; a collector that is away is given up sooner."""


@contextmanager
def traced(tracing: Tracing, log: Log) -> Iterator[TracedSpans]:
    """Spans that are sent; at the end what is left is sent too."""
    authority = tracing.authority()
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
    with _told(log):
        try:
            yield TracedSpans(provider.get_tracer("resettle", __version__))
        finally:
            # It would try for a minute; whoever asked us to stop does not wait so long.
            last = Thread(target=provider.shutdown, name="traces", daemon=True)
            last.start()
            last.join(LAST_SECONDS)


@contextmanager
def _told(log: Log) -> Iterator[None]:
    """Has what OpenTelemetry says go to our log."""
    talk = logging.getLogger("opentelemetry")
    handler = _Handler(log)
    before = talk.propagate
    talk.addHandler(handler)
    talk.propagate = False
    try:
        yield
    finally:
        talk.removeHandler(handler)
        talk.propagate = before


class _Handler(logging.Handler):
    """Tells of trouble once, until it is another."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Tells what was said."""
        self._log.only_when_new("traces").warning("traces are lost", reason=record.getMessage())
