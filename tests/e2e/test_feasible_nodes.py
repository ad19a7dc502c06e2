"""Where the planner sees a place for a pod, and where a real kube-scheduler does, are the same.

Random clusters are set up on the API server, one after another. Of each cluster up to eight pods
are taken away in turn, and a scheduler is asked where their replacements could go.

Nodes that are not ready are left out of the comparison: the planner sends nobody there, the
scheduler sends those who tolerate it.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from tests.e2e.random_clusters.comparison import Judge
from tests.e2e.random_clusters.scheduler_probe import Prober, probing
from tests.e2e.random_clusters.static_cluster import Stage
from tests.e2e.random_clusters.valid_objects import acceptable
from tests.oracle.clusters import cluster
from tools.control_plane.papers import QUIET
from tools.control_plane.plane import Access

CLUSTERS = 200
MOVING_CLUSTERS = 100
AT_ONCE = 20
PODS = 8


@pytest.fixture(scope="module")
def stage(plane: Access) -> Iterator[Stage]:
    with plane.api(QUIET) as api, Stage(api) as furnished:
        yield furnished


@pytest.fixture(scope="module")
def prober(
    plane: Access, stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prober]:
    with probing(plane, stage.api, tmp_path_factory.mktemp("probe")) as started:
        yield started


@pytest.mark.parametrize("first", range(0, CLUSTERS, AT_ONCE))
def test_the_planner_and_the_scheduler_see_the_same_places(
    first: int, stage: Stage, prober: Prober
) -> None:
    found: list[str] = []
    for seed in range(first, first + AT_ONCE):
        lots = Random(seed)
        objects = acceptable(cluster(lots))
        with stage.holding(objects):
            judge = Judge(objects, stage, prober)
            for pod in judge.some_pods(PODS, lots):
                if difference := judge.difference(pod):
                    found.append(f"seed {seed}: {difference}")
                judge.put_back(pod)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("first", range(CLUSTERS, CLUSTERS + MOVING_CLUSTERS, AT_ONCE))
def test_they_still_do_while_pods_move(first: int, stage: Stage, prober: Prober) -> None:
    found: list[str] = []
    for seed in range(first, first + AT_ONCE):
        lots = Random(seed)
        objects = acceptable(cluster(lots))
        with stage.holding(objects):
            judge = Judge(objects, stage, prober)
            for pod in judge.some_pods(PODS, lots):
                if difference := judge.difference(pod):
                    found.append(f"seed {seed}, after moves: {difference}")
                judge.move(pod, lots)
    assert not found, "\n".join(found)
