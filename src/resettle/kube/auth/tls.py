"""TLS contexts for clients, and when certificates expire.

Python's ssl module gives the dates only of certificates that it trusts, so they are read here from
DER: nested values of tag, length and content, with the end of validity at a fixed place.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import tempfile
from datetime import UTC, datetime


def client_tls_context(authority: bytes, *, insecure: bool = False) -> ssl.SSLContext:
    """A TLS context that trusts the CA, or those of the system if none is given."""
    trust = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if insecure:
        trust.check_hostname = False
        trust.verify_mode = ssl.CERT_NONE
    return trust


def load_client_certificate(trust: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Have the context present this certificate to servers that ask for one."""
    # The ssl module reads certificates from files only; this one is deleted at once.
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
    """When the first certificate of a PEM file expires; None if that cannot be read."""
    match = _PEM.search(pem)
    if match is None:
        return None
    with contextlib.suppress(ValueError):
        return der_expiry(ssl.PEM_cert_to_DER_cert(match[0].decode()))
    return None


def der_expiry(certificate: bytes) -> datetime | None:
    """When a certificate in DER expires; None if that cannot be read."""
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
    """When a server's certificate expires; connects once more, without verification."""
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=_PATIENCE_SECONDS) as plain,
            unverified.wrap_socket(plain, server_hostname=name or host) as wrapped,
        ):
            shown = wrapped.getpeercert(binary_form=True)
    except OSError:
        return None
    return der_expiry(shown) if shown else None


def _der_values(content: bytes) -> list[tuple[int, bytes]]:
    """The tag and content of each value in a DER sequence."""
    values = []
    while content:
        tag, length, start = content[0], content[1], 2
        if length & 0x80:
            start += length & 0x7F
            length = int.from_bytes(content[2:start], "big")
        if start + length > len(content):
            raise ValueError("a DER value that is longer than its container")
        values.append((tag, content[start : start + length]))
        content = content[start + length :]
    return values
