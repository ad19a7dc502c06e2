"""A snapshot: which pods are on which node, always in one order."""

from __future__ import annotations

import itertools

from resettle.model.pod import by_priority
from resettle.testing import NodeBuilder, World, cluster, node, pod


def world() -> tuple[NodeBuilder, ...]:
    return (
        node("n1").holding(pod("a"), pod("b", phase="Succeeded"), pod("c", terminating=True)),
        node("n2").holding(pod("d", phase="Failed"), pod("e", phase="Pending")),
    )


def test_pods_are_found_by_their_node() -> None:
    snapshot = cluster(*world(), pod("f", phase="Pending")).snapshot()
    first, second = snapshot.node_index.nodes

    assert {pod.name for pod in snapshot.pods_on(first)} == {"a", "b", "c"}
    assert {pod.name for pod in snapshot.pods_on(second)} == {"d", "e"}
    assert {pod.name for pod in snapshot.active_on(first)} == {"a", "c"}
    assert {pod.name for pod in snapshot.active_on(second)} == {"e"}
    assert len(snapshot.pods) == 6


def test_a_pod_on_a_node_that_is_not_there_is_a_stray() -> None:
    snapshot = cluster(*world(), pod("lost", spec={"nodeName": "n9"}), pod("new")).snapshot()

    assert [pod.name for pod in snapshot.pods_on_unknown_nodes] == ["lost"]


def test_the_order_of_listing_never_shows() -> None:
    objects = cluster(*world()).objects
    orders = [
        [pod.key for pod in World(shuffled).snapshot().pods]
        for shuffled in itertools.islice(itertools.permutations(objects), 0, None, 500)
    ]

    assert len(orders) > 5
    assert all(order == orders[0] for order in orders)


def test_requests_of_unfinished_pods_add_up_on_each_node() -> None:
    snapshot = cluster(
        node("n1").holding(
            pod("a", cpu="1", memory="1Gi"),
            pod("b", cpu="500m", terminating=True),
            pod("c", cpu="9", phase="Succeeded"),
        ),
    ).snapshot()
    (only,) = snapshot.node_index.nodes

    used = snapshot.requests_on(only)

    assert used == {"cpu": 1_500_000_000, "memory": 2**30 * 10**9, "pods": 2 * 10**9}


def test_pods_without_a_priority_are_less_important_than_any_other() -> None:
    pods = cluster(
        pod("none", priority=None), pod("negative", priority=-5), pod("zero", priority=0)
    ).snapshot()

    ranked = sorted(pods.pods, key=by_priority)

    assert [pod.name for pod in ranked] == ["none", "negative", "zero"]
