"""What the API server said, and what it means.

A 429 has three meanings. A spent budget names itself as the cause, a webhook says that it denied
the request, and only an overloaded server means what HTTP means by it: the request was not acted
upon and may come again a little later.
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
    """What the API server said."""

    status: int
    body: bytes
    retry_after: float | None = None
    """Seconds it asks us to wait before another try."""

    @property
    def is_success(self) -> bool:
        """Whether it did what was asked."""
        return self.status < 300


class Cause(Struct, frozen=True):
    """One of the reasons behind a refusal."""

    reason: str = ""
    message: str = ""


class Status(Struct, frozen=True, kw_only=True):
    """A refusal as the API server words it; empty but for its message if a proxy spoke instead."""

    message: str = ""
    reason: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: float | None = None
    plain: bool = False
    """Whether it came as bare text: from a proxy, or from a server too busy for more."""

    @property
    def webhook(self) -> str | None:
        """The name of the admission webhook that denied the request, if one did."""
        found = _WEBHOOK.match(self.message)
        return found[1] if found else None


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
    """What a refusal says, be it a Status or plain words."""
    try:
        wire = _decoder.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        wire = _Wire()
    if wire.kind != "Status":
        words = answer.body[:_LONGEST_PLAIN_WORDS].decode(errors="replace").strip()
        return Status(message=words, retry_after_seconds=answer.retry_after, plain=True)
    details = wire.details or _Details()
    # The header and the status say the same when both speak; zero seconds means no advice.
    wait = answer.retry_after or details.retry_after_seconds or None
    return Status(
        message=wire.message or "",
        reason=wire.reason or "",
        causes=tuple(details.causes or ()),
        retry_after_seconds=wait,
    )


def is_overload(answer: Answer) -> bool:
    """Whether the server is too busy: it did nothing, and another try may do better."""
    if answer.status != TOO_MANY_REQUESTS:
        return False
    status = status_of(answer)
    if status.webhook is not None or _budget_cause(status) is not None:
        return False
    return status.plain or status.retry_after_seconds is not None


def budget_of(answer: Answer) -> str | None:
    """The budget that refused an eviction: its name, empty if it goes unnamed, None if none did."""
    if answer.status != TOO_MANY_REQUESTS:
        return None
    cause = _budget_cause(status_of(answer))
    if cause is None:
        return None
    found = _BUDGET_NAME.match(cause.message)
    return found[1] if found else ""


def _budget_cause(status: Status) -> Cause | None:
    return next((cause for cause in status.causes if cause.reason == _BUDGET_CAUSE), None)
