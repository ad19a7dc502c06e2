"""What the server says no with: `Status` objects, worded so that clients recognise them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from resettle.testing.objects import Object
from resettle.testing.pocket.kinds import Resource


class Declined(Exception):
    """A request that ends in a `Status` rather than in an object."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Object | None = None,
        token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.token = token
        """A `continue` token with which the rest of a list can still be had."""

    @property
    def retry_after_seconds(self) -> int:
        """After how long the request may be tried again; 0 where nothing is said."""
        return int(self.details.get("retryAfterSeconds", 0))

    def status(self) -> Object:
        """The `Status` object."""
        told: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.token} if self.token else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            told["reason"] = self.reason
        if self.details:
            told["details"] = self.details
        return {**told, "code": self.code}


def success(code: int, details: Object | None = None) -> Object:
    """The `Status` of what went well."""
    told: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        told["details"] = details
    return told | ({"code": code} if code != 200 else {})


def details_of(resource: Resource, name: str = "", **more: Any) -> Object:
    """Which object a status is about."""
    told = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in (told | more).items() if value}


def bad_request(message: str) -> Declined:
    return Declined(400, "BadRequest", message)


def not_found(resource: Resource, name: str) -> Declined:
    return Declined(
        404,
        "NotFound",
        f'{resource.title} "{name}" not found',
        details=details_of(resource, name),
    )


def already_exists(resource: Resource, name: str) -> Declined:
    return Declined(
        409,
        "AlreadyExists",
        f'{resource.title} "{name}" already exists',
        details=details_of(resource, name),
    )


def conflict(resource: Resource, name: str, why: str, under: str = "") -> Declined:
    title = f"{resource.title}/{under}" if under else resource.title
    return Declined(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {title} "{name}": {why}',
        details=details_of(resource, name),
    )


def stale(resource: Resource, name: str) -> Declined:
    return conflict(
        resource,
        name,
        "the object has been modified; "
        "please apply your changes to the latest version and try again",
    )


def forbidden(resource: Resource, name: str, why: str) -> Declined:
    subject = f'{resource.title} "{name}"' if name else resource.title
    return Declined(
        403, "Forbidden", f"{subject} is forbidden: {why}", details=details_of(resource, name)
    )


def invalid(resource: Resource, name: str, causes: Iterable[tuple[str, str]]) -> Declined:
    """`causes` are pairs of a field and what is wrong with it."""
    rows = [
        {"reason": "FieldValueInvalid", "message": says, "field": field} for field, says in causes
    ]
    told = ", ".join(f"{row['field']}: {row['message']}" for row in rows)
    title = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = details_of(resource, name, kind=resource.kind, causes=rows)
    return Declined(422, "Invalid", f'{title} "{name}" is invalid: {told}', details=details)


def bad_options(field: str, says: str) -> Declined:
    """Query parameters that do not go together."""
    row = {"reason": "FieldValueForbidden", "message": says, "field": field}
    return Declined(
        422,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: {field}: {says}',
        details={"group": "meta.k8s.io", "kind": "ListOptions", "causes": [row]},
    )


def expired(message: str, token: str = "") -> Declined:
    return Declined(410, "Expired", message, token=token)


def too_large_version(asked: int, current: int) -> Declined:
    row = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return Declined(
        504,
        "Timeout",
        f"Too large resource version: {asked}, current: {current}",
        details={"causes": [row], "retryAfterSeconds": 1},
    )


def method_not_allowed() -> Declined:
    return Declined(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    )


def unsupported_media(accepted: Iterable[str]) -> Declined:
    kinds = ", ".join(accepted)
    return Declined(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - "
        f"accepted media types include: {kinds}",
    )


def unauthorized() -> Declined:
    return Declined(401, "Unauthorized", "Unauthorized")
