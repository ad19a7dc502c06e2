"""What has changed in a cluster between two snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from resettle.model.measurements import Measured
from resettle.model.objects import (
    AttachLimits,
    Budget,
    Claim,
    Namespace,
    Node,
    PriorityClass,
    Volume,
)
from resettle.model.pod import Pod


class Keyed(Protocol):
    """Something with a name of its own among its kind."""

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone where there is no namespace."""


T = TypeVar("T", bound=Keyed)


class Change(Struct, Generic[T], frozen=True):
    """Objects of one kind that came or changed, and the keys of those that are gone."""

    put: tuple[T, ...] = ()
    gone: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.put or self.gone)

    def applied(self, before: Mapping[str, T]) -> Mapping[str, T]:
        """The objects by key, in order of their keys, with the change made."""
        if not self:
            return before
        after = {key: thing for key, thing in before.items() if key not in self.gone}
        after.update({thing.key: thing for thing in self.put})
        return dict(sorted(after.items()))

    @classmethod
    def between(cls, before: Mapping[str, T], after: Mapping[str, T]) -> Change[T]:
        """What makes the second of the first, both by key; only the very same objects are equal."""
        if before is after:
            return NOTHING
        put = tuple(thing for key, thing in after.items() if before.get(key) is not thing)
        return Change(put, frozenset(before.keys() - after.keys()))


NOTHING: Change[Any] = Change()


class Changes(Struct, frozen=True, kw_only=True):
    """All that is different at a later time."""

    at: datetime
    pods: Change[Pod] = NOTHING
    nodes: Change[Node] = NOTHING
    namespaces: Change[Namespace] = NOTHING
    priority_classes: Change[PriorityClass] = NOTHING
    budgets: Change[Budget] = NOTHING
    claims: Change[Claim] = NOTHING
    volumes: Change[Volume] = NOTHING
    attach_limits: Change[AttachLimits] = NOTHING
    others: Mapping[str, tuple[Any, ...]] = {}
    """All objects, in order, of each of the plugins' own kinds in which something changed."""
    history: Mapping[tuple[str, str], Any] | None = None
    """What plugins remember now; None for the same as before."""
    moving: frozenset[str] | None = None
    """Uids of pods that are on their way now; None for the same as before."""
    usage: Measured | None = None
    """What is measured now; None for the same as before."""
