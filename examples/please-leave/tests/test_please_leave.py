from __future__ import annotations

import pytest
from please_leave import PLUGIN, Args

from resettle.framework import MoveResult
from resettle.testing import ApiServer, DeniedPermission, Fault, cluster, move_pod, node, pod

LABEL = "resettle.example/please-leave"
WORLD = cluster(node("n1").holding(pod("match-1", labels={"app": "arena"})))


def test_a_pod_is_asked_to_leave_and_not_evicted() -> None:
    with ApiServer(WORLD.objects) as pocket:
        outcome = move_pod(PLUGIN, pocket, "default/match-1", reason="has lived 2 d")
        meta = pocket.store.get("Pod", "match-1")["metadata"]

    assert outcome.result is MoveResult.BACKGROUND
    assert meta["labels"] == {"app": "arena", LABEL: "PodLifeTime"}
    assert meta["annotations"][f"{LABEL}-because"] == "has lived 2 d"
    assert "deletionTimestamp" not in meta


def test_one_request_is_all_it_takes() -> None:
    with ApiServer(WORLD.objects) as pocket:
        move_pod(PLUGIN, pocket, "default/match-1")
        move_pod(PLUGIN, pocket, "default/match-1")

        assert [it.verb for it in pocket.requests] == ["patch", "patch"]


def test_the_label_is_the_policys() -> None:
    with ApiServer(WORLD.objects) as pocket:
        move_pod(PLUGIN, pocket, "default/match-1", label="games.example/bye")

        assert "games.example/bye" in pocket.store.get("Pod", "match-1")["metadata"]["labels"]


@pytest.mark.parametrize(
    ("faults", "ending"),
    [
        pytest.param([Fault(verbs=("patch",), status=404)], MoveResult.GONE, id="it has gone"),
        pytest.param(
            [Fault(verbs=("patch",), status=409)], MoveResult.GONE, id="a namesake is there"
        ),
        pytest.param([Fault(verbs=("patch",), hang_up=True)], MoveResult.UNKNOWN, id="no answer"),
        pytest.param([Fault(verbs=("patch",), status=500)], MoveResult.ERROR, id="an error"),
    ],
)
def test_what_the_server_says_becomes_an_outcome(faults: list[Fault], ending: MoveResult) -> None:
    with ApiServer(WORLD.objects, faults=faults) as pocket:
        assert move_pod(PLUGIN, pocket, "default/match-1").result is ending


def test_without_permission_to_patch_pods_no_pod_moves() -> None:
    with ApiServer(
        WORLD.objects, denied=[DeniedPermission(verb="patch", resource="pods")]
    ) as pocket:
        outcome = move_pod(PLUGIN, pocket, "default/match-1")

    assert (outcome.result, outcome.message) == (MoveResult.ERROR, "the API server answered 403")


@pytest.mark.parametrize(
    ("label", "places"),
    [
        pytest.param("please-leave", [], id="a plain one"),
        pytest.param("games.example/please-leave", [], id="one with a prefix"),
        pytest.param("", [("label",)], id="none"),
        pytest.param("please leave", [("label",)], id="two words"),
        pytest.param("a/b/c", [("label",)], id="too many parts"),
    ],
)
def test_a_label_that_cannot_be_is_a_problem(label: str, places: list[tuple[str, ...]]) -> None:
    assert [problem.at for problem in Args(label=label).problems()] == places
