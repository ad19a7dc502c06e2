"""The page about installing, followed line by line: install, change, upgrade, roll back, uninstall.

Lines that build an image or read a log are left out; the log is read where the pod runs. In a copy
of `deploy/` the policy is one for the workspace of the test, and the interval is one second.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.docs.page import blocks_in, doc
from tests.e2e.cluster.policies import OURS, policy
from tests.e2e.cluster.violation_scenarios import taint_two_nodes
from tests.e2e.cluster.violations import pods_on_tainted_nodes
from tests.e2e.cluster.workloads import read_cluster
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.installing.installations import SELECTOR, USER
from tests.e2e.installing.terminal import Terminal
from tests.e2e.kubelet.containers import Container
from tests.e2e.kubelet.kubelet import Kubelet
from tests.e2e.processes.run import AuditedUser, Policy, assert_evictions_logged
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

NOT_HERE = re.compile(r"^docker |^kubectl .*\blogs\b")
"""Commands that need a container engine, or a kubelet that the API server can reach."""
NOT_LOADED = "policy not loaded; the last good one stays in force"


class Page:
    """`docs/operate/install.md`, followed in a folder with a copy of the files that it names."""

    def __init__(self, terminal: Terminal, folder: Path, policy_document: Policy) -> None:
        self.terminal, self.folder = terminal, folder
        shutil.copytree(ROOT / "deploy", folder / "deploy")
        for file in (folder / "deploy").rglob("*.yaml"):
            text = file.read_text(encoding="utf-8")
            for quick in ("--descheduling-interval=5m", "deschedulingInterval: 5m"):
                text = text.replace(quick, quick.replace("5m", "1s"))
            file.write_text(text, encoding="utf-8")
        for place in ("kustomize/base", "helm/resettle/files"):
            (folder / "deploy" / place / "policy.yaml").write_text(yaml.safe_dump(policy_document))

    def follow(self, heading: str, *, block: int | None = None) -> None:
        """Follows a section, or one block of it."""
        all_blocks = blocks_in(doc("operate/install.md").section(heading))
        blocks = [item for item in all_blocks if item.kind == "console" or item.title]
        for each_block in blocks if block is None else [blocks[block]]:
            for command, printed in each_block.commands:
                assert not printed, command
                if not NOT_HERE.match(command):
                    self.terminal.output_of("bash", "-c", command, cwd=self.folder)
            if each_block.title:
                (self.folder / each_block.title).parent.mkdir(exist_ok=True)
                (self.folder / each_block.title).write_text(each_block.body)

    def change(self, name: str, content: Any) -> None:
        """Writes a file, as with an editor."""
        (self.folder / name).write_text(yaml.safe_dump(content))


class Installation:
    """A workspace with violations, the page, and the requests of the account."""

    def __init__(
        self, plane: Access, api: Api, workspace: Workspace, page: Page, kubelet: Kubelet
    ) -> None:
        self.api, self.workspace, self.page, self.kubelet = api, workspace, page, kubelet
        self.audited = AuditedUser(plane, USER)
        self._objects_before = objects_of_ours(page.terminal)

    def assert_nothing_left(self) -> None:
        """Asserts that every object of ours that came with the installation is gone."""
        assert objects_of_ours(self.page.terminal) - self._objects_before == set()

    def assert_only_reads(self) -> None:
        """Asserts that the account only read, and reviewed its own access."""
        requests = {
            (request["verb"], request["objectRef"]["resource"])
            for request in self.audited.requests()
        }
        assert {verb for verb, _ in requests} <= {"list", "watch", "create"}
        assert {kind for verb, kind in requests if verb == "create"} == {"selfsubjectaccessreviews"}

    def wait_until_corrected(self, run: Container) -> None:
        """Waits until there is no violation, and all logged evictions are in the audit log."""
        eventually(
            "no pods on tainted nodes",
            lambda: not pods_on_tainted_nodes(read_cluster(self.workspace)),
        )
        eventually("the logged evictions in the audit log", lambda: self._is_audited(run.evicted))

    def _is_audited(self, uids: set[str]) -> bool:
        return uids <= {eviction.uid for eviction in self.audited.evictions()}

    def taint_nodes(self, *nodes: str) -> None:
        """Taints these nodes."""
        taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
        for name in nodes:
            self.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [taint]}}).granted()


def taints_policy(workspace: Workspace, **top: Any) -> Policy:
    """A policy for the workspace that moves pods off tainted nodes."""
    return policy(OURS, "RemovePodsViolatingNodeTaints", {}, workspace, top=top)


@pytest.fixture
def installation(
    plane: Access, api: Api, workspace: Workspace, terminal: Terminal, tmp_path: Path
) -> Iterator[Installation]:
    taint_two_nodes(workspace)
    page = Page(terminal, tmp_path / "clone", taints_policy(workspace))
    with Kubelet(plane, SELECTOR) as kubelet:
        yield Installation(plane, api, workspace, page, kubelet)


def test_the_page_works_with_kustomize(installation: Installation) -> None:
    page, kubelet, workspace = installation.page, installation.kubelet, installation.workspace

    page.follow("A folder of your own")
    page.follow("Look on")
    dry_run = kubelet.container(1)
    dry_run.wait_for("would evict")
    dry_run.wait_for("cycle done")
    wait_until_probes_pass(dry_run)
    installation.assert_only_reads()

    page.follow("Let it act")
    first = kubelet.container(2)
    first.wait_for("evicted")
    assert dry_run.wait_for_exit() == 0, dry_run.log_text
    installation.wait_until_corrected(first)
    wait_until_probes_pass(first)
    eventually("events about evictions", partial(listed_events, page))

    page.change("my-cluster/policy.yaml", taints_policy(workspace, maxNoOfPodsToEvictTotal=1))
    page.follow("Change the policy")
    first.wait_for("policy loaded")

    misspelt_policy = taints_policy(workspace, maxNoOfPodsToEvictTotl=1)
    page.change("my-cluster/policy.yaml", misspelt_policy)
    with pytest.raises(AssertionError, match="did you mean `maxNoOfPodsToEvictTotal`"):
        page.follow("Change the policy")
    page.terminal.output_of("kubectl", "apply", "-k", "my-cluster", cwd=page.folder)
    first.wait_for(NOT_LOADED)
    first.wait_for_more("cycle done", 2)
    assert not first.has_ended, first.log_text
    page.change("my-cluster/policy.yaml", taints_policy(workspace))
    page.follow("Change the policy")
    first.wait_for("policy loaded", 2)

    page.follow("Upgrade and roll back", block=0)
    second = kubelet.container(3)
    assert (image_tag(first), image_tag(second)) == ("0.1.0", "0.1.1")
    assert first.wait_for_exit() == 0, first.log_text
    installation.taint_nodes(workspace.nodes[2])
    second.wait_for("evicted")
    installation.wait_until_corrected(second)

    page.follow("Upgrade and roll back", block=1)
    third = kubelet.container(4)
    assert image_tag(third) == "0.1.0"
    assert second.wait_for_exit() == 0, second.log_text
    third.wait_for("cycle done")

    # The roles are deleted before the process ends, so it may not be able to release its lease.
    assert installation.audited.forbidden_requests() == []
    page.follow("Uninstall")
    third.wait_for_exit()
    installation.assert_nothing_left()
    assert_evictions_logged(installation.audited, *kubelet.containers.values())


def test_the_page_works_with_helm(installation: Installation) -> None:
    page, kubelet, workspace = installation.page, installation.kubelet, installation.workspace

    page.follow("With Helm", block=0)
    dry_run = kubelet.container(1)
    dry_run.wait_for("would evict")
    dry_run.wait_for("cycle done")
    wait_until_probes_pass(dry_run)
    installation.assert_only_reads()

    page.follow("With Helm", block=1)
    values = yaml.safe_load((page.folder / "my-values.yaml").read_text())
    page.change("my-values.yaml", {**values, "deschedulerPolicy": taints_policy(workspace)})
    page.follow("With Helm", block=2)
    first = kubelet.container(2)
    first.wait_for("evicted")
    installation.wait_until_corrected(first)
    wait_until_probes_pass(first)

    page.follow("With Helm", block=3)
    first.wait_for_more("cycle done", 2)
    assert not first.has_ended, "new permissions need no new pod"

    page.follow("With Helm", block=4)
    second = kubelet.container(3)
    assert (image_tag(first), image_tag(second)) == ("0.1.0", "0.1.1")
    assert first.wait_for_exit() == 0, first.log_text
    installation.taint_nodes(workspace.nodes[2])
    second.wait_for("evicted")
    installation.wait_until_corrected(second)

    page.follow("With Helm", block=5)
    third = kubelet.container(4)
    assert image_tag(third) == "0.1.0"
    assert second.wait_for_exit() == 0, second.log_text
    third.wait_for("cycle done")

    # The roles are deleted before the process ends, so it may not be able to release its lease.
    assert installation.audited.forbidden_requests() == []
    page.follow("With Helm", block=6)
    third.wait_for_exit()
    installation.assert_nothing_left()
    assert_evictions_logged(installation.audited, *kubelet.containers.values())


def wait_until_probes_pass(run: Container) -> None:
    for probe in ("readinessProbe", "livenessProbe"):
        eventually(f"an answer to the {probe}", partial(is_probe_ok, run, probe))


def is_probe_ok(run: Container, probe: str) -> bool:
    return run.probe_status(probe) == 200


def listed_events(page: Page) -> str:
    """The output of the command of the page that lists events; empty without our events."""
    (line,) = re.findall(r"^\$ (kubectl get events .*)$", doc("operate/install.md").text, re.M)
    output = page.terminal.output_of("bash", "-c", line)
    return output if "Descheduled" in output or "RemovePods" in output else ""


def image_tag(run: Container) -> str:
    """The tag of the image, which must be from the registry that the page names."""
    name, _, tag = run.spec["image"].partition(":")
    assert name == "registry.example/resettle"
    return str(tag)


def objects_of_ours(terminal: Terminal) -> set[str]:
    """Objects with our label or our name, in any namespace; other tests may have left some."""
    kinds = terminal.output_of("kubectl", "api-resources", "--verbs=list", "-o", "name").split()
    all_kinds = ",".join(kind for kind in kinds if not kind.startswith("events"))
    by_label = terminal.output_of("kubectl", "get", all_kinds, "-A", "-l", SELECTOR, "-o", "name")
    by_name = terminal.output_of("kubectl", "get", all_kinds, "-A", "-o", "name").split()
    return {*by_label.split(), *(name for name in by_name if "resettle" in name)}
