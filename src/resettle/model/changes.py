"""What changed in a cluster between two snapshots; objects are compared by identity."""

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
from resettle.model.workloads import Eviction, Workload


class Keyed(Protocol):
    """An object with a key that is unique among its kind."""

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone where there is no namespace."""


T = TypeVar("T", bound=Keyed)


class Change(Struct, Generic[T], frozen=True):
    """Objects of one kind that were added or changed, and the keys of those removed."""

    put: tuple[T, ...] = ()
    gone: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.put or self.gone)

    def apply_to(self, before: Mapping[str, T]) -> Mapping[str, T]:
        """The objects by key, sorted by key, after the change."""
        if not self:
            return before
        after = {key: thing for key, thing in before.items() if key not in self.gone}
        after.update({thing.key: thing for thing in self.put})
        return dict(sorted(after.items()))

    @classmethod
    def between(cls, before: Mapping[str, T], after: Mapping[str, T]) -> Change[T]:
        """The change from one mapping to another; only identical objects count as unchanged."""
        if before is after:
            return NOTHING
        put = tuple(thing for key, thing in after.items() if before.get(key) is not thing)
        return Change(put, frozenset(before.keys() - after.keys()))


NOTHING: Change[Any] = Change()


class Changes(Struct, frozen=True, kw_only=True):
    """All changes up to a later time."""

    at: datetime
    pods: Change[Pod] = NOTHING
    nodes: Change[Node] = NOTHING
    namespaces: Change[Namespace] = NOTHING
    priority_classes: Change[PriorityClass] = NOTHING
    budgets: Change[Budget] = NOTHING
    claims: Change[Claim] = NOTHING
    volumes: Change[Volume] = NOTHING
    attach_limits: Change[AttachLimits] = NOTHING
    deployments: Change[Workload] = NOTHING
    replica_sets: Change[Workload] = NOTHING
    stateful_sets: Change[Workload] = NOTHING
    jobs: Change[Workload] = NOTHING
    replication_controllers: Change[Workload] = NOTHING
    others: Mapping[str, tuple[Any, ...]] = {}
    """All objects, in order, of each kind of plugins in which something changed."""
    history: Mapping[tuple[str, str], Any] | None = None
    """What plugins store now; None if unchanged."""
    moving: frozenset[str] | None = None
    """Uids of pods that are being moved now; None if unchanged."""
    usage: Measured | None = None
    """What is measured now; None if unchanged."""
    scales: tuple[Workload, ...] | None = None
    """What `scale` subresources say now; None if unchanged."""
    evictions: tuple[Eviction, ...] | None = None
    """The recent evictions now; None if unchanged."""
