"""Asks the API server by SelfSubjectAccessReviews which permissions we have.

The check runs before the first cycle, so that a missing permission is reported at the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from resettle.errors import ClusterError, Forbidden
from resettle.kube.failures import missing_permission, refusal_error
from resettle.kube.transport.client import Client
from resettle.rbac.permissions import ApiPermission

_GROUP, _RESOURCE = "authorization.k8s.io", "selfsubjectaccessreviews"
_AT_ONCE = 8


class AccessReview(Struct, frozen=True):
    """Whether the API server grants one permission."""

    permission: ApiPermission
    allowed: bool
    reason: str = ""


class _Status(Struct):
    allowed: bool = False
    reason: str = ""


class _Answer(Struct):
    status: _Status


async def review_permissions(
    client: Client, permissions: Iterable[ApiPermission]
) -> tuple[AccessReview, ...]:
    """The permissions in order, each with whether we have it."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def review(permission: ApiPermission) -> AccessReview:
        async with turns:
            return await _review(client, permission)

    tasks = [asyncio.create_task(review(permission)) for permission in permissions]
    try:
        return tuple([await task for task in tasks])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def require_permissions(client: Client, permissions: Iterable[ApiPermission]) -> None:
    """Raise an error if a permission is missing: the first with its rule, and how many more."""
    missing = [
        review for review in await review_permissions(client, permissions) if not review.allowed
    ]
    if not missing:
        return
    first = missing[0].permission
    problem = missing_permission("", first.verb, first.resource, first.group, first.namespace)
    more = len(missing) - 1
    rest = f"; {more} more missing, which `resettle check-access` lists" if more else ""
    raise Forbidden(f"{problem}{rest}")


async def _review(client: Client, permission: ApiPermission) -> AccessReview:
    resource, _, under = permission.resource.partition("/")
    asked = {
        "verb": permission.verb,
        "group": permission.group,
        "resource": resource,
        "subresource": under,
        "namespace": permission.namespace,
        "name": permission.name,
    }
    body = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value}},
    }
    path = f"/apis/{_GROUP}/v1/{_RESOURCE}"
    answer = await client.send("POST", path, msgspec.json.encode(body))
    if not answer.is_success:
        raise refusal_error(answer, "create", _RESOURCE, group=_GROUP, access=client.access)
    try:
        status = msgspec.json.decode(answer.body, type=_Answer).status
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ClusterError(
            f"{client.server} sent a review that cannot be understood: {error}; "
            "is this an API server?"
        ) from None
    return AccessReview(permission, status.allowed, status.reason)
