"""Answers of the API server, and what refusals mean.

A 429 has three meanings. A spent disruption budget is named as the cause, a webhook says that it
denied the request, and only an overloaded server means what HTTP means by it: the request was not
acted upon and may be sent again a little later.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct, field

TOO_MANY_REQUESTS = 429
_BUDGET_CAUSE = "DisruptionBudget"
_BUDGET_NAME = re.compile(r"The disruption budget (\S+) ")
_WEBHOOK = re.compile(r'admission webhook "([^"]*)" denied the request')
_LONGEST_PLAIN_WORDS = 200


class Answer(Struct, frozen=True):
    """An answer of the API server."""

    status: int
    body: bytes
    retry_after: float | None = None
    """Seconds it asks us to wait before another try."""

    @property
    def is_success(self) -> bool:
        """Whether the server carried out the request."""
        return self.status < 300


class Cause(Struct, frozen=True):
    """One of the reasons behind a refusal."""

    reason: str = ""
    message: str = ""


class Status(Struct, frozen=True, kw_only=True):
    """The Status object of a refusal; it has only a message if a proxy answered instead."""

    message: str = ""
    reason: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: float | None = None
    plain: bool = False
    """Whether it came as bare text: from a proxy, or from a server too busy for more."""

    @property
    def webhook(self) -> str | None:
        """The name of the admission webhook that denied the request, if one did."""
        match = _WEBHOOK.match(self.message)
        return match[1] if match else None


class _Details(Struct):
    causes: list[Cause] | None = None
    retry_after_seconds: float | None = field(name="retryAfterSeconds", default=None)


class _Wire(Struct):
    kind: str = ""
    message: str | None = None
    reason: str | None = None
    details: _Details | None = None


_decoder = msgspec.json.Decoder(_Wire)


def status_of(answer: Answer) -> Status:
    """The status in a refusal, which is a Status object or plain text."""
    try:
        wire = _decoder.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        wire = _Wire()
    if wire.kind != "Status":
        words = answer.body[:_LONGEST_PLAIN_WORDS].decode(errors="replace").strip()
        return Status(message=words, retry_after_seconds=answer.retry_after, plain=True)
    details = wire.details or _Details()
    # Header and status agree where both are present; zero seconds means no advice.
    wait = answer.retry_after or details.retry_after_seconds or None
    return Status(
        message=wire.message or "",
        reason=wire.reason or "",
        causes=tuple(details.causes or ()),
        retry_after_seconds=wait,
    )


def is_overload(answer: Answer) -> bool:
    """Whether the server is too busy: it did nothing, and another try may succeed."""
    if answer.status != TOO_MANY_REQUESTS:
        return False
    status = status_of(answer)
    if status.webhook is not None or _budget_cause(status) is not None:
        return False
    return status.plain or status.retry_after_seconds is not None


def budget_of(answer: Answer) -> str | None:
    """The name of the budget that refused an eviction; empty if unnamed, None if none did."""
    if answer.status != TOO_MANY_REQUESTS:
        return None
    cause = _budget_cause(status_of(answer))
    if cause is None:
        return None
    match = _BUDGET_NAME.match(cause.message)
    return match[1] if match else ""


def _budget_cause(status: Status) -> Cause | None:
    return next((cause for cause in status.causes if cause.reason == _BUDGET_CAUSE), None)
