"""What is served, where, and with which certificate, as the flags say."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

EVERYWHERE = ("", "0.0.0.0", "::")
"""Addresses that stand for all of them."""
TlsVersion = Literal["VersionTLS12", "VersionTLS13"]


class Tls(Struct, frozen=True, kw_only=True):
    """How connections are secured."""

    certificate_file: str = ""
    key_file: str = ""
    folder: str = ""
    """Where `tls.crt` and `tls.key` are or may come to be, as a mounted Secret has them."""
    min_version: TlsVersion = "VersionTLS12"
    cipher_suites: tuple[str, ...] = ()
    """By the names of Kubernetes; empty for those that OpenSSL holds safe."""


class Serving(Struct, frozen=True, kw_only=True):
    """What is served, and where."""

    port: int
    """0 for any that is free."""
    address: str = "0.0.0.0"
    metrics: bool = True
    tls: Tls = Tls()
    protected: bool = False
    """Whether metrics are for those only whom the API server vouches for."""
    optional: bool = False
    """Whether a port that is taken is told of and no more."""

    @property
    def own_addresses(self) -> list[str]:
        """The address that a certificate of our own should name, if it is one."""
        return [] if self.address in EVERYWHERE else [self.address]
