"""What is kept of an object: the fields that the model reads, and nothing beside them.

The shapes follow `model.wire` field by field, so a field that is read there is kept here; defaults
are not written. Parts that stay undecoded there are kept to the byte, since pods that share them
are told from others by these bytes; for hashing they are spelled out instead.
"""

from __future__ import annotations

from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Raw, Struct

from resettle.model import wire

SPELLED_OUT: dict[str, Any] = {
    "labels": dict[str, str],
    "node_selector": dict[str, str],
    "owner_references": list[wire.OwnerReference],
    "resources": wire.Resources,
    "overhead": dict[str, str | int | float],
    "affinity": wire.Affinity,
    "tolerations": list[wire.TolerationItem],
    "topology_spread_constraints": list[wire.SpreadItem],
    "resource_claims": list[wire.Present],
    "scheduling_gates": list[wire.Present],
}
"""What the undecoded parts are made of."""


@cache
def kept(struct: type[Struct], *, spelled_out: bool = False) -> Any:
    """The struct to read an object with that is to be written again, as short as it goes."""

    def kept_type(hint: Any) -> Any:
        """The type with every shape in it as it is kept."""
        if isinstance(hint, type) and issubclass(hint, wire.Wire | wire.Key):
            return kept(hint, spelled_out=spelled_out)
        origin, inner = get_origin(hint), tuple(map(kept_type, get_args(hint)))
        if origin in (Union, UnionType):
            return reduce(or_, inner)
        return origin[inner] if origin else hint

    fields: list[tuple[str, Any, Any]] = []
    for field in msgspec.structs.fields(struct):
        if field.type is Raw and spelled_out:
            fields.append((field.name, kept_type(SPELLED_OUT[field.name]) | None, None))
        elif field.default_factory is not NODEFAULT:
            made = kept_type(field.type)
            fields.append((field.name, made, msgspec.field(default_factory=made)))
        else:
            default = msgspec.field(default=field.default)
            fields.append((field.name, kept_type(field.type), default))
    written = {field.name: field.encode_name for field in msgspec.structs.fields(struct)}
    return msgspec.defstruct(
        struct.__name__, fields, rename=written, omit_defaults=True, gc=False, kw_only=True
    )
