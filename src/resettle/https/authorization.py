"""Who may ask for what: the API server decides, as it does for Kubernetes' own components.

A TokenReview for the bearer token says who the client is, a SubjectAccessReview whether it may use
the verb on the path. Answers are kept for a few seconds, since a scraper comes again. Without an
answer the request is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Hashable
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from resettle.clock import Clock
from resettle.errors import ClusterError
from resettle.kube.failures import refusal_error
from resettle.kube.transport.client import Client
from resettle.log import Log
from resettle.rbac.permissions import ACCESS_REVIEWS, TOKEN_REVIEWS, ApiPermission

CACHE_SECONDS = 10.0
_CACHE_SIZE = 256
_REVIEWS_AT_ONCE = 4
"""Unknown clients must not become a burden for the API server."""
_REVIEW_SECONDS = 5.0
_RETRY_SECONDS = 2.0
_VERBS = {"HEAD": "get"}
"""Other verbs are the methods in lower case."""


class Authorizer(Protocol):
    """Decides which requests are refused."""

    async def refusal(self, request: web.Request) -> web.Response | None:
        """The response that refuses the request, or None if it may be handled."""


class AllowAll:
    """Refuses nothing."""

    async def refusal(self, request: web.Request) -> web.Response | None:
        """None."""
        return None


def bearer_token(request: web.Request) -> str:
    """The bearer token of the request, or an empty string; a token has ASCII characters only."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.isascii() else ""


class User(Struct, frozen=True):
    """A client that the API server has identified."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


class _TokenStatus(Struct):
    authenticated: bool = False
    user: User = User()


class _AccessStatus(Struct):
    allowed: bool = False


Status = TypeVar("Status")


class _Review(Struct, Generic[Status]):
    status: Status


class ApiServerAuthorizer:
    """Asks the API server about each client, and refuses what it does not allow."""

    def __init__(self, client: Client, clock: Clock, log: Log) -> None:
        self._client = client
        self._log = log
        self._review_slots = asyncio.Semaphore(_REVIEWS_AT_ONCE)
        self._users: _Cache[User | None] = _Cache(clock)
        self._allowed: _Cache[bool] = _Cache(clock)

    async def refusal(self, request: web.Request) -> web.Response | None:
        """The response that refuses the request, or None if it may be handled."""
        try:
            return await self._refusal(request)
        except ClusterError as error:
            self._log.only_when_new("authorization").error(
                "all access denied: the API server cannot be asked", reason=str(error)
            )
            return _plain(503, "whether you may have this cannot be determined now\n")

    async def _refusal(self, request: web.Request) -> web.Response | None:
        token = bearer_token(request)
        user = await self._user(token) if token else None
        if user is None:
            reason = "unknown token" if token else "no token"
            log = self._log.only_when_new("unauthenticated client")
            log.warning("access denied", path=request.path, reason=reason)
            return _plain(401, "show a bearer token\n", {"WWW-Authenticate": "Bearer"})
        verb = _VERBS.get(request.method, request.method.lower())
        allowed = await self._is_allowed(user, verb, request.path)
        self._log.forget("authorization")
        if allowed:
            return None
        self._log.only_when_new("unauthorized client").warning(
            "access denied", path=request.path, verb=verb, user=user.username, reason="not allowed"
        )
        return _plain(403, f"{user.username} may not {verb} the path {request.path}\n")

    async def _user(self, token: str) -> User | None:
        key = hashlib.sha256(token.encode()).digest()  # tokens themselves are not kept
        if key not in self._users:
            spec = {"token": token}
            status = await self._review(TOKEN_REVIEWS, "TokenReview", spec, _TokenStatus)
            self._users[key] = status.user if status.authenticated else None
        return self._users[key]

    async def _is_allowed(self, user: User, verb: str, path: str) -> bool:
        key = (msgspec.json.encode(user), verb, path)
        if key not in self._allowed:
            spec = {
                "user": user.username,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
                "nonResourceAttributes": {"verb": verb, "path": path},
            }
            kind = "SubjectAccessReview"
            status = await self._review(ACCESS_REVIEWS, kind, spec, _AccessStatus)
            self._allowed[key] = status.allowed
        return self._allowed[key]

    async def _review(
        self, permission: ApiPermission, kind: str, spec: dict[str, Any], status: type[Status]
    ) -> Status:
        """The status of a review that the API server made."""
        body = {"apiVersion": f"{permission.group}/v1", "kind": kind, "spec": spec}
        async with self._review_slots:
            response = await self._client.send(
                "POST",
                f"/apis/{permission.group}/v1/{permission.resource}",
                msgspec.json.encode(body),
                within=_REVIEW_SECONDS,
                patience=_RETRY_SECONDS,
            )
        if not response.is_success:
            access = self._client.access
            raise refusal_error(
                response,
                permission.verb,
                permission.resource,
                group=permission.group,
                access=access,
            )
        try:
            return msgspec.json.decode(response.body, type=_Review[status]).status  # type: ignore[valid-type]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ClusterError(f"{self._client.server} sent no {kind}: {error}") from None


def _plain(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=text, headers=headers)


Value = TypeVar("Value")


class _Cache(Generic[Value]):
    """A limited number of values, each for a limited time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[Hashable, tuple[float, Value]] = {}

    def __contains__(self, key: Hashable) -> bool:
        entry = self._entries.get(key)
        return entry is not None and self._clock.steady() < entry[0]

    def __getitem__(self, key: Hashable) -> Value:
        return self._entries[key][1]

    def __setitem__(self, key: Hashable, value: Value) -> None:
        self._entries.pop(key, None)
        while len(self._entries) >= _CACHE_SIZE:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = (self._clock.steady() + CACHE_SECONDS, value)
