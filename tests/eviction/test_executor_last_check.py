"""The last check of a pod: as its first request is written, after the rate limiter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from resettle.errors import NotThisPod
from resettle.framework import (
    ApiRequests,
    Args,
    ExtensionPoint,
    Instance,
    Move,
    MoveResponse,
    MoveResult,
    Options,
    Plugin,
    Refusal,
    View,
)
from resettle.kube.transport.pacing import RateLimiter
from resettle.model.pod import PREFER_NO_EVICTION, Pod
from resettle.testing import ApiServer, Fault, cluster, node, pod
from tests.eviction.harness import Rig, endings, rigged, run_with_timeout
from tests.kube.watch.harness import caught_up, until

E = MoveResult
NAMES = tuple(f"p{i:02}" for i in range(60))
WORLD = cluster(node("n1").holding(*(pod(name) for name in NAMES)), node("n2"))
Change = Callable[[dict[str, Any]], object]


def slow(clock: Any) -> RateLimiter:
    return RateLimiter(10, 1, clock)


def change_pods(server: ApiServer, names: tuple[str, ...], change: Change) -> None:
    for name in names:
        stored = server.store.get("Pod", name)
        assert stored is not None
        change(stored)
        server.store.put(stored)


async def carried_out_while(
    rig: Rig, meanwhile: Callable[[], object], **more: Any
) -> list[MoveResponse]:
    """What becomes of all pods; `meanwhile` happens right after the first eviction."""
    carrying = asyncio.create_task(rig.carried_out(*NAMES, by=rig.executor(**more)))
    await until(lambda: len(rig.asked) == 1)
    await until(lambda: rig.clock.sleepers >= 31)
    meanwhile()
    await caught_up(rig.server, rig.cache)
    while not carrying.done():
        rig.clock.advance(timedelta(seconds=0.1))
        await asyncio.sleep(0)
    return await carrying


def set_label(stored: dict[str, Any]) -> None:
    stored["metadata"]["labels"] = {"app": "other"}


def set_owner(stored: dict[str, Any]) -> None:
    stored["metadata"]["ownerReferences"][0].update(name="other", uid="other")


def set_annotation(stored: dict[str, Any]) -> None:
    stored["metadata"]["annotations"] = {PREFER_NO_EVICTION: "true"}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(set_label, id="label"),
        pytest.param(set_owner, id="owner"),
        pytest.param(lambda stored: stored["spec"].update(priority=7), id="priority"),
        pytest.param(lambda stored: stored["spec"].update(nodeName="n2"), id="node"),
        pytest.param(set_annotation, id="annotation"),
        pytest.param(lambda stored: stored["status"].update(phase="Succeeded"), id="finished"),
    ],
)
def test_pods_that_change_while_they_wait_for_their_turn_stay(change: Change) -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD, slow) as rig:
            outcomes = await carried_out_while(
                rig, lambda: change_pods(rig.server, NAMES[1:], change)
            )

            assert endings(outcomes) == [E.EVICTED] + [E.CHANGED] * 59
            assert rig.asked == ["p00"]
            assert {outcome.message for outcome in outcomes[1:]} == {
                "it is not what it was when the plan was drawn"
            }

    run_with_timeout(run_scenario())


def test_pods_that_do_not_change_leave_however_long_they_wait() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD, slow) as rig:
            outcomes = await carried_out_while(rig, lambda: None)

            assert endings(outcomes) == [E.EVICTED] * 60
            assert rig.clock.steady() >= 5.9, "they waited for the rate limiter"

    run_with_timeout(run_scenario())


def test_pods_that_leave_while_they_wait_are_gone() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD, slow) as rig:

            def delete_all() -> None:
                for name in NAMES[1:]:
                    rig.server.store.delete("Pod", name)

            outcomes = await carried_out_while(rig, delete_all)

            assert endings(outcomes) == [E.EVICTED] + [E.GONE] * 59

    run_with_timeout(run_scenario())


def as_filter(check: Callable[[Any, View, Pod], Refusal | None]) -> tuple[Instance, ...]:
    return (Instance(Plugin(name="Guard", filter=check), Args(), ExtensionPoint.FILTER),)


def test_a_filter_that_begins_to_refuse_keeps_the_rest() -> None:
    is_closed: list[bool] = []

    def check(args: Any, view: View, pod: Pod) -> Refusal | None:
        return Refusal("closed", "may not leave now") if is_closed else None

    async def run_scenario() -> None:
        async with rigged(WORLD, slow) as rig:
            outcomes = await carried_out_while(
                rig, lambda: is_closed.append(True), filters=as_filter(check)
            )

            assert endings(outcomes) == [E.EVICTED] + [E.CHANGED] * 59
            assert (
                outcomes[1].message == "Guard does not let it leave any more: it may not leave now"
            )

    run_with_timeout(run_scenario())


def test_a_filter_sees_the_cluster_as_it_is_when_the_request_is_written() -> None:
    def check(args: Any, view: View, pod: Pod) -> Refusal | None:
        first = view.pod("default", "p00")
        is_leaving = first is None or first.terminating
        return Refusal("alone", "is the last") if is_leaving and pod.name != "p00" else None

    async def run_scenario() -> None:
        async with rigged(WORLD, slow) as rig:
            outcomes = await carried_out_while(rig, lambda: None, filters=as_filter(check))

            assert endings(outcomes) == [E.EVICTED] + [E.CHANGED] * 59

    run_with_timeout(run_scenario())


def test_a_pod_that_cannot_be_checked_stays_and_nothing_counts_as_sent() -> None:
    def fail() -> View:
        raise RuntimeError("no view")

    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            rig.fresh_view._take = fail
            outcomes = await rig.carried_out("p00")

            message = "it could not be checked: RuntimeError: no view"
            assert outcomes == [MoveResponse(E.CHANGED, message)]
            assert rig.asked == []

    run_with_timeout(run_scenario())


# -- movers of several requests -------------------------------------------------------------------


class Steps:
    """A mover that sends these requests, and has something happen before each."""

    def __init__(self, *steps: tuple[str, Callable[[], object]]) -> None:
        self.steps = steps
        self.statuses: list[int] = []

    async def move(self, move: Move, options: Options, requests: ApiRequests) -> MoveResponse:
        path = f"/api/v1/namespaces/default/pods/{move.pod.name}"
        for method, happens in self.steps:
            happening = happens()
            if asyncio.iscoroutine(happening):
                await happening
            body = None if method == "GET" else b'{"metadata": {"labels": {"moved": "yes"}}}'
            kind = "application/merge-patch+json"
            answer = await requests.send(method, path, body, content_type=kind)
            self.statuses.append(answer.status)
        return MoveResponse(E.BACKGROUND)


def nothing() -> None:
    """Nothing happens."""


def test_a_mover_may_read_first_and_is_checked_when_it_writes() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:

            async def relabel() -> None:
                change_pods(rig.server, ("p00",), set_label)
                await caught_up(rig.server, rig.cache)

            mover = Steps(("GET", relabel), ("PATCH", nothing))
            outcomes = await rig.carried_out("p00", by=rig.executor(mover))

            assert endings(outcomes) == [E.CHANGED]
            assert mover.statuses == [200], "it was read, and not written"

    run_with_timeout(run_scenario())


def test_what_the_first_write_changed_does_not_stop_the_second() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            mover = Steps(("PATCH", nothing), ("PATCH", lambda: caught_up(rig.server, rig.cache)))
            outcomes = await rig.carried_out("p00", by=rig.executor(mover))

            assert endings(outcomes) == [E.BACKGROUND]
            assert mover.statuses == [200, 200]

    run_with_timeout(run_scenario())


def test_a_write_that_was_refused_did_not_begin_the_move() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            rig.server.faults.add(Fault(verbs=("patch",), status=409))

            async def relabel() -> None:
                change_pods(rig.server, ("p00",), set_label)
                await caught_up(rig.server, rig.cache)

            mover = Steps(("PATCH", nothing), ("PATCH", relabel))
            outcomes = await rig.carried_out("p00", by=rig.executor(mover))

            assert endings(outcomes) == [E.CHANGED]
            assert mover.statuses == [409]

    run_with_timeout(run_scenario())


def test_a_request_that_a_busy_server_refused_is_checked_again() -> None:
    """The server asks to come back later; the pod changes meanwhile."""

    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            rig.server.faults.add(Fault(path="*/eviction", status=429, retry_after_seconds=1))
            checks: list[str] = []

            def check(args: Any, view: View, pod: Pod) -> Refusal | None:
                checks.append(pod.name)
                return Refusal("closed", "may not leave now") if len(checks) > 2 else None

            outcomes = await rig.carried_out("p00", by=rig.executor(filters=as_filter(check)))

            assert endings(outcomes) == [E.CHANGED]
            assert rig.asked == ["p00"], "the second try was not written"
            assert checks == ["p00"] * 3

    run_with_timeout(run_scenario())


def test_what_ends_a_move_says_whether_the_pod_has_left() -> None:
    assert NotThisPod("it went", has_left=True).has_left
    assert not NotThisPod("it changed").has_left
