"""The certificate of the server: from files that are read again when they change, or self-signed.

Each new connection asks for it, so no file is watched, and a self-signed certificate is made at the
first connection: a component that is never asked needs no key. Files that turn bad never replace
the last good certificate.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from msgspec import Struct

from resettle.clock import Clock
from resettle.errors import InputError
from resettle.log import Log
from resettle.policy.problems import did_you_mean

ALL_ADDRESSES = ("", "0.0.0.0", "::")
"""Bind addresses that stand for every address of the machine."""
TlsVersion = Literal["VersionTLS12", "VersionTLS13"]
SELF_SIGNED_LIFETIME = timedelta(days=365)

_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}
_SELF_SIGNED_USE = SELF_SIGNED_LIFETIME - timedelta(days=30)
"""A self-signed certificate is replaced before it ends."""
_CLOCK_SKEW = timedelta(hours=1)
_LOG_KEY = "certificate"

FileStamp = tuple[tuple[int, int, int], ...]
"""Inode, time of change and size of each file."""


class Tls(Struct, frozen=True, kw_only=True):
    """How connections are encrypted."""

    certificate_file: str = ""
    key_file: str = ""
    folder: str = ""
    """Where `tls.crt` and `tls.key` are or may appear later, as a mounted Secret has them."""
    min_version: TlsVersion = "VersionTLS12"
    cipher_suites: tuple[str, ...] = ()
    """By the names of Kubernetes; empty for the default of OpenSSL."""


class ServingCertificate:
    """Gives each connection the TLS context with the certificate of this moment.

    `address` is the bind address, which a self-signed certificate names if it is a single one.
    """

    def __init__(self, tls: Tls, address: str, clock: Clock, log: Log) -> None:
        self._tls = tls
        self._addresses = [] if address in ALL_ADDRESSES else [address]
        self._clock = clock
        self._log = log
        self._new_context = context_factory(tls)
        self._lock = asyncio.Lock()
        self._from_files: tuple[FileStamp, ssl.SSLContext] | None = None
        self._self_signed: tuple[datetime, ssl.SSLContext] | None = None

    def check(self) -> str:
        """Where the certificate comes from; raises if files that were named cannot be used."""
        if self._tls.certificate_file:
            self._read_files()
        else:
            self._try_to_read_files()
        return str(self._files[0]) if self._from_files else "self-signed"

    async def context(self) -> ssl.SSLContext:
        """The TLS context for a new connection."""
        self._try_to_read_files()
        if self._from_files:
            return self._from_files[1]
        async with self._lock:
            now = self._clock.now()
            if self._self_signed is None or now > self._self_signed[0] + _SELF_SIGNED_USE:
                pem = await asyncio.to_thread(make_self_signed, self._addresses, now)
                context = self._new_context()
                with _temporary_file(pem) as file:
                    context.load_cert_chain(file)
                self._self_signed = (now, context)
            return self._self_signed[1]

    @property
    def _files(self) -> tuple[Path, Path]:
        tls = self._tls
        if tls.certificate_file:
            return Path(tls.certificate_file), Path(tls.key_file)
        return Path(tls.folder) / "tls.crt", Path(tls.folder) / "tls.key"

    def _try_to_read_files(self) -> None:
        """Read files that are new or changed; files that cannot be used change nothing."""
        if not self._tls.certificate_file and not self._tls.folder:
            return
        try:
            self._read_files()
        except InputError as error:
            self._log.only_when_new(_LOG_KEY).error(
                "certificate not loaded; another is served", reason=str(error)
            )
        else:
            self._log.forget(_LOG_KEY)

    def _read_files(self) -> None:
        certificate, key = self._files
        try:
            stamp = _stamp(certificate, key)
            if self._from_files and self._from_files[0] == stamp:
                return
            context = self._new_context()
            context.load_cert_chain(certificate, key)
        except ssl.SSLError as error:
            raise InputError(
                f"{certificate} and {key} are no certificate in PEM and its key: {error.reason}; "
                "correct the files that --tls-cert-file and --tls-private-key-file name"
            ) from None
        except OSError as error:
            raise InputError(
                f"cannot read the certificate: {error.strerror}: {error.filename or certificate}; "
                "check --tls-cert-file, --tls-private-key-file or --cert-dir"
            ) from None
        if self._from_files:
            self._log.info("certificate loaded", file=str(certificate))
        self._from_files = (stamp, context)


def _stamp(*files: Path) -> FileStamp:
    stats = [file.stat() for file in files]
    return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)


@contextmanager
def _temporary_file(secret: bytes) -> Iterator[str]:
    """The path of a file with the secret, in memory where the system can do that.

    OpenSSL's binding in Python loads certificates from files only.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("resettle")
        try:
            os.write(descriptor, secret)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(secret)
            file.flush()
            yield file.name


# -- a self-signed certificate --------------------------------------------------------------------


def make_self_signed(addresses: Iterable[str], now: datetime) -> bytes:
    """A new key and its certificate, as PEM.

    It encrypts and proves no identity. cryptography is imported here, at the first connection.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "resettle")])
    hosts = dict.fromkeys(["localhost", socket.gethostname()])
    ips = dict.fromkeys(["127.0.0.1", "::1", *addresses])
    names: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts]
    names += [x509.IPAddress(ipaddress.ip_address(ip)) for ip in ips]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + SELF_SIGNED_LIFETIME)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return secret + certificate.public_bytes(serialization.Encoding.PEM)


# -- versions and cipher suites -------------------------------------------------------------------

TLS_1_3_SUITES = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""Suites that are always on with TLS 1.3: there is no choice among them, here or in Go."""


def _suites_with(exchange: str, openssl: str) -> Iterator[tuple[str, str]]:
    name, openssl_prefix = f"TLS_{exchange}_WITH", f"{openssl}-" if openssl else ""
    yield f"{name}_AES_128_GCM_SHA256", f"{openssl_prefix}AES128-GCM-SHA256"
    yield f"{name}_AES_256_GCM_SHA384", f"{openssl_prefix}AES256-GCM-SHA384"
    yield f"{name}_AES_128_CBC_SHA", f"{openssl_prefix}AES128-SHA"
    yield f"{name}_AES_256_CBC_SHA", f"{openssl_prefix}AES256-SHA"
    yield f"{name}_AES_128_CBC_SHA256", f"{openssl_prefix}AES128-SHA256"
    if openssl:
        yield f"{name}_CHACHA20_POLY1305", f"{openssl_prefix}CHACHA20-POLY1305"
        yield f"{name}_CHACHA20_POLY1305_SHA256", f"{openssl_prefix}CHACHA20-POLY1305"


OPENSSL_SUITES: dict[str, str] = dict(
    [
        *_suites_with("ECDHE_ECDSA", "ECDHE-ECDSA"),
        *_suites_with("ECDHE_RSA", "ECDHE-RSA"),
        *_suites_with("RSA", ""),
    ]
)
"""OpenSSL's name of each suite up to TLS 1.2, by the name that the flags of Kubernetes have."""


def context_factory(tls: Tls) -> Callable[[], ssl.SSLContext]:
    """A function that makes contexts without a certificate; raises if the settings are unusable."""
    suites = _openssl_names(tls.cipher_suites)
    version = _VERSIONS[tls.min_version]
    if not suites and TLS_1_3_SUITES.intersection(tls.cipher_suites):
        version = ssl.TLSVersion.TLSv1_3

    def make_context() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = version
        context.set_alpn_protocols(["http/1.1"])
        if suites:
            context.set_ciphers(":".join(suites))
        return context

    try:
        make_context()
    except ssl.SSLError:
        raise InputError(
            f"--tls-cipher-suites: OpenSSL here has none of {', '.join(tls.cipher_suites)}"
        ) from None
    return make_context


def _openssl_names(names: Iterable[str]) -> list[str]:
    """OpenSSL's names for suites up to TLS 1.2; raises if a name is unknown."""
    translated = []
    for name in names:
        if name in OPENSSL_SUITES:
            translated.append(OPENSSL_SUITES[name])
        elif name not in TLS_1_3_SUITES:
            known = (*OPENSSL_SUITES, *TLS_1_3_SUITES)
            raise InputError(
                f"--tls-cipher-suites: there is no suite `{name}` here; {did_you_mean(name, known)}"
            )
    return list(dict.fromkeys(translated))
