"""Pods that others move on request: asked once, and left alone for as long as they are moved.

The webhook and whoever moves the machines are the test's own, everything else is real. How often a
pod was asked to leave is what the webhook saw, and the API server's audit log must agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.virtual_machine_moves import OFTEN, agreed, goes_on, machine, restless
from tests.e2e.cluster.virtual_machines import Machine
from tests.e2e.cluster.workspace import Room
from tests.e2e.processes.in_process_run import Inside
from tests.e2e.processes.run import Account
from tests.e2e.servers.eviction_webhook import Interceptor
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

TOTAL = "maxNoOfPodsToEvictTotal"
OFF = "--feature-gates=EvictionsInBackground=false"


@pytest.fixture
def webhook(plane: Access, room: Room, tmp_path: Path) -> Iterator[Interceptor]:
    with Interceptor(plane, tmp_path, room) as made:
        yield made


def test_a_machine_is_asked_once_however_long_it_takes(
    account: Account, api: Api, room: Room, webhook: Interceptor
) -> None:
    done, taken_away = machine(room, "done"), machine(room, "taken-away", node=1)
    unmarked = machine(room, "unmarked", node=2)

    with account.run(restless(room), *OFTEN) as run:
        run.awaits("moving in background", 3)
        goes_on(run)
        unmarked.succeeds()
        run.awaits("moved in background")
        done.begins()
        taken_away.begins()
        goes_on(run)
        done.succeeds()
        taken_away.goes()
        run.awaits("moved in background", 3)
        goes_on(run)
        assert run.stop() == 0, run.story

    assert [webhook.times(it.uid) for it in (done, taken_away, unmarked)] == [1, 1, 1]
    assert not run.told("not moved in background")
    assert account.evictions() == []
    agreed(api, account, webhook, run)


def test_without_the_gate_a_machine_is_asked_in_every_cycle(
    account: Account, api: Api, room: Room, webhook: Interceptor
) -> None:
    """What the ledger spares everybody; if this ceases, the other tests here prove nothing."""
    stormed = machine(room, "stormed")
    stormed.begins()

    with account.run(restless(room), *OFTEN, OFF) as run:
        goes_on(run)
        assert run.stop() == 0, run.story

    times, cycles = webhook.times(stormed.uid), len(run.told("cycle done"))
    assert times == len(run.told("refused by webhook"))
    assert times in (cycles - 1, cycles), "one for each cycle, but for one that was told to stop"
    assert not run.told("moving in background")
    agreed(api, account, webhook, run)


def test_a_migration_that_fails_is_asked_for_again(
    account: Account, api: Api, room: Room, webhook: Interceptor
) -> None:
    unlucky = machine(room, "unlucky")

    with account.run(restless(room), *OFTEN) as run:
        for attempt in (1, 2, 3):
            run.awaits("moving in background", attempt)
            unlucky.begins()
            goes_on(run)
            assert webhook.times(unlucky.uid) == attempt
            unlucky.fails()
            run.awaits("not moved in background", attempt)
        run.awaits("moving in background", 4)
        goes_on(run)
        unlucky.begins()
        unlucky.succeeds()
        run.awaits("moved in background")
        goes_on(run)
        assert run.stop() == 0, run.story

    assert webhook.times(unlucky.uid) == 4
    agreed(api, account, webhook, run)


def test_a_machine_that_nobody_moves_any_more_leaves_as_any_other_pod(
    account: Account, api: Api, room: Room, webhook: Interceptor
) -> None:
    forsaken = machine(room, "forsaken")

    with account.run(restless(room), *OFTEN) as run:
        run.awaits("moving in background")
        forsaken.no_longer_on_request()
        run.awaits("evicted")
        assert run.stop() == 0, run.story

    assert run.told("not moved in background")[0]["uid"] == forsaken.uid
    assert run.evicted == {forsaken.uid}
    assert webhook.times(forsaken.uid) == 1
    agreed(api, account, webhook, run)


def test_a_new_process_knows_from_the_pods_what_the_old_one_began(
    account: Account, api: Api, room: Room, webhook: Interceptor
) -> None:
    """One that is not marked is asked once more; there is nothing to know it by."""
    marked = [machine(room, "marked-0"), machine(room, "marked-1", node=1)]
    unmarked = machine(room, "unmarked", node=2)
    chosen = restless(room, limits={TOTAL: 3})
    with account.run(chosen, *OFTEN) as killed:
        killed.awaits("moving in background", 3)
        for it in marked:
            it.begins()
        goes_on(killed)
    newcomer = machine(room, "newcomer", node=3)

    with account.run(chosen, *OFTEN) as run:
        run.awaits("moving in background")
        goes_on(run)
        assert [webhook.times(it.uid) for it in (*marked, unmarked, newcomer)] in (
            [1, 1, 2, 0],
            [1, 1, 1, 1],
        ), "two places are taken, and one of the others gets the third"
        for it in marked:
            it.succeeds()
        run.awaits("moved in background", 2)
        goes_on(run)
        assert run.stop() == 0, run.story

    assert [webhook.times(it.uid) for it in (*marked, unmarked, newcomer)] == [1, 1, 2, 1]
    agreed(api, account, webhook, killed, run)


def test_a_machine_that_is_never_marked_is_given_up_after_ten_minutes(
    account: Account, api: Api, room: Room, webhook: Interceptor
) -> None:
    forgotten, slow = machine(room, "forgotten"), machine(room, "slow", node=1)

    def later(seconds: float) -> None:
        """Winds the clock, and has each watch hear a word, lest all that is known be old."""
        run.clock.steady_ahead += seconds
        word = {"metadata": {"generateName": "word-", "labels": {"wound": str(seconds)}}}
        api.patch(f"/api/v1/nodes/{room.nodes[0]}", word).granted()
        budgets = f"/apis/policy/v1/namespaces/{room.name}/poddisruptionbudgets"
        nobody = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "nobody"}}}
        api.post(budgets, {**word, "spec": nobody}).granted()
        forgotten.touched()
        goes_on(run)

    with Inside(account, restless(room), interval=0.1, qps=-1) as run:
        run.awaits("moving in background", 2)
        slow.begins()
        later(500)
        assert webhook.times(forgotten.uid) == 1, "there is still time"
        later(101)
        assert webhook.times(forgotten.uid) == 2
        later(7200)
        assert webhook.times(forgotten.uid) == 3
        assert run.stop() == 0, run.story

    given_up = run.told("not moved in background")
    assert [it["uid"] for it in given_up] == [forgotten.uid] * 2
    assert webhook.times(slow.uid) == 1, "who is marked may take any time"
    agreed(api, account, webhook, run)


def test_a_machine_that_has_run_its_course_is_not_on_its_way(
    plane: Access, account: Account, api: Api, room: Room, tmp_path: Path
) -> None:
    """Whatever the webhook says: it takes no place under a limit, and none is kept for it."""
    done, dead, live = (Machine(room, name, room.nodes[0]) for name in ("done", "dead", "live"))
    done.succeeds()
    dead.dies()
    for it, times in ((done, 60), (dead, 50), (live, 40)):
        it.restarts(times)
    everybody = restless(room, limits={TOTAL: 1})
    del everybody["profiles"][0]["pluginConfig"][0]["args"]["states"]

    with (
        Interceptor(plane, tmp_path, room, rash=True) as webhook,
        account.run(everybody, *OFTEN) as run,
    ):
        run.awaits("moving in background", uid=live.uid)
        goes_on(run)
        assert run.stop() == 0, run.story
        agreed(api, account, webhook, run)

    assert [it["uid"] for it in run.told("moving in background")] == [live.uid]
    assert [it.uid for it in webhook.asked] == [done.uid, dead.uid, live.uid], "worst first"
