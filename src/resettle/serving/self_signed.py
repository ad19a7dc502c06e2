"""A certificate that vouches for itself, for whoever has brought none.

It tells nobody who we are; it only keeps what is said between two from others. cryptography is
imported when a certificate is made, which is when somebody first connects, and by nobody else.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from datetime import datetime, timedelta

LASTS = timedelta(days=365)
_SKEW = timedelta(hours=1)


def self_signed(addresses: Iterable[str], now: datetime) -> bytes:
    """A new key and its certificate, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    host = socket.gethostname()
    key = ec.generate_private_key(ec.SECP256R1())
    us = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "resettle")])
    numbers = dict.fromkeys(["127.0.0.1", "::1", *addresses])
    names: list[x509.GeneralName] = [x509.DNSName(it) for it in dict.fromkeys(["localhost", host])]
    names += [x509.IPAddress(ipaddress.ip_address(it)) for it in numbers]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(us)
        .issuer_name(us)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + LASTS)
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
