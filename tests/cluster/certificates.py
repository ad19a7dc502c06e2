"""A certificate authority for one test run, made with the `openssl` command."""

from __future__ import annotations

import os
import ssl
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

# What a strict verifier wants to see, newer Pythons among them.
_PROFILES = """\
[req]
distinguished_name = dn
[dn]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = ${ENV::NAMES}
"""
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Pair(NamedTuple):
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Issues certificates that are good for a day."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self.name = name
        (folder / "profiles.cnf").write_text(_PROFILES)
        self._openssl(
            *("req", "-x509", *_KEY, "-subj", f"/CN={name}", "-days", "1"),
            *("-extensions", "authority", "-keyout", "ca.key", "-out", "ca.pem"),
            *("-config", "profiles.cnf"),
        )
        self.certificate = folder / "ca.pem"

    def issued(self, name: str, alternatives: str = "DNS:nobody.example") -> Pair:
        """A certificate for a server of these names, or for a client of this one."""
        self._openssl(
            *("req", "-new", *_KEY, "-subj", f"/CN={name}", "-config", "profiles.cnf"),
            *("-keyout", f"{name}.key", "-out", f"{name}.csr"),
        )
        self._openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-days", "1", "-extfile", "profiles.cnf", "-extensions", "leaf"),
            *("-out", f"{name}.pem"),
            names=alternatives,
        )
        return Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")

    def guarding(self, pair: Pair, *, clients: bool = False) -> ssl.SSLContext:
        """What a server with this certificate shows, and whether it asks clients for theirs."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.certificate)
        context.load_cert_chain(*pair)
        context.verify_mode = ssl.CERT_REQUIRED if clients else ssl.CERT_NONE
        return context

    def _openssl(self, *words: str, names: str = "DNS:nobody.example") -> None:
        done = subprocess.run(
            ["openssl", *words],
            cwd=self._folder,
            env={**os.environ, "NAMES": names},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> str:
    """The client's name as the server learns it, over no network at all; empty if it has none."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=name)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [ours, theirs]
    for _ in range(10):
        waiting = [side for side in waiting if not _done(side)]
    assert not waiting, "the handshake never ends"
    shown: dict[str, Any] = dict(theirs.getpeercert() or {})
    return "".join(value for ((_, value),) in shown.get("subject", ()))


def _done(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
