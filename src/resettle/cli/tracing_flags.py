"""The flags of tracing, and the spans they ask for. Spelled as those of the peer."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from resettle.cli.flags import add_switch
from resettle.errors import InputError

if TYPE_CHECKING:
    from resettle.framework.spans import Spans
    from resettle.log import Log

INSTALL = "pip install 'resettle[otel]'"


def add(command: argparse.ArgumentParser) -> None:
    """Adds the flags to a command."""
    group = command.add_argument_group("traces, by OTLP over gRPC; they take the extra `otel`")
    group.add_argument(
        "--otel-collector-endpoint",
        metavar="HOST:PORT",
        default="",
        help="the collector; without one nothing is traced",
    )
    group.add_argument(
        "--otel-transport-ca-cert",
        metavar="FILE",
        default="",
        help="who vouches for the collector; without it there is no TLS",
    )
    group.add_argument(
        "--otel-service-name",
        metavar="NAME",
        default="descheduler",
        help="what the service is called there (%(default)s)",
    )
    group.add_argument(
        "--otel-trace-namespace", metavar="NAME", default="", help="the namespace of the service"
    )
    group.add_argument(
        "--otel-sample-rate",
        metavar="SHARE",
        type=_share,
        default=1.0,
        help="the share of cycles that are traced, from 0 to 1 (%(default)s)",
    )
    add_switch(
        group,
        "--otel-fallback-no-op-on-error",
        "run without traces if they cannot be set up, rather than not at all",
    )


def spans_of(arguments: argparse.Namespace, log: Log) -> AbstractContextManager[Spans]:
    """The spans that the flags ask for, open while the block lasts."""
    from resettle.framework.spans import NO_SPANS

    if not arguments.otel_collector_endpoint:
        return nullcontext(NO_SPANS)
    try:
        return _traced(arguments, log)
    except InputError as error:
        if not arguments.otel_fallback_no_op_on_error:
            raise
        log.warning("no traces", reason=str(error))
        return nullcontext(NO_SPANS)


def _traced(arguments: argparse.Namespace, log: Log) -> AbstractContextManager[Spans]:
    try:
        from resettle.telemetry.tracing import TracingSettings, send_traces
    except ImportError as error:
        raise InputError(
            f"--otel-collector-endpoint needs OpenTelemetry ({error}); install it with `{INSTALL}`"
        ) from None
    settings = TracingSettings(
        endpoint=arguments.otel_collector_endpoint,
        ca_cert=arguments.otel_transport_ca_cert,
        service=arguments.otel_service_name,
        namespace=arguments.otel_trace_namespace,
        sample_rate=arguments.otel_sample_rate,
    )
    settings.read_authority()
    return send_traces(settings, log)


def _share(word: str) -> float:
    try:
        share = float(word)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"`{word}` is not a share; write a number from 0 to 1")
    return share
