"""The certificate that is shown: from files, read again when they change, or one of our own.

Each connection asks for it, so nothing has to be watched, and what is never asked for is never
made: a run that nobody connects to does without a key. A file that turns bad never replaces the
last good one.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from resettle.clock import Clock
from resettle.errors import InputError
from resettle.log import Log
from resettle.serving.ciphers import ALWAYS_ON, openssl_names
from resettle.serving.self_signed import LASTS, self_signed
from resettle.serving.settings import Tls

_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}
_RENEWED_BEFORE = timedelta(days=30)
Stamp = tuple[tuple[int, int, int], ...]


class Papers:
    """Gives each connection the certificate of this moment."""

    def __init__(self, tls: Tls, addresses: list[str], clock: Clock, log: Log) -> None:
        self._tls = tls
        self._addresses = addresses
        self._clock = clock
        self._log = log
        self._new_context = context_maker(tls)
        self._turn = asyncio.Lock()
        self._from_files: tuple[Stamp, ssl.SSLContext] | None = None
        self._own: tuple[datetime, ssl.SSLContext] | None = None

    def check(self) -> str:
        """Where the certificate comes from; raises if files that were named cannot be used."""
        if self._tls.certificate_file:
            self._read()
        else:
            self._read_in_time()
        return str(self._pair[0]) if self._from_files else "self-signed"

    async def context(self) -> ssl.SSLContext:
        """What to secure a new connection with."""
        self._read_in_time()
        if self._from_files:
            return self._from_files[1]
        async with self._turn:
            now = self._clock.now()
            if self._own is None or now > self._own[0] + LASTS - _RENEWED_BEFORE:
                pem = await asyncio.to_thread(self_signed, self._addresses, now)
                context = self._new_context()
                with _as_file(pem) as file:
                    context.load_cert_chain(file)
                self._own = (now, context)
            return self._own[1]

    @property
    def _pair(self) -> tuple[Path, Path]:
        tls = self._tls
        if tls.certificate_file:
            return Path(tls.certificate_file), Path(tls.key_file)
        return Path(tls.folder) / "tls.crt", Path(tls.folder) / "tls.key"

    def _read_in_time(self) -> None:
        """Reads files that have come or changed; those that cannot be used change nothing."""
        if not self._tls.certificate_file and not self._tls.folder:
            return
        try:
            self._read()
        except InputError as error:
            self._log.only_when_new("certificate").error(
                "certificate not taken; another is served", reason=str(error)
            )
        else:
            self._log.forget("certificate")

    def _read(self) -> None:
        certificate, key = self._pair
        try:
            stamp = _stamp(certificate, key)
            if self._from_files and self._from_files[0] == stamp:
                return
            context = self._new_context()
            context.load_cert_chain(certificate, key)
        except ssl.SSLError as error:
            raise InputError(
                f"{certificate} and {key} are no certificate in PEM and its key: {error.reason}; "
                "mend the files that --tls-cert-file and --tls-private-key-file name"
            ) from None
        except OSError as error:
            raise InputError(
                f"cannot read the certificate: {error.strerror}: {error.filename or certificate}; "
                "check --tls-cert-file, --tls-private-key-file or --cert-dir"
            ) from None
        if self._from_files:
            self._log.info("certificate taken", file=str(certificate))
        self._from_files = (stamp, context)


def context_maker(tls: Tls) -> Callable[[], ssl.SSLContext]:
    """How contexts without a certificate are made; raises if what is asked for cannot be had."""
    suites = openssl_names(tls.cipher_suites)
    version = _VERSIONS[tls.min_version]
    if not suites and ALWAYS_ON.intersection(tls.cipher_suites):
        version = ssl.TLSVersion.TLSv1_3

    def make() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = version
        context.set_alpn_protocols(["http/1.1"])
        if suites:
            context.set_ciphers(":".join(suites))
        return context

    try:
        make()
    except ssl.SSLError:
        raise InputError(
            f"--tls-cipher-suites: OpenSSL here has none of {', '.join(tls.cipher_suites)}"
        ) from None
    return make


def _stamp(*files: Path) -> Stamp:
    stats = [file.stat() for file in files]
    return tuple((it.st_ino, it.st_mtime_ns, it.st_size) for it in stats)


@contextmanager
def _as_file(secret: bytes) -> Iterator[str]:
    """The secret as a file, for what can read nothing else; in memory where that is possible."""
    if hasattr(os, "memfd_create"):
        held = os.memfd_create("resettle")
        try:
            os.write(held, secret)
            yield f"/proc/self/fd/{held}"
        finally:
            os.close(held)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(secret)
            file.flush()
            yield file.name
