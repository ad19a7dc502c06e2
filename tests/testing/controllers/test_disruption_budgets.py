"""Disruption budgets: what they want, what they have, and what they allow."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from resettle.testing import node, pod
from resettle.testing.builders import Object
from resettle.testing.controllers import (
    daemon_set,
    deployment,
    disruption_budget,
    replica_set,
    stateful_set,
)
from tests.testing.controllers.harness import Living, condition


class BudgetStatus(NamedTuple):
    """A status in four numbers."""

    expected: int
    desired: int
    healthy: int
    allowed: int


def budget_status(living: Living) -> BudgetStatus:
    """What the only budget says."""
    [obj] = living.store.list("PodDisruptionBudget")
    status = obj["status"]
    names = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    return BudgetStatus(*(status[name] for name in names))


def budget(**bounds: Any) -> Object:
    return disruption_budget("web", app="web", **bounds)


@pytest.mark.parametrize(
    ("workload", "bounds", "says"),
    [
        pytest.param(
            deployment("web", replicas=5),
            {"min_available": 3},
            BudgetStatus(5, 3, 5, 2),
            id="so many at least",
        ),
        pytest.param(
            deployment("web", replicas=5),
            {"min_available": "50%"},
            BudgetStatus(5, 3, 5, 2),
            id="half of 5 at least is 3",
        ),
        pytest.param(
            deployment("web", replicas=5),
            {"max_unavailable": 1},
            BudgetStatus(5, 4, 5, 1),
            id="one at most",
        ),
        pytest.param(
            deployment("web", replicas=5),
            {"max_unavailable": "30%"},
            BudgetStatus(5, 3, 5, 2),
            id="three tenths of 5 at most is 2",
        ),
        pytest.param(
            deployment("web", replicas=5),
            {"max_unavailable": "100%"},
            BudgetStatus(5, 0, 5, 5),
            id="all of them",
        ),
        pytest.param(
            deployment("web", replicas=2),
            {"min_available": 3},
            BudgetStatus(2, 3, 2, 0),
            id="more than there are",
        ),
        pytest.param(
            deployment("web", replicas=2),
            {"max_unavailable": 5},
            BudgetStatus(2, 0, 2, 2),
            id="more may be missing than there are",
        ),
        pytest.param(
            replica_set("web", replicas=4),
            {"max_unavailable": "25%"},
            BudgetStatus(4, 3, 4, 1),
            id="of a ReplicaSet",
        ),
        pytest.param(
            stateful_set("web", replicas=3, parallel=True),
            {"max_unavailable": 1},
            BudgetStatus(3, 2, 3, 1),
            id="of a StatefulSet",
        ),
        pytest.param(
            daemon_set("web"),
            {"max_unavailable": 1},
            BudgetStatus(0, 0, 1, 0),
            id="of a DaemonSet, which has no number of replicas: none",
        ),
        pytest.param(
            daemon_set("web"),
            {"min_available": 0},
            BudgetStatus(1, 0, 1, 1),
            id="of a DaemonSet, by the pods that are there",
        ),
        pytest.param(
            pod("web-1", owner=None, labels={"app": "web"}),
            {"max_unavailable": 1},
            BudgetStatus(0, 0, 1, 0),
            id="of a pod without an owner: none",
        ),
        pytest.param(
            deployment("other", replicas=2),
            {"min_available": 0},
            BudgetStatus(0, 0, 0, 0),
            id="of no pod at all",
        ),
    ],
)
def test_a_budget_allows_what_is_left_over(
    workload: Object, bounds: dict[str, Any], says: BudgetStatus
) -> None:
    living = Living(node("n1"), workload, budget(**bounds)).after(10)

    assert budget_status(living) == says


def test_pods_that_do_not_serve_yet_are_expected_but_not_healthy() -> None:
    living = Living(node("n1"), deployment("web", replicas=3), budget(max_unavailable=1)).after(1)

    assert budget_status(living) == BudgetStatus(3, 2, 0, 0)
    assert budget_status(living.after(1)) == BudgetStatus(3, 2, 3, 1)


def test_what_a_deployment_wants_counts_while_its_pods_are_replaced() -> None:
    release = {"metadata": {"labels": {"release": "2"}}}
    living = Living(node("n1"), deployment("web", replicas=4), budget(max_unavailable=1)).after(5)

    living.store.merge("Deployment", "web", {"spec": {"template": release}})
    living.after(1)

    assert len(living.pods) == 5
    assert budget_status(living).expected == 4


@pytest.mark.parametrize(
    ("seconds", "leaves", "kept"),
    [
        pytest.param(0, False, ["gone-soon"], id="is counted out while it is expected to go"),
        pytest.param(119, False, ["gone-soon"], id="for two minutes"),
        pytest.param(120, False, [], id="and then no longer"),
        pytest.param(0, True, [], id="nor once it is on its way"),
    ],
)
def test_an_evicted_pod(seconds: int, leaves: bool, kept: list[str]) -> None:
    labels = {"app": "web"}
    pods = [pod(name, owner=None, labels=labels) for name in ("gone-soon", "stays")]
    living = Living(node("n1").holding(*pods), budget(min_available=1))
    status = {"disruptedPods": {"gone-soon": "2026-01-31T12:00:00Z", "long-gone": "2026-01-31"}}
    living.store.merge("PodDisruptionBudget", "web", {"status": status})
    if leaves:
        leaving = {"deletionTimestamp": "2026-01-31T12:05:00Z", "deletionGracePeriodSeconds": 300}
        living.store.merge("Pod", "gone-soon", {"metadata": leaving})

    living.after(seconds)

    [obj] = living.store.list("PodDisruptionBudget")
    assert list(obj["status"].get("disruptedPods") or ()) == kept
    assert budget_status(living).healthy == 2 - (bool(kept) or leaves)


def test_a_budget_says_when_it_began_to_allow_disruptions() -> None:
    living = Living(node("n1"), deployment("web", replicas=3), budget(max_unavailable=1)).after(60)

    [obj] = living.store.list("PodDisruptionBudget")
    allows = condition(obj, "DisruptionAllowed")
    assert (allows["status"], allows["reason"]) == ("True", "SufficientPods")
    assert allows["lastTransitionTime"] == "2026-01-31T12:00:02Z"
    assert obj["status"]["observedGeneration"] == obj["metadata"]["generation"]


def test_a_budget_that_came_over_the_wire_is_looked_at() -> None:
    living = Living(node("n1"), deployment("web", replicas=2)).after(5)
    made = budget(max_unavailable=1)

    living.store.put({**made, "metadata": {**made["metadata"], "generation": 7}})
    living.life.settle()

    [obj] = living.store.list("PodDisruptionBudget")
    assert obj["status"]["observedGeneration"] == 7
    assert budget_status(living) == BudgetStatus(2, 1, 2, 1)
