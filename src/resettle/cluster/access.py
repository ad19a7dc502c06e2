"""The way to one API server: its address, whom to trust, what to show."""

from __future__ import annotations

import ssl
from datetime import datetime

from msgspec import Struct

from resettle.cluster.credentials import Credentials, Fixed, Headers


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
        return self.credentials or Fixed(self.token)
