"""Access to one API server: its address, TLS context and credentials.

`headers()` is fast and returns the credentials at hand; `renew()` may read files or run a command,
so an event loop calls it from a thread. A client renews credentials before a request when
`is_due()` says so, and once more when the API server answers 401.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from datetime import datetime
from threading import Lock
from typing import Protocol

from msgspec import Struct

from resettle.clock import SYSTEM, Clock
from resettle.errors import InputError

Headers = tuple[tuple[str, str], ...]
REREAD_SECONDS = 60
"""How old a token from a file may be; a kubelet changes it long before it expires."""
_TOKEN = re.compile(r"[\x21-\x7e]*")


class Credentials(Protocol):
    """Credentials for requests to the API server."""

    @property
    def trust(self) -> ssl.SSLContext | None:
        """The TLS context to connect with, if its client certificate can change."""

    def headers(self) -> Headers:
        """The headers that go with each request."""

    def is_due(self) -> bool:
        """Whether to call `renew` before the next request."""

    def renew(self, refused: Headers | None = None) -> bool:
        """Look for newer credentials; return whether they differ from the refused ones."""


class StaticToken:
    """A token that never changes, or no token."""

    trust: ssl.SSLContext | None = None

    def __init__(self, token: str = "") -> None:
        self._headers = bearer_headers(token)

    def headers(self) -> Headers:
        """The token, if there is one."""
        return self._headers

    def is_due(self) -> bool:
        """Never."""
        return False

    def renew(self, refused: Headers | None = None) -> bool:
        """Return False: there is no newer token."""
        return False


class TokenFile:
    """A token in a file that another program renews; read again every minute."""

    trust: ssl.SSLContext | None = None

    def __init__(self, read: Callable[[], str], clock: Clock = SYSTEM) -> None:
        self._read = read
        self._clock = clock
        self._lock = Lock()
        self._headers = bearer_headers(read())
        self._read_at = clock.steady()

    def headers(self) -> Headers:
        """The token as it was last read."""
        return self._headers

    def is_due(self) -> bool:
        """Whether the file was last read a minute ago."""
        return self._clock.steady() - self._read_at >= REREAD_SECONDS

    def renew(self, refused: Headers | None = None) -> bool:
        """Read the file again; keep the token if the file is missing for a moment."""
        with self._lock:
            self._read_at = self._clock.steady()
            try:
                self._headers = bearer_headers(self._read())
            except InputError:
                if refused is not None:
                    raise
            return self._headers != refused


def bearer_headers(token: str) -> Headers:
    """The Authorization header for a token."""
    return (("Authorization", f"Bearer {token}"),) if token else ()


def clean_token(text: str, where: str) -> str:
    """The token without white space around it; the error for an invalid one names `where`."""
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise InputError(f"{where}: the token holds characters that no token has")
    return token


class Access(Struct, frozen=True, kw_only=True):
    """The address of the API server, and the credentials to use."""

    server: str
    token: str = ""
    """A token that never changes; unused if there are `credentials`."""
    trust: ssl.SSLContext | None = None
    """None for plain HTTP."""
    server_name: str = ""
    credentials: Credentials | None = None
    impersonation: Headers = ()
    """Headers that impersonate another user."""
    proxy: str = ""
    """The proxy to go through, empty for none."""
    certificate_expires: datetime | None = None
    """When the client certificate ends, if there is one."""
    source: str = ""
    """The file that this was read from, for messages."""

    def identity(self) -> Credentials:
        """The credentials to use."""
        return self.credentials or StaticToken(self.token)
