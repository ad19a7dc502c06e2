"""Keys that `resettle/v1` adds: marked once, on their type.

A field declared `Ours[int | None]` is an error in a policy of the descheduler; editors are told.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

from msgspec import Meta, inspect

OURS = "resettle/v1"
CONVERT = f"resettle policy convert --to {OURS}"

T = TypeVar("T")
Ours = Annotated[T, Meta(extra={"since": OURS}, description=f"`{OURS}` only")]


def is_ours(kind: inspect.Type) -> bool:
    """Whether a field of this type exists in `resettle/v1` only."""
    return isinstance(kind, inspect.Metadata) and (kind.extra or {}).get("since") == OURS
