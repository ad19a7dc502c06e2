"""The way to one API server: its address, whom to trust, what to show.

What is shown to the API server as proof of who we are, and how it is kept fresh.

`headers()` is quick and gives what is known; `renew()` may read files or run a command, so an event
loop calls it from a thread. Whoever sends a request renews what is `due()` first, and once more
when the API server turns down what was shown.
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
    """A way to sign in."""

    @property
    def trust(self) -> ssl.SSLContext | None:
        """The context to connect with, if it holds a certificate that can change."""

    def headers(self) -> Headers:
        """What goes with each request."""

    def is_due(self) -> bool:
        """Whether `renew` is called for before the next request."""

    def renew(self, refused: Headers | None = None) -> bool:
        """Looks for newer ones; whether there is something else to show than what was refused."""


class StaticToken:
    """A token that stays as it is, or nothing at all."""

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
        """There is nothing else."""
        return False


class TokenFile:
    """A token in a file that somebody else keeps fresh; read again when a minute has passed."""

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
        """Whether the last look is a minute old."""
        return self._clock.steady() - self._read_at >= REREAD_SECONDS

    def renew(self, refused: Headers | None = None) -> bool:
        """Reads the file again; a file that is not there for a moment leaves the token as it is."""
        with self._lock:
            self._read_at = self._clock.steady()
            try:
                self._headers = bearer_headers(self._read())
            except InputError:
                if refused is not None:
                    raise
            return self._headers != refused


def bearer_headers(token: str) -> Headers:
    """The header that a token goes into."""
    return (("Authorization", f"Bearer {token}"),) if token else ()


def clean_token(text: str, where: str) -> str:
    """The token without white space around it; `where` is told if it cannot be one."""
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise InputError(f"{where}: the token holds characters that no token has")
    return token


class Access(Struct, frozen=True, kw_only=True):
    """Where the API server is and how to prove who we are."""

    server: str
    token: str = ""
    """A token that stays as it is; `credentials` stand in for any other."""
    trust: ssl.SSLContext | None = None
    """None for plain HTTP."""
    server_name: str = ""
    credentials: Credentials | None = None
    impersonation: Headers = ()
    """In whose name we ask, if not in our own."""
    proxy: str = ""
    """The proxy to go through, empty for none."""
    certificate_expires: datetime | None = None
    """When the client certificate ends, if there is one."""
    source: str = ""
    """The file that says all this, for messages."""

    def identity(self) -> Credentials:
        """What to sign in with."""
        return self.credentials or StaticToken(self.token)
