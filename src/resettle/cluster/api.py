"""Lists from an API server, page by page.

While one page is decoded the next is on its way: its request is sent as soon as the bytes of this
one are in. Plain `http.client` on purpose: for a list it costs a fifth of an asynchronous client's
time.
"""

from __future__ import annotations

import http.client
import re
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from resettle.cluster.collect import Collection
from resettle.cluster.kubeconfig import Access
from resettle.errors import ClusterError, ClusterUnreachable, Forbidden, InputError, Unauthorized
from resettle.framework.plugin import Kind

PAGE = 500
PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "Namespace": "/api/v1/namespaces",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
}
_TIMEOUT_SECONDS = 60
_TOKEN = re.compile(rb'"continue":\s*"([^"\\]*)"')
_HEAD = 2048

Phase = Callable[[str], AbstractContextManager[object]]


class Expired(ClusterError):
    """A list took so long that the rest of it is no longer to be had."""


class ListMeta(Struct):
    """What a page says of the pages after it."""

    token: str = msgspec.field(name="continue", default="")


class PageEnd(Struct):
    """A page without its items."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


_page_end = msgspec.json.Decoder(PageEnd)


class Api:
    """A connection to one API server, kept open from request to request."""

    def __init__(self, access: Access) -> None:
        self._access = access
        address = urlsplit(access.server)
        self._base = address.path.rstrip("/")
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        self._headers["User-Agent"] = "resettle"
        if access.token:
            self._headers["Authorization"] = f"Bearer {access.token}"
        host, port = address.hostname or "", address.port
        if access.trust is None:
            self._connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
        else:
            self._connection = _NamedConnection(
                host, port, timeout=_TIMEOUT_SECONDS, context=access.trust
            )
            self._connection.server_name = access.server_name

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def ask(self, path: str) -> None:
        """Sends a request without waiting for its answer."""
        try:
            self._connection.request("GET", self._base + path, headers=self._headers)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None

    def answer(self, what: str) -> bytes:
        """The body of the answer to the last request; `what` is told in errors."""
        try:
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        match response.status:
            case 200:
                return body
            case 401:
                raise Unauthorized(
                    f"{self._access.server} does not accept the credentials; renew them"
                )
            case 403:
                raise Forbidden(f"may not list {what}; grant the verb `list` on {what}")
            case 410:
                raise Expired(f"the list of {what} expired before its end was read; try again")
            case 404:
                raise ClusterError(f"{self._access.server} has no {what}")
            case status:
                raise ClusterError(
                    f"{self._access.server} answered {status} to a list of {what}: {_message(body)}"
                )

    def _unreachable(self, error: Exception) -> ClusterUnreachable:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = f"its certificate is not trusted ({error.verify_message})"
        return ClusterUnreachable(
            f"{self._access.server} cannot be reached: {reason}; check the kubeconfig and network"
        )

    def pages(self, path: str, what: str, limit: int = PAGE) -> Iterator[bytes]:
        """The pages of a list; the next one is asked for before this one is handed out."""
        token = ""
        self.ask(f"{path}?limit={limit}")
        while True:
            body = self.answer(what)
            token = _next_token(body, what)
            if token:
                self.ask(f"{path}?limit={limit}&continue={quote(token)}")
            yield body
            if not token:
                return


class _NamedConnection(http.client.HTTPSConnection):
    """HTTPS to a server whose certificate may be for another name than its address."""

    server_name = ""
    _context: ssl.SSLContext

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._context.wrap_socket(
            self.sock, server_hostname=self.server_name or self.host
        )


def _next_token(body: bytes, what: str) -> str:
    """The token of the next page; built-in kinds have it in front of their items."""
    head = body[:_HEAD].partition(b'"items"')[0]
    if b'"metadata"' in head and len(head) < _HEAD:
        found = _TOKEN.search(head)
        if found is not None:
            return found[1].decode(errors="replace")
        if b'"continue"' not in head:
            return ""
    try:
        return _page_end.decode(body).metadata.token
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _garbled(what, error) from None


def _garbled(what: str, error: Exception) -> ClusterError:
    return ClusterError(f"the list of {what} cannot be understood: {error}; is this an API server?")


def _message(body: bytes) -> str:
    try:
        status = msgspec.json.decode(body)
    except msgspec.DecodeError:
        status = None
    told = status.get("message") if isinstance(status, dict) else None
    return str(told or body[:200].decode(errors="replace") or "nothing")


def _silent(name: str) -> AbstractContextManager[object]:
    return nullcontext()


def list_cluster(
    access: Access,
    reads: frozenset[str],
    kinds: Iterable[Kind] = (),
    phase: Phase = _silent,
) -> Collection:
    """Nodes, pods and the other kinds that are read, as the API server has them now."""
    declared = list(kinds)
    collection = Collection(declared)
    own = {kind.name: kind for kind in declared if kind.name in reads}
    api = Api(access)
    try:
        for name in ("Node", "Pod", *sorted(reads & (PATHS.keys() | own.keys()) - {"Node", "Pod"})):
            path = PATHS.get(name) or own[name].path
            if not path:
                raise InputError(f"the plugin that reads {name} does not say where it is listed")
            collection.begin(access.server)
            _list(api, collection, name, path, phase)
    finally:
        api.close()
    return collection


def _list(api: Api, collection: Collection, kind: str, path: str, phase: Phase) -> None:
    what = path.rpartition("/")[2]
    struct: Any = collection.struct(kind)
    page_type = msgspec.defstruct(f"{kind}Page", [("items", list[struct] | None)])
    decoder = msgspec.json.Decoder(page_type)
    pages = api.pages(path, what)
    while True:
        with phase("fetch"):
            body = next(pages, None)
        if body is None:
            return
        with phase("decode"):
            try:
                page: Any = decoder.decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise _garbled(what, error) from None
            collection.take(kind, page.items or (), what)
