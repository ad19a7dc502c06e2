"""Plans of `resettle/v1`, executed on a real control plane: where do the pods end up?

Fifty random clusters are created on the API server, one after another. Each gets a plan; its pods
are evicted in the order of the plan, the next one once the one before has its replacement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

import pytest

from resettle.kube.auth.kubeconfig import read_kubeconfig
from tests.e2e.random_clusters.execution import MovedPod, circumstances, execute_plan
from tests.e2e.random_clusters.policies import BALANCE, DESCHEDULE
from tests.e2e.random_clusters.scenario_cluster import ScenarioCluster
from tests.e2e.random_clusters.scenarios import random_scenario
from tools.control_plane.papers import ADMIN, QUIET
from tools.control_plane.plane import Access

CLUSTERS = 50
AT_LEAST = 250
"""The smallest number of moves over all clusters; fewer prove little."""

Plans = dict[int, list[MovedPod]]


@pytest.fixture(scope="module")
def plans(plane: Access) -> Plans:
    """The moves of the plan of each cluster with their results, by seed."""
    access = read_kubeconfig(str(plane.papers.kubeconfig(ADMIN)))
    results: Plans = {}
    with plane.api(QUIET) as api:
        for seed in range(CLUSTERS):
            cluster = random_scenario(seed)
            with ScenarioCluster(api, cluster) as scenario_cluster:
                results[seed] = execute_plan(scenario_cluster, access, cluster.policy, patient=True)
    return results


@pytest.fixture(scope="module")
def moved_pods(plans: Plans) -> list[MovedPod]:
    """The moves of all plans."""
    return list(chain.from_iterable(plans.values()))


def test_the_figures_are_printed_and_kept(
    plans: Plans, moved_pods: list[MovedPod], plane: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    report = "\n".join([*figures(moved_pods), *exceptions(plans)])
    (plane.folder / "carried-out.txt").write_text(f"{report}\n")
    with capsys.disabled():
        print(f"\n{report}")

    assert len(moved_pods) >= AT_LEAST


@pytest.mark.parametrize("strategy", [*DESCHEDULE, *BALANCE])
def test_every_strategy_moves_pods(strategy: str, moved_pods: list[MovedPod]) -> None:
    assert any(pod.move.plugin == strategy for pod in moved_pods)


def test_every_eviction_is_granted(moved_pods: list[MovedPod]) -> None:
    declined = [f"{pod}: {pod.answer}" for pod in moved_pods if not pod.answer.fine]

    assert not declined, "\n".join(declined)


def test_no_pod_is_left_without_a_node(moved_pods: list[MovedPod]) -> None:
    waiting = [str(pod) for pod in moved_pods if not pod.node]

    assert not waiting, "\n".join(waiting)


def test_99_of_100_pods_land_on_another_node(plans: Plans, moved_pods: list[MovedPod]) -> None:
    elsewhere = sum(not pod.came_back for pod in moved_pods)

    assert elsewhere / len(moved_pods) >= 0.99, "\n".join(exceptions(plans))


def test_pods_come_back_only_if_other_moves_concern_their_nodes(plans: Plans) -> None:
    without = [
        f"cluster {seed}: {pod}"
        for seed, moved in plans.items()
        for pod in moved
        if pod.came_back and not circumstances(pod, moved)
    ]

    assert not without, "\n".join(without)


def test_most_pods_land_where_predicted(moved_pods: list[MovedPod]) -> None:
    assert sum(pod.is_as_predicted for pod in moved_pods) / len(moved_pods) > 0.6


def figures(moved_pods: Iterable[MovedPod]) -> Iterator[str]:
    """A table of the results, by strategy."""
    groups: dict[str, list[MovedPod]] = {}
    for pod in moved_pods:
        groups.setdefault(pod.move.plugin, []).append(pod)
        groups.setdefault("all", []).append(pod)
    yield f"{'':45}{'moved':>8}{'elsewhere':>11}{'as predicted':>13}{'back':>6}{'waiting':>9}"
    for name, group in sorted(groups.items()):
        counts = Counter(_result_of(pod) for pod in group)
        elsewhere = counts["elsewhere"]
        predicted = sum(pod.is_as_predicted for pod in group)
        row = f"{len(group):>8}{elsewhere:>11}{predicted:>13}{counts['back']:>6}"
        yield f"{name:45}{row}{counts['waiting']:>9}"


def _result_of(pod: MovedPod) -> str:
    if not pod.node:
        return "waiting"
    return "back" if pod.came_back else "elsewhere"


def exceptions(plans: Plans) -> Iterator[str]:
    """Each pod that is not on another node, with the circumstances."""
    for seed, moved in plans.items():
        for pod in moved:
            if pod.came_back or not pod.node:
                yield f"cluster {seed}: {pod}: {circumstances(pod, moved) or 'no known reason'}"
