"""Where the planner sees a place for a pod, and where the oracle does, are the same."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from resettle.framework.view import View
from resettle.model.pod import Pod
from resettle.model.semantics import IMPROVED
from resettle.testing import World
from tests.oracle.clusters import cluster
from tests.oracle.objects import Object
from tests.oracle.scheduler import Oracle

CLUSTERS = 240
AT_ONCE = 40
MOVES = 6


def read(objects: list[Object]) -> View:
    """The cluster as a policy of `resettle/v1` sees it."""
    return View(World(objects).snapshot(), IMPROVED)


def movable(view: View) -> list[Pod]:
    """Pods that run somewhere and could be made to run elsewhere."""
    return [pod for pod in view.pods if pod.node and not pod.finished and not pod.terminating]


def disagreements(view: View, oracle: Oracle, case: str) -> Iterator[str]:
    """Each pod and node of which the two think differently, in words."""
    for pod in movable(view):
        takers = {
            node.name for node in view.node_index.members(view.projection.feasible_nodes(pod))
        }
        for node in view.node_index:
            why = oracle.refuses(pod.key, node.name)
            if (node.name in takers) != (why is None):
                planner = "takes" if node.name in takers else "refuses"
                verdict = why or "it fits"
                yield f"{case}: {pod.key} on {node.name}: the planner {planner} it, but {verdict}"


@pytest.mark.parametrize("first", range(0, CLUSTERS, AT_ONCE))
def test_the_planner_knows_every_place_for_every_pod_and_no_other(first: int) -> None:
    differences = [
        disagreement
        for seed in range(first, first + AT_ONCE)
        for objects in [cluster(Random(seed))]
        for disagreement in disagreements(read(objects), Oracle(objects), f"seed {seed}")
    ]
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("first", range(0, CLUSTERS, AT_ONCE))
def test_it_knows_them_still_after_moves(first: int) -> None:
    differences: list[str] = []
    for seed in range(first, first + AT_ONCE):
        lots = Random(seed)
        objects = cluster(lots)
        view, oracle = read(objects), Oracle(objects)
        case = f"seed {seed}"
        for pod in lots.sample(pods := movable(view), min(MOVES, len(pods))):
            places = [
                node.name for node in view.node_index if not oracle.refuses(pod.key, node.name)
            ]
            if places:
                place = lots.choice(places)
                view.projection.move(pod, place)
                oracle.move(pod.key, place)
                case += f", {pod.key} moved to {place}"
        differences += disagreements(view, oracle, case)
    assert not differences, "\n".join(differences)


def test_the_clusters_are_worth_asking_about() -> None:
    """Places and refusals of every kind are common, so that agreement means something."""
    fits = asked = 0
    reasons: set[str] = set()
    for seed in range(60):
        objects = cluster(Random(seed))
        oracle = Oracle(objects)
        for pod in movable(view := read(objects)):
            for node in view.node_index:
                why = oracle.refuses(pod.key, node.name)
                asked, fits = asked + 1, fits + (why is None)
                reasons.update(kind for kind in KINDS_OF_REFUSAL if kind in (why or ""))

    assert 0.15 < fits / asked < 0.6
    assert reasons == KINDS_OF_REFUSAL


KINDS_OF_REFUSAL = {
    "not ready",
    "cordoned",
    "ask for",
    "taint",
    "takes no more pods",
    "too little cpu",
    "too little memory",
    "too little example.com/gpu",
    "host port",
    "for one pod alone",
    "is not there",
    "being deleted",
    "cannot be had",
    "attaches no more",
    "to spread over",
    "its share",
    "keeps such pods away",
    "it keeps away",
    "near to others",
    "wants near",
    "devices",
    "gates",
}
