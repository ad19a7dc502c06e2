"""Whom to trust and what certificate to show, as one TLS context."""

from __future__ import annotations

import ssl
import tempfile


def trusting(authority: bytes, *, blindly: bool = False) -> ssl.SSLContext:
    """A context that trusts the authority, or those of the system if none is given."""
    trust = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if blindly:
        trust.check_hostname = False
        trust.verify_mode = ssl.CERT_NONE
    return trust


def present(trust: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Has the context show this certificate to servers that ask for one."""
    # The ssl module reads certificates from files only; this one is gone a moment later.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        trust.load_cert_chain(file.name, password=_no_pass_phrase)


def _no_pass_phrase() -> str:
    raise ValueError("the client key is encrypted; use one without a pass phrase")
