"""Pods that others move count as moves in every cycle, and as gone to whoever plans the next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.policies import UPSTREAM, policy
from tests.e2e.cluster.virtual_machine_moves import OFTEN, agreed, goes_on, machine, restless
from tests.e2e.cluster.virtual_machines import Machine
from tests.e2e.cluster.workloads import pods_of, restarted, uids, workload
from tests.e2e.cluster.workspace import Room
from tests.e2e.processes.run import Account
from tests.e2e.servers.eviction_webhook import Interceptor
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

TOTAL, NODE = "maxNoOfPodsToEvictTotal", "maxNoOfPodsToEvictPerNode"
NAMESPACE = "maxNoOfPodsToEvictPerNamespace"


@pytest.fixture
def annex(api: Api) -> Iterator[Room]:
    """A second room."""
    with Room(api) as made:
        yield made


@pytest.mark.parametrize(
    "limit",
    [
        pytest.param({TOTAL: 2}, id="in all"),
        pytest.param({NODE: 1}, id="of a node"),
        pytest.param({NAMESPACE: 1}, id="of a namespace"),
    ],
)
def test_machines_on_their_way_take_up_limits_cycle_after_cycle(
    limit: dict[str, int],
    plane: Access,
    account: Account,
    api: Api,
    room: Room,
    annex: Room,
    tmp_path: Path,
) -> None:
    """Five machines on two nodes in two namespaces: each of the limits has room for two."""
    everybody = [machine(room, f"m{i}") for i in range(3)]
    everybody += [machine(annex, f"m{i}") for i in range(2)]
    waiting = {it.uid: it for it in everybody}

    with (
        Interceptor(plane, tmp_path, room, annex) as webhook,
        account.run(restless(room, annex, limits=limit), *OFTEN) as run,
    ):

        def newly_asked() -> list[Machine]:
            goes_on(run, 4)
            return [waiting.pop(it.uid) for it in list(webhook.asked) if it.uid in waiting]

        run.awaits("moving in background", 2)
        on_their_way, gone = newly_asked(), 0
        assert len(on_their_way) == 2
        while on_their_way:
            first = on_their_way.pop(0)
            first.begins()
            assert not newly_asked(), "a machine that is marked still takes its place"
            first.succeeds()
            gone += 1
            run.awaits("moved in background", gone)
            followers = newly_asked()
            assert len(followers) <= 1, "one place was free"
            on_their_way += followers
        assert run.stop() == 0, run.story
        agreed(api, account, webhook, run)

    assert not waiting
    assert [webhook.times(it.uid) for it in everybody] == [1] * 5


def test_machines_and_other_pods_share_a_limit(
    plane: Access, account: Account, api: Api, room: Room, tmp_path: Path
) -> None:
    workload(room, "web", 4)
    plain = pods_of(room.running(), "web")
    machines = [machine(room, "first"), machine(room, "second", node=1)]

    with (
        Interceptor(plane, tmp_path, room) as webhook,
        account.run(restless(room, limits={TOTAL: 2}), *OFTEN) as run,
    ):
        run.awaits("moving in background", 2)
        restarted(room, plain, times=40)
        machines[0].begins()
        goes_on(run)
        assert account.evictions() == [], "both places are taken"
        machines[0].succeeds()
        run.awaits("evicted", 4)
        assert max(len(cycle) for cycle in cycles(run.lines)) == 1, "one place is free"
        machines[1].goes()
        run.awaits("moved in background", 2)
        assert run.stop() == 0, run.story
        agreed(api, account, webhook, run)

    assert run.evicted == uids(plain)
    assert [webhook.times(it.uid) for it in machines] == [1, 1]


def cycles(lines: list[dict[str, object]]) -> list[list[object]]:
    """The pods evicted in each cycle."""
    found: list[list[object]] = [[]]
    for line in list(lines):
        if line["msg"] == "evicted":
            found[-1].append(line["pod"])
        elif line["msg"] == "cycle done":
            found.append([])
    return found


@pytest.mark.parametrize(
    ("gate", "asked"),
    [
        pytest.param("true", 3, id="three leave, and no more"),
        pytest.param("false", 8, id="without the gate all are asked"),
    ],
)
def test_a_node_that_machines_are_leaving_is_not_relieved_again(
    gate: str, asked: int, plane: Access, account: Account, api: Api, room: Room, tmp_path: Path
) -> None:
    """Eight tenths of a node are taken and half is the target, so three machines are to go."""
    machines = [Machine(room, f"m{i}", room.nodes[0], cpu="800m") for i in range(8)]
    bands = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    gates = f"--feature-gates=EvictionsInBackground={gate}"

    with (
        Interceptor(plane, tmp_path, room) as webhook,
        account.run(policy(UPSTREAM, "LowNodeUtilization", bands, room), *OFTEN, gates) as run,
    ):
        goes_on(run)
        chosen = [it for it in machines if webhook.times(it.uid)]
        for it in chosen:
            it.begins()
        goes_on(run)
        assert run.stop() == 0, run.story
        agreed(api, account, webhook, run)

    assert len({it.uid for it in webhook.asked}) == len(chosen) == asked
    assert account.evictions() == []
