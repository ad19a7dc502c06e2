"""Flags of components that run for long: leader election, rates, the HTTPS endpoint, and traces.

Each group has a function that adds its flags and one that turns them into settings. Names and
defaults are those of upstream, kubernetes-sigs/descheduler.
"""

from __future__ import annotations

import argparse
import math
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from resettle.cli.flags.common import add_switch, parse_seconds
from resettle.errors import InputError

if TYPE_CHECKING:
    from resettle.framework.tracing import Spans
    from resettle.https import Tls
    from resettle.kube.leader_election.lease import LeaseSettings
    from resettle.log import Log
    from resettle.telemetry import EndpointSettings

DESCHEDULER_LEASE, SOFT_TAINTER_LEASE = "descheduler", "resettle-soft-tainter"
MIGRATION_CONTROLLER_LEASE = "resettle-migration-controller"
"""Default names of the leases; the descheduler's is that of upstream."""
_NAMESPACE = "kube-system"
_TIMES = {
    "leader_elect_lease_duration": "duration_seconds",
    "leader_elect_renew_deadline": "renew_deadline_seconds",
    "leader_elect_retry_period": "retry_period_seconds",
}


def add_rate_flags(group: argparse._ActionsContainer, what: str, *, qps: float, burst: int) -> None:
    """Add the flags that limit the rate of requests; `qps` and `burst` are what zero stands for."""
    group.add_argument(
        "--client-connection-qps",
        metavar="N",
        type=_parse_number,
        default=0.0,
        help=f"{what} per second; 0 means {qps:g}, a negative number no limit",
    )
    group.add_argument(
        "--client-connection-burst",
        metavar="N",
        type=int,
        default=0,
        help=f"burst of {what}; 0 means {burst}",
    )


def _parse_number(word: str) -> float:
    """A finite number."""
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"`{word}` is not a number")
    return number


def add_lease_flags(group: argparse._ActionsContainer, name: str) -> None:
    """Add all flags of leader election, with this default name of the lease."""
    add_switch(group, "--leader-elect", "act only while holding a lease")
    for part, default, says in (
        ("lease-duration", "137s", "how long others wait for a leader that stopped renewing"),
        ("renew-deadline", "107s", "how long a leader continues if it cannot renew its lease"),
        ("retry-period", "26s", "time between attempts to acquire or renew the lease"),
    ):
        group.add_argument(
            f"--leader-elect-{part}", metavar="TIME", default=default, help=f"{says} (%(default)s)"
        )
    group.add_argument(
        "--leader-elect-resource-lock",
        choices=("leases",),
        default="leases",
        help="only leases are supported",
    )
    add_lease_name_flags(group, name)


def add_lease_name_flags(group: argparse._ActionsContainer, name: str | None) -> None:
    """Add the flags that name the lease; pass None if its name depends on the component."""
    for part, default in (("name", name), ("namespace", _NAMESPACE)):
        group.add_argument(
            f"--leader-elect-resource-{part}",
            metavar="NAME",
            default=default,
            help=f"{part} of the lease ({default or 'that of the component'})",
        )


def lease_settings(arguments: argparse.Namespace, fix: str) -> LeaseSettings | None:
    """Settings of the lease, or None without `--leader-elect`.

    `fix` says how to correct a command line that runs a single cycle, which needs no leader; it is
    empty if more than one cycle runs.
    """
    from resettle.kube.leader_election.lease import LeaseSettings

    if not arguments.leader_elect:
        return None
    if fix:
        raise InputError(f"--leader-elect has no use for a single cycle; {fix}")
    return LeaseSettings(
        name=arguments.leader_elect_resource_name,
        namespace=arguments.leader_elect_resource_namespace,
        **{
            field: parse_seconds(f"--{flag.replace('_', '-')}", getattr(arguments, flag))
            for flag, field in _TIMES.items()
        },
    ).validate()


_LAST_PORT = 65535
_OLD_TLS_VERSIONS = ("VersionTLS10", "VersionTLS11")
_TLS_VERSIONS = (*_OLD_TLS_VERSIONS, "VersionTLS12", "VersionTLS13")


def add_endpoint_flags(command: argparse.ArgumentParser, *, port: int = 10258) -> None:
    """Add the flags of the HTTPS endpoint to a command."""
    group = command.add_argument_group("metrics and health, over HTTPS")
    group.add_argument(
        "--secure-port",
        metavar="PORT",
        type=int,
        default=port,
        help="the port to serve on; 0 serves nothing (%(default)s)",
    )
    group.add_argument(
        "--bind-address",
        metavar="IP",
        default="0.0.0.0",
        help="the address to serve on; 0.0.0.0 and :: mean all (%(default)s)",
    )
    add_switch(group, "--disable-metrics", "serve health only")
    add_switch(
        group,
        "--protect-metrics",
        "require a bearer token with the RBAC permission `get /metrics`, which the API server "
        "checks; health stays open",
    )
    group.add_argument(
        "--tls-cert-file",
        metavar="FILE",
        default="",
        help="the certificate; read again when it changes",
    )
    group.add_argument("--tls-private-key-file", metavar="FILE", default="", help="its private key")
    group.add_argument(
        "--cert-dir",
        metavar="FOLDER",
        default="",
        help="the folder of tls.crt and tls.key, if no files are named; "
        "without any certificate a self-signed one is made, in memory",
    )
    group.add_argument(
        "--tls-min-version",
        choices=_TLS_VERSIONS,
        default="VersionTLS12",
        metavar="VERSION",
        help="VersionTLS12 or VersionTLS13; older ones are not supported (%(default)s)",
    )
    group.add_argument(
        "--tls-cipher-suites",
        metavar="NAME,…",
        default="",
        help="suites for TLS 1.2, by the names Kubernetes uses (default: the secure ones)",
    )
    group.add_argument(
        "--tls-sni-cert-key", metavar="…", help="not supported: all names share one certificate"
    )


def endpoint_settings(arguments: argparse.Namespace, *, optional: bool) -> EndpointSettings | None:
    """What to serve, or None for nothing; if `optional`, a port in use is only a warning."""
    import ipaddress

    from resettle.telemetry import EndpointSettings

    if not 0 <= arguments.secure_port <= _LAST_PORT:
        raise InputError(
            f"--secure-port: {arguments.secure_port} is not a port; "
            f"write one from 1 to {_LAST_PORT}, or 0 to serve nothing"
        )
    if not arguments.secure_port:
        return None
    address = arguments.bind_address.strip("[]")
    try:
        ipaddress.ip_address(address or "::")
    except ValueError:
        raise InputError(
            f"--bind-address: `{address}` is not an IP address; write one such as 127.0.0.1"
        ) from None
    return EndpointSettings(
        port=arguments.secure_port,
        address=address,
        metrics=not arguments.disable_metrics,
        tls=_tls_settings(arguments),
        protected=arguments.protect_metrics,
        optional=optional,
    )


def _tls_settings(arguments: argparse.Namespace) -> Tls:
    from resettle.https import Tls

    if arguments.tls_sni_cert_key:
        raise InputError(
            "--tls-sni-cert-key is not supported: all names share one certificate; "
            "name it with --tls-cert-file and --tls-private-key-file"
        )
    certificate, key = arguments.tls_cert_file, arguments.tls_private_key_file
    if bool(certificate) != bool(key):
        has, lacks = "--tls-cert-file", "--tls-private-key-file"
        if key:
            has, lacks = lacks, has
        raise InputError(f"{has} also needs {lacks}; name both files")
    version = arguments.tls_min_version
    suites = [name.strip() for name in arguments.tls_cipher_suites.split(",")]
    return Tls(
        certificate_file=certificate,
        key_file=key,
        folder=arguments.cert_dir,
        min_version="VersionTLS12" if version in _OLD_TLS_VERSIONS else version,
        cipher_suites=tuple(filter(None, suites)),
    )


INSTALL_TRACING = "pip install 'resettle[otel]'"


def add_tracing_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of tracing to a command."""
    group = command.add_argument_group(f"traces, by OTLP over gRPC; need `{INSTALL_TRACING}`")
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
        help="CA certificate of the collector; without it TLS is not used",
    )
    group.add_argument(
        "--otel-service-name",
        metavar="NAME",
        default="descheduler",
        help="the service name in traces (%(default)s)",
    )
    group.add_argument(
        "--otel-trace-namespace", metavar="NAME", default="", help="the service namespace in traces"
    )
    group.add_argument(
        "--otel-sample-rate",
        metavar="SHARE",
        type=_parse_share,
        default=1.0,
        help="the share of cycles that are traced, from 0 to 1 (%(default)s)",
    )
    add_switch(
        group,
        "--otel-fallback-no-op-on-error",
        "run without traces if they cannot be set up; otherwise that is an error",
    )


def open_spans(arguments: argparse.Namespace, log: Log) -> AbstractContextManager[Spans]:
    """A context manager of the spans that the flags configure; they are sent until it closes."""
    from resettle.framework.tracing import NO_SPANS

    if not arguments.otel_collector_endpoint:
        return nullcontext(NO_SPANS)
    try:
        return _open_tracing(arguments, log)
    except InputError as error:
        if not arguments.otel_fallback_no_op_on_error:
            raise
        log.warning("no traces", reason=str(error))
        return nullcontext(NO_SPANS)


def _open_tracing(arguments: argparse.Namespace, log: Log) -> AbstractContextManager[Spans]:
    try:
        from resettle.telemetry.tracing import TracingSettings, send_traces
    except ImportError as error:
        raise InputError(
            f"--otel-collector-endpoint needs OpenTelemetry ({error}); "
            f"install it with `{INSTALL_TRACING}`"
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


def _parse_share(word: str) -> float:
    try:
        share = float(word)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"`{word}` is not a share; write a number from 0 to 1")
    return share
