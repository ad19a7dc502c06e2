"""A certificate authority for one test run."""

from __future__ import annotations

import ssl
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import trustme


class Pair(NamedTuple):
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Issues certificates that are good for a day."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self.name = name
        self._authority = trustme.CA(organization_name=name)
        self.certificate = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.certificate))

    def issued(self, name: str, *alternatives: str, ends: datetime | None = None) -> Pair:
        """A certificate for a server of these names, or for a client of this one."""
        names = alternatives or ("nobody.example",)
        leaf = self._authority.issue_cert(
            *names, common_name=name, organization_name=name, not_after=ends
        )
        pair = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        leaf.cert_chain_pems[0].write_to_path(str(pair.certificate))
        leaf.private_key_pem.write_to_path(str(pair.key))
        return pair

    def guarding(self, pair: Pair, *, clients: bool = False) -> ssl.SSLContext:
        """What a server with this certificate shows, and whether it asks clients for theirs."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.certificate)
        context.load_cert_chain(*pair)
        context.verify_mode = ssl.CERT_REQUIRED if clients else ssl.CERT_NONE
        return context


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
    names = (value for ((kind, value),) in shown.get("subject", ()) if kind == "commonName")
    return "".join(names)


def _done(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
