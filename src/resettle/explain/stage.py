"""What could be different, so that the same question gets another answer.

    Stage    a descheduler, a cluster, and what was done so far: all that a plan is drawn from
    Setting  one thing about a stage that could be turned, with a ladder of values to try

Nothing is believed before it has been tried: a setting only says how to make another stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from resettle.framework.descheduler import Descheduler
from resettle.framework.knob import Reach
from resettle.framework.plan import Plan
from resettle.framework.plan_state import NO_EARLIER_ROUNDS, EarlierRounds
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot


class Stage(NamedTuple):
    """All that a plan is drawn from."""

    descheduler: Descheduler
    snapshot: Snapshot
    earlier_rounds: EarlierRounds = NO_EARLIER_ROUNDS
    """What became of earlier plans from the same snapshot."""

    def plan(self, *watching: str) -> Plan:
        """The plan, with every word about what is being watched."""
        return self.descheduler.draw_plan(
            self.snapshot, watching=watching, earlier_rounds=self.earlier_rounds
        )


class Setting(Struct, frozen=True, kw_only=True):
    """Something that could be turned, and the values it could have instead."""

    name: str
    """A key of the policy, or what of the cluster it is."""
    where: str = ""
    """The profile it stands in, or the object it belongs to."""
    was: Any = None
    ladder: Sequence[Any]
    """The values to try, the least change first."""
    turned: Callable[[Stage, Any], Stage]
    says: Callable[[Any], str]
    """Completes the sentence "would move if …"."""
    lifts: frozenset[str]
    """Codes of the refusals it can lift."""
    reach: Reach = Reach.FIGURE
    guess: Callable[[Plan, Pod], Any] | None = None
    """A value that should be near the least, judged by a plan in which the pod goes."""

    @property
    def key(self) -> tuple[str, str, frozenset[str]]:
        """Tells it from other settings of the same stage."""
        return (self.where, self.name, self.lifts)
