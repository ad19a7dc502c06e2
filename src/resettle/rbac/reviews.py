"""Asking the API server what we may do, before it matters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from resettle.errors import ClusterError, Forbidden
from resettle.kube.failures import forbidden, refused
from resettle.kube.transport.client import Client
from resettle.rbac.permissions import Right

_GROUP, _RESOURCE = "authorization.k8s.io", "selfsubjectaccessreviews"
_AT_ONCE = 8


class Review(Struct, frozen=True):
    """What the API server says of one right."""

    right: Right
    allowed: bool
    reason: str = ""


class _Status(Struct):
    allowed: bool = False
    reason: str = ""


class _Answer(Struct):
    status: _Status


async def reviewed(client: Client, rights: Iterable[Right]) -> tuple[Review, ...]:
    """Each right in order, and whether we have it."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(right: Right) -> Review:
        async with turns:
            return await _review(client, right)

    tasks = [asyncio.create_task(one(right)) for right in rights]
    try:
        return tuple([await task for task in tasks])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def ensure(client: Client, rights: Iterable[Right]) -> None:
    """Ends with an error if a right is missing: the first with its rule, and how many more."""
    missing = [review for review in await reviewed(client, rights) if not review.allowed]
    if not missing:
        return
    first = missing[0].right
    told = forbidden("", first.verb, first.resource, first.group, first.namespace)
    more = len(missing) - 1
    rest = f"; {more} more missing, which `resettle check-access` lists" if more else ""
    raise Forbidden(f"{told}{rest}")


async def _review(client: Client, right: Right) -> Review:
    resource, _, under = right.resource.partition("/")
    asked = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": under,
        "namespace": right.namespace,
        "name": right.name,
    }
    body = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value}},
    }
    path = f"/apis/{_GROUP}/v1/{_RESOURCE}"
    answer = await client.send("POST", path, msgspec.json.encode(body))
    if not answer.fine:
        raise refused(answer, "create", _RESOURCE, group=_GROUP, access=client.access)
    try:
        status = msgspec.json.decode(answer.body, type=_Answer).status
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ClusterError(
            f"{client.server} sent a review that cannot be understood: {error}; "
            "is this an API server?"
        ) from None
    return Review(right, status.allowed, status.reason)
