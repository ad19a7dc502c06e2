"""What has become of earlier plans of the same cycle, entered in the books of the next one.

A plan that the API server declined in part is drawn again from the same snapshot. Pods that left
meanwhile are met where the plan meets them, as ones that are moving; limits and budgets know them
from the start, so that together the plans never overstep what one alone may do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from msgspec import Struct

from resettle.framework.mover import Ending, Outcome
from resettle.framework.plan import Move
from resettle.framework.verdict import Refusal


class Aftermath(Struct, frozen=True):
    """Moves that were made, pods that need none, and pods that were declined; by uid."""

    made: Mapping[str, Move] = {}
    left: frozenset[str] = frozenset()
    declined: Mapping[str, Refusal] = {}

    def after(self, moves: Iterable[Move], outcomes: Iterable[Outcome]) -> Self:
        """The same with the outcomes of one more plan."""
        made, left, declined = dict(self.made), set(self.left), dict(self.declined)
        for move, outcome in zip(moves, outcomes, strict=True):
            uid = move.pod.uid
            if outcome.ending.counts:
                made[uid] = move
            elif outcome.ending is Ending.GONE:
                left.add(uid)
            elif outcome.ending.declined:
                declined[uid] = _declined(outcome)
        return type(self)(made, frozenset(left), declined)


def _declined(outcome: Outcome) -> Refusal:
    if not outcome.says:
        return Refusal("declined", "was not moved when it was asked to leave", "mover")
    return Refusal(
        "declined", "was asked to leave and stays: {says}", "mover", {"says": outcome.says}
    )


NOTHING_YET = Aftermath()
