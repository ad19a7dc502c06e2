"""Taints on their way to nodes: what is written, what is tried again, and what stops what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from resettle.clock import SYSTEM
from resettle.controllers.soft_taints.apply import (
    AT_ONCE,
    TRIES,
    NodeWriter,
    PatchResult,
    TaintPatch,
    WriteResult,
    apply_patches,
)
from resettle.errors import NotNow
from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client
from resettle.model.constraints import Taint
from resettle.runtime.leadership import InterruptibleClock, Stop
from resettle.testing import ApiServer, DeniedPermission, Fault
from resettle.testing import node as built
from tests.controllers.soft_taints.builders import FIRST, SECOND, scheme

GPU = {"key": "gpu", "effect": "NoSchedule"}
LOST = {"key": "lost", "effect": "NoExecute", "timeAdded": "2026-01-31T11:00:00Z"}
MINE = {"key": FIRST.key, "value": "level1", "effect": "PreferNoSchedule"}
PATCH = ("patch",)


def a_node(name: str, *taints: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = built(name).node
    made["spec"]["taints"] = list(taints)
    return made


def patch(name: str, *wanted: Taint) -> TaintPatch:
    return TaintPatch(node=name, wanted=wanted, before=(), ours=scheme().ours)


def allowed() -> None:
    """Nothing stands against it."""


class Scene:
    """Patches sent to a test API server, and what it holds afterwards."""

    def __init__(self, *nodes: dict[str, Any], **server: Any) -> None:
        self.server = ApiServer(nodes, **server)

    def play(
        self, *patches: TaintPatch, may_act: Callable[[], None] = allowed
    ) -> list[tuple[str, WriteResult]]:
        return [
            (outcome.patch.node, outcome.result)
            for outcome in self.outcomes(*patches, may_act=may_act)
        ]

    def outcomes(
        self, *patches: TaintPatch, may_act: Callable[[], None] = allowed
    ) -> list[PatchResult]:
        async def scenario() -> list[PatchResult]:
            async with self.server, Client(Access(server=self.server.url)) as client:
                return await apply_patches(NodeWriter(client, may_act), patches)

        return asyncio.run(scenario())

    def taints(self, name: str) -> list[dict[str, Any]]:
        node = self.server.store.get("Node", name)
        assert node is not None
        return list(node["spec"].get("taints") or ())

    @property
    def patched(self) -> list[str]:
        return [request.path for request in self.server.requests if request.verb == "patch"]


def test_all_of_a_node_s_taints_are_written_with_one_patch() -> None:
    scene = Scene(a_node("n", GPU, LOST))

    assert scene.play(patch("n", FIRST, SECOND)) == [("n", WriteResult.WRITTEN)]
    assert [taint["key"] for taint in scene.taints("n")] == ["gpu", "lost", FIRST.key, SECOND.key]
    assert scene.taints("n")[:2] == [GPU, LOST]
    assert len(scene.patched) == 1


def test_the_last_taint_goes_without_a_trace() -> None:
    scene = Scene(a_node("n", MINE))

    assert scene.play(patch("n")) == [("n", WriteResult.WRITTEN)]
    assert scene.taints("n") == []


def test_what_is_so_already_is_not_written() -> None:
    scene = Scene(a_node("n", GPU, MINE))

    assert scene.play(patch("n", FIRST)) == [("n", WriteResult.ALREADY_SO)]
    assert scene.patched == []


def test_a_node_that_is_gone_is_no_failure() -> None:
    assert Scene().play(patch("n", FIRST)) == [("n", WriteResult.GONE)]


# -- others write too ----------------------------------------------------------------------------


def test_what_another_wrote_between_reading_and_writing_stays() -> None:
    scene = Scene(a_node("n", GPU))
    writes = iter([[GPU, LOST]])

    def another_writes_first() -> None:
        if (taints := next(writes, None)) is not None:
            scene.server.store.merge("Node", "n", {"spec": {"taints": taints}})

    assert scene.play(patch("n", FIRST), may_act=another_writes_first) == [
        ("n", WriteResult.WRITTEN)
    ]
    assert scene.taints("n") == [GPU, LOST, MINE]
    assert len(scene.patched) == 2


def test_who_never_gets_a_word_in_says_so_and_leaves_it_to_the_next_round() -> None:
    scene = Scene(a_node("n"))
    turns = iter(range(99))

    def another_writes_always() -> None:
        labels = {"metadata": {"labels": {"turn": str(next(turns))}}}
        scene.server.store.merge("Node", "n", labels)

    (outcome,) = scene.outcomes(patch("n", FIRST), may_act=another_writes_always)

    assert outcome.result is WriteResult.FAILED
    assert f"others wrote the node {TRIES} times" in outcome.says
    assert len(scene.patched) == TRIES
    assert scene.taints("n") == []


# -- answers that never come ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(verbs=PATCH, hang_up=True), id="before it was done"),
        pytest.param(Fault(verbs=PATCH, cut_after_bytes=3), id="after it was done"),
    ],
)
def test_after_a_lost_answer_the_node_itself_is_asked(fault: Fault) -> None:
    scene = Scene(a_node("n", GPU), faults=[fault])

    assert scene.play(patch("n", FIRST)) == [("n", WriteResult.WRITTEN)]
    assert scene.taints("n") == [GPU, MINE]


def test_a_node_whose_answers_are_lost_again_and_again_is_left_to_the_next_round() -> None:
    scene = Scene(
        a_node("n"), a_node("m"), faults=[Fault(verbs=PATCH, path="*/n", hang_up=True, times=9)]
    )

    endings = scene.play(patch("n", FIRST), patch("m", FIRST))

    assert endings == [("n", WriteResult.FAILED), ("m", WriteResult.WRITTEN)]


def test_when_no_server_listens_the_rest_is_not_tried() -> None:
    async def scenario() -> list[PatchResult]:
        impatient = Stop()
        impatient.request()
        clock = InterruptibleClock(SYSTEM, impatient)
        async with Client(Access(server="http://127.0.0.1:9"), clock=clock) as client:
            writer = NodeWriter(client, allowed)
            return await apply_patches(writer, [patch("a"), patch("b"), patch("c")], at_once=1)

    outcomes = asyncio.run(scenario())

    assert [outcome.result for outcome in outcomes] == [WriteResult.UNSENT] * 3
    assert "127.0.0.1:9" in outcomes[0].says


# -- failures ------------------------------------------------------------------------------------


def test_one_node_that_is_refused_stops_no_other_and_is_named() -> None:
    names = [f"n{i:03}" for i in range(100)]
    guard = Fault(
        verbs=PATCH,
        path="*/n042",
        status=403,
        times=9,
        message="nodes \"n042\" is forbidden: ValidatingAdmissionPolicy 'guard' with binding "
        "'guard' denied request: only soft taints",
    )
    scene = Scene(*(a_node(name) for name in names), faults=[guard])

    outcomes = scene.outcomes(*(patch(name, FIRST) for name in names))

    failed = [outcome for outcome in outcomes if outcome.result is not WriteResult.WRITTEN]
    assert [(outcome.patch.node, outcome.result) for outcome in failed] == [
        ("n042", WriteResult.FAILED)
    ]
    assert "only soft taints" in failed[0].says
    assert "ClusterRole" not in failed[0].says, "no role would help"
    assert all(scene.taints(name) == [MINE] for name in names if name != "n042")


def test_a_missing_permission_is_reported_with_its_rule() -> None:
    scene = Scene(a_node("n"), denied=[DeniedPermission(verb="patch", resource="nodes")])

    (outcome,) = scene.outcomes(patch("n", FIRST))

    assert outcome.result is WriteResult.FAILED
    assert 'resources: ["nodes"], verbs: ["patch"]' in outcome.says


def test_nothing_is_written_once_we_may_not_act() -> None:
    def may_not() -> None:
        raise NotNow("asked to stop")

    scene = Scene(a_node("n"), a_node("m"))

    outcomes = scene.outcomes(patch("n", FIRST), patch("m", FIRST), may_act=may_not)

    assert [(outcome.result, outcome.says) for outcome in outcomes] == [
        (WriteResult.UNSENT, "asked to stop")
    ] * 2
    assert scene.patched == []


def test_at_most_twenty_are_written_at_the_same_time() -> None:
    class Busy:
        now = most = 0

        async def write(self, patch: TaintPatch) -> PatchResult:
            self.now += 1
            self.most = max(self.most, self.now)
            for _ in range(3):
                await asyncio.sleep(0)
            self.now -= 1
            return PatchResult(patch, WriteResult.WRITTEN)

    busy = Busy()
    outcomes = asyncio.run(apply_patches(busy, [patch(str(i)) for i in range(200)]))

    assert len(outcomes) == 200
    assert busy.most == AT_ONCE == 20
