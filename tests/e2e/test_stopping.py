"""What a run still sends when it is asked to stop, or was frozen for longer than its lease."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from resettle.eviction.executor import AT_ONCE
from tests.e2e.cluster.old_pods import crowded, left_on_nodes, too_old
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.run import Account, settled
from tests.e2e.servers.faulty_proxy import Between, Fault, to_evictions
from tools.control_plane.api import Api, Object
from tools.control_plane.plane import Access

STEADY = ("--descheduling-interval", "1s")
UNPACED = (*STEADY, "--client-connection-qps", "-1")
SLOW = (*STEADY, "--client-connection-qps", "4", "--client-connection-burst", "1")


@pytest.fixture
def second(plane: Access, api: Api, tmp_path: Path) -> Iterator[Account]:
    """Another account, so that the audit log can tell two runs apart."""
    with Account(plane, api, tmp_path) as made:
        yield made


def contending(room: Room) -> tuple[str, ...]:
    """Flags by which runs contend for a lease of the room."""
    return (
        "--leader-elect",
        f"--leader-elect-resource-namespace={room.name}",
        "--leader-elect-lease-duration=4s",
        "--leader-elect-renew-deadline=3s",
        "--leader-elect-retry-period=500ms",
    )


def lease(api: Api, room: Room) -> Object:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{room.name}/leases/descheduler"
    found: Object = api.get(path).granted()["spec"]
    return found


@pytest.mark.parametrize(
    "sign",
    [pytest.param(signal.SIGTERM, id="terminated"), pytest.param(signal.SIGINT, id="interrupted")],
)
def test_a_stop_mid_cycle_awaits_what_was_sent_and_sends_no_more(
    sign: signal.Signals, plane: Access, account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, AT_ONCE + 16)

    with Between(plane, account) as way:
        way.fault = to_evictions(Fault.LATE)
        with account.run(too_old(room), *UNPACED, *contending(room)) as run:
            eventually("all hands full", lambda: way.waiting == AT_ONCE)
            run.signal(sign)
            run.awaits("stopping")
            way.clear.set()
            assert run.ended() == 0, run.story

    settled(api, account, run)
    assert len(run.evicted) == len(account.asked_to_evict()) == AT_ONCE
    assert left_on_nodes(room) == everybody - run.evicted
    assert lease(api, room)["holderIdentity"] == ""
    assert run.other == []


def test_a_stop_is_not_held_up_by_a_slow_pace(account: Account, api: Api, room: Room) -> None:
    crowded(room, 12)
    glacial = ("--client-connection-qps", "0.01", "--client-connection-burst", "1")

    with account.run(too_old(room), *STEADY, *glacial) as run:
        run.awaits("evicted")
        run.signal(signal.SIGTERM)
        assert run.ended(within=20) == 0, run.story

    settled(api, account, run)
    assert len(account.asked_to_evict()) == 1


def test_whoever_interrupts_twice_is_obeyed_at_once(
    plane: Access, account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, AT_ONCE + 4)

    with Between(plane, account) as way:
        way.fault = to_evictions(Fault.LATE)
        with account.run(too_old(room), *UNPACED, *contending(room)) as run:
            eventually("all hands full", lambda: way.waiting == AT_ONCE)
            run.signal(signal.SIGINT)
            run.awaits("stopping")
            run.signal(signal.SIGINT)
            assert run.ended(within=20) == 130, run.story
        assert account.asked_to_evict() == []

    assert left_on_nodes(room) == everybody
    assert lease(api, room)["holderIdentity"] == ""
    assert (len(run.told("forced exit")), run.other) == (1, []), run.story


def test_a_leader_frozen_past_its_lease_never_acts_beside_its_successor(
    account: Account, second: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, 40)
    flags = (*SLOW, *contending(room))

    with account.run(too_old(room), *flags) as leader:
        leader.awaits("evicted", 4)
        with second.run(too_old(room), *flags) as standby:
            standby.awaits("waiting for the lease")
            leader.signal(signal.SIGSTOP)
            standby.awaits("evicted")
            leader.signal(signal.SIGCONT)
            assert leader.ended() == 1, leader.story
            eventually("an empty room", lambda: not left_on_nodes(room))
            assert standby.stop() == 0, standby.story

    settled(api, account, leader)
    settled(api, second, standby)
    assert leader.evicted | standby.evicted == everybody
    assert not leader.evicted & standby.evicted
    assert max(_times(account)) < min(_times(second))
    assert leader.told("lease lost"), leader.story
    assert leader.other == []


def _times(account: Account) -> list[datetime]:
    """When its requests to evict reached the API server."""
    asked = account.asked_to_evict()
    return [datetime.fromisoformat(it["requestReceivedTimestamp"]) for it in asked]
