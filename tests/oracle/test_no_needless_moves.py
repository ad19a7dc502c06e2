"""Every move of a plan is needed, and once all are made there is nothing left to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

import pytest

from resettle.framework.plan import Move, Plan
from resettle.framework.view import View
from resettle.plugins.low_node_utilization import Args
from resettle.plugins.remove_duplicates import owner_keys
from resettle.testing import World
from resettle.utilization.describe import bands_of
from resettle.utilization.usage import RequestedUsage
from tests.oracle.clusters import cluster
from tests.oracle.objects import Object
from tests.oracle.test_plan_execution import STRATEGIES, drawn

CLUSTERS = 60


def without_budgets(seed: int) -> list[Object]:
    """A cluster in which every move can be made at once."""
    return [
        manifest for manifest in cluster(Random(seed)) if manifest["kind"] != "PodDisruptionBudget"
    ]


def after(objects: list[Object], moves: Sequence[Move]) -> list[Object]:
    """The cluster with these pods where they were expected to land."""
    lands_on = {move.pod.key: move.lands_on for move in moves}
    later: list[Object] = []
    for manifest in objects:
        meta = manifest["metadata"]
        target = lands_on.get(f"{meta.get('namespace')}/{meta['name']}")
        if manifest["kind"] == "Pod" and target is not None:
            manifest = {**manifest, "spec": {**manifest["spec"], "nodeName": target}}
        later.append(manifest)
    return later


def read(objects: list[Object]) -> View:
    return View(World(objects).snapshot())


def wanted(name: str) -> Callable[[list[Object]], int]:
    """How many pods the strategy would still like to move, allowed or not."""
    return lambda objects: drawn(objects, name).plan.proposed


def over_target(objects: list[Object]) -> int:
    """How far nodes are above their targets, over all of them."""
    given = STRATEGIES["LowNodeUtilization"][1]
    args = Args(thresholds=given["thresholds"], target_thresholds=given["targetThresholds"])
    view = read(objects)
    bands = bands_of(args, view, RequestedUsage(view))
    return sum(view.requests_on(node).get("pods", 0) for node in bands.over)


def crowding(objects: list[Object]) -> int:
    """The more copies of an owner share nodes, the larger."""
    copies = Counter(
        (key, pod.node)
        for pod in read(objects).pods
        if pod.node and not pod.finished
        for key in owner_keys(pod.template)
    )
    return sum(count * count for count in copies.values())


HARM = [
    *(
        pytest.param(name, wanted(name), id=name)
        for name in (
            "RemovePodsViolatingNodeTaints",
            "RemovePodsViolatingNodeAffinity",
            "RemovePodsViolatingInterPodAntiAffinity",
            "RemovePodsViolatingTopologySpreadConstraint",
            "HighNodeUtilization",
        )
    ),
    pytest.param("LowNodeUtilization", over_target, id="LowNodeUtilization"),
    pytest.param("RemoveDuplicates", crowding, id="RemoveDuplicates"),
]


@pytest.mark.parametrize(("name", "harm"), HARM)
def test_without_any_one_of_its_moves_a_plan_would_achieve_less(
    name: str, harm: Callable[[list[Object]], int]
) -> None:
    in_vain: list[str] = []
    moves = 0
    for seed in range(CLUSTERS):
        objects = without_budgets(seed)
        plan: Plan = drawn(objects, name).plan
        moves += len(plan.moves)
        if not plan.moves:
            continue
        done = harm(after(objects, plan.moves))
        for move in plan.moves:
            others = [other for other in plan.moves if other is not move]
            if harm(after(objects, others)) <= done:
                in_vain.append(f"seed {seed}: {move.pod.key} to {move.lands_on}, as {move.reason}")

    assert not in_vain, "\n".join(in_vain)
    assert moves > CLUSTERS // 10


# Copies that could not be parted may become so by moves of other owners: the next cycle's affair.
AT_ONCE = [case.values[0] for case in HARM if case.values[0] != "RemoveDuplicates"]


@pytest.mark.parametrize("name", AT_ONCE)
def test_once_a_plan_is_carried_out_there_is_nothing_left_to_move(name: str) -> None:
    restless: list[str] = []
    for seed in range(CLUSTERS):
        objects = without_budgets(seed)
        plan = drawn(objects, name).plan
        again = drawn(after(objects, plan.moves), name).plan
        restless += (f"seed {seed}: {move.pod.key}, as {move.reason}" for move in again.moves)

    assert not restless, "\n".join(restless)
