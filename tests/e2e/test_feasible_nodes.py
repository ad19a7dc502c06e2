"""The planner and a real kube-scheduler find the same feasible nodes for a pod.

Random clusters are created on the API server, one after another. Up to eight pods of each cluster
are deleted in turn, and a scheduler is asked for the feasible nodes of their replacements.

Nodes that are not ready are left out of the comparison: for the planner they are never feasible,
for the scheduler they are if a pod tolerates their taint.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from tests.e2e.random_clusters.comparison import Comparison
from tests.e2e.random_clusters.scheduler_probe import SchedulerProbe, scheduler_probe
from tests.e2e.random_clusters.static_cluster import StaticCluster
from tests.e2e.random_clusters.valid_objects import valid_objects
from tests.oracle.clusters import cluster
from tools.control_plane.papers import QUIET
from tools.control_plane.plane import Access

CLUSTERS = 200
MOVING_CLUSTERS = 100
CLUSTERS_IN_A_TEST = 20
PODS = 8


@pytest.fixture(scope="module")
def static_cluster(plane: Access) -> Iterator[StaticCluster]:
    with plane.api(QUIET) as api, StaticCluster(api) as created:
        yield created


@pytest.fixture(scope="module")
def probe(
    plane: Access, static_cluster: StaticCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SchedulerProbe]:
    with scheduler_probe(
        plane, static_cluster.api, tmp_path_factory.mktemp("probe")
    ) as running_probe:
        yield running_probe


@pytest.mark.parametrize("first", range(0, CLUSTERS, CLUSTERS_IN_A_TEST))
def test_the_planner_and_the_scheduler_find_the_same_feasible_nodes(
    first: int, static_cluster: StaticCluster, probe: SchedulerProbe
) -> None:
    differences: list[str] = []
    for seed in range(first, first + CLUSTERS_IN_A_TEST):
        rng = Random(seed)
        objects = valid_objects(cluster(rng))
        with static_cluster.holding(objects):
            comparison = Comparison(objects, static_cluster, probe)
            for pod in comparison.movable_pods(PODS, rng):
                if difference := comparison.difference(pod):
                    differences.append(f"seed {seed}: {difference}")
                comparison.put_back(pod)
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("first", range(CLUSTERS, CLUSTERS + MOVING_CLUSTERS, CLUSTERS_IN_A_TEST))
def test_they_find_the_same_feasible_nodes_while_pods_move(
    first: int, static_cluster: StaticCluster, probe: SchedulerProbe
) -> None:
    differences: list[str] = []
    for seed in range(first, first + CLUSTERS_IN_A_TEST):
        rng = Random(seed)
        objects = valid_objects(cluster(rng))
        with static_cluster.holding(objects):
            comparison = Comparison(objects, static_cluster, probe)
            for pod in comparison.movable_pods(PODS, rng):
                if difference := comparison.difference(pod):
                    differences.append(f"seed {seed}, after moves: {difference}")
                comparison.move(pod, rng)
    assert not differences, "\n".join(differences)
