"""A stand-in for kube-scheduler: where replacements and waiting pods go.

It filters as the planner does and chooses by the same forecast, but knows nothing of what a plugin
had hoped for: a pod may well come back to the node it left.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from resettle.model.pod import Pod
from resettle.model.selector import EVERYTHING
from resettle.model.semantics import IMPROVED
from resettle.model.snapshot import Snapshot


class Placed(Struct, frozen=True):
    """A pod, and the node it goes to; None while no node takes it."""

    pod: Pod
    node: str | None


def placed(snapshot: Snapshot, pods: Iterable[Pod]) -> list[Placed]:
    """Where each of these pods goes, one after the other; bound ones are taken to have left."""
    outlook = snapshot.read_as(IMPROVED, EVERYTHING).outlook
    found = []
    for pod in pods:
        takers = outlook.takers(pod)
        node = outlook.likeliest(pod, takers) if takers else None
        # A pod that finds no node holds none, wherever it was before.
        outlook.move(pod, node or "")
        found.append(Placed(pod, node))
    return found
