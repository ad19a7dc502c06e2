"""LowNodeLoad on a real control plane: when it holds still, how much room it fills, and pools.

Nodes that are neither hot nor idle have pods that request about what is used there, so that the
scheduler too prefers the idle ones; a move that it would not make so is refused by itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from resettle.plugins.node_utilization.upstream import NO_UNDERUTILIZED, NONE_OVER, too_few_under
from tests.e2e.cluster.hot_nodes import OFTEN, crowd, cycles, hot_spots, policy
from tests.e2e.cluster.workloads import label, open_all, open_only, workload
from tests.e2e.cluster.workspace import Room
from tests.e2e.processes.run import Account, Run, settled
from tests.e2e.servers.metrics_api import RULES_TO_MEASURE, Figures
from tests.e2e.soft_taints.builders import fill
from tools.control_plane.api import Api, Object
from tools.control_plane.plane import Access

TALKING = (*OFTEN, "-v", "1")
EXPIRED = timedelta(minutes=10)
"""Older than figures may be, however long the test takes."""
WITHIN = "2"
"""A quarter of a node: neither hot nor idle."""


@pytest.fixture
def account(plane: Access, api: Api, tmp_path: Path) -> Iterator[Account]:
    """A ServiceAccount that may also list what is measured."""
    with Account(plane, api, tmp_path, RULES_TO_MEASURE) as made:
        yield made


@pytest.fixture
def figures(room: Room) -> Iterator[Figures]:
    with Figures(room) as made:
        yield made


# -- when it holds still -------------------------------------------------------------------------


class World(NamedTuple):
    """A room whose first node has pods that each use a quarter of it."""

    room: Room
    figures: Figures

    @property
    def hot(self) -> str:
        return self.room.nodes[0]

    @property
    def idle(self) -> str:
        return self.room.nodes[1]

    def open(self, node: str, so: bool) -> None:
        path = f"/api/v1/nodes/{node}"
        self.room.api.patch(path, {"spec": {"unschedulable": not so}}).granted()


Arranged = Callable[[World], None]


def request_a_quarter(room: Room, *nodes: str) -> None:
    for name in nodes:
        fill(room, name, 25)


def one_hot(world: World) -> None:
    world.figures.nodes(n0="6")


def one_hot_one_idle(world: World) -> None:
    world.figures.nodes(n0="6", n1="100m", others=WITHIN)


def none_idle(world: World) -> None:
    world.figures.nodes(n0="6", others=WITHIN)


def all_idle(world: World) -> None:
    world.figures.nodes()


def the_hot_one_is_expired(world: World) -> None:
    one_hot(world)
    world.figures.is_from(world.hot, EXPIRED)


def the_idle_one_is_expired(world: World) -> None:
    one_hot_one_idle(world)
    world.figures.is_from(world.idle, EXPIRED)


def the_idle_one_is_cordoned(world: World) -> None:
    world.open(world.idle, so=False)
    one_hot_one_idle(world)


def it_is_uncordoned(world: World) -> None:
    world.open(world.idle, so=True)


@pytest.mark.parametrize(
    ("before", "says", "after"),
    [
        pytest.param(none_idle, NO_UNDERUTILIZED, one_hot_one_idle, id="none is idle"),
        pytest.param(all_idle, NONE_OVER, one_hot, id="all are idle"),
        pytest.param(the_hot_one_is_expired, NONE_OVER, one_hot, id="the hot one is not measured"),
        pytest.param(
            the_idle_one_is_expired,
            NO_UNDERUTILIZED,
            one_hot_one_idle,
            id="the idle one is not measured",
        ),
        pytest.param(
            the_idle_one_is_cordoned, NO_UNDERUTILIZED, it_is_uncordoned, id="it is cordoned"
        ),
    ],
)
def test_nothing_moves_until_a_node_is_hot_and_another_idle(
    before: Arranged,
    says: Any,
    after: Arranged,
    figures: Figures,
    account: Account,
    room: Room,
    api: Api,
) -> None:
    world = World(room, figures)
    crowd(room)
    request_a_quarter(room, *room.nodes[2:])
    figures.pods("2")
    before(world)
    with account.run(hot_spots(room), *TALKING) as run:
        run.awaits("plugin done", 2, stopped=says.says)
        assert account.asked_to_evict() == []
        assert {line["stopped"] for line in run.told("plugin done")} == {says.says}

        after(world)
        (gone,) = run.awaits("evicted")
        assert gone["node"] == world.hot
        assert run.stop() == 0
    settled(api, account, run)


def test_so_many_nodes_must_be_idle_and_one_more(
    figures: Figures, account: Account, room: Room, api: Api
) -> None:
    crowd(room)
    figures.pods("2")
    figures.nodes(n0="6")
    with account.run(hot_spots(room, numberOfNodes=5), *TALKING) as run:
        run.awaits("plugin done", 2, stopped=too_few_under(5, 5).says)
        assert account.asked_to_evict() == []

        run.policy.write_text(json.dumps(hot_spots(room, numberOfNodes=4)))
        run.awaits("evicted")
        assert run.stop() == 0
    settled(api, account, run)


def test_a_node_that_is_not_measured_takes_nothing_though_another_does(
    figures: Figures, account: Account, room: Room, api: Api
) -> None:
    """The one idle node that is measured has no room for the pod, the other would have."""
    crowd(room)
    request_a_quarter(room, *room.nodes[3:])
    figures.pods("4")
    figures.nodes(n0="6", n1="100m", n2="1500m", others=WITHIN)
    figures.is_from(room.nodes[1], EXPIRED)
    with account.run(hot_spots(room), *OFTEN) as run:
        cycles(run, 3)
        assert account.asked_to_evict() == []

        figures.nodes(n0="6", n1="100m", n2="1500m", others=WITHIN)
        run.awaits("evicted")
        assert run.stop() == 0
    settled(api, account, run)


# -- how much room is filled ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("idle", "moves"),
    [
        pytest.param("1500m", 1, id="for one pod"),
        pytest.param("100m", 2, id="for two"),
    ],
)
def test_of_two_hot_nodes_as_many_pods_go_as_there_is_room_for(
    idle: str, moves: int, figures: Figures, account: Account, room: Room, api: Api
) -> None:
    """The one idle node may be filled up to 4.8 cpu, and a pod uses 2."""
    for name, app in zip(room.nodes, ("left", "right"), strict=False):
        open_only(room, name)
        workload(room, app, 2)
    open_all(room)
    request_a_quarter(room, *room.nodes[:2], *room.nodes[3:])
    figures.pods("2")
    figures.nodes(n0="6", n1="6", n2=idle, others=WITHIN)
    resting = {"consecutiveAbnormalities": 1, "consecutiveNormalities": 1, "cooldown": "10m"}
    document = policy(
        room,
        "LowNodeLoad",
        lowThresholds={"cpu": 20},
        highThresholds={"cpu": 60},
        anomalyCondition=resting,
    )
    with account.run(document, *OFTEN) as run:
        run.awaits("evicted", moves)
        cycles(run, 3)
        assert run.stop() == 0

    assert len(run.told("evicted")) == moves
    assert len({line["node"] for line in run.told("evicted")}) == moves, "one from each"
    settled(api, account, run)


# -- pools that go by their own mean -------------------------------------------------------------

TEN_OFF: Object = {
    "useDeviationThresholds": True,
    "lowThresholds": {"cpu": 10},
    "highThresholds": {"cpu": 10},
    "anomalyCondition": {"consecutiveAbnormalities": 1, "cooldown": "10m"},
}


def pool(name: str) -> Object:
    return {"name": name, "nodeSelector": {"matchLabels": {name: "yes"}}, **TEN_OFF}


def two_camps(room: Room, figures: Figures, *, apart: bool) -> None:
    """Three busy nodes, and three that are not; the first of each has the most to do.

    The busy ones are at 90, 20 and 20%, the others at 39, 5 and 5%. `apart` has their pods stay
    among them.
    """
    busy, calm = room.nodes[:3], room.nodes[3:]
    for name in busy:
        label(room, name, busy="yes")
    for name in calm:
        label(room, name, calm="yes")
    for name, app, camp in ((busy[0], "large", "busy"), (calm[0], "small", "calm")):
        chosen = {"room": room.name, **({camp: "yes"} if apart else {})}
        open_only(room, name)
        workload(room, app, 3, nodeSelector=chosen)
    open_all(room)
    use = {"large": "1600m", "small": "1200m"}
    figures.pods(
        {it["metadata"]["name"]: use[it["metadata"]["labels"]["app"]] for it in room.running()}
    )
    figures.nodes(n0="7200m", n1="1600m", n2="1600m", n3="3100m", n4="400m", n5="400m")


def relieved(account: Account, document: Object) -> Run:
    """A run that has done what there is to do."""
    with account.run(document, *OFTEN) as run:
        run.awaits("evicted")
        cycles(run, 3)
        assert run.stop() == 0
    return run


@pytest.mark.parametrize("in_both", [False, True], ids=["each in one pool", "one in both"])
def test_each_pool_goes_by_its_own_mean_and_a_node_is_in_the_first_that_takes_it(
    in_both: bool, figures: Figures, account: Account, room: Room, api: Api
) -> None:
    """Means of 43 and 16%; with the busiest node among the calm ones theirs would be 35%."""
    hottest, _, _, warmest, *_ = room.nodes
    two_camps(room, figures, apart=True)
    if in_both:
        label(room, hottest, calm="yes")

    pools = [pool("busy"), pool("calm")]
    run = relieved(account, policy(room, "LowNodeLoad", nodePools=pools))

    assert Counter(line["reason"] for line in run.told("evicted")) == {
        f"{hottest} is at 90% cpu in use (target 53%)": 1,
        f"{hottest} is at 70% cpu in use (target 53%)": 1,
        f"{warmest} is at 39% cpu in use (target 26%)": 1,
    }
    settled(api, account, run)


def test_one_pool_of_all_goes_by_the_mean_of_all(
    figures: Figures, account: Account, room: Room, api: Api
) -> None:
    """A mean of 30%, so 39% are not too much."""
    two_camps(room, figures, apart=False)
    request_a_quarter(room, *room.nodes[1:4])

    run = relieved(account, policy(room, "LowNodeLoad", **TEN_OFF))

    targets = {line["reason"].partition("(")[2] for line in run.told("evicted")}
    assert targets == {"target 40%)"}
    assert {line["node"] for line in run.told("evicted")} == {room.nodes[0]}
    settled(api, account, run)
