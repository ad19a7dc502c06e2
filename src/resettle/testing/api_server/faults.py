"""Faults on demand: late responses, refusals, watches that break off, bodies that are slow or cut.

Faults are tried in the order they were added. Each applies as often as it says and is then used up;
a request gets the first that matches it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from threading import Lock

from msgspec import Struct

from resettle.testing.api_server.status import Declined
from resettle.testing.builders import Object

_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Fault(Struct, frozen=True, kw_only=True):
    """What goes wrong, with which requests, and how often.

    `verbs` are those of roles: get, list, watch, create, update, patch, delete, deletecollection.
    `path` is a pattern such as `/api/v1/pods` or `*/eviction`; a server's prefix is no part of it.
    """

    verbs: tuple[str, ...] = ()
    """Verbs of the requests that fail; none means all."""
    path: str = "*"
    times: int = 1
    delay_seconds: float = 0
    """How late the answer begins."""
    hold_seconds: float = 0
    """How long an answer is held back once what was asked for is done."""
    status: int = 0
    """The code to answer with; 0 lets the request pass."""
    message: str = "this fault was asked for"
    retry_after_seconds: int | None = None
    body: bytes | None = None
    """The exact body of the response, as from a proxy; the code is `status`, or else 200."""
    largest_page: int | None = None
    """How many items a list holds at most, however many were asked for."""
    hang_up: bool = False
    """The connection ends without an answer."""
    drop_after_events: int | None = None
    """A watch breaks off after so many events."""
    cut_after_bytes: int | None = None
    """The connection ends after so many bytes of the body; its length was promised in full."""
    bytes_per_second: int | None = None
    """How fast the body comes."""
    begins_with: str = ""
    """A line that a watch sends before all others."""
    twice: bool = False
    """A watch sends every event twice."""

    def matches(self, verb: str, path: str) -> bool:
        """Whether the fault applies to this request."""
        return (not self.verbs or verb in self.verbs) and fnmatchcase(path, self.path)

    def refusal(self) -> Declined | None:
        """The refusal to send, or None if the fault is of another sort."""
        if not self.status or self.body is not None:
            return None
        details: Object = {}
        if self.retry_after_seconds is not None:
            details["retryAfterSeconds"] = self.retry_after_seconds
        reason = _REASONS.get(self.status, "")
        return Declined(self.status, reason, self.message, details=details)

    def limit_page(self, query: Mapping[str, str]) -> Mapping[str, str]:
        """The query of a list with its limit lowered to the largest page."""
        if self.largest_page is None:
            return query
        asked = query.get("limit", "0")
        if not asked.isdecimal():
            return query
        return {**query, "limit": str(min(int(asked) or self.largest_page, self.largest_page))}


class Faults:
    """The faults that are still to come."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._lock = Lock()
        self._left: list[tuple[Fault, int]] = [(fault, fault.times) for fault in faults]

    def add(self, *faults: Fault) -> None:
        """Add faults behind those that are pending."""
        with self._lock:
            self._left += [(fault, fault.times) for fault in faults]

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._left.clear()

    @property
    def pending(self) -> int:
        """How many requests will still fail."""
        with self._lock:
            return sum(left for _, left in self._left)

    def take(self, verb: str, path: str) -> Fault | None:
        """The fault of this request, which is used once by that; None if there is none."""
        with self._lock:
            for place, (fault, left) in enumerate(self._left):
                if fault.matches(verb, path):
                    self._left[place] = (fault, left - 1)
                    self._left = [pair for pair in self._left if pair[1] > 0]
                    return fault
        return None
