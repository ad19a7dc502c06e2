"""The wall clock is stepped by hours while a run goes on; only ages of pods go by it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from resettle.kube.leader_election.lease import LeaseSettings
from tests.e2e.cluster.old_pods import crowded, left_on_nodes, too_old
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.in_process_run import Inside
from tests.e2e.processes.run import Account, settled
from tools.control_plane.api import Api

HOURS = timedelta(hours=5)
FORWARDS, BACKWARDS = pytest.param(HOURS, id="forwards"), pytest.param(-HOURS, id="backwards")
HALF_A_DAY = 12 * 3600


def short_lease(room: Room) -> LeaseSettings:
    return LeaseSettings(
        namespace=room.name,
        duration_seconds=4,
        renew_deadline_seconds=3,
        retry_period_seconds=0.5,
    )


@pytest.mark.parametrize("step", [FORWARDS, BACKWARDS])
def test_a_step_between_cycles_changes_neither_their_rhythm_nor_who_leads(
    step: timedelta, account: Account, api: Api, room: Room
) -> None:
    lease = short_lease(room)
    with Inside(account, too_old(room, HALF_A_DAY), interval=1.0, lease=lease) as run:
        run.awaits("cycle done")
        run.clock.wall_ahead += step
        run.awaits_more("lease renewed", 8)
        run.clock.wall_ahead -= step
        run.awaits_more("cycle done", 3)
        assert run.stop() == 0, run.story

    assert run.told("lease lost") == run.told("cycle skipped") == run.told("cycle failed") == []
    settled(api, account, run)


@pytest.mark.parametrize("step", [FORWARDS, BACKWARDS])
def test_a_step_in_the_middle_of_a_cycle_neither_loses_nor_repeats_an_eviction(
    step: timedelta, account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, 24)
    pace = {"qps": 8.0, "burst": 1}
    lease = short_lease(room)

    with Inside(account, too_old(room), interval=1.0, lease=lease, **pace) as run:
        run.awaits("evicted", 4)
        run.clock.wall_ahead += step
        run.awaits("evicted", 12)
        run.clock.wall_ahead -= step
        eventually("an empty room", lambda: not left_on_nodes(room))
        run.awaits_more("cycle done", 2)
        assert run.stop() == 0, run.story

    settled(api, account, run)
    assert run.evicted == everybody
    assert run.told("lease lost") == []


def test_pods_are_as_old_as_the_wall_clock_says(account: Account, api: Api, room: Room) -> None:
    everybody = crowded(room, 6)

    with Inside(account, too_old(room, 3600), interval=1.0) as run:
        run.awaits("cycle done", 2)
        run.clock.wall_ahead = -HOURS
        run.awaits_more("cycle done", 2)
        assert left_on_nodes(room) == everybody
        run.clock.wall_ahead = HOURS
        eventually("an empty room", lambda: not left_on_nodes(room))
        assert run.stop() == 0, run.story

    settled(api, account, run)
    assert run.evicted == everybody
