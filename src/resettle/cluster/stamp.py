"""When a dump was taken, for those that tell: an annotation on the list itself."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from msgspec import Raw, Struct

from resettle.errors import InputError
from resettle.model.parts import parse_time

TAKEN_AT = "resettle/taken-at"


class Annotations(Struct):
    taken_at: str | None = msgspec.field(name=TAKEN_AT, default=None)


class ListMeta(Struct):
    annotations: Annotations | None = None


_list_meta = msgspec.json.Decoder(ListMeta)


def stamped(at: datetime) -> ListMeta:
    """What a list says of itself that was taken at this time."""
    told = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return ListMeta(Annotations(told))


def taken_at(metadata: Raw, name: str) -> datetime | None:
    """When a list was taken, going by its metadata; None if it does not tell."""
    if TAKEN_AT.encode() not in bytes(metadata):
        return None
    try:
        said = _list_meta.decode(metadata).annotations
        return parse_time(said.taken_at if said else None)
    except (InputError, msgspec.ValidationError) as error:
        raise InputError(f"{name}: `{TAKEN_AT}`: {error}") from None
