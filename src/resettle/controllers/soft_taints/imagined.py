"""A round in the mind: nodes as they would be once the tainter has written them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, structs

from resettle.controllers.soft_taints.corrections import corrections
from resettle.controllers.soft_taints.task import Task
from resettle.controllers.soft_taints.wanted import wished
from resettle.load.usage import UsageMissingError
from resettle.model.node import Node
from resettle.model.snapshot import Snapshot
from resettle.model.taint import Taint


class Imagined(Struct, frozen=True):
    """A tainter for simulations: it decides as the real one does, and touches nothing."""

    task: Task

    def written(self, snapshot: Snapshot) -> Iterator[Node]:
        """The nodes that would be written, as they would be then; none where nobody measures."""
        view = self.task.sight.view(snapshot)
        try:
            wishes = wished(self.task, view)
        except UsageMissingError:
            return
        for patch in corrections(snapshot, wishes, self.task.ours):
            if node := snapshot.fleet.get(patch.node):
                others = [it for it in node.taints if it not in patch.before]
                yield structs.replace(node, taints=(*others, *patch.wanted))

    def marks(self, node: Node) -> tuple[Taint, ...]:
        """The taints of a node that are the tainter's own."""
        return self.task.ours.on(node)
