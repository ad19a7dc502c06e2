"""A ledger goes on with what another had in flight, as the cluster has it by then."""

from __future__ import annotations

import pytest

from resettle.eviction.in_flight import Entry, Ledger, Stage
from resettle.log import Log
from resettle.model.pod import Pod
from resettle.testing import HandClock
from tests.eviction.builders import UNDER_WAY, WILLING, seen

PLAIN, VM = seen("web"), seen("web", annotations=WILLING)
MOVING = seen("web", annotations=UNDER_WAY)


@pytest.mark.parametrize(
    ("stage", "pod", "live", "kept", "told"),
    [
        pytest.param(Stage.UNKNOWN, PLAIN, PLAIN, True, [], id="in doubt, and still there"),
        pytest.param(
            Stage.UNKNOWN, PLAIN, None, False, ["evicted after all"], id="in doubt, and gone"
        ),
        pytest.param(Stage.EVICTED, PLAIN, None, False, [], id="evicted, and gone"),
        pytest.param(Stage.ASSUMED, VM, VM, True, [], id="asked for, and not begun"),
        pytest.param(
            Stage.ASSUMED, VM, None, False, ["moved in background"], id="asked for, and gone"
        ),
        pytest.param(
            Stage.CONFIRMED, MOVING, VM, False, ["not moved in background"], id="given up meanwhile"
        ),
    ],
)
def test_what_was_in_flight_is_followed_to_its_end(
    stage: Stage, pod: Pod, live: Pod | None, kept: bool, told: list[str]
) -> None:
    lines: list[str] = []
    ledger = Ledger(lambda namespace, name: live, HandClock(), Log.to(lines))
    entry = Entry(pod, stage, 0.0, "PodLifeTime", "daily")

    ledger.take_over([entry])

    assert ledger.entries == ((entry,) if kept else ())
    assert [line.partition(" ")[2].partition(" pod=")[0] for line in lines] == told


def test_a_move_that_was_found_again_by_its_annotation_keeps_who_began_it() -> None:
    ledger = Ledger(lambda namespace, name: MOVING, HandClock(), Log.to([]))
    ledger.heard(None, MOVING)

    ledger.take_over([Entry(VM, Stage.ASSUMED, 0.0, "PodLifeTime", "daily")])

    (entry,) = ledger.entries
    assert (entry.stage, entry.plugin, entry.profile) == (Stage.CONFIRMED, "PodLifeTime", "daily")
