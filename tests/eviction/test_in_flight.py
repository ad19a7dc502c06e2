"""Moves in flight, row by row of the drawing in `in_flight`, with a clock that the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from resettle.eviction.in_flight import (
    PATIENCE_SECONDS,
    REQUESTED_SECONDS,
    UNKNOWN_SECONDS,
    InFlightMove,
    InFlightMoves,
    MoveStage,
)
from resettle.framework import MoveResponse, MoveResult
from resettle.log import Log
from resettle.model.pod import IN_PROGRESS, Pod
from resettle.testing import ApiServer, ManualClock, cluster, node, pod
from tests.eviction.builders import UNDER_WAY, WILLING, seen, to_leave
from tests.kube.watch.harness import until, watched

E = MoveResult
AFTER_PATIENCE = PATIENCE_SECONDS + 1


class Desk:
    """Moves in flight, the pod that is followed, and how its move ended."""

    def __init__(self, live: Pod | None = None, *, background: bool = True) -> None:
        self.live = live
        self.clock = ManualClock()
        self.log_lines: list[str] = []
        self.ended: list[tuple[InFlightMove, bool]] = []
        self.ledger = InFlightMoves(
            lambda namespace, name: self.live,
            self.clock,
            Log.to(self.log_lines),
            background=background,
            on_ended=lambda entry, left: self.ended.append((entry, left)),
        )

    def asked(self, ending: MoveResult, planned: Pod | None = None) -> None:
        """An answer to a request comes in."""
        pod_to_move = planned or self.live
        assert pod_to_move is not None
        self.ledger.add(to_leave(pod_to_move), MoveResponse(ending))

    def receives(self, after: Pod | None) -> None:
        before, self.live = self.live, after
        self.ledger.on_pod_change(before, after)

    def waits(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))
        self.ledger.drop_expired()

    @property
    def says(self) -> str:
        """The stage of the only entry; once it has ended `done` or `dropped`, `nothing` if none."""
        stages = [str(entry.stage) for entry in self.ledger.moves]
        ends = ["done" if left else "dropped" for _, left in self.ended]
        assert len(stages + ends) <= 1
        return "".join(stages + ends) or "nothing"


Step = Callable[[Desk], None]


def becomes(**more: Any) -> Step:
    """The pod is seen to be so."""
    return lambda desk: desk.receives(seen("vm", **more))


def goes(desk: Desk) -> None:
    desk.receives(None)


def passes(seconds: float) -> Step:
    return lambda desk: desk.waits(seconds)


leaves = becomes(annotations=WILLING, terminating=True)
is_replaced = becomes(annotations=WILLING, metadata={"uid": "uid-of-a-namesake"})
is_confirmed = becomes(annotations=UNDER_WAY)
is_unconfirmed = becomes(annotations=WILLING)
is_touched = becomes(annotations=WILLING, restarts=1)
is_unwilling = becomes(annotations={})
succeeds = becomes(annotations=WILLING, phase="Succeeded")
succeeds_meanwhile = becomes(annotations=UNDER_WAY, phase="Succeeded")
fails = becomes(annotations=WILLING, phase="Failed")
fails_meanwhile = becomes(annotations=UNDER_WAY, phase="Failed")


@pytest.mark.parametrize(
    ("ending", "steps", "says"),
    [
        pytest.param(E.EVICTED, [], "evicted", id="evicted"),
        pytest.param(E.EVICTED, [leaves], "done", id="evicted, and seen to leave"),
        pytest.param(E.EVICTED, [goes], "done", id="evicted, and gone at once"),
        pytest.param(E.EVICTED, [is_replaced], "done", id="evicted, and a namesake comes"),
        pytest.param(E.EVICTED, [is_touched], "evicted", id="evicted, and not seen to leave yet"),
        pytest.param(
            E.EVICTED, [passes(AFTER_PATIENCE)], "dropped", id="evicted, and never seen to leave"
        ),
        pytest.param(E.UNKNOWN, [], "unknown", id="unknown"),
        pytest.param(E.UNKNOWN, [leaves], "done", id="unknown, and seen to leave"),
        pytest.param(E.UNKNOWN, [goes], "done", id="unknown, and gone at once"),
        pytest.param(E.UNKNOWN, [is_touched], "unknown", id="unknown, and still there"),
        pytest.param(
            E.UNKNOWN, [passes(UNKNOWN_SECONDS)], "unknown", id="unknown, for as long as may be"
        ),
        pytest.param(
            E.UNKNOWN, [passes(UNKNOWN_SECONDS + 0.001)], "dropped", id="unknown for too long"
        ),
        pytest.param(
            E.UNKNOWN, [is_confirmed], "confirmed", id="unknown, and others are seen to move it"
        ),
        pytest.param(E.REQUESTED, [], "requested", id="requested"),
        pytest.param(E.REQUESTED, [is_touched], "requested", id="requested, and still there"),
        pytest.param(E.REQUESTED, [leaves], "done", id="requested, and seen to leave"),
        pytest.param(E.REQUESTED, [goes], "done", id="requested, and gone at once"),
        pytest.param(E.REQUESTED, [is_replaced], "done", id="requested, and a namesake comes"),
        pytest.param(
            E.REQUESTED,
            [passes(REQUESTED_SECONDS)],
            "requested",
            id="requested, until its object must be in the cache",
        ),
        pytest.param(
            E.REQUESTED,
            [passes(REQUESTED_SECONDS + 0.001)],
            "dropped",
            id="requested, and left to its object",
        ),
        pytest.param(E.BACKGROUND, [], "assumed", id="assumed"),
        pytest.param(
            E.BACKGROUND, [is_touched], "assumed", id="assumed, and something else is new"
        ),
        pytest.param(
            E.BACKGROUND, [passes(PATIENCE_SECONDS)], "assumed", id="assumed for ten minutes"
        ),
        pytest.param(
            E.BACKGROUND,
            [passes(PATIENCE_SECONDS + 0.001)],
            "dropped",
            id="assumed for more than ten minutes",
        ),
        pytest.param(E.BACKGROUND, [is_unwilling], "dropped", id="assumed, then without a request"),
        pytest.param(E.BACKGROUND, [leaves], "assumed", id="assumed, and leaving is not enough"),
        pytest.param(E.BACKGROUND, [goes], "done", id="assumed, and gone"),
        pytest.param(E.BACKGROUND, [is_replaced], "done", id="assumed, and a namesake comes"),
        pytest.param(E.BACKGROUND, [succeeds], "done", id="assumed, and it ends well"),
        pytest.param(E.BACKGROUND, [fails], "dropped", id="assumed, and it ends badly"),
        pytest.param(E.BACKGROUND, [is_confirmed], "confirmed", id="confirmed"),
        pytest.param(
            E.BACKGROUND,
            [is_confirmed, passes(100 * PATIENCE_SECONDS)],
            "confirmed",
            id="confirmed never ages",
        ),
        pytest.param(
            E.BACKGROUND,
            [passes(PATIENCE_SECONDS), is_confirmed, passes(AFTER_PATIENCE)],
            "confirmed",
            id="confirmed at the last moment",
        ),
        pytest.param(E.BACKGROUND, [is_confirmed, goes], "done", id="confirmed, and gone"),
        pytest.param(
            E.BACKGROUND,
            [is_confirmed, succeeds_meanwhile],
            "done",
            id="confirmed, and it ends well",
        ),
        pytest.param(
            E.BACKGROUND, [is_confirmed, fails_meanwhile], "dropped", id="confirmed, ends badly"
        ),
        pytest.param(
            E.BACKGROUND, [is_confirmed, is_unconfirmed], "dropped", id="confirmed, then given up"
        ),
        pytest.param(
            E.BACKGROUND,
            [is_confirmed, becomes(annotations={IN_PROGRESS: ""})],
            "dropped",
            id="confirmed, then without a request",
        ),
        *(
            pytest.param(ending, [], "nothing", id=f"{ending} leaves no entry")
            for ending in MoveResult
            if not ending.counts_as_leaving
        ),
    ],
)
def test_a_move_in_flight_comes_to_its_end(
    ending: MoveResult, steps: list[Step], says: str
) -> None:
    desk = Desk(seen("vm", annotations=WILLING))

    desk.asked(ending)
    for step in steps:
        step(desk)

    assert desk.says == says
    assert desk.ledger.moving == ({"uid-default-vm"} if desk.ledger.moves else set())


def test_a_pod_that_failed_to_move_may_be_asked_again() -> None:
    desk = Desk(seen("vm", annotations=WILLING))
    desk.asked(E.BACKGROUND)
    is_confirmed(desk)
    is_unconfirmed(desk)
    desk.ended.clear()

    desk.asked(E.BACKGROUND)

    assert desk.says == "assumed"


def test_the_timeout_starts_again_with_a_new_request() -> None:
    desk = Desk(seen("vm", annotations=WILLING))
    desk.asked(E.BACKGROUND)
    desk.waits(AFTER_PATIENCE)
    desk.ended.clear()

    desk.asked(E.BACKGROUND)
    desk.waits(PATIENCE_SECONDS)

    assert desk.says == "assumed"


@pytest.mark.parametrize(
    ("ending", "step", "says"),
    [
        pytest.param(E.EVICTED, goes, "done", id="granted, and the pod has gone"),
        pytest.param(E.EVICTED, leaves, "done", id="granted, and it is leaving"),
        pytest.param(E.EVICTED, is_replaced, "done", id="granted, and a namesake is there"),
        pytest.param(E.UNKNOWN, goes, "done", id="lost, and the pod has gone"),
        pytest.param(E.BACKGROUND, goes, "done", id="accepted, and the pod has gone"),
        pytest.param(E.BACKGROUND, succeeds, "done", id="accepted, and it has ended well"),
        pytest.param(E.BACKGROUND, fails, "dropped", id="accepted, and it has ended badly"),
        pytest.param(E.BACKGROUND, is_confirmed, "confirmed", id="accepted, and confirmed"),
    ],
)
def test_the_watch_may_be_quicker_than_the_answer(
    ending: MoveResult, step: Step, says: str
) -> None:
    planned = seen("vm", annotations=WILLING)
    desk = Desk(planned)

    step(desk)
    desk.asked(ending, planned)

    assert desk.says == says


def test_who_asked_is_known_even_if_the_watch_was_quicker() -> None:
    planned = seen("vm", annotations=WILLING)
    desk = Desk(planned)
    is_confirmed(desk)
    desk.asked(E.BACKGROUND, planned)

    goes(desk)

    ((entry, left),) = desk.ended
    assert (entry.plugin, entry.profile, left) == ("PodLifeTime", "daily", True)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        pytest.param({"annotations": UNDER_WAY}, "confirmed", id="on its way"),
        pytest.param({"annotations": WILLING}, "nothing", id="willing, and not asked"),
        pytest.param({"annotations": {IN_PROGRESS: "true"}}, "nothing", id="not ours to ask"),
        pytest.param(
            {"annotations": UNDER_WAY, "phase": "Succeeded"}, "nothing", id="done already"
        ),
        pytest.param({"annotations": UNDER_WAY, "phase": "Failed"}, "nothing", id="failed already"),
    ],
)
def test_what_an_earlier_process_began_is_found_in_the_pods(more: Any, says: str) -> None:
    desk = Desk()

    desk.receives(seen("vm", **more))

    assert desk.says == says


@pytest.mark.parametrize(
    ("ending", "steps", "says"),
    [
        pytest.param(None, [is_confirmed], "nothing", id="annotations mean nothing"),
        pytest.param(E.EVICTED, [is_confirmed], "evicted", id="nor for a pod that was evicted"),
        pytest.param(E.EVICTED, [goes], "done", id="which still comes to its end"),
    ],
)
def test_with_the_feature_gate_off_no_pod_moves_in_background(
    ending: MoveResult | None, steps: list[Step], says: str
) -> None:
    desk = Desk(seen("vm", annotations=WILLING), background=False)
    if ending is not None:
        desk.asked(ending)

    for step in steps:
        step(desk)

    assert desk.says == says


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        pytest.param([becomes(restarts=1)], "assumed", id="whatever else is new of it"),
        pytest.param([goes], "done", id="until it has gone"),
        pytest.param([passes(AFTER_PATIENCE)], "dropped", id="or patience has"),
    ],
)
def test_a_mover_may_move_pods_in_background_that_bear_no_annotation(
    steps: list[Step], says: str
) -> None:
    desk = Desk(seen("vm"))
    desk.asked(E.BACKGROUND)

    for step in steps:
        step(desk)

    assert desk.says == says


@pytest.mark.parametrize(
    ("ending", "step", "line"),
    [
        pytest.param(E.UNKNOWN, goes, "evicted after all", id="a lost answer was a yes"),
        pytest.param(
            E.UNKNOWN, passes(AFTER_PATIENCE), "not evicted after all", id="a lost answer was a no"
        ),
        pytest.param(E.BACKGROUND, goes, "moved in background", id="others moved it"),
        pytest.param(E.BACKGROUND, fails, "not moved in background", id="others could not"),
    ],
)
def test_the_log_says_how_a_move_ended(ending: MoveResult, step: Step, line: str) -> None:
    desk = Desk(seen("vm", annotations=WILLING))
    desk.asked(ending)

    step(desk)

    facts = "pod=default/vm uid=uid-default-vm node=n1 profile=daily plugin=PodLifeTime"
    assert desk.log_lines == [f"INFO {line} {facts}"]


def test_a_new_process_counts_what_the_old_one_began() -> None:
    world = cluster(
        node("n1").holding(
            pod("idle", annotations=WILLING),
            pod("moving", annotations=UNDER_WAY),
            pod("moved", annotations=UNDER_WAY, phase="Succeeded"),
        )
    )

    async def run_scenario() -> None:
        clock, live = ManualClock(), dict[str, Pod]()
        ledger = InFlightMoves(lambda _, name: live.get(name), clock, Log.to([]))
        async with (
            ApiServer(world.objects) as server,
            watched(server, listener=ledger.on_pod_change),
        ):
            assert ledger.moving == {"uid-default-moving"}
            assert [entry.stage for entry in ledger.moves] == [MoveStage.CONFIRMED]

            server.store.merge("Pod", "moving", {"metadata": {"annotations": {IN_PROGRESS: None}}})
            await until(lambda: not ledger.moving)

    asyncio.run(run_scenario())
