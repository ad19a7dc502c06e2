"""What has changed in a cluster between two snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from resettle.model.node import (
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
