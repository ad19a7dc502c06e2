"""Plans drawn again from a record, and held against what was written of them.

A plan that does not come out as it did then would be an answer to another question, so whatever
could make it differ is an error: another version of resettle, a plugin that is gone or decides
otherwise, memory that could not be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from resettle.errors import InputError, PolicyError
from resettle.framework.descheduler import Descheduler, assembled
from resettle.framework.plan import Plan
from resettle.framework.plan_state import NO_EARLIER_ROUNDS, EarlierRounds
from resettle.framework.plugin import Plugin
from resettle.model.snapshot import Snapshot
from resettle.policy.load import load_policy
from resettle.record.entry import digest
from resettle.record.reader import Recorded


class Act(NamedTuple):
    """One round of a cycle: what became of earlier ones, and the plan that was drawn then."""

    earlier_rounds: EarlierRounds
    plan: Plan


class Replay(NamedTuple):
    """A recorded cycle that came out as it did then."""

    recorded: Recorded
    descheduler: Descheduler
    snapshot: Snapshot
    acts: tuple[Act, ...]

    def act_of(self, key: str) -> int:
        """Which round has the last word on a pod: the one that had it leave, or the last."""
        for number, one in enumerate(self.recorded.entry.rounds):
            if any(move.key == key and not move.outcome.ending.declined for move in one.moves):
                return number
        return len(self.acts) - 1


def descheduler_of(recorded: Recorded, plugins: Mapping[str, Plugin]) -> Descheduler:
    """The descheduler that was at work, if it can still be put together."""
    try:
        policy = load_policy(
            recorded.policy,
            name=f"the policy of cycle {recorded.entry.cycle}",
            plugins=plugins,
            forgiving=True,  # it was in force, so whatever is wrong with it was forgiven
        )
    except PolicyError as error:
        raise InputError(
            f"{recorded.named} cannot be drawn again: its policy cannot be used any more; "
            f"install the plugins that were there then\n{error}"
        ) from None
    return assembled(policy, plugins)


def replayed(
    recorded: Recorded,
    descheduler: Descheduler,
    snapshot: Snapshot,
    watching: Iterable[str] = (),
) -> Replay:
    """The cycle, drawn again round by round, with every word about what is being watched."""
    entry = recorded.entry
    if entry.forgotten:
        raise InputError(
            f"{recorded.named} cannot be drawn again: what {', '.join(entry.forgotten)} remembered "
            "was not made of plain values and could not be written"
        )
    earlier_rounds, acts = NO_EARLIER_ROUNDS, []
    for number, one in enumerate(entry.rounds, 1):
        plan = descheduler.draw_plan(snapshot, watching=watching, earlier_rounds=earlier_rounds)
        if digest(plan) != one.digest:
            raise InputError(
                f"{recorded.named} does not come out as it did: round {number} moved "
                f"{len(one.moves)} then and {len(plan.moves)} now, or for other reasons; "
                "a plugin has changed since"
            )
        acts.append(Act(earlier_rounds, plan))
        earlier_rounds = earlier_rounds.after(plan.moves, [move.outcome for move in one.moves])
    return Replay(recorded, descheduler, snapshot, tuple(acts))
