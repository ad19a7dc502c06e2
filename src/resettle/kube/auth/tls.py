"""Whom to trust and what certificate to show, as one TLS context.

When a certificate ends.

Python's ssl module tells this only of certificates that it trusts. A certificate is nested boxes
of tag, length and content; the end of its validity stands in a fixed place of the first one.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import tempfile
from datetime import UTC, datetime


def client_tls_context(authority: bytes, *, insecure: bool = False) -> ssl.SSLContext:
    """A context that trusts the authority, or those of the system if none is given."""
    trust = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if insecure:
        trust.check_hostname = False
        trust.verify_mode = ssl.CERT_NONE
    return trust


def load_client_certificate(trust: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Has the context show this certificate to servers that ask for one."""
    # The ssl module reads certificates from files only; this one is gone a moment later.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        trust.load_cert_chain(file.name, password=_no_pass_phrase)


def _no_pass_phrase() -> str:
    raise ValueError("the client key is encrypted; use one without a pass phrase")


_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL | re.ASCII)
_VERSION, _SHORT_YEAR = 0xA0, 0x17
_PATIENCE_SECONDS = 5


def certificate_expiry(pem: bytes) -> datetime | None:
    """When the first certificate of a PEM file ends; None if that cannot be read."""
    found = _PEM.search(pem)
    if found is None:
        return None
    with contextlib.suppress(ValueError):
        return der_expiry(ssl.PEM_cert_to_DER_cert(found[0].decode()))
    return None


def der_expiry(certificate: bytes) -> datetime | None:
    """When a certificate in its binary form ends; None if that cannot be read."""
    try:
        (_, whole), *_ = _der_values(certificate)
        (_, body), *_ = _der_values(whole)
        parts = _der_values(body)
        # A version, which may be left out, then serial number, algorithm, issuer, validity.
        validity = parts[4 if parts[0][0] == _VERSION else 3]
        _, (tag, last) = _der_values(validity[1])
        form = "%y%m%d%H%M%SZ" if tag == _SHORT_YEAR else "%Y%m%d%H%M%SZ"
        return datetime.strptime(last.decode("ascii"), form).replace(tzinfo=UTC)
    except (IndexError, ValueError):
        return None


def server_certificate_expiry(host: str, port: int, name: str) -> datetime | None:
    """When the certificate that a server shows ends; asks it once more, trusting nothing."""
    curious = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    curious.check_hostname = False
    curious.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=_PATIENCE_SECONDS) as plain,
            curious.wrap_socket(plain, server_hostname=name or host) as wrapped,
        ):
            shown = wrapped.getpeercert(binary_form=True)
    except OSError:
        return None
    return der_expiry(shown) if shown else None


def _der_values(content: bytes) -> list[tuple[int, bytes]]:
    """Tags and contents, one after another."""
    found = []
    while content:
        tag, length, start = content[0], content[1], 2
        if length & 0x80:
            start += length & 0x7F
            length = int.from_bytes(content[2:start], "big")
        if start + length > len(content):
            raise ValueError("a box that is longer than what holds it")
        found.append((tag, content[start : start + length]))
        content = content[start + length :]
    return found
