"""Moves in flight that one instance takes over from another."""

from __future__ import annotations

import pytest

from resettle.eviction.in_flight import InFlightMove, InFlightMoves, MoveStage
from resettle.log import Log
from resettle.model.pod import Pod
from resettle.testing import ManualClock
from tests.eviction.builders import UNDER_WAY, WILLING, seen

PLAIN, VM = seen("web"), seen("web", annotations=WILLING)
MOVING = seen("web", annotations=UNDER_WAY)


@pytest.mark.parametrize(
    ("stage", "pod", "live", "kept", "events"),
    [
        pytest.param(MoveStage.UNKNOWN, PLAIN, PLAIN, True, [], id="in doubt, and still there"),
        pytest.param(
            MoveStage.UNKNOWN, PLAIN, None, False, ["evicted after all"], id="in doubt, and gone"
        ),
        pytest.param(MoveStage.EVICTED, PLAIN, None, False, [], id="evicted, and gone"),
        pytest.param(MoveStage.ASSUMED, VM, VM, True, [], id="asked for, and not begun"),
        pytest.param(
            MoveStage.ASSUMED, VM, None, False, ["moved in background"], id="asked for, and gone"
        ),
        pytest.param(
            MoveStage.CONFIRMED,
            MOVING,
            VM,
            False,
            ["not moved in background"],
            id="given up meanwhile",
        ),
    ],
)
def test_what_was_in_flight_is_followed_to_its_end(
    stage: MoveStage, pod: Pod, live: Pod | None, kept: bool, events: list[str]
) -> None:
    lines: list[str] = []
    ledger = InFlightMoves(lambda namespace, name: live, ManualClock(), Log.to(lines))
    entry = InFlightMove(pod, stage, 0.0, "PodLifeTime", "daily")

    ledger.take_over([entry])

    assert ledger.moves == ((entry,) if kept else ())
    assert [line.partition(" ")[2].partition(" pod=")[0] for line in lines] == events


def test_a_move_that_was_found_again_by_its_annotation_keeps_who_began_it() -> None:
    ledger = InFlightMoves(lambda namespace, name: MOVING, ManualClock(), Log.to([]))
    ledger.on_pod_change(None, MOVING)

    ledger.take_over([InFlightMove(VM, MoveStage.ASSUMED, 0.0, "PodLifeTime", "daily")])

    (entry,) = ledger.moves
    assert (entry.stage, entry.plugin, entry.profile) == (
        MoveStage.CONFIRMED,
        "PodLifeTime",
        "daily",
    )
