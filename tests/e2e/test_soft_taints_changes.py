"""`resettle soft-tainter` while loads change, other clients write and leaders are killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from resettle.controllers.soft_taints.apply import AT_ONCE
from resettle.testing import node as node_builder
from tests.e2e.cluster.workspace import Workspace, eventually, poll
from tests.e2e.servers.faulty_proxy import Fault, FaultyProxy
from tests.e2e.soft_taints.account import TainterAccount
from tests.e2e.soft_taints.builders import (
    OVERUTILIZED,
    balancing_profile,
    fill_node,
    policy,
    set_taints,
    soft_taint,
    soft_taints_of,
    tainted_nodes,
    taints_of,
)
from tools.control_plane.api import Api, Object
from tools.control_plane.plane import Access

SHORT_INTERVAL = ("--interval", "300ms")
GPU = {"key": "gpu", "effect": "NoSchedule"}
MANY = 500
SHORT_LEASE = (
    "--leader-elect",
    *("--leader-elect-lease-duration", "4s"),
    *("--leader-elect-renew-deadline", "3s"),
    *("--leader-elect-retry-period", "500ms"),
)


# -- loads change --------------------------------------------------------------------------------


def test_a_node_is_tainted_when_it_fills_and_untainted_when_it_empties(
    tainter: TainterAccount, workspace: Workspace
) -> None:
    hot = workspace.nodes[0]
    with tainter.run(policy(workspace), *SHORT_INTERVAL) as run:
        run.wait_for("round done")
        assert tainted_nodes(workspace.api, workspace.nodes) == []

        fill_node(workspace, hot, 90)
        eventually("a taint", lambda: soft_taints_of(workspace.api, hot) == [OVERUTILIZED])
        fill_node(workspace, hot, 10)
        eventually("none", lambda: soft_taints_of(workspace.api, hot) == [])

        run.wait_for_more("round done", 3)
        assert tainter.patched_nodes() == [hot, hot], "written only when it changes"
        assert run.stop() == 0


def test_a_node_that_leaves_the_selector_is_untainted_and_one_that_joins_is_tainted(
    tainter: TainterAccount, workspace: Workspace
) -> None:
    first, second = workspace.nodes[:2]
    for name in (first, second):
        fill_node(workspace, name, 90)
    _label_node(workspace, first, "yes")
    with tainter.run(policy(workspace, selector=f"of={workspace.name}-yes"), *SHORT_INTERVAL):
        eventually(
            "the first tainted", lambda: tainted_nodes(workspace.api, [first, second]) == [first]
        )

        _label_node(workspace, first, "no")
        _label_node(workspace, second, "yes")
        eventually(
            "the other tainted", lambda: tainted_nodes(workspace.api, [first, second]) == [second]
        )


def _label_node(workspace: Workspace, name: str, word: str) -> None:
    labels = {"metadata": {"labels": {"of": f"{workspace.name}-{word}"}}}
    workspace.api.patch(f"/api/v1/nodes/{name}", labels).granted()


def test_a_policy_that_stops_balancing_and_starts_again_is_followed(
    tainter: TainterAccount, workspace: Workspace
) -> None:
    hot = workspace.nodes[0]
    fill_node(workspace, hot, 90)
    with tainter.run(policy(workspace), *SHORT_INTERVAL) as run:
        eventually("a taint", lambda: soft_taints_of(workspace.api, hot))
        run.policy.write_text(json.dumps({**policy(workspace), "profiles": []}))
        eventually("none", lambda: not soft_taints_of(workspace.api, hot))
        run.policy.write_text("no policy at all")
        run.wait_for("policy not loaded; the last good one stays in force")
        run.policy.write_text(json.dumps(policy(workspace)))
        eventually("a taint again", lambda: soft_taints_of(workspace.api, hot))
        assert run.stop() == 0


def test_a_node_that_is_not_ready_keeps_its_taint_and_does_not_stop_others(
    tainter: TainterAccount, workspace: Workspace
) -> None:
    lost, hot = workspace.nodes[:2]
    fill_node(workspace, lost, 90)
    with tainter.run(policy(workspace), *SHORT_INTERVAL) as run:
        eventually("a taint", lambda: soft_taints_of(workspace.api, lost) == [OVERUTILIZED])

        _report_ready(workspace, lost, "Unknown")
        fill_node(workspace, lost, 10)
        run.wait_for("taints kept as they are", nodes=[lost], reason=["not-ready"])
        fill_node(workspace, hot, 90)
        eventually("another taint", lambda: soft_taints_of(workspace.api, hot) == [OVERUTILIZED])
        assert soft_taints_of(workspace.api, lost) == [OVERUTILIZED]

        _report_ready(workspace, lost, "True")
        eventually("the first gone", lambda: soft_taints_of(workspace.api, lost) == [])


def _report_ready(workspace: Workspace, name: str, word: str) -> None:
    conditions = [{"type": "Ready", "status": word, "reason": "test"}]
    path = f"/api/v1/nodes/{name}/status"
    workspace.api.patch(path, {"status": {"conditions": conditions}}).granted()


def test_a_policy_that_names_a_priority_class_works(
    tainter: TainterAccount, workspace: Workspace
) -> None:
    hot = workspace.nodes[0]
    fill_node(workspace, hot, 90)
    document = policy(workspace, version="descheduler/v1alpha2")
    careful = {"name": "DefaultEvictor", "args": {"priorityThreshold": {"name": "no-such-class"}}}
    document["profiles"][0]["pluginConfig"].append(careful)

    with tainter.run(document, "--once") as run:
        assert run.wait_for_exit() == 0, run.log_text

    assert soft_taints_of(workspace.api, hot) == [OVERUTILIZED]


# -- other clients write too ---------------------------------------------------------------------


def test_a_concurrent_change_of_taints_is_kept(
    plane: Access, tainter: TainterAccount, workspace: Workspace
) -> None:
    hot = workspace.nodes[0]
    fill_node(workspace, hot, 90)
    with FaultyProxy(plane, tainter) as proxy:
        proxy.fault = lambda method, path: Fault.DELAYED if method == "PATCH" else None
        with tainter.run(policy(workspace), "--once") as run:
            eventually("a delayed patch", lambda: proxy.waiting == 1)
            set_taints(workspace.api, hot, GPU)
            proxy.fault = lambda method, path: None
            proxy.release.set()
            assert run.wait_for_exit() == 0, run.log_text

    assert taints_of(workspace.api, hot) == [GPU, soft_taint(OVERUTILIZED)]
    codes = [request["responseStatus"]["code"] for request in tainter.requests("patch")]
    assert codes == [409, 200]


@contextmanager
def many_nodes(api: Api, workspace: Workspace) -> Iterator[list[str]]:
    """Creates many more nodes, and deletes them when the block ends."""
    names = [f"{workspace.name}-many-{i:03}" for i in range(MANY)]

    def make(name: str) -> None:
        made = node_builder(
            name, cpu="1", labels={"workspace": workspace.name, "many": workspace.name}
        ).node
        api.post("/api/v1/nodes", made).granted()

    with ThreadPoolExecutor(8) as threads:
        try:
            list(threads.map(make, names))
            yield names
        finally:
            list(threads.map(lambda name: api.delete(f"/api/v1/nodes/{name}"), names))


@contextmanager
def protected_node(api: Api, tainter: TainterAccount, name: str) -> Iterator[None]:
    """Denies changes of this node by the tainter while the block lasts."""
    meta = {"metadata": {"name": f"untouchable-{name}"}}
    policies_path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    rules = [
        {"apiGroups": [""], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["nodes"]}
    ]
    condition = f"request.userInfo.username == '{tainter.user}' && request.name == '{name}'"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{"name": "the-tainter", "expression": condition}],
        "validations": [{"expression": "false", "message": "protected node"}],
    }
    binding = {"policyName": meta["metadata"]["name"], "validationActions": ["Deny"]}
    api.post(f"{policies_path}ies", {**meta, "spec": spec}).granted()
    api.post(f"{policies_path}ybindings", {**meta, "spec": binding}).granted()

    def is_in_force() -> bool:
        with tainter.api() as client:
            path = f"/api/v1/nodes/{name}?dryRun=All"
            return (
                client.patch(path, {"spec": {"taints": [soft_taint(OVERUTILIZED)]}}).status >= 400
            )

    try:
        eventually("the refusal in force", is_in_force)
        yield
    finally:
        api.delete(f"{policies_path}ybindings/{meta['metadata']['name']}")
        api.delete(f"{policies_path}ies/{meta['metadata']['name']}")


def test_twenty_nodes_are_written_at_a_time_and_one_refusal_does_not_stop_others(
    plane: Access, tainter: TainterAccount, api: Api, workspace: Workspace
) -> None:
    """All 500 nodes are to be untainted, which needs no 500 pods."""
    document = {**policy(workspace), "profiles": []}
    with many_nodes(api, workspace) as names, protected_node(api, tainter, names[123]):
        with ThreadPoolExecutor(8) as threads:
            list(
                threads.map(
                    lambda name: set_taints(api, name, GPU, soft_taint(OVERUTILIZED)), names
                )
            )
        with FaultyProxy(plane, tainter) as proxy:
            proxy.fault = lambda method, path: Fault.DELAYED if method == "PATCH" else None
            with tainter.run(document, "--once") as run:
                eventually("the most concurrent patches", lambda: proxy.waiting >= AT_ONCE)
                most = max(proxy.waiting for _ in poll(1))
                proxy.release.set()
                assert run.wait_for_exit() == 1, run.log_text

        assert most == AT_ONCE == 20
        still_tainted = [
            node["metadata"]["name"]
            for node in _many_nodes_of(api, workspace)
            if len(node["spec"]["taints"]) == 2
        ]
        assert still_tainted == [names[123]]
        (line,) = run.lines_of("not tainted")
        assert (line["node"], "protected node" in line["reason"]) == (names[123], True)
        assert len(run.lines_of("untainted")) == MANY - 1
    # The test wanted this refusal; the admission policy of the tainter refused nothing.
    tainter.expect_refusal(names[123])


def _many_nodes_of(api: Api, workspace: Workspace) -> list[Object]:
    return api.items(f"/api/v1/nodes?labelSelector=many%3D{workspace.name}")


# -- several replicas ----------------------------------------------------------------------------


def test_of_two_replicas_one_writes_and_the_other_takes_over_when_it_is_killed(
    tainter: TainterAccount, workspace: Workspace
) -> None:
    hot, later = workspace.nodes[:2]
    fill_node(workspace, hot, 90)
    lease = (
        *SHORT_LEASE,
        *("--leader-elect-resource-name", tainter.name),
        *("--leader-elect-resource-namespace", tainter.namespace),
    )
    with tainter.run(policy(workspace), *SHORT_INTERVAL, *lease) as first:
        first.wait_for("round done")
        with tainter.run(policy(workspace), *SHORT_INTERVAL, *lease) as second:
            second.wait_for("waiting for the lease")
            first.signal(signal.SIGKILL)
            fill_node(workspace, later, 90)
            second.wait_for("lease acquired")
            eventually("the other taint", partial(soft_taints_of, workspace.api, later))

            second.wait_for_more("round done", 3)
            assert tainted_nodes(workspace.api, workspace.nodes) == [hot, later]
            assert tainter.patched_nodes() == [hot, later], "correct taints were not written again"
            assert [line["node"] for line in second.lines_of("tainted")] == [later]
            assert second.stop() == 0
    spec = workspace.api.get(
        f"/apis/coordination.k8s.io/v1/namespaces/{tainter.namespace}/leases/{tainter.name}"
    ).granted()["spec"]
    assert (spec["leaseTransitions"], spec["holderIdentity"]) == (1, "")


def test_thresholds_of_two_profiles_are_refused_until_one_is_named(
    tainter: TainterAccount, workspace: Workspace
) -> None:
    fill_node(workspace, workspace.nodes[0], 90)
    args = {"thresholds": {"cpu": 5}, "targetThresholds": {"cpu": 95}}
    document = policy(workspace)
    document["profiles"].append(balancing_profile(args, "other"))

    with tainter.run(document, "--once") as run:
        assert run.wait_for_exit() == 1
    (line,) = run.lines_of("could not run")
    assert "name it as `softTaints.profile`" in line["reason"]

    with tainter.run({**document, "softTaints": {"profile": "other"}}, "--once") as run:
        assert run.wait_for_exit() == 0, run.log_text
    assert tainted_nodes(workspace.api, workspace.nodes) == [], (
        "90% is below the threshold of the other"
    )
