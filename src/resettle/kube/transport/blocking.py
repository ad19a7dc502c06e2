"""One blocking connection to an API server, for lists: send a request, take its response later.

The standard library's `http.client` parses the responses: for a list it costs a fifth of an
asynchronous client's time, and the next page can be on its way while this one is decoded.
"""

from __future__ import annotations

import base64
import http.client
import ssl
from urllib.parse import unquote, urlsplit

from resettle.kube.auth.access import Access, Headers
from resettle.kube.failures import unreachable_error
from resettle.kube.status import Answer

_TIMEOUT_SECONDS = 60
_UNAUTHORIZED = 401
_ALWAYS: Headers = (
    ("Accept", "application/json"),
    ("Accept-Encoding", "identity"),
    ("User-Agent", "resettle"),
)


class BlockingConnection:
    """A connection kept open between requests, and replaced when the client certificate changes."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._identity = access.identity()
        self._base = urlsplit(access.server).path.rstrip("/")
        self._open: http.client.HTTPConnection | None = None
        self._trust: ssl.SSLContext | None = None
        self._path = ""
        self._credentials: Headers = ()

    def close(self) -> None:
        """Close the connection."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def send(self, path: str) -> None:
        """Send a GET request without waiting for its response."""
        if self._identity.is_due():
            self._identity.renew()
        self._path, self._credentials = path, self._identity.headers()
        try:
            connection = self._connection()
            connection.putrequest("GET", self._target(path), skip_accept_encoding=True)
            for name, value in (*_ALWAYS, *self._credentials, *self._access.impersonation):
                connection.putheader(name, value)
            if self._access.trust is None:
                for name, value in proxy_credentials(self._access.proxy).items():
                    connection.putheader(name, value)
            connection.endheaders()
        except (OSError, http.client.HTTPException) as error:
            raise unreachable_error(self._access, error) from None

    def receive(self) -> Answer:
        """The response to the last request; a 401 is tried once more with newer credentials."""
        answer = self._read()
        if answer.status == _UNAUTHORIZED and self._identity.renew(self._credentials):
            self.send(self._path)
            return self._read()
        return answer

    def _read(self) -> Answer:
        try:
            response = self._connection().getresponse()
            return Answer(response.status, response.read())
        except (OSError, http.client.HTTPException) as error:
            raise unreachable_error(self._access, error) from None

    def _connection(self) -> http.client.HTTPConnection:
        trust = self._identity.trust or self._access.trust
        if self._open is None or trust is not self._trust:
            self.close()
            self._open, self._trust = self._make(trust), trust
        return self._open

    def _make(self, trust: ssl.SSLContext | None) -> http.client.HTTPConnection:
        server, proxy = urlsplit(self._access.server), urlsplit(self._access.proxy)
        first = proxy if self._access.proxy else server
        host, port = first.hostname or "", first.port
        if trust is None:
            return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
        if self._access.proxy:
            port = port or 80
        connection = _NamedConnection(host, port, timeout=_TIMEOUT_SECONDS, context=trust)
        connection.server_name = self._access.server_name or server.hostname or ""
        if self._access.proxy:
            credentials = proxy_credentials(self._access.proxy)
            connection.set_tunnel(server.hostname or "", server.port or 443, credentials)
        return connection

    def _target(self, path: str) -> str:
        """The path, or the whole address if a proxy needs it."""
        if self._access.proxy and self._access.trust is None:
            return self._access.server + path
        return self._base + path


class _NamedConnection(http.client.HTTPSConnection):
    """HTTPS to a server whose certificate may be for another name than its address."""

    server_name = ""
    _context: ssl.SSLContext

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._context.wrap_socket(self.sock, server_hostname=self.server_name)


def proxy_credentials(proxy: str) -> dict[str, str]:
    """The header for a proxy whose address holds a name and a password."""
    address = urlsplit(proxy)
    if not address.username:
        return {}
    pair = f"{unquote(address.username)}:{unquote(address.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
