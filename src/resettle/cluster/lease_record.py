"""A lease as the API server keeps it, and what is written into it.

Everything but the record of who leads is sent back as it came, the labels of others included. What
somebody else wrote may be garbled; a holder that cannot be read is a holder all the same.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

Object = dict[str, Any]
_MICROSECOND = timedelta(microseconds=1)
_LONGEST_SECONDS = 2**31 - 1


class Record(Struct, frozen=True):
    """A lease as it was read."""

    object: Object

    @property
    def version(self) -> tuple[str, str]:
        """Changes whenever anybody writes to the lease."""
        return str(self._meta.get("uid")), str(self._meta.get("resourceVersion"))

    @property
    def holder(self) -> str:
        """Who has it; empty if nobody has."""
        holder = self._spec.get("holderIdentity")
        return holder if isinstance(holder, str) else "" if holder is None else f"? {holder}"

    @property
    def duration_seconds(self) -> int | None:
        """What the holder asks others to wait, or None if that makes no sense."""
        seconds = self._spec.get("leaseDurationSeconds")
        return seconds if type(seconds) is int and 0 < seconds <= _LONGEST_SECONDS else None

    @property
    def transitions(self) -> int:
        """How often it has changed hands."""
        count = self._spec.get("leaseTransitions")
        return count if type(count) is int and 0 <= count < _LONGEST_SECONDS else 0

    def held_by(self, identity: str, duration_seconds: float, now: datetime) -> Object:
        """The lease with us as its holder: renewed if it is ours, taken over if not."""
        ours = self.holder == identity
        since = self._spec.get("acquireTime")
        renewed = written(now)
        if renewed == self._spec.get("renewTime"):
            # An update that changes nothing is none: others would miss this sign of life.
            renewed = written(now + _MICROSECOND)
        return self._with(
            holderIdentity=identity,
            leaseDurationSeconds=whole_seconds(duration_seconds),
            acquireTime=since if ours and isinstance(since, str) else written(now),
            renewTime=renewed,
            leaseTransitions=self.transitions if ours else self.transitions + 1,
        )

    def let_go(self, now: datetime) -> Object:
        """The lease with nobody as its holder."""
        return self._with(
            holderIdentity="",
            leaseDurationSeconds=1,
            acquireTime=written(now),
            renewTime=written(now),
            leaseTransitions=self.transitions,
        )

    @property
    def _meta(self) -> Object:
        return _mapping(self.object.get("metadata"))

    @property
    def _spec(self) -> Object:
        return _mapping(self.object.get("spec"))

    def _with(self, **spec: Any) -> Object:
        return {**self.object, "spec": {**self._spec, **spec}}


def read_record(body: bytes) -> Record | None:
    """The lease that a body holds, or None if it holds none."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    record = Record(found) if isinstance(found, dict) else None
    return record if record and record._meta.get("resourceVersion") else None


def first_lease(
    namespace: str, name: str, identity: str, duration_seconds: float, now: datetime
) -> Object:
    """A new lease that is ours from the start."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "holderIdentity": identity,
            "leaseDurationSeconds": whole_seconds(duration_seconds),
            "acquireTime": written(now),
            "renewTime": written(now),
            "leaseTransitions": 0,
        },
    }


def whole_seconds(seconds: float) -> int:
    """At least so many: a promise to others must not be shorter than ours to ourselves."""
    return math.ceil(seconds)


def written(at: datetime) -> str:
    """A time as leases have it, to the microsecond."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _mapping(value: Any) -> Object:
    return value if isinstance(value, dict) else {}
