"""Refusals of the test API server: `Status` objects, worded so that clients recognise them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from resettle.testing.api_server.objects.kinds import Resource
from resettle.testing.builders import Object


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
        """A `continue` token with which the rest of a list can still be read."""

    @property
    def retry_after_seconds(self) -> int:
        """After how long the request may be tried again; 0 where nothing is said."""
        return int(self.details.get("retryAfterSeconds", 0))

    def status(self) -> Object:
        """The `Status` object."""
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.token} if self.token else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = self.details
        return {**status, "code": self.code}


def success(code: int, details: Object | None = None) -> Object:
    """The `Status` of what went well."""
    status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        status["details"] = details
    return status | ({"code": code} if code != 200 else {})


def details_of(resource: Resource, name: str = "", **more: Any) -> Object:
    """Which object a status is about."""
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in (details | more).items() if value}


def bad_request(message: str) -> Declined:
    """A request that cannot be read."""
    return Declined(400, "BadRequest", message)


def not_found(resource: Resource, name: str) -> Declined:
    """No object of this name."""
    return Declined(
        404,
        "NotFound",
        f'{resource.title} "{name}" not found',
        details=details_of(resource, name),
    )


def already_exists(resource: Resource, name: str) -> Declined:
    """Another object has this name."""
    return Declined(
        409,
        "AlreadyExists",
        f'{resource.title} "{name}" already exists',
        details=details_of(resource, name),
    )


def conflict(resource: Resource, name: str, why: str, kind: str = "") -> Declined:
    """The object is not in the state that the request takes for granted."""
    title = kind or resource.title
    details = details_of(resource, name, **({"kind": kind} if kind else {}))
    message = f'Operation cannot be fulfilled on {title} "{name}": {why}'
    return Declined(409, "Conflict", message, details=details)


def stale(resource: Resource, name: str) -> Declined:
    """The object has a newer version."""
    return conflict(
        resource,
        name,
        "the object has been modified; "
        "please apply your changes to the latest version and try again",
    )


def forbidden(resource: Resource, name: str, why: str) -> Declined:
    """The client, or anyone, may not do this."""
    subject = f'{resource.title} "{name}"' if name else resource.title
    return Declined(
        403, "Forbidden", f"{subject} is forbidden: {why}", details=details_of(resource, name)
    )


def invalid(
    resource: Resource, name: str, causes: Iterable[tuple[str, str]], *, plural: bool = False
) -> Declined:
    """`causes` are pairs of a field and what is wrong with it; some checks say `pods` for `Pod`."""
    kind = resource.plural if plural else resource.kind
    return _invalid(kind, resource.group, name, causes)


def bad_options(field: str, says: str, kind: str = "ListOptions") -> Declined:
    """Options of a request that do not go together, or mean nothing."""
    return _invalid(kind, "meta.k8s.io", "", [(field, says)])


def bad_scale(name: str, says: str) -> Declined:
    """A number of replicas that is none."""
    return _invalid("Scale", "autoscaling", name, [("spec.replicas", says)])


def _invalid(kind: str, group: str, name: str, causes: Iterable[tuple[str, str]]) -> Declined:
    rows = [{"reason": _why(says), "message": says, "field": field} for field, says in causes]
    problems = ", ".join(f"{row['field']}: {row['message']}" for row in rows)
    title = f"{kind}.{group}" if group else kind
    details = {"name": name, "group": group, "kind": kind, "causes": rows}
    return Declined(
        422,
        "Invalid",
        f'{title} "{name}" is invalid: {problems}',
        details={key: value for key, value in details.items() if value},
    )


def _why(says: str) -> str:
    reasons = {"Required": "Required", "Unsupported": "NotSupported", "Forbidden:": "Forbidden"}
    return f"FieldValue{reasons.get(says.partition(' ')[0], 'Invalid')}"


def internal_error(message: str) -> Declined:
    """What the real server has no better answer for."""
    return Declined(500, "", message)


def unknown_path() -> Declined:
    """Nothing is served there, though the group and version exist."""
    return Declined(404, "NotFound", "the server could not find the requested resource")


def expired_version(message: str, token: str = "") -> Declined:
    """A version that was compacted."""
    return Declined(410, "Expired", message, token=token)


def too_large_version(asked: int, current: int) -> Declined:
    """A version that has not been reached yet."""
    row = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return Declined(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={"causes": [row], "retryAfterSeconds": 1},
    )


def method_not_allowed() -> Declined:
    """A verb that the resource does not have."""
    return Declined(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    )


def unsupported_media(accepted: Iterable[str]) -> Declined:
    """A body in a format that is not read here."""
    kinds = ", ".join(accepted)
    return Declined(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {kinds}",
    )


def missing_credentials() -> Declined:
    """Credentials are missing or wrong."""
    return Declined(401, "Unauthorized", "Unauthorized")
