"""By the metrics API of a real API server: LowNodeUtilization, and LowNodeLoad in time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.hot_nodes import OFTEN, crowd, cycles, hot_spots, policy
from tests.e2e.cluster.policies import OURS, UPSTREAM
from tests.e2e.cluster.workloads import ALONE
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.run import Account, settled
from tests.e2e.servers.metrics_api import RULES_TO_MEASURE, Figures
from tools.control_plane.api import Api
from tools.control_plane.plane import Access


@pytest.fixture
def account(plane: Access, api: Api, tmp_path: Path) -> Iterator[Account]:
    """A ServiceAccount that may also list what is measured."""
    with Account(plane, api, tmp_path, RULES_TO_MEASURE) as made:
        yield made


@pytest.fixture
def figures(room: Room) -> Iterator[Figures]:
    with Figures(room) as made:
        yield made


# -- LowNodeUtilization ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", [UPSTREAM, OURS])
def test_pods_leave_a_node_by_what_is_used_there(
    version: str, figures: Figures, account: Account, room: Room, api: Api
) -> None:
    crowd(room)
    figures.nodes(n0="6")
    figures.pods("1")
    document = policy(
        room,
        "LowNodeUtilization",
        version,
        thresholds={"cpu": 20},
        targetThresholds={"cpu": 60},
        metricsUtilization={"source": "KubernetesMetrics"},
    )

    with account.run(document, *ALONE) as run:
        assert run.ended() == 0, run.story

    # Both are asked at once, so either may be the first to be told of.
    assert {line["reason"] for line in run.told("evicted")} == {
        f"{room.nodes[0]} is at 75% cpu in use (target 60%)",
        f"{room.nodes[0]} is at 62% cpu in use (target 60%)",
    }
    assert len(run.told("evicted")) == 2
    settled(api, account, run)
    lists = [it for it in account.audited() if it["objectRef"].get("apiGroup") == "metrics.k8s.io"]
    assert sorted(it["objectRef"]["resource"] for it in lists) == ["nodes", "pods"]


def test_what_was_not_measured_is_told_and_moves_nobody(
    figures: Figures, account: Account, room: Room
) -> None:
    crowd(room, pods=2)
    document = policy(
        room,
        "LowNodeUtilization",
        thresholds={"cpu": 20},
        targetThresholds={"cpu": 60},
        metricsUtilization={"source": "KubernetesMetrics"},
    )
    with account.run(document, *ALONE) as run:
        assert run.ended() == 1, run.story

    assert "nothing is moved without figures" in run.told("plugin failed")[0]["reason"]
    assert account.asked_to_evict() == []


# -- LowNodeLoad ----------------------------------------------------------------------------------


def test_a_node_is_relieved_after_three_high_samples_in_a_row(
    figures: Figures, account: Account, room: Room, api: Api
) -> None:
    crowd(room)
    figures.pods("2")
    with account.run(hot_spots(room, times=3), *OFTEN) as run:
        for sample in ("6", "6", "1", "6", "6"):
            figures.nodes(n0=sample)
            cycles(run)
            assert run.told("evicted") == [], "not three in a row yet"
        cycles(run, 5)
        assert run.told("evicted") == [], "the same sample counts once"
        figures.nodes(n0="6")
        run.awaits("evicted")
        cycles(run)
        assert run.stop() == 0
    assert len(run.told("evicted")) == 1
    settled(api, account, run)


def test_the_pod_that_fits_goes_the_node_rests_and_then_nothing_moves(
    figures: Figures, account: Account, room: Room, api: Api
) -> None:
    name = crowd(room, pods=3)
    small, right, large = sorted(it["metadata"]["name"] for it in room.running())
    figures.nodes(n0="5600m")
    figures.pods({small: "400m", right: "900m", large: "2"})
    with account.run(hot_spots(room), *OFTEN) as run:
        (gone,) = run.awaits("evicted")
        assert gone["pod"] == f"{room.name}/{right}", "0.8 cpu are too many, and 0.9 go"
        cycles(run, 5)
        assert len(run.told("evicted")) == 1, "its old figures are not believed twice"
        eventually("a replacement", lambda: len(room.ready()) == 3)
        figures.nodes(n0="4700m", n1="1")
        figures.pods("400m")
        cycles(run, 20)
        assert run.stop() == 0
    assert len(run.told("evicted")) == 1
    assert name == gone["node"]
    settled(api, account, run)


def test_nodes_that_are_not_measured_neither_give_nor_take(
    figures: Figures, account: Account, room: Room, api: Api
) -> None:
    crowd(room)
    figures.nodes(n0="6")
    figures.pods("2")
    api.delete(f"/apis/metrics.k8s.io/v1beta1/nodes/{room.nodes[0]}")
    with account.run(hot_spots(room), *ALONE) as run:
        assert run.ended() == 0, run.story

    assert run.told("evicted") == []
