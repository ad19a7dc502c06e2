"""Traces of cycles, over OTLP: what the flags ask for, and the spans that are sent.

Nothing of OpenTelemetry is imported unless a collector is named.
"""

from resettle.tracing.settings import Tracing

__all__ = ["Tracing"]
