"""Where traces go, as the flags of `resettle run` say."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from resettle.errors import InputError

INSTALL = "pip install 'resettle[otel]'"


class Tracing(Struct, frozen=True, kw_only=True):
    """A collector, and what it is told about itself."""

    endpoint: str
    """`host:port` of an OTLP collector that speaks gRPC."""
    ca_cert: str = ""
    """The file of who vouches for it; empty for no TLS."""
    service: str = "descheduler"
    namespace: str = ""
    sample_rate: float = 1.0
    """Of a thousand cycles so many thousandths are told of."""

    def authority(self) -> bytes | None:
        """The certificate of who vouches for the collector; None for no TLS."""
        if not self.ca_cert:
            return None
        try:
            return Path(self.ca_cert).read_bytes()
        except OSError as error:
            why = error.strerror or str(error)
            raise InputError(
                f"--otel-transport-ca-cert: `{self.ca_cert}` cannot be read: {why}; check the path"
            ) from None
