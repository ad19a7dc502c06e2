"""The difference between what nodes have and what they should have, node by node.

A patch holds all that a node should have of our taints, and is worked out once more against the
node itself before it is written: whatever others did to its other taints meanwhile stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from resettle.controllers.soft_taints.scheme import Ours
from resettle.controllers.soft_taints.wanted import NodeTaints
from resettle.model.snapshot import Snapshot
from resettle.model.taint import Taint

Written = dict[str, Any]
"""A taint as it stands on a node."""


class TaintPatch(Struct, frozen=True, kw_only=True):
    """Our taints on one node: what it should have, what it had, and why that changes."""

    node: str
    wanted: tuple[Taint, ...]
    before: tuple[Taint, ...]
    ours: Ours
    because: str = ""

    @property
    def added(self) -> list[Taint]:
        """Taints that were not there, or had another value."""
        return [it for it in self.wanted if it not in self.before]

    @property
    def removed(self) -> list[Taint]:
        """Taints that are not to stay under their key."""
        keys = {it.key for it in self.wanted}
        return [it for it in self.before if it.key not in keys]


def corrections(snapshot: Snapshot, wanted: NodeTaints, ours: Ours) -> list[TaintPatch]:
    """A patch for each node that has not what it should have, in the order of their names."""
    patches = []
    for node in snapshot.fleet:
        wish, before = wanted[node.name], ours.on(node)
        if frozenset(before) != frozenset(wish.taints):
            patches.append(
                TaintPatch(
                    node=node.name,
                    wanted=wish.taints,
                    before=before,
                    ours=ours,
                    because=wish.because,
                )
            )
    return patches


def rewritten(taints: Sequence[Written], patch: TaintPatch) -> list[Written]:
    """All taints of the node once the patch is made: others as and where they are, ours as wanted.

    A taint of ours that is wanted stays in its place, with a new value if need be; what is missing
    comes last.
    """
    missing = {it.key: it for it in patch.wanted}
    result = []
    for taint in taints:
        key = taint.get("key", "")
        if not patch.ours.claims(key, taint.get("effect", "")):
            result.append(taint)
        elif wish := missing.pop(key, None):
            result.append(taint if taint.get("value", "") == wish.value else _written(wish))
    return [*result, *map(_written, missing.values())]


def _written(taint: Taint) -> Written:
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}
