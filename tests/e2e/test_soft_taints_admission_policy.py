"""The guard of `deploy/soft-tainter`: as the tainter's own account, nothing but its soft taints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.soft_taints.account import TainterAccount
from tests.e2e.soft_taints.builders import fill, policy, written
from tools.control_plane.api import Answer, Api, Object
from tools.control_plane.papers import ADMIN
from tools.control_plane.plane import Access

PREFIX = "nodeutilization.descheduler.kubernetes.io"
OVER = f"{PREFIX}/overutilized"
SOFT = "PreferNoSchedule"
GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
BARE = {"key": "bare", "effect": "PreferNoSchedule"}
LOST = {"key": "lost", "effect": "NoExecute", "timeAdded": "2026-01-31T11:00:00Z"}


def taint(key: str, value: str = "level1", effect: str = SOFT) -> Object:
    return {"key": key, "value": value, "effect": effect}


class Node:
    """A node that the tainter writes, and that the admin set up."""

    def __init__(self, admin: Api, tainter: Api, name: str) -> None:
        self.admin, self.tainter, self.path = admin, tainter, f"/api/v1/nodes/{name}"

    def holds(self, *taints: Object) -> None:
        """Has the node start with these."""
        self.admin.patch(self.path, {"spec": {"taints": list(taints)}}).granted()

    def gets(self, *taints: Object) -> Answer:
        """The tainter's wish that the node have these."""
        return self.tainter.patch(self.path, {"spec": {"taints": list(taints) or None}})

    def is_changed(self, **parts: Any) -> Answer:
        """The tainter's wish to change other parts of the node."""
        return self.tainter.patch(self.path, parts)


@pytest.fixture(scope="module")
def tainter(plane: Access, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TainterAccount]:
    folder = tmp_path_factory.mktemp("guard")
    with plane.api() as api, Room(api), TainterAccount(plane, api, folder) as account:
        yield account


@pytest.fixture
def node(tainter: TainterAccount, room: Room) -> Iterator[Node]:
    with tainter.api() as mine:
        yield Node(room.api, mine, room.nodes[0])


def denied(answer: Answer, why: str) -> None:
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden"), answer
    assert why in answer.body["message"]
    assert "system:serviceaccount:for-resettle-soft-tainter" in answer.body["message"]


def test_the_api_server_finds_nothing_wrong_with_the_expressions(
    tainter: TainterAccount, api: Api
) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

    def looked_through() -> Object:
        status: Object = api.get(f"{path}/{tainter.name}").granted().get("status") or {}
        return status if "observedGeneration" in status else {}

    status = eventually("a verdict on the expressions", looked_through)
    assert status["typeChecking"] == {}


# -- allowed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [[], [GPU], [GPU, BARE, LOST]], ids=["alone", "one", "more"])
def test_its_own_soft_taints_come_change_and_go(node: Node, others: list[Object]) -> None:
    node.holds(*others)

    assert node.gets(*others, taint(OVER)).fine
    assert node.gets(*others, taint(OVER, "level2")).fine
    assert node.gets(*others, taint(OVER), taint(f"{OVER}-2", "level2")).fine
    assert node.gets(*others).fine


@pytest.mark.parametrize("name", ["appropriate", "overutilized"])
def test_the_taints_of_openshift_are_its_own_too(node: Node, name: str) -> None:
    node.holds()

    assert node.gets(taint(f"nodeutilization.descheduler.openshift.io/{name}", "true")).fine
    assert node.gets().fine


def test_one_foreign_key_with_two_effects_is_no_obstacle(node: Node) -> None:
    unreachable = "node.kubernetes.io/unreachable"
    both = [{"key": unreachable, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    node.holds(*both)

    assert node.gets(*both, taint(OVER)).fine
    assert node.gets(*both).fine


def test_a_hard_taint_under_its_key_is_no_obstacle_either(node: Node) -> None:
    hard = taint(OVER, effect="NoSchedule")
    node.holds(hard)

    assert node.gets(hard, taint(OVER)).fine
    assert node.gets(hard).fine


# -- denied --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([], [taint(OVER, effect="NoSchedule")], id="our key, hard"),
        pytest.param([], [taint(OVER, effect="NoExecute")], id="our key, harder"),
        pytest.param([taint(OVER, effect="NoSchedule")], [], id="a hard one under our key goes"),
        pytest.param([taint(OVER)], [taint(OVER, effect="NoSchedule")], id="soft made hard"),
        pytest.param([], [BARE], id="a foreign one comes"),
        pytest.param([GPU], [], id="a foreign one goes"),
        pytest.param([BARE], [], id="a foreign soft one goes"),
        pytest.param([GPU], [{**GPU, "value": "no"}], id="another value"),
        pytest.param([GPU], [{**GPU, "effect": "NoExecute"}], id="another effect"),
        pytest.param([GPU], [BARE], id="one swapped for another"),
        pytest.param([GPU], [taint(OVER)], id="one swapped for ours"),
        pytest.param([GPU, BARE], [BARE, GPU], id="another order"),
        pytest.param([LOST], [{**LOST, "timeAdded": "2026-01-31T12:00:00Z"}], id="another time"),
        pytest.param([], [taint(f"x-{PREFIX}.evil/overutilized")], id="a prefix like ours"),
        pytest.param([], [taint(f"{PREFIX}.evil/overutilized")], id="one that begins like ours"),
        pytest.param([], [taint(f"{PREFIX}/anything")], id="our prefix, no name of ours"),
        pytest.param([], [taint(f"{PREFIX}/overutilized-x")], id="nearly a name of ours"),
    ],
)
def test_no_other_taint_may_change(node: Node, before: list[Object], after: list[Object]) -> None:
    node.holds(*before)

    denied(node.gets(*after), "may change no taints of a node but its own soft ones")


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        pytest.param({"metadata": {"labels": {"a": "b"}}}, "no metadata", id="a label"),
        pytest.param({"metadata": {"labels": {"room": None}}}, "no metadata", id="one less"),
        pytest.param({"metadata": {"annotations": {"a": "b"}}}, "no metadata", id="an annotation"),
        pytest.param({"metadata": {"finalizers": ["a.b/c"]}}, "no metadata", id="a finalizer"),
        pytest.param({"spec": {"unschedulable": True}}, "but taints", id="a cordon"),
        pytest.param({"spec": {"podCIDR": "10.1.0.0/24"}}, "but taints", id="its addresses"),
        pytest.param({"spec": {"providerID": "x://y"}}, "but taints", id="its provider"),
        pytest.param(
            {"spec": {"unschedulable": True, "taints": [taint(OVER)]}},
            "but taints",
            id="a cordon along with a taint of ours",
        ),
    ],
)
def test_nothing_else_of_a_node_may_change(node: Node, parts: Object, why: str) -> None:
    node.holds()

    denied(node.is_changed(**parts), why)


def test_neither_status_nor_the_node_itself_is_its_to_touch(node: Node) -> None:
    assert node.tainter.patch(f"{node.path}/status", {"status": {"phase": "Gone"}}).status == 403
    assert node.tainter.delete(node.path).status == 403
    assert node.tainter.post("/api/v1/nodes", {"metadata": {"name": "new"}}).status == 403


def test_a_prefix_that_the_guard_does_not_know_is_denied_and_told(
    tainter: TainterAccount, room: Room
) -> None:
    fill(room, room.nodes[0], 90)

    with tainter.run(policy(room, softTaints={"prefix": "example.com"}), "--once") as run:
        assert run.ended() == 1, run.story

    (said,) = run.told("not tainted")
    assert "may change no taints of a node but its own soft ones" in said["reason"]
    assert written(room.api, room.nodes[0]) == []


# -- everybody else ------------------------------------------------------------------------------


def test_the_admin_is_not_held_back(node: Node) -> None:
    node.holds(GPU, taint(OVER, effect="NoExecute"))
    cordon = {"metadata": {"labels": {"a": "b"}}, "spec": {"unschedulable": True}}

    assert node.admin.patch(node.path, cordon).fine
    node.holds()


def test_nor_is_the_kubelet_of_the_node(plane: Access, node: Node, room: Room) -> None:
    name = room.nodes[0]
    acting_as = (f"system:node:{name}", "system:nodes")
    token, ca = plane.papers.token(ADMIN), plane.papers.ca
    with Api(plane.url, token, ca, acting_as=acting_as) as kubelet:
        assert kubelet.patch(node.path, {"metadata": {"annotations": {"kubelet": "says"}}}).fine
        assert kubelet.patch(node.path, {"spec": {"taints": [LOST]}}).fine
        heard = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "ok"}]}}
        assert kubelet.patch(f"{node.path}/status", heard).fine


def test_without_its_guard_the_account_could_do_what_the_role_grants(
    plane: Access, room: Room, tmp_path: Path
) -> None:
    """What the guard is for: take it away, and the same request is granted."""
    cordon = {"spec": {"unschedulable": True}}
    bare = TainterAccount(plane, room.api, tmp_path, guarded=False)
    with bare as account, account.api() as mine:
        assert mine.patch(f"/api/v1/nodes/{room.nodes[0]}", cordon).fine
