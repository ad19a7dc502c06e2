"""One lease: its settings, its content, and the requests that read and write it.

A failure that may pass (no answer, an overloaded or failing server) is logged, and the result is
None. One that will not pass is raised at once, so that no contender waits for a permission that was
never granted; a permission that was there before may be missing because an API server has just
started.

All fields except those of the holder are sent back unchanged, including labels of others. Content
from others may be malformed; a holder that cannot be read still counts as a holder.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
from msgspec import Struct

from resettle.errors import (
    ClusterError,
    ClusterUnreachable,
    InputError,
    ResettleError,
    Unauthorized,
)
from resettle.kube.failures import refusal_error
from resettle.kube.transport.client import Answer, Client
from resettle.log import Log

Object = dict[str, Any]
_MICROSECOND = timedelta(microseconds=1)
_LONGEST_SECONDS = 2**31 - 1


class LeaseRecord(Struct, frozen=True):
    """A lease as it was read."""

    object: Object

    @property
    def version(self) -> tuple[str, str]:
        """A value that changes with every write to the lease."""
        return str(self._meta.get("uid")), str(self._meta.get("resourceVersion"))

    @property
    def holder(self) -> str:
        """The identity of the holder; empty if there is none."""
        holder = self._spec.get("holderIdentity")
        return holder if isinstance(holder, str) else "" if holder is None else f"? {holder}"

    @property
    def duration_seconds(self) -> int | None:
        """How long the holder asks others to wait, or None if the value is invalid."""
        seconds = self._spec.get("leaseDurationSeconds")
        return seconds if type(seconds) is int and 0 < seconds <= _LONGEST_SECONDS else None

    @property
    def transitions(self) -> int:
        """How often the holder has changed."""
        count = self._spec.get("leaseTransitions")
        return count if type(count) is int and 0 <= count < _LONGEST_SECONDS else 0

    def with_holder(self, identity: str, duration_seconds: float, now: datetime) -> Object:
        """The lease with us as its holder: renewed if it is ours, taken over if not."""
        ours = self.holder == identity
        since = self._spec.get("acquireTime")
        renewed = format_micro_time(now)
        if renewed == self._spec.get("renewTime"):
            # An update that changes nothing writes nothing: others would miss this renewal.
            renewed = format_micro_time(now + _MICROSECOND)
        return self._with(
            holderIdentity=identity,
            leaseDurationSeconds=whole_seconds(duration_seconds),
            acquireTime=since if ours and isinstance(since, str) else format_micro_time(now),
            renewTime=renewed,
            leaseTransitions=self.transitions if ours else self.transitions + 1,
        )

    def without_holder(self, now: datetime) -> Object:
        """The lease without a holder."""
        return self._with(
            holderIdentity="",
            leaseDurationSeconds=1,
            acquireTime=format_micro_time(now),
            renewTime=format_micro_time(now),
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


def read_record(body: bytes) -> LeaseRecord | None:
    """The lease in a body, or None if the body is not one."""
    try:
        lease = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    record = LeaseRecord(lease) if isinstance(lease, dict) else None
    return record if record and record._meta.get("resourceVersion") else None


def new_lease(
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
            "acquireTime": format_micro_time(now),
            "renewTime": format_micro_time(now),
            "leaseTransitions": 0,
        },
    }


def whole_seconds(seconds: float) -> int:
    """The seconds rounded up, so that others never wait less than our own settings say."""
    return math.ceil(seconds)


def format_micro_time(at: datetime) -> str:
    """A time as Kubernetes' MicroTime, which leases use."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _mapping(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


Verb = Literal["get", "create", "update"]
Gone = Literal["gone"]
_METHODS = {"get": "GET", "create": "POST", "update": "PUT"}
_GROUP = "coordination.k8s.io"
_NOT_FOUND, _CONFLICT, _TOO_MANY = 404, 409, 429
_PATIENCE_SECONDS = 10


class LeaseClient:
    """Reads and writes one lease."""

    def __init__(self, client: Client, settings: LeaseSettings, log: Log) -> None:
        self._client = client
        self._settings = settings
        self._log = log
        self._all = f"/apis/{_GROUP}/v1/namespaces/{settings.namespace}/leases"
        self._granted: set[Verb] = set()
        self.name = f"{settings.namespace}/{settings.name}"

    async def read(self) -> LeaseRecord | Gone | None:
        """The lease, "gone" if there is none, None if that is not known."""
        answer = await self._send("get", f"{self._all}/{self._settings.name}")
        if answer is not None and answer.status == _NOT_FOUND:
            return "gone"
        return self._record("get", answer)

    async def create(self, lease: Object) -> LeaseRecord | None:
        """The new lease, or None if it was not created by us."""
        return self._record("create", await self._send("create", self._all, lease))

    async def update(self, lease: Object) -> LeaseRecord | None:
        """The lease as written, or None if it was not, for example after a conflict."""
        path = f"{self._all}/{self._settings.name}"
        return self._record("update", await self._send("update", path, lease))

    async def _send(self, verb: Verb, path: str, lease: Object | None = None) -> Answer | None:
        within = max(self._settings.renew_deadline_seconds / 2, 1)
        body = None if lease is None else msgspec.json.encode(lease)
        try:
            answer = await self._client.send(
                _METHODS[verb],
                path,
                body,
                within=within,
                patience=min(within, _PATIENCE_SECONDS),
            )
        except ClusterUnreachable as error:
            self._warn(verb, str(error))
            return None
        except ResettleError as error:
            self._raise_if_never_granted(verb, error)
            return None
        lost_the_race = answer.status == _CONFLICT
        not_there = answer.status == _NOT_FOUND and verb != "create"
        if answer.is_success or lost_the_race or not_there:
            self._granted.add(verb)
            self._log.forget(_trouble(verb))
            return answer
        refusal = self._refusal(verb, answer)
        if answer.status >= 500 or answer.status == _TOO_MANY:
            self._warn(verb, str(refusal))
        else:
            self._raise_if_never_granted(verb, refusal)
        return None

    def _raise_if_never_granted(self, verb: Verb, refusal: ResettleError) -> None:
        known = isinstance(refusal, Unauthorized) and self._granted
        if verb not in self._granted and not known:
            raise refusal
        self._warn(verb, str(refusal))

    def _record(self, verb: Verb, answer: Answer | None) -> LeaseRecord | None:
        if answer is None or not answer.is_success:
            return None
        record = read_record(answer.body)
        if record is None:
            self._warn(verb, f"{self._client.server} sent something that is no lease")
        return record

    def _warn(self, verb: Verb, reason: str) -> None:
        log = self._log.only_when_new(_trouble(verb))
        log.warning("lease trouble", lease=self.name, reason=reason)

    def _refusal(self, verb: Verb, answer: Answer) -> ClusterError:
        where = self._settings.namespace
        if answer.status == _NOT_FOUND:
            return ClusterError(
                f"there is no namespace {where} for the lease {self.name}; create it, or name "
                "another with --leader-elect-resource-namespace"
            )
        return refusal_error(
            answer, verb, "leases", access=self._client.access, group=_GROUP, namespace=where
        )


def _trouble(verb: Verb) -> str:
    return f"lease {verb}"


class LeaseSettings(Struct, frozen=True, kw_only=True):
    """The name of the lease and the durations of leader election, as its flags set them."""

    duration_seconds: float = 137
    """How long others wait after the last renewal before they take over."""
    renew_deadline_seconds: float = 107
    """How long the holder acts after its last renewal."""
    retry_period_seconds: float = 26
    """How often the holder renews, and how long contenders wait between tries."""
    name: str = "descheduler"
    namespace: str = "kube-system"

    def validate(self) -> LeaseSettings:
        """Return the settings, or raise an error that lists everything that is wrong."""
        if problems := list(self._problems()):
            raise InputError("leader election cannot work so: " + "; ".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        lease, renew = self.duration_seconds, self.renew_deadline_seconds
        retry = self.retry_period_seconds
        times = {"lease-duration": lease, "renew-deadline": renew, "retry-period": retry}
        for flag, seconds in times.items():
            if seconds <= 0:
                yield f"--leader-elect-{flag} is {seconds:g}s; give it a time above zero"
        if lease <= renew:
            yield (
                f"--leader-elect-lease-duration is {lease:g}s; make it longer than "
                f"--leader-elect-renew-deadline, which is {renew:g}s"
            )
        if renew <= retry * JITTER_FACTOR:
            yield (
                f"--leader-elect-renew-deadline is {renew:g}s; make it longer than "
                f"{JITTER_FACTOR} times --leader-elect-retry-period, which is {retry:g}s"
            )
        for flag, name, such in (
            ("name", self.name, "descheduler"),
            ("namespace", self.namespace, "kube-system"),
        ):
            if not _NAME.fullmatch(name):
                value = f"`{name}`, which no object can be called" if name else "empty"
                yield f"--leader-elect-resource-{flag} is {value}; give it a name like `{such}`"


JITTER_FACTOR = 1.2
"""Like client-go's JitterFactor: contenders try again after one to 2.2 retry periods."""


_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
