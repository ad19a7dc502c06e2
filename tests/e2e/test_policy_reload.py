"""The policy of a run changes: edited, broken, deleted, or replaced as a ConfigMap is."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from tests.e2e.cluster.old_pods import create_old_pods, old_pods_policy, uids_on_nodes
from tests.e2e.cluster.policies import UPSTREAM, policy
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.run import Account, Policy, Run, assert_audit_agrees
from tests.e2e.servers.faulty_proxy import Fault, FaultyProxy, fault_for_evictions
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

EVERY_SECOND = ("--descheduling-interval", "1s")
NOT_LOADED = "policy not loaded; the last good one stays in force"
NEVER_SECONDS = 10**8


def idle_policy(workspace: Workspace) -> Policy:
    """A policy by which no pod is too old."""
    return old_pods_policy(workspace, NEVER_SECONDS)


def with_more_kinds(document: Policy) -> Policy:
    """The policy with a namespace selector, so that namespaces are read as well."""
    everywhere = {"matchExpressions": [{"key": "no-such-label", "operator": "DoesNotExist"}]}
    wider: Policy = json.loads(json.dumps(document))
    for config in wider["profiles"][0]["pluginConfig"]:
        if config["name"] == "DefaultEvictor":
            config["args"]["namespaceLabelSelector"] = everywhere
    return wider


def test_a_valid_policy_is_loaded_while_running(
    account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 6)

    with account.run(idle_policy(workspace), *EVERY_SECOND) as run:
        run.wait_for("cycle done", 2)
        assert uids_on_nodes(workspace) == all_uids
        replace(run.policy, json.dumps(old_pods_policy(workspace)))
        eventually("no pods on nodes", lambda: not uids_on_nodes(workspace))
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert run.evicted == all_uids
    assert len(run.lines_of("policy loaded")) == 1


def replace(file: Path, text: str) -> None:
    """Replaces the content of the file in one atomic step."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)


def misspell_plugin(file: Path) -> None:
    replace(file, file.read_text().replace("PodLifeTime", "PodLifetime"))


def break_yaml(file: Path) -> None:
    replace(file, "profiles: [")


def empty_file(file: Path) -> None:
    replace(file, "")


def write_binary(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")


def delete_file(file: Path) -> None:
    file.unlink()


def create_folder(file: Path) -> None:
    file.mkdir()


BREAK_POLICY = {
    misspell_plugin: "did you mean `PodLifeTime`?",
    break_yaml: "this is not YAML",
    empty_file: "the document is empty",
    write_binary: "is not UTF-8 text",
    delete_file: "there is no file",
    create_folder: "is a directory",
}
"""Ways to break a policy, each applied after the one before, and the error for it."""


def test_each_invalid_policy_is_logged_once_and_the_last_valid_one_stays(
    account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 3)

    with account.run(only_marked(workspace), *EVERY_SECOND) as run:
        run.wait_for("cycle done")
        for count, break_policy in enumerate(BREAK_POLICY, start=1):
            break_policy(run.policy)
            run.wait_for(NOT_LOADED, count)
        run.wait_for_more("cycle done", 2)
        assert uids_on_nodes(workspace) == all_uids
        _mark_pods(workspace)
        eventually("no pods on nodes", lambda: not uids_on_nodes(workspace))
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert run.evicted == all_uids
    reasons = [line["reason"] for line in run.lines_of(NOT_LOADED)]
    assert [
        text in reason for text, reason in zip(BREAK_POLICY.values(), reasons, strict=True)
    ] == [True] * len(BREAK_POLICY), reasons


def only_marked(workspace: Workspace) -> Policy:
    """A policy by which only marked pods are too old."""
    marked = {"maxPodLifeTimeSeconds": 1, "labelSelector": {"matchLabels": {"marked": "yes"}}}
    return policy(UPSTREAM, "PodLifeTime", marked, workspace)


def _mark_pods(workspace: Workspace) -> None:
    for pod in workspace.list_pods():
        path = f"{workspace.pods_path}/{pod['metadata']['name']}"
        workspace.api.patch(path, {"metadata": {"labels": {"marked": "yes"}}}).granted()


def test_a_replaced_config_map_is_loaded(
    account: Account, api: Api, workspace: Workspace, tmp_path: Path
) -> None:
    all_uids = create_old_pods(workspace, 6)
    mounted = tmp_path / "mounted"
    _mount(mounted, "first", idle_policy(workspace))

    with Run(account.kubeconfig, mounted / "policy.yaml", *EVERY_SECOND) as run:
        run.wait_for("cycle done")
        _mount(mounted, "second", old_pods_policy(workspace))
        eventually("no pods on nodes", lambda: not uids_on_nodes(workspace))
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert run.evicted == all_uids
    assert run.lines_of(NOT_LOADED) == []


def _mount(folder: Path, version: str, document: Policy) -> None:
    """Writes a policy as a kubelet does: behind a link that is replaced in one atomic step."""
    (folder / version).mkdir(parents=True)
    (folder / version / "policy.yaml").write_text(json.dumps(document))
    (folder / "new").symlink_to(version)
    (folder / "new").rename(folder / "..data")
    if not (folder / "policy.yaml").is_symlink():
        (folder / "policy.yaml").symlink_to("..data/policy.yaml")


def test_a_policy_that_reads_more_kinds_is_loaded_and_replaced_again(
    account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 6)

    with account.run(idle_policy(workspace), *EVERY_SECOND) as run:
        run.wait_for("cycle done")
        replace(run.policy, json.dumps(with_more_kinds(old_pods_policy(workspace))))
        eventually("no pods on nodes", lambda: not uids_on_nodes(workspace))
        assert "namespaces" in _watched_resources(account)
        replace(run.policy, json.dumps(idle_policy(workspace)))
        run.wait_for("policy loaded", 2)
        run.wait_for_more("cycle done", 2)
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert run.evicted == all_uids


def _watched_resources(account: Account) -> set[str]:
    return {
        request["objectRef"]["resource"]
        for request in account.requests()
        if request["verb"] == "watch"
    }


def test_unknown_results_are_kept_when_other_kinds_are_read(
    plane: Access, account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 4)

    with FaultyProxy(plane, account) as proxy:
        proxy.fault = fault_for_evictions(Fault.DROPPED)
        with account.run(old_pods_policy(workspace), *EVERY_SECOND) as run:
            run.wait_for("answer lost", 4)
            replace(run.policy, json.dumps(with_more_kinds(old_pods_policy(workspace))))
            eventually(
                "namespaces to be watched", lambda: "namespaces" in _watched_resources(account)
            )
            proxy.fault = lambda method, path: None
            run.wait_for_more("cycle done", 2)
            assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert account.eviction_requests() == []
    assert len(run.lines_of("answer lost")) == 4
    assert uids_on_nodes(workspace) == all_uids == run.unknown


def test_kinds_whose_list_fails_are_listed_again_later(
    plane: Access, account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 3)

    def no_namespaces(method: str, path: str) -> Fault | None:
        return Fault.DROPPED if path.startswith("/api/v1/namespaces?") else None

    with (
        FaultyProxy(plane, account) as proxy,
        account.run(idle_policy(workspace), *EVERY_SECOND) as run,
    ):
        run.wait_for("cycle done")
        proxy.fault = no_namespaces
        replace(run.policy, json.dumps(with_more_kinds(old_pods_policy(workspace))))
        run.wait_for("cycle failed")
        assert uids_on_nodes(workspace) == all_uids
        proxy.fault = lambda method, path: None
        eventually("no pods on nodes", lambda: not uids_on_nodes(workspace))
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert run.evicted == all_uids


def test_the_interval_is_from_start_to_start(
    account: Account, api: Api, workspace: Workspace
) -> None:
    create_old_pods(workspace, 12)
    pace = ("--client-connection-qps", "8", "--client-connection-burst", "1")

    with account.run(old_pods_policy(workspace), "--descheduling-interval", "3s", *pace) as run:
        run.wait_for("cycle done", 4)
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    ends = run.lines_of("cycle done")
    starts = [_seconds(line) - line["took"] for line in ends]
    assert ends[0]["took"] > 1
    assert all(after - before > 2.9 for before, after in pairwise(starts))
    # A long cycle does not delay those after it.
    assert starts[1] < _seconds(ends[0]) + 3 - 1


def _seconds(line: dict[str, str]) -> float:
    return datetime.fromisoformat(line["ts"]).timestamp()
