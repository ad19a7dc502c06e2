"""What nodes and pods use, whoever measures it.

Balancing plugins ask a `Usage`; requests are one source of it, measured load will be others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from resettle.model.node import Node
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot


class Usage(Protocol):
    """A source of figures, in nano units."""

    def of_node(self, node: Node) -> Mapping[str, int]:
        """What the node uses of each resource; `pods` is their number."""
        ...

    def of_pod(self, pod: Pod) -> Mapping[str, int] | None:
        """What the pod uses, or None where the source cannot tell pods apart."""
        ...


class Requests:
    """Usage as pods request it, whatever they really use."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def of_node(self, node: Node) -> Mapping[str, int]:
        return self._snapshot.requested(node)

    def of_pod(self, pod: Pod) -> Mapping[str, int] | None:
        return pod.spec.requests
