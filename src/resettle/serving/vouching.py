"""A gate that asks the API server who somebody is, and whether they may have what they ask for.

As Kubernetes' own components do it, by a TokenReview for the bearer token and a SubjectAccessReview
for the verb and the path. Answers are kept for a few seconds, since whoever scrapes comes again.
Whatever cannot be found out is a no.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from resettle.clock import Clock
from resettle.cluster.refusals import refused
from resettle.cluster.rights import ACCESS_REVIEWS, TOKEN_REVIEWS, Right
from resettle.errors import ClusterError
from resettle.kube.transport.client import Client
from resettle.log import Log
from resettle.serving.http import Answer, Request, plain

KEPT_SECONDS = 10.0
_MOST_KEPT = 256
_AT_ONCE = 4
"""Reviews under way; strangers shall not make us a burden to the API server."""
_WITHIN_SECONDS = 5.0
_PATIENCE_SECONDS = 2.0
_VERBS = {"HEAD": "get"}
"""Who may fetch may ask how long it is; other verbs are the methods in lower case."""


class User(Struct, frozen=True):
    """Somebody whom the API server knows."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


class _Known(Struct):
    authenticated: bool = False
    user: User = User()


class _Allowed(Struct):
    allowed: bool = False


Status = TypeVar("Status")


class _Review(Struct, Generic[Status]):
    status: Status


class Vouching:
    """Lets those pass whom the API server vouches for."""

    def __init__(self, client: Client, clock: Clock, log: Log) -> None:
        self._client = client
        self._log = log
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._users: _Kept[User | None] = _Kept(clock)
        self._rights: _Kept[bool] = _Kept(clock)

    async def refusal(self, request: Request) -> Answer | None:
        """What to answer in place of what was asked for; None if that may be given."""
        try:
            return await self._refusal(request)
        except ClusterError as error:
            self._log.only_when_new("vouching").error(
                "nobody is let in: the API server cannot be asked", reason=str(error)
            )
            return plain(503, "whether you may have this cannot be found out now\n")

    async def _refusal(self, request: Request) -> Answer | None:
        user = await self._user(request.token) if request.token else None
        if user is None:
            why = "unknown token" if request.token else "no token"
            log = self._log.only_when_new("unknown stranger")
            log.warning("not let in", path=request.path, reason=why)
            return plain(401, "show a bearer token\n", ("WWW-Authenticate", "Bearer"))
        verb = _VERBS.get(request.method, request.method.lower())
        allowed = await self._may(user, verb, request.path)
        self._log.forget("vouching")
        if allowed:
            return None
        self._log.only_when_new("known stranger").warning(
            "not let in", path=request.path, verb=verb, user=user.username, reason="not allowed"
        )
        return plain(403, f"{user.username} may not {verb} the path {request.path}\n")

    async def _user(self, token: str) -> User | None:
        key = hashlib.sha256(token.encode()).digest()  # no token lies about here
        if key not in self._users:
            known = await self._reviewed(TOKEN_REVIEWS, "TokenReview", {"token": token}, _Known)
            self._users[key] = known.user if known.authenticated else None
        return self._users[key]

    async def _may(self, user: User, verb: str, path: str) -> bool:
        key = (msgspec.json.encode(user), verb, path)
        if key not in self._rights:
            asked = {
                "user": user.username,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
                "nonResourceAttributes": {"verb": verb, "path": path},
            }
            kind = "SubjectAccessReview"
            answer = await self._reviewed(ACCESS_REVIEWS, kind, asked, _Allowed)
            self._rights[key] = answer.allowed
        return self._rights[key]

    async def _reviewed(
        self, right: Right, kind: str, spec: dict[str, Any], status: type[Status]
    ) -> Status:
        """What the API server answers to a review."""
        body = {"apiVersion": f"{right.group}/v1", "kind": kind, "spec": spec}
        async with self._turns:
            answer = await self._client.send(
                "POST",
                f"/apis/{right.group}/v1/{right.resource}",
                msgspec.json.encode(body),
                within=_WITHIN_SECONDS,
                patience=_PATIENCE_SECONDS,
            )
        if not answer.fine:
            access = self._client.access
            raise refused(answer, right.verb, right.resource, group=right.group, access=access)
        try:
            return msgspec.json.decode(answer.body, type=_Review[status]).status  # type: ignore[valid-type]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ClusterError(f"{self._client.server} sent no {kind}: {error}") from None


Value = TypeVar("Value")


class _Kept(Generic[Value]):
    """Values that are forgotten after a while, or when there are too many."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[Hashable, tuple[float, Value]] = {}

    def __contains__(self, key: Hashable) -> bool:
        held = self._held.get(key)
        return held is not None and self._clock.steady() < held[0]

    def __getitem__(self, key: Hashable) -> Value:
        return self._held[key][1]

    def __setitem__(self, key: Hashable, value: Value) -> None:
        self._held.pop(key, None)
        while len(self._held) >= _MOST_KEPT:
            del self._held[next(iter(self._held))]
        self._held[key] = (self._clock.steady() + KEPT_SECONDS, value)
