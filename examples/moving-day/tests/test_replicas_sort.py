from __future__ import annotations

from typing import Any

import pytest
from moving_day.replicas_sort import Args, replicas

from resettle.testing import Planned, cluster, node, plan_policy, pod

OLD_PODS = [
    pod("alone", owner="ReplicaSet/one"),
    pod("pair", owner="ReplicaSet/two"),
    pod("crowd", owner="ReplicaSet/four"),
]
NEW_PODS = [
    pod("pair-2", owner="ReplicaSet/two"),
    *(pod(f"crowd-{i}", owner="ReplicaSet/four") for i in (2, 3, 4)),
]
WORLD = cluster(
    node("old", labels={"pool": "blue"}, cordoned=True).holding(*OLD_PODS),
    node("new").holding(*NEW_PODS),
)


def planned(args: dict[str, Any], limit: int | None = None) -> Planned:
    """The plan for an emptied pool with the sorter at work."""
    profile = {
        "name": "test",
        "pluginConfig": [
            {"name": "DefaultEvictor", "args": {"minReplicas": 0}},
            {"name": "RemovePodsFromRetiredPools", "args": {"retired": ["blue"]}},
            {"name": "ReplicasSort", "args": args},
        ],
        "plugins": {
            "deschedule": {"enabled": ["RemovePodsFromRetiredPools"]},
            "sort": {"enabled": ["ReplicasSort"]},
        },
    }
    limits = {"maxNoOfPodsToEvictTotal": len(OLD_PODS) if limit is None else limit}
    return plan_policy({"profiles": [profile], **limits}, WORLD, api_version="resettle/v1")


@pytest.mark.parametrize(
    ("limit", "evicts"),
    [
        pytest.param(None, ["crowd", "pair", "alone"], id="everybody, in this order"),
        pytest.param(2, ["crowd", "pair"], id="the single replica is spared"),
        pytest.param(1, ["crowd"], id="only one of many goes"),
    ],
)
def test_workloads_with_many_replicas_go_first(limit: int | None, evicts: list[str]) -> None:
    assert planned({}, limit).evicts == evicts


def test_beyond_enough_replicas_count_alike() -> None:
    evicts = planned({"enough": 2}).evicts

    assert set(evicts[:2]) == {"crowd", "pair"}
    assert evicts[2:] == ["alone"]


@pytest.mark.parametrize(
    ("owner", "count"),
    [
        pytest.param("ReplicaSet/two", 3, id="with those of its owner"),
        pytest.param(["ReplicaSet/two", "Job/own"], 1, id="of the smallest of its owners"),
        pytest.param(None, 1, id="alone without an owner"),
    ],
)
def test_a_pod_counts_with_its_workload(owner: str | list[str] | None, count: int) -> None:
    mates = [pod(name, owner="ReplicaSet/two") for name in ("b", "c")]
    world = cluster(node("n").holding(pod("it", owner=owner), *mates))
    view = world.view()
    it = view.pod("default", "it")

    assert it is not None
    assert replicas(view, it) == count


@pytest.mark.parametrize(
    ("enough", "places"),
    [
        pytest.param(None, [], id="left out"),
        pytest.param(2, [], id="two make a difference"),
        pytest.param(1, [("enough",)], id="one is what all have"),
        pytest.param(0, [("enough",)], id="none is less than all have"),
    ],
)
def test_a_number_that_makes_all_alike_is_a_problem(
    enough: int | None, places: list[tuple[str, ...]]
) -> None:
    assert [problem.at for problem in Args(enough=enough).problems()] == places
