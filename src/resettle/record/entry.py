"""The entry of one cycle in a record: everything but the objects it saw.

A plan is not written, only its moves and a digest: a replay draws the plan again, and the digest
shows whether it is the same one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from hashlib import blake2b

import msgspec
from msgspec import Struct

from resettle import __version__
from resettle.cycle import CycleReport, Round
from resettle.framework.mover import MoveResponse, MoveResult
from resettle.framework.plan import Move, Plan
from resettle.model.snapshot import Snapshot

FORMAT_VERSION = 1
"""The version of the format of entries; a reader skips entries of another version."""


class RecordedMove(Struct, frozen=True, array_like=True):
    """A move and the response to it."""

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
    def response(self) -> MoveResponse:
        """The response, as the cycle got it."""
        return MoveResponse(MoveResult(self.ending), self.says)


class RecordedRound(Struct, frozen=True):
    """A plan: its moves, how many proposals were refused, and a digest to compare plans."""

    moves: tuple[RecordedMove, ...]
    refused: int
    digest: str


class CycleEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a cycle decided and did."""

    form: int = 0
    resettle: str
    """The version of resettle that decided."""
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
    """Its text; None if it is that of the cycle before."""
    forgotten: tuple[str, ...] = ()
    """Plugins whose history could not be written, so that the cycle cannot be replayed."""

    @property
    def moves(self) -> list[RecordedMove]:
        """All moves of all rounds."""
        return [move for recorded in self.rounds for move in recorded.moves]

    @property
    def endings(self) -> Counter[str]:
        """How many moves ended in which way."""
        return Counter(move.ending for move in self.moves)


def entry_of(
    report: CycleReport,
    snapshot: Snapshot,
    *,
    cycle: int,
    pages: int,
    policy: str | None,
    forgotten: Iterable[str],
) -> CycleEntry:
    """The entry of a cycle."""
    plan = report.plan
    return CycleEntry(
        form=FORMAT_VERSION,
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


def _round(planned: Round) -> RecordedRound:
    return RecordedRound(
        moves=tuple(map(_move, planned.plan.moves, planned.responses)),
        refused=sum(planned.plan.refused.values()),
        digest=digest(planned.plan),
    )


def _move(move: Move, response: MoveResponse) -> RecordedMove:
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
        ending=str(response.result),
        says=response.message,
    )


def digest(plan: Plan) -> str:
    """A hash that is equal for plans with equal decisions, however their reasons are worded."""
    decided = (
        [(move.pod.uid, move.profile, move.plugin, move.lands_on) for move in plan.moves],
        [
            (run.profile, run.plugin, run.proposed, run.admitted, run.already_moving, run.refused)
            for run in plan.runs
        ],
        plan.skipped.code if plan.skipped else "",
    )
    return blake2b(msgspec.json.encode(decided, order="sorted"), digest_size=12).hexdigest()
