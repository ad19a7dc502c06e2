"""How much a cycle may do: limits, shares and budgets hold in each, and the next goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import ceil
from typing import Any

import pytest

from tests.e2e.cluster.policies import OURS, UPSTREAM, policy
from tests.e2e.cluster.workloads import ALONE, open_all, open_only, restarted, uids, workload
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.run import Account, Run, settled
from tools.control_plane.api import Api

STRATEGY, ARGS = "RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 40}
"""Replacements have not restarted yet, so each pod leaves once and then there is peace."""
OFTEN = ("--descheduling-interval", "500ms", *ALONE)
TOTAL, NODE = "maxNoOfPodsToEvictTotal", "maxNoOfPodsToEvictPerNode"
NAMESPACE = "maxNoOfPodsToEvictPerNamespace"
VERSIONS = [pytest.param(UPSTREAM, id="v1alpha2"), pytest.param(OURS, id="v1")]
Line = dict[str, Any]


@pytest.fixture
def annex(api: Api) -> Iterator[Room]:
    """A second room."""
    with Room(api) as made:
        yield made


def cycles(run: Run) -> list[list[Line]]:
    """The evictions of each cycle that has come to its end."""
    found: list[list[Line]] = [[]]
    for line in list(run.lines):
        if line["msg"] == "evicted":
            found[-1].append(line)
        elif line["msg"] == "cycle done":
            found.append([])
    return found[:-1]


def finished(run: Run, moves: int) -> list[list[Line]]:
    """The evictions of each cycle, once so many are made and two cycles more made none."""
    run.awaits("evicted", moves)
    run.awaits_more("cycle done", 3)
    assert run.stop() == 0, run.story
    made = cycles(run)
    assert made[-2:] == [[], []], "there was to be peace after that"
    return made


def most(made: list[Line], fact: str) -> int:
    """How many evictions the value of a fact has that most of them share."""
    return max(Counter(line[fact] for line in made).values(), default=0)


def namespaced(made: list[Line]) -> list[Line]:
    return [{"namespace": line["pod"].partition("/")[0]} for line in made]


@pytest.mark.parametrize("api_version", VERSIONS)
@pytest.mark.parametrize(
    ("limits", "at_first"),
    [
        pytest.param({TOTAL: 3}, 3, id="three in all"),
        pytest.param({NODE: 2}, 6, id="two of each of three nodes"),
        pytest.param({NAMESPACE: 2}, 4, id="two of each of two namespaces"),
        pytest.param({TOTAL: 3, NODE: 2, NAMESPACE: 2}, 3, id="all of these together"),
    ],
)
def test_limits_hold_in_a_cycle_and_the_next_goes_on(
    limits: dict[str, int],
    at_first: int,
    api_version: str,
    account: Account,
    api: Api,
    room: Room,
    annex: Room,
) -> None:
    open_only(room, *room.nodes[:2])
    open_only(annex, annex.nodes[0])
    workload(room, "web", 6)
    workload(annex, "web", 4)
    bad = [*room.running(), *annex.running()]
    for home in (room, annex):
        restarted(home, home.running(), times=40)
        open_all(home)
    chosen = policy(api_version, STRATEGY, ARGS, room, annex, top=limits)

    with account.run(chosen, *OFTEN) as run:
        made = finished(run, len(bad))

    assert len(made[0]) == at_first
    assert max(map(len, made)) <= limits.get(TOTAL, 10)
    assert max(most(cycle, "node") for cycle in made) <= limits.get(NODE, 10)
    assert max(most(namespaced(cycle), "namespace") for cycle in made) <= limits.get(NAMESPACE, 10)
    assert run.evicted == uids(bad)
    settled(api, account, run)


def test_pods_leave_a_share_of_the_nodes_in_a_cycle(account: Account, api: Api, room: Room) -> None:
    workload(room, "web", 12)
    restarted(room, room.running(), times=40)
    bad = room.running()
    assert {it["spec"]["nodeName"] for it in bad} == set(room.nodes)
    chosen = policy(OURS, STRATEGY, ARGS, room, top={"maxPercentOfNodesToEvictFrom": 33})

    with account.run(chosen, *OFTEN) as run:
        made = finished(run, len(bad))

    left = [len({line["node"] for line in cycle}) for cycle in made]
    assert left[0] == max(left) == 2, "a third of six nodes"
    assert run.evicted == uids(bad)
    settled(api, account, run)


def test_a_share_of_all_pods_leaves_in_a_cycle(account: Account, api: Api, room: Room) -> None:
    workload(room, "web", 12)
    restarted(room, room.running(), times=40)
    bad = room.running()
    # Pods of everybody count, and others may be at work here: the share is of what a cycle saw.
    percent = 100 * 3 / len(api.items("/api/v1/pods"))
    chosen = policy(OURS, STRATEGY, ARGS, room, top={"maxPercentOfPodsToEvict": percent})

    with account.run(chosen, *OFTEN) as run:
        made = finished(run, len(bad))

    seen = [line["pods"] for line in run.told("cycle done")]
    allowed = [max(1, ceil(percent * pods / 100 - 1e-9)) for pods in seen]
    assert len(made[0]) == min(allowed[0], 11)
    assert all(len(cycle) <= most for cycle, most in zip(made, allowed, strict=True))
    assert run.evicted == uids(bad)
    settled(api, account, run)


@pytest.mark.parametrize("api_version", VERSIONS)
def test_a_budget_is_never_overdrawn(
    api_version: str, account: Account, api: Api, room: Room
) -> None:
    workload(room, "web", 6)
    restarted(room, room.running(), times=40)
    bad = room.running()
    room.budget("web", at_most_away=2)

    with account.run(policy(api_version, STRATEGY, ARGS, room), *OFTEN) as run:
        made = finished(run, len(bad))

    assert len(made[0]) == max(map(len, made)) == 2
    assert run.told("cycle done")[0]["refusals"]["budget"] == 4
    assert run.evicted == uids(bad)
    settled(api, account, run)


def test_a_spent_budget_is_waited_for_until_replacements_are_ready(
    account: Account, api: Api, room: Room
) -> None:
    workload(room, "web", 6)
    restarted(room, room.running(), times=40)
    bad = room.running()
    room.budget("web", at_most_away=2)
    room.cordon()

    with account.run(policy(UPSTREAM, STRATEGY, ARGS, room), *OFTEN) as run:
        run.awaits("evicted", 2)
        run.awaits_more("cycle done", 3)
        assert len(run.evicted) == len(account.evictions()) == 2
        assert len(room.ready()) == 4

        open_all(room)
        finished(run, len(bad))

    eventually("replacements", lambda: len(room.ready()) == 6)
    assert run.evicted == uids(bad)
    settled(api, account, run)
