from __future__ import annotations

from datetime import timedelta

import pytest
from tidy_finished import PLUGIN

from resettle.framework import Plugin, Refusal, default_registry
from resettle.testing import (
    NOW,
    ApiServer,
    DeniedPermission,
    Fault,
    cluster,
    node,
    pod,
    run_controller,
)

WORLD = cluster(
    node("n1").holding(
        pod("done", phase="Succeeded", age="2h"),
        pod("failed", phase="Failed", age="3h"),
        pod("just-done", phase="Succeeded", age="10m"),
        pod("running", age="9h"),
    )
)
KEPT = {"just-done", "running"}


def names(server: ApiServer) -> set[str]:
    return {item["metadata"]["name"] for item in server.store.list("Pod")}


def test_pods_that_finished_long_ago_are_deleted() -> None:
    with ApiServer(WORLD.objects) as server:
        lines = run_controller(PLUGIN, server, lambda: names(server) == KEPT, now=lambda: NOW)

    assert sum("finished pod deleted" in line for line in lines) == 2


def test_how_long_is_an_argument() -> None:
    with ApiServer(WORLD.objects) as server:
        run_controller(
            PLUGIN, server, lambda: names(server) == {"running"}, now=lambda: NOW, afterSeconds=300
        )


def test_a_pod_is_deleted_when_its_time_has_come() -> None:
    # "just-done" has 50 minutes left, of which all but a moment have passed.
    soon = NOW + timedelta(minutes=49, seconds=59.9)
    times = iter([soon] * 5)
    with ApiServer(WORLD.objects) as server:
        run_controller(
            PLUGIN,
            server,
            lambda: names(server) == {"running"},
            now=lambda: next(times, soon + timedelta(seconds=1)),
        )


def test_a_pod_that_finishes_meanwhile_is_seen() -> None:
    with ApiServer(WORLD.objects) as server:

        def is_tidy() -> bool:
            if names(server) == KEPT:
                server.store.put(pod("running", phase="Succeeded", age="9h"))
            return names(server) == {"just-done"}

        run_controller(PLUGIN, server, is_tidy, now=lambda: NOW)


def test_a_pod_that_a_filter_protects_stays() -> None:
    keep = Plugin(
        name="Keep",
        filter=lambda args, view, pod: Refusal("kept", "is kept") if pod.name == "done" else None,
    )
    with ApiServer(WORLD.objects) as server:
        run_controller(
            PLUGIN,
            server,
            lambda: "failed" not in names(server),
            now=lambda: NOW,
            filters=[default_registry()["DefaultEvictor"], keep],
        )
        assert "done" in names(server)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(verbs=("delete",), hang_up=True), id="the answer is lost"),
        pytest.param(Fault(verbs=("delete",), status=409), id="another of that name"),
    ],
)
def test_what_went_wrong_is_tried_again_with_the_next_change(fault: Fault) -> None:
    with ApiServer(WORLD.objects, faults=[fault]) as server:
        run_controller(PLUGIN, server, lambda: names(server) == KEPT, now=lambda: NOW)


def test_without_permission_it_fails_and_says_so() -> None:
    denied = [DeniedPermission(verb="delete", resource="pods")]
    with (
        ApiServer(WORLD.objects, denied=denied) as server,
        pytest.raises(RuntimeError, match="the API server answered 403"),
    ):
        run_controller(PLUGIN, server, lambda: names(server) == KEPT, now=lambda: NOW)
