"""A collector in this process: takes spans by OTLP over gRPC, and keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import trustme
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class Receiver(trace_service_pb2_grpc.TraceServiceServicer):
    """What has arrived so far."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.endpoint = ""

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Takes a batch."""
        self.requests.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()

    @property
    def spans(self) -> list[Any]:
        """Every span, in the order in which they ended."""
        return [
            span
            for request in list(self.requests)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> list[Any]:
        """The spans of a name."""
        return [span for span in self.spans if span.name == name]

    @property
    def service(self) -> dict[str, str]:
        """What the sender says of itself."""
        resource = self.requests[0].resource_spans[0].resource
        return {attribute.key: attribute.value.string_value for attribute in resource.attributes}


def facts(span: Any) -> dict[str, Any]:
    """The attributes of a span, or of an event."""
    return {
        attribute.key: attribute.value.string_value or attribute.value.int_value
        for attribute in span.attributes
    }


@contextmanager
def receiving(certificate: trustme.LeafCert | None = None) -> Iterator[Receiver]:
    """A collector on a port of its own, over TLS if it has a certificate."""
    receiver = Receiver()
    server = grpc.server(ThreadPoolExecutor(2))
    register: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
    register(receiver, server)
    if certificate is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        (chain,) = certificate.cert_chain_pems
        pair = certificate.private_key_pem.bytes(), chain.bytes()
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    receiver.endpoint = f"localhost:{port}"
    server.start()
    try:
        yield receiver
    finally:
        server.stop(None).wait()
