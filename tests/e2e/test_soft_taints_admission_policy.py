"""The admission policy of `deploy/soft-tainter`: the account may change only its soft taints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.soft_taints.account import TainterAccount
from tests.e2e.soft_taints.builders import fill_node, policy, taints_of
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
    """A node that the tainter changes, after the admin has set it up."""

    def __init__(self, admin: Api, tainter: Api, name: str) -> None:
        self.admin, self.tainter, self.path = admin, tainter, f"/api/v1/nodes/{name}"

    def start_with(self, *taints: Object) -> None:
        """Sets the taints of the node as the admin."""
        self.admin.patch(self.path, {"spec": {"taints": list(taints)}}).granted()

    def set_taints(self, *taints: Object) -> Answer:
        """Sets the taints of the node as the tainter; returns the answer."""
        return self.tainter.patch(self.path, {"spec": {"taints": list(taints) or None}})

    def change(self, **parts: Any) -> Answer:
        """Changes other parts of the node as the tainter; returns the answer."""
        return self.tainter.patch(self.path, parts)


@pytest.fixture(scope="module")
def tainter(plane: Access, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TainterAccount]:
    folder = tmp_path_factory.mktemp("admission-policy")
    with plane.api() as api, Workspace(api), TainterAccount(plane, api, folder) as account:
        yield account


@pytest.fixture
def node(tainter: TainterAccount, workspace: Workspace) -> Iterator[Node]:
    with tainter.api() as client:
        yield Node(workspace.api, client, workspace.nodes[0])


def assert_denied(answer: Answer, why: str) -> None:
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden"), answer
    assert why in answer.body["message"]
    assert "system:serviceaccount:for-resettle-soft-tainter" in answer.body["message"]


def test_the_api_server_finds_no_problem_in_the_expressions(
    tainter: TainterAccount, api: Api
) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

    def checked_status() -> Object:
        status: Object = api.get(f"{path}/{tainter.name}").granted().get("status") or {}
        return status if "observedGeneration" in status else {}

    status = eventually("checked expressions", checked_status)
    assert status["typeChecking"] == {}


# -- allowed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [[], [GPU], [GPU, BARE, LOST]], ids=["alone", "one", "more"])
def test_its_own_soft_taints_may_be_added_changed_and_removed(
    node: Node, others: list[Object]
) -> None:
    node.start_with(*others)

    assert node.set_taints(*others, taint(OVER)).fine
    assert node.set_taints(*others, taint(OVER, "level2")).fine
    assert node.set_taints(*others, taint(OVER), taint(f"{OVER}-2", "level2")).fine
    assert node.set_taints(*others).fine


@pytest.mark.parametrize("name", ["appropriate", "overutilized"])
def test_the_taints_of_openshift_are_allowed_too(node: Node, name: str) -> None:
    node.start_with()

    assert node.set_taints(taint(f"nodeutilization.descheduler.openshift.io/{name}", "true")).fine
    assert node.set_taints().fine


def test_a_foreign_key_with_two_effects_is_allowed(node: Node) -> None:
    unreachable = "node.kubernetes.io/unreachable"
    both = [{"key": unreachable, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    node.start_with(*both)

    assert node.set_taints(*both, taint(OVER)).fine
    assert node.set_taints(*both).fine


def test_a_hard_taint_with_its_key_is_allowed(node: Node) -> None:
    hard = taint(OVER, effect="NoSchedule")
    node.start_with(hard)

    assert node.set_taints(hard, taint(OVER)).fine
    assert node.set_taints(hard).fine


# -- denied --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([], [taint(OVER, effect="NoSchedule")], id="our key, hard"),
        pytest.param([], [taint(OVER, effect="NoExecute")], id="our key, harder"),
        pytest.param([taint(OVER, effect="NoSchedule")], [], id="a hard one with our key removed"),
        pytest.param([taint(OVER)], [taint(OVER, effect="NoSchedule")], id="soft made hard"),
        pytest.param([], [BARE], id="a foreign one added"),
        pytest.param([GPU], [], id="a foreign one removed"),
        pytest.param([BARE], [], id="a foreign soft one removed"),
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
    node.start_with(*before)

    assert_denied(node.set_taints(*after), "may change no taints of a node but its own soft ones")


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        pytest.param({"metadata": {"labels": {"a": "b"}}}, "no metadata", id="a label"),
        pytest.param(
            {"metadata": {"labels": {"workspace": None}}}, "no metadata", id="a label removed"
        ),
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
    node.start_with()

    assert_denied(node.change(**parts), why)


def test_it_may_not_change_status_or_delete_or_create_nodes(node: Node) -> None:
    assert node.tainter.patch(f"{node.path}/status", {"status": {"phase": "Gone"}}).status == 403
    assert node.tainter.delete(node.path).status == 403
    assert node.tainter.post("/api/v1/nodes", {"metadata": {"name": "new"}}).status == 403


def test_a_prefix_that_the_admission_policy_does_not_allow_is_denied_and_logged(
    tainter: TainterAccount, workspace: Workspace
) -> None:
    fill_node(workspace, workspace.nodes[0], 90)

    with tainter.run(policy(workspace, softTaints={"prefix": "example.com"}), "--once") as run:
        assert run.wait_for_exit() == 1, run.log_text

    (line,) = run.lines_of("not tainted")
    assert "may change no taints of a node but its own soft ones" in line["reason"]
    assert taints_of(workspace.api, workspace.nodes[0]) == []


# -- other users ---------------------------------------------------------------------------------


def test_the_admin_is_not_restricted(node: Node) -> None:
    node.start_with(GPU, taint(OVER, effect="NoExecute"))
    cordon = {"metadata": {"labels": {"a": "b"}}, "spec": {"unschedulable": True}}

    assert node.admin.patch(node.path, cordon).fine
    node.start_with()


def test_the_kubelet_of_the_node_is_not_restricted(
    plane: Access, node: Node, workspace: Workspace
) -> None:
    name = workspace.nodes[0]
    acting_as = (f"system:node:{name}", "system:nodes")
    token, ca = plane.papers.token(ADMIN), plane.papers.ca
    with Api(plane.url, token, ca, acting_as=acting_as) as kubelet:
        assert kubelet.patch(node.path, {"metadata": {"annotations": {"kubelet": "says"}}}).fine
        assert kubelet.patch(node.path, {"spec": {"taints": [LOST]}}).fine
        conditions = {
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "ok"}]}
        }
        assert kubelet.patch(f"{node.path}/status", conditions).fine


def test_without_the_admission_policy_the_account_may_do_what_the_role_grants(
    plane: Access, workspace: Workspace, tmp_path: Path
) -> None:
    """Without the admission policy the same request is granted."""
    cordon = {"spec": {"unschedulable": True}}
    without_policy = TainterAccount(plane, workspace.api, tmp_path, with_admission_policy=False)
    with without_policy as account, account.api() as client:
        assert client.patch(f"/api/v1/nodes/{workspace.nodes[0]}", cordon).fine
