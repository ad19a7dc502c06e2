"""Protobuf bodies, for the kinds that Go programs write with their typed clients.

kubectl and controllers written in Go send events, leases, namespaces and reviews in this format
and read JSON in return. A message is a table from field numbers to names and shapes; fields that
it leaves out are passed over. A kind without a table is declined, as JSON would be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from resettle.testing.builders import Object

MEDIA = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Read = Callable[[Any], Any]
Message = dict[int, tuple[str, "Shape"]]


class Shape(Struct, frozen=True):
    """How the value of a field is read, and whether it may come more than once."""

    read: Read
    many: bool = False
    pairs: bool = False


class Unreadable(Exception):
    """Bytes that are no message of a known kind."""


def decode(body: bytes) -> Object:
    """The object that was sent."""
    if not body.startswith(_MAGIC):
        raise Unreadable("the body does not begin as protobuf of Kubernetes does")
    try:
        envelope = _message(_ENVELOPE)(body[len(_MAGIC) :])
        head = envelope.get("typeMeta", {})
        kind, api_version = head.get("kind", ""), head.get("apiVersion", "")
        table = _KINDS.get((api_version, kind)) or _KINDS.get(("", kind))
        if table is None:
            raise Unreadable(f"{kind} of {api_version} is not read as protobuf here; send JSON")
        return {"kind": kind, "apiVersion": api_version, **_message(table)(envelope["raw"])}
    except (IndexError, UnicodeDecodeError, KeyError) as error:
        raise Unreadable(f"the body ends too early or is garbled: {error}") from None


# -- the wire ------------------------------------------------------------------------------------


def _varint(body: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = body[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return number, at


def _fields(body: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers with numbers or bytes."""
    at = 0
    while at < len(body):
        tag, at = _varint(body, at)
        match tag & 7:
            case 0:
                number, at = _varint(body, at)
                yield tag >> 3, number
            case 2:
                size, at = _varint(body, at)
                if at + size > len(body):
                    raise IndexError("a field is longer than its message")
                yield tag >> 3, body[at : at + size]
                at += size
            case wire:
                raise Unreadable(f"wire type {wire} does not occur in objects of the API")


def _message(table: Message) -> Read:
    def read(body: bytes) -> Object:
        message: Object = {}
        for number, value in _fields(body):
            if number not in table:
                continue
            name, shape = table[number]
            if shape.pairs:
                pair = _message(_PAIR)(value)
                message.setdefault(name, {})[pair.get("key", "")] = pair.get("value", "")
            elif shape.many:
                message.setdefault(name, []).append(shape.read(value))
            elif (field := shape.read(value)) not in ("", None, {}):
                message[name] = field
        return message

    return read


def _to_signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _text(value: bytes) -> str:
    return value.decode()


def _instant(value: bytes) -> datetime | None:
    fields = _message({1: ("seconds", _NUMBER), 2: ("nanos", _NUMBER)})(value)
    if not fields:
        return None
    seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
    return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)


def _time(timespec: str) -> Read:
    def read(value: bytes) -> str | None:
        instant = _instant(value)
        if instant is None:
            return None
        return instant.isoformat(timespec=timespec).replace("+00:00", "Z")

    return read


# -- the tables ----------------------------------------------------------------------------------

_TEXT, _TEXTS, _NUMBER = Shape(_text), Shape(_text, many=True), Shape(_to_signed)
_FLAG, _BYTES, _MAP = Shape(bool), Shape(bytes), Shape(bytes, pairs=True)
_TIME, _MICRO_TIME = Shape(_time("seconds")), Shape(_time("microseconds"))
_PAIR: Message = {1: ("key", _TEXT), 2: ("value", _TEXT)}


def _words(names: str) -> Message:
    """A message of texts, numbered as they stand; `-` leaves a number out."""
    rows = enumerate(names.split(), start=1)
    return {number: (name, _TEXT) for number, name in rows if name != "-"}


def _part(table: Message, *, many: bool = False) -> Shape:
    return Shape(_message(table), many=many)


_ENVELOPE: Message = {1: ("typeMeta", _part(_words("apiVersion kind"))), 2: ("raw", _BYTES)}
_OWNER: Message = {
    **_words("kind - name uid apiVersion"),
    6: ("controller", _FLAG),
    7: ("blockOwnerDeletion", _FLAG),
}
_META: Message = {
    **_words("name generateName namespace - uid resourceVersion"),
    7: ("generation", _NUMBER),
    8: ("creationTimestamp", _TIME),
    9: ("deletionTimestamp", _TIME),
    10: ("deletionGracePeriodSeconds", _NUMBER),
    11: ("labels", _MAP),
    12: ("annotations", _MAP),
    13: ("ownerReferences", _part(_OWNER, many=True)),
    14: ("finalizers", _TEXTS),
}
_METADATA: Message = {1: ("metadata", _part(_META))}
_REFERENCE = _part(_words("kind namespace name uid apiVersion resourceVersion fieldPath"))
_SOURCE = _part(_words("component host"))
_SERIES = _part({1: ("count", _NUMBER), 2: ("lastObservedTime", _MICRO_TIME)})
_EVENT: Message = {
    **_METADATA,
    2: ("involvedObject", _REFERENCE),
    3: ("reason", _TEXT),
    4: ("message", _TEXT),
    5: ("source", _SOURCE),
    6: ("firstTimestamp", _TIME),
    7: ("lastTimestamp", _TIME),
    8: ("count", _NUMBER),
    9: ("type", _TEXT),
    10: ("eventTime", _MICRO_TIME),
    11: ("series", _SERIES),
    12: ("action", _TEXT),
    13: ("related", _REFERENCE),
    14: ("reportingComponent", _TEXT),
    15: ("reportingInstance", _TEXT),
}
_NEW_EVENT: Message = {
    **_words("- - - reportingController reportingInstance action reason - - note type"),
    **_METADATA,
    2: ("eventTime", _MICRO_TIME),
    3: ("series", _SERIES),
    8: ("regarding", _REFERENCE),
    9: ("related", _REFERENCE),
    12: ("deprecatedSource", _SOURCE),
    13: ("deprecatedFirstTimestamp", _TIME),
    14: ("deprecatedLastTimestamp", _TIME),
    15: ("deprecatedCount", _NUMBER),
}
_LEASE_SPEC: Message = {
    1: ("holderIdentity", _TEXT),
    2: ("leaseDurationSeconds", _NUMBER),
    3: ("acquireTime", _MICRO_TIME),
    4: ("renewTime", _MICRO_TIME),
    5: ("leaseTransitions", _NUMBER),
    6: ("strategy", _TEXT),
    7: ("preferredHolder", _TEXT),
}
_DELETE_OPTIONS: Message = {
    1: ("gracePeriodSeconds", _NUMBER),
    2: ("preconditions", _part(_words("uid resourceVersion"))),
    3: ("orphanDependents", _FLAG),
    4: ("propagationPolicy", _TEXT),
    5: ("dryRun", _TEXTS),
}
_ACCESS: Message = {
    1: (
        "resourceAttributes",
        _part(_words("namespace verb group version resource subresource name")),
    ),
    2: ("nonResourceAttributes", _part(_words("path verb"))),
    3: ("user", _TEXT),
    4: ("groups", _TEXTS),
}
_KINDS: dict[tuple[str, str], Message] = {
    ("v1", "Namespace"): {**_METADATA, 2: ("spec", _part({1: ("finalizers", _TEXTS)}))},
    ("v1", "ConfigMap"): {**_METADATA, 2: ("data", _MAP)},
    ("v1", "ServiceAccount"): {**_METADATA, 2: ("secrets", _part(_words("- - name"), many=True))},
    ("v1", "Binding"): {**_METADATA, 2: ("target", _REFERENCE)},
    ("v1", "Event"): _EVENT,
    ("events.k8s.io/v1", "Event"): _NEW_EVENT,
    ("coordination.k8s.io/v1", "Lease"): {**_METADATA, 2: ("spec", _part(_LEASE_SPEC))},
    ("policy/v1", "Eviction"): {**_METADATA, 2: ("deleteOptions", _part(_DELETE_OPTIONS))},
    ("", "DeleteOptions"): _DELETE_OPTIONS,
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): {
        **_METADATA,
        2: ("spec", _part(_ACCESS)),
    },
    ("authorization.k8s.io/v1", "SubjectAccessReview"): {**_METADATA, 2: ("spec", _part(_ACCESS))},
    ("authentication.k8s.io/v1", "TokenReview"): {
        **_METADATA,
        2: ("spec", _part({1: ("token", _TEXT), 2: ("audiences", _TEXTS)})),
    },
}
READ_KINDS = tuple(sorted({kind for _, kind in _KINDS}))
"""Kinds that may come as protobuf."""
