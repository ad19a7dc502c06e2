from __future__ import annotations

import pytest
from please_leave import PLUGIN, Args

from resettle.framework import Ending
from resettle.testing import Ban, Fault, PocketServer, cluster, moved, node, pod

LABEL = "resettle.example/please-leave"
WORLD = cluster(node("n1").holding(pod("match-1", labels={"app": "arena"})))


def test_a_pod_is_asked_to_leave_and_not_evicted() -> None:
    with PocketServer(WORLD.objects) as pocket:
        outcome = moved(PLUGIN, pocket, "default/match-1", reason="has lived 2 d")
        meta = pocket.store.get("Pod", "match-1")["metadata"]

    assert outcome.ending is Ending.BACKGROUND
    assert meta["labels"] == {"app": "arena", LABEL: "PodLifeTime"}
    assert meta["annotations"][f"{LABEL}-because"] == "has lived 2 d"
    assert "deletionTimestamp" not in meta


def test_one_request_is_all_it_takes() -> None:
    with PocketServer(WORLD.objects) as pocket:
        moved(PLUGIN, pocket, "default/match-1")
        moved(PLUGIN, pocket, "default/match-1")

        assert [it.verb for it in pocket.asked] == ["patch", "patch"]


def test_the_label_is_the_policys() -> None:
    with PocketServer(WORLD.objects) as pocket:
        moved(PLUGIN, pocket, "default/match-1", label="games.example/bye")

        assert "games.example/bye" in pocket.store.get("Pod", "match-1")["metadata"]["labels"]


@pytest.mark.parametrize(
    ("faults", "ending"),
    [
        pytest.param([Fault(verbs=("patch",), status=404)], Ending.GONE, id="it has gone"),
        pytest.param([Fault(verbs=("patch",), status=409)], Ending.GONE, id="a namesake is there"),
        pytest.param([Fault(verbs=("patch",), hang_up=True)], Ending.UNKNOWN, id="no answer"),
        pytest.param([Fault(verbs=("patch",), status=500)], Ending.ERROR, id="an error"),
    ],
)
def test_what_the_server_says_becomes_an_outcome(faults: list[Fault], ending: Ending) -> None:
    with PocketServer(WORLD.objects, faults=faults) as pocket:
        assert moved(PLUGIN, pocket, "default/match-1").ending is ending


def test_who_may_not_patch_pods_moves_nobody() -> None:
    with PocketServer(WORLD.objects, bans=[Ban(verb="patch", resource="pods")]) as pocket:
        outcome = moved(PLUGIN, pocket, "default/match-1")

    assert (outcome.ending, outcome.says) == (Ending.ERROR, "the API server answered 403")


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
