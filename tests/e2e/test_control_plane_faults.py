"""Parts of the control plane fail in the middle of a cycle, and a run lives through it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.e2e.cluster.old_pods import crowded, left_on_nodes, too_old
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.in_process_run import Inside
from tests.e2e.processes.log_reader import Diary
from tests.e2e.processes.run import Account, settled
from tools.control_plane.api import Api
from tools.control_plane.build import built
from tools.control_plane.plane import ControlPlane

NEVER_SECONDS = 10**7
FAST = ("--descheduling-interval", "1s", "--client-connection-qps", "-1")
SLOW = ("--descheduling-interval", "1s", "--client-connection-qps", "10")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane that nobody else minds losing."""
    with ControlPlane(built()) as started:
        yield started


def reckoned(account: Account, room: Room, run: Diary) -> None:
    """What must hold even if the audit log died with the API server that kept it.

    A pod may then be gone without a trace in the log, but only if its answer was lost as well.
    """
    granted = [it.uid for it in account.evictions()]
    assert len(granted) == len(set(granted)), "a pod was evicted twice"
    lost = {line["uid"] for line in run.told("answer lost")}
    assert set(granted) <= run.evicted | lost, run.story
    assert run.evicted <= set(granted) | lost, run.story
    assert not run.evicted & left_on_nodes(room), run.story


def test_an_api_server_that_is_killed_mid_cycle_is_waited_for(
    plane: ControlPlane, account: Account, room: Room
) -> None:
    everybody = crowded(room, 120)
    server = plane.part("kube-apiserver")

    with account.run(too_old(room), *FAST) as run:
        run.awaits("evicted", 20)
        server.kill()
        run.awaits("cycle done")
        server.restart()
        plane.await_api()
        eventually("nobody but those in doubt", lambda: left_on_nodes(room) <= run.unknown)
        assert run.stop() == 0, run.story

    reckoned(account, room, run)
    assert run.evicted | run.unknown == everybody
    assert "cannot be reached" in run.told("cycle done")[0]["cut_short"]


def test_what_a_paused_etcd_holds_up_is_answered_when_it_goes_on(
    plane: ControlPlane, account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, 60)

    with account.run(too_old(room), *SLOW) as run:
        run.awaits("evicted", 15)
        with plane.part("etcd").paused():
            eventually("an API server in trouble", lambda: not api.get("/readyz").fine)
        eventually("an empty room", lambda: not left_on_nodes(room))
        run.awaits("cycle done")
        assert run.stop() == 0, run.story

    settled(api, account, run)
    assert run.evicted == everybody


def test_requests_that_a_paused_etcd_leaves_without_an_answer_are_followed_up(
    plane: ControlPlane, account: Account, room: Room
) -> None:
    everybody = crowded(room, 60)

    with account.run(too_old(room), *SLOW) as run:
        run.awaits("evicted", 15)
        with plane.part("etcd").paused():
            run.awaits("answer lost")
        plane.await_api()
        eventually("nobody but those in doubt", lambda: left_on_nodes(room) <= run.unknown)
        assert run.stop() == 0, run.story

    reckoned(account, room, run)
    assert run.evicted | run.unknown == everybody


def test_nothing_is_sent_on_knowledge_that_is_too_old(
    plane: ControlPlane, account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, 6)
    server = plane.part("kube-apiserver")

    with Inside(account, too_old(room, NEVER_SECONDS), interval=1.0) as run:
        run.awaits("cycle done")
        server.kill()
        run.clock.steady_ahead += 200
        # By now everybody is too old, and would go if anything were done.
        run.clock.wall_ahead += timedelta(seconds=2 * NEVER_SECONDS)
        run.awaits("cycle skipped", 3)
        run.clock.wall_ahead = timedelta(0)
        server.restart()
        plane.await_api()
        assert run.stop() == 0, run.story

    assert "old; the watch is broken" in run.told("cycle skipped")[0]["reason"]
    assert account.asked_to_evict() == []
    assert left_on_nodes(room) == everybody
    assert run.told("not evicted") == run.told("answer lost") == []


def test_a_cycle_under_way_ends_when_what_it_goes_by_gets_too_old(
    plane: ControlPlane, account: Account, api: Api, room: Room
) -> None:
    everybody = crowded(room, 24)

    with Inside(account, too_old(room), interval=60.0, qps=4.0, burst=1) as run:
        run.awaits("evicted", 4)
        run.clock.steady_ahead += 200
        run.awaits("cycle done")
        assert run.stop() == 0, run.story

    settled(api, account, run)
    done = run.told("cycle done")[0]
    assert "old; the watch is broken" in done["cut_short"]
    assert left_on_nodes(room) == everybody - run.evicted != set()
