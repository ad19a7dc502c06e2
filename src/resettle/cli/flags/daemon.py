"""The flags of leader election, and the lease they make.

The flags of what is served over HTTPS: metrics and health.

Spelled as those of kubernetes-sigs/descheduler.

The flags of tracing, and the spans they ask for. Spelled as those of the peer.
"""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from resettle.cli.flags.common import add_switch, parse_seconds
from resettle.errors import InputError

if TYPE_CHECKING:
    from resettle.kube.leader_election.lease import LeaseSettings

if TYPE_CHECKING:
    from resettle.https import Tls
    from resettle.telemetry import EndpointSettings

if TYPE_CHECKING:
    from resettle.framework.tracing import Spans
    from resettle.log import Log

DESCHEDULER_LEASE, SOFT_TAINTER_LEASE = "descheduler", "resettle-soft-tainter"
"""What the lease of each is called unless told otherwise."""
_NAMESPACE = "kube-system"
_TIMES = {
    "leader_elect_lease_duration": "duration_seconds",
    "leader_elect_renew_deadline": "renew_deadline_seconds",
    "leader_elect_retry_period": "retry_period_seconds",
}


def add_lease_flags(group: argparse._ActionsContainer, name: str) -> None:
    """Adds all flags of leader election by a lease of this name."""
    add_switch(group, "--leader-elect", "act only while holding a lease")
    for part, default, says in (
        ("lease-duration", "137s", "how long others wait for a leader that has gone silent"),
        ("renew-deadline", "107s", "how long a leader goes on without renewing its lease"),
        ("retry-period", "26s", "time between two tries to get or renew the lease"),
    ):
        group.add_argument(
            f"--leader-elect-{part}", metavar="TIME", default=default, help=f"{says} (%(default)s)"
        )
    group.add_argument(
        "--leader-elect-resource-lock",
        choices=("leases",),
        default="leases",
        help="leases are the only lock there is",
    )
    add_lease_name_flags(group, name)


def add_lease_name_flags(group: argparse._ActionsContainer, name: str | None) -> None:
    """Adds the flags that name the lease; None where its name depends on what is run."""
    for part, default in (("name", name), ("namespace", _NAMESPACE)):
        group.add_argument(
            f"--leader-elect-resource-{part}",
            metavar="NAME",
            default=default,
            help=f"{part} of the lease ({default or 'that of the component'})",
        )


def lease_settings(arguments: argparse.Namespace, fix: str) -> LeaseSettings | None:
    """The lease to hold, if one is asked for.

    `pointless` is how to mend a command line by which there is nothing to lead.
    """
    from resettle.kube.leader_election.lease import LeaseSettings

    if not arguments.leader_elect:
        return None
    if fix:
        raise InputError(f"--leader-elect makes no sense for a single cycle; {fix}")
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
    """Adds the flags to a command."""
    group = command.add_argument_group("metrics and health, over HTTPS")
    group.add_argument(
        "--secure-port",
        metavar="PORT",
        type=int,
        default=port,
        help="where they are served; 0 serves nothing (%(default)s)",
    )
    group.add_argument(
        "--bind-address",
        metavar="IP",
        default="0.0.0.0",
        help="the address to serve on; %(default)s and :: stand for all (%(default)s)",
    )
    add_switch(group, "--disable-metrics", "serve health alone")
    add_switch(
        group,
        "--protect-metrics",
        "give metrics only to those who may `get` /metrics by the API server's word, "
        "known by their bearer token; health stays open",
    )
    group.add_argument(
        "--tls-cert-file", metavar="FILE", default="", help="the certificate; read when it changes"
    )
    group.add_argument("--tls-private-key-file", metavar="FILE", default="", help="its key")
    group.add_argument(
        "--cert-dir",
        metavar="FOLDER",
        default="",
        help="where tls.crt and tls.key are, if no files are named; "
        "without any a certificate of our own is made, in memory",
    )
    group.add_argument(
        "--tls-min-version",
        choices=_TLS_VERSIONS,
        default="VersionTLS12",
        metavar="VERSION",
        help="VersionTLS12 or VersionTLS13; older ones are not spoken (%(default)s)",
    )
    group.add_argument(
        "--tls-cipher-suites",
        metavar="NAME,…",
        default="",
        help="suites for TLS 1.2 by the names Kubernetes has for them (default: the safe ones)",
    )
    group.add_argument(
        "--tls-sni-cert-key", metavar="…", help="not to be had: there is one certificate for all"
    )


def endpoint_settings(arguments: argparse.Namespace, *, optional: bool) -> EndpointSettings | None:
    """What to serve, None for nothing; if that is optional, a taken port is no reason to end."""
    import ipaddress

    from resettle.telemetry import EndpointSettings

    if not 0 <= arguments.secure_port <= _LAST_PORT:
        raise InputError(
            f"--secure-port: there is no port {arguments.secure_port}; "
            f"write one from 1 to {_LAST_PORT}, or 0 to serve nothing"
        )
    if not arguments.secure_port:
        return None
    address = arguments.bind_address.strip("[]")
    try:
        ipaddress.ip_address(address or "::")
    except ValueError:
        raise InputError(
            f"--bind-address: `{address}` is no IP address; write one such as 127.0.0.1"
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
            "--tls-sni-cert-key: there is one certificate for all names; "
            "name it with --tls-cert-file and --tls-private-key-file"
        )
    certificate, key = arguments.tls_cert_file, arguments.tls_private_key_file
    if bool(certificate) != bool(key):
        has, lacks = "--tls-cert-file", "--tls-private-key-file"
        if key:
            has, lacks = lacks, has
        raise InputError(f"{has} is of no use alone; name the other file with {lacks}")
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
        type=_parse_share,
        default=1.0,
        help="the share of cycles that are traced, from 0 to 1 (%(default)s)",
    )
    add_switch(
        group,
        "--otel-fallback-no-op-on-error",
        "run without traces if they cannot be set up, rather than not at all",
    )


def open_spans(arguments: argparse.Namespace, log: Log) -> AbstractContextManager[Spans]:
    """The spans that the flags ask for, open while the block lasts."""
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
            f"--otel-collector-endpoint needs OpenTelemetry ({error}); install it with `{INSTALL_TRACING}`"
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
