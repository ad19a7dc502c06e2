"""One cycle as a record has it: all but the objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from hashlib import blake2b

import msgspec
from msgspec import Struct

from resettle import __version__
from resettle.cycle import Report, Round
from resettle.framework.mover import Ending, Outcome
from resettle.framework.plan import Move, Plan
from resettle.model.snapshot import Snapshot

FORM = 1
"""How entries are written; one that a reader does not know is not read."""


class RecordedMove(Struct, frozen=True, array_like=True):
    """A move and what became of it."""

    namespace: str
    name: str
    uid: str
    node: str
    profile: str
    plugin: str
    reason: str
    lands_on: str
    ending: str
    says: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def outcome(self) -> Outcome:
        """What became of it, in the terms of a cycle."""
        return Outcome(Ending(self.ending), self.says)


class RecordedRound(Struct, frozen=True):
    """A plan: its moves, how many proposals were refused, and a digest to know it again by."""

    moves: tuple[RecordedMove, ...]
    refused: int
    digest: str


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a cycle decided and did."""

    form: int = 0
    resettle: str
    """The version that decided."""
    cycle: int
    at: datetime
    took: float
    phases: dict[str, float] = {}
    """Seconds for each part of it."""
    nodes: int
    pods: int
    pages: int
    """How many pages of the objects of the segment there are, up to this cycle's last."""
    rounds: tuple[RecordedRound, ...]
    skipped: str = ""
    errors: tuple[str, ...] = ()
    policy: str | None = None
    """Its text; None for the one of the cycle before."""
    forgotten: tuple[str, ...] = ()
    """Plugins whose memory could not be written, so that their part cannot be played again."""

    @property
    def moves(self) -> list[RecordedMove]:
        """All moves of all rounds."""
        return [move for one in self.rounds for move in one.moves]

    @property
    def endings(self) -> Counter[str]:
        """How many moves ended in which way."""
        return Counter(move.ending for move in self.moves)


def entry_of(
    report: Report,
    snapshot: Snapshot,
    *,
    cycle: int,
    pages: int,
    policy: str | None,
    forgotten: Iterable[str],
) -> Entry:
    """The entry of a cycle."""
    plan = report.plan
    return Entry(
        form=FORM,
        resettle=__version__,
        cycle=cycle,
        at=snapshot.taken_at,
        took=round(report.took, 3),
        phases={name: round(spent, 3) for name, spent in report.phases.items()},
        nodes=plan.nodes,
        pods=plan.pods,
        pages=pages,
        rounds=tuple(map(_round, report.rounds)),
        skipped=plan.skipped.says if plan.skipped else "",
        errors=report.errors,
        policy=policy,
        forgotten=tuple(forgotten),
    )


def _round(one: Round) -> RecordedRound:
    return RecordedRound(
        moves=tuple(map(_move, one.plan.moves, one.outcomes)),
        refused=sum(one.plan.refused.values()),
        digest=digest(one.plan),
    )


def _move(move: Move, outcome: Outcome) -> RecordedMove:
    pod = move.pod
    return RecordedMove(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        node=pod.node,
        profile=move.profile,
        plugin=move.plugin,
        reason=move.reason,
        lands_on=move.lands_on,
        ending=str(outcome.ending),
        says=outcome.says,
    )


def digest(plan: Plan) -> str:
    """A text that is the same for plans that decide the same for the same reasons."""
    decided = (
        [(it.pod.uid, it.profile, it.plugin, it.reason, it.lands_on) for it in plan.moves],
        [
            (run.profile, run.plugin, run.proposed, run.admitted, run.already_moving, run.refused)
            for run in plan.runs
        ],
        plan.skipped,
    )
    return blake2b(msgspec.json.encode(decided, order="sorted"), digest_size=12).hexdigest()
