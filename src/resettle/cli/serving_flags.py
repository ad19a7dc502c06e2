"""The flags of what is served over HTTPS: metrics and health.

Spelled as those of kubernetes-sigs/descheduler.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from resettle.cli.flags import add_switch
from resettle.errors import InputError

if TYPE_CHECKING:
    from resettle.https import Tls
    from resettle.telemetry import EndpointSettings

_LAST_PORT = 65535
_OLD_VERSIONS = ("VersionTLS10", "VersionTLS11")
_VERSIONS = (*_OLD_VERSIONS, "VersionTLS12", "VersionTLS13")


def add(command: argparse.ArgumentParser, *, port: int = 10258) -> None:
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
        choices=_VERSIONS,
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


def settings(arguments: argparse.Namespace, *, optional: bool) -> EndpointSettings | None:
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
        tls=_tls(arguments),
        protected=arguments.protect_metrics,
        optional=optional,
    )


def _tls(arguments: argparse.Namespace) -> Tls:
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
        min_version="VersionTLS12" if version in _OLD_VERSIONS else version,
        cipher_suites=tuple(filter(None, suites)),
    )
