"""One round from start to finish: what is so, what should be, and what is written for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from resettle.controllers.soft_taints.corrections import corrections
from resettle.controllers.soft_taints.diary import foretell, sum_up, tell, tell_doubt
from resettle.controllers.soft_taints.task import Mode, Task
from resettle.controllers.soft_taints.wanted import NodeTaints, nothing_wanted, wished
from resettle.controllers.soft_taints.writing import Ending, Outcome, TaintWriter, apply
from resettle.log import Log
from resettle.model.snapshot import Snapshot


class Tended(Struct, frozen=True, kw_only=True):
    """What a round found, and what came of it."""

    wishes: NodeTaints
    """What every node should have; in a dry run, would."""
    outcomes: Sequence[Outcome]

    @property
    def well(self) -> bool:
        """Whether every node has what it should have now, as far as the mode lets it."""
        return all(it.ending not in (Ending.FAILED, Ending.UNSENT) for it in self.outcomes)


async def tend(
    task: Task, snapshot: Snapshot, writer: TaintWriter, since: Callable[[], float], log: Log
) -> Tended:
    """What came of a round; `since` tells how many seconds it has taken so far."""
    view = task.sight.view(snapshot)
    wishes = wanted = wished(task, view)
    if task.mode is Mode.DRY_RUN:
        foretell(wishes, log)
        wanted = nothing_wanted(view, "a dry run sets none")
    outcomes = await apply(writer, corrections(snapshot, wanted, task.ours))
    for outcome in outcomes:
        tell(outcome, log)
    tell_doubt(wishes, log)
    sum_up(wishes, outcomes, since(), log)
    return Tended(wishes=wishes, outcomes=outcomes)
