"""The page about installing, followed line by line on a cluster: in, live, changed, up, back, out.

Lines that build an image or read a log are left out; the log is read where the pod runs. In a copy
of `deploy/` the policy is one for the room of the test, and cycles come every second.
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
from tests.e2e.cluster.violation_scenarios import nodes_are_tainted
from tests.e2e.cluster.violations import pods_on_tainted_nodes
from tests.e2e.cluster.workloads import look
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.installing.installations import SELECTOR, USER
from tests.e2e.installing.terminal import Terminal
from tests.e2e.kubelet.containers import Container
from tests.e2e.kubelet.kubelet import Kubelet
from tests.e2e.processes.run import Noted, Policy, accounted_for
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

NOT_HERE = re.compile(r"^docker |^kubectl .*\blogs\b")
"""What takes a container engine, or a kubelet that the API server can ask."""
NOT_TAKEN = "policy not loaded; the last good one stays in force"


class Page:
    """`docs/operate/install.md`, followed in a folder with a copy of what it speaks of."""

    def __init__(self, terminal: Terminal, folder: Path, chosen: Policy) -> None:
        self.terminal, self.folder = terminal, folder
        shutil.copytree(ROOT / "deploy", folder / "deploy")
        for file in (folder / "deploy").rglob("*.yaml"):
            text = file.read_text(encoding="utf-8")
            for quick in ("--descheduling-interval=5m", "deschedulingInterval: 5m"):
                text = text.replace(quick, quick.replace("5m", "1s"))
            file.write_text(text, encoding="utf-8")
        for place in ("kustomize/base", "helm/resettle/files"):
            (folder / "deploy" / place / "policy.yaml").write_text(yaml.safe_dump(chosen))

    def follow(self, heading: str, *, block: int | None = None) -> None:
        """Does what a section says, or one block of it."""
        found = blocks_in(doc("operate/install.md").section(heading))
        blocks = [it for it in found if it.kind == "console" or it.title]
        for it in blocks if block is None else [blocks[block]]:
            for command, printed in it.commands:
                assert not printed, command
                if not NOT_HERE.match(command):
                    self.terminal.does("bash", "-c", command, cwd=self.folder)
            if it.title:
                (self.folder / it.title).parent.mkdir(exist_ok=True)
                (self.folder / it.title).write_text(it.body)

    def change(self, name: str, content: Any) -> None:
        """What an editor would do."""
        (self.folder / name).write_text(yaml.safe_dump(content))


class Stage:
    """A room that has gone wrong, the page, and what the API server notes of the account."""

    def __init__(self, plane: Access, api: Api, room: Room, page: Page, kubelet: Kubelet) -> None:
        self.api, self.room, self.page, self.kubelet = api, room, page, kubelet
        self.noted = Noted(plane, USER)

    def nothing_but_reading(self) -> None:
        """Holds that nothing was asked for but to read, and to know what may be asked for."""
        asked = {(it["verb"], it["objectRef"]["resource"]) for it in self.noted.audited()}
        assert {verb for verb, _ in asked} <= {"list", "watch", "create"}
        assert {kind for verb, kind in asked if verb == "create"} == {"selfsubjectaccessreviews"}

    def put_right(self, run: Container) -> None:
        """Waits until the wrong is put right, and holds that the run says so."""
        eventually("a room put right", lambda: not pods_on_tainted_nodes(look(self.room)))
        eventually("what it told of in the audit log", lambda: self._noted(run.evicted))

    def _noted(self, told: set[str]) -> bool:
        return told <= {it.uid for it in self.noted.evictions()}

    def spoil(self, *nodes: str) -> None:
        """Has more of it go wrong."""
        taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
        for name in nodes:
            self.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [taint]}}).granted()


def tidying(room: Room, **top: Any) -> Policy:
    """A policy for the room that would have pods leave tainted nodes."""
    return policy(OURS, "RemovePodsViolatingNodeTaints", {}, room, top=top)


@pytest.fixture
def stage(
    plane: Access, api: Api, room: Room, terminal: Terminal, tmp_path: Path
) -> Iterator[Stage]:
    nodes_are_tainted(room)
    page = Page(terminal, tmp_path / "clone", tidying(room))
    with Kubelet(plane, SELECTOR) as kubelet:
        yield Stage(plane, api, room, page, kubelet)


def test_with_kustomize(stage: Stage) -> None:
    page, kubelet, room = stage.page, stage.kubelet, stage.room

    page.follow("A folder of your own")
    page.follow("Look on")
    shown = kubelet.container(1)
    shown.awaits("would evict")
    shown.awaits("cycle done")
    ready_and_alive(shown)
    stage.nothing_but_reading()

    page.follow("Let it act")
    first = kubelet.container(2)
    first.awaits("evicted")
    assert shown.ended() == 0, shown.story
    stage.put_right(first)
    ready_and_alive(first)
    eventually("events that tell of it", partial(events, page))

    page.change("my-cluster/policy.yaml", tidying(room, maxNoOfPodsToEvictTotal=1))
    page.follow("Change the policy")
    first.awaits("policy loaded")

    misspelt = tidying(room, maxNoOfPodsToEvictTotl=1)
    page.change("my-cluster/policy.yaml", misspelt)
    with pytest.raises(AssertionError, match="did you mean `maxNoOfPodsToEvictTotal`"):
        page.follow("Change the policy")
    page.terminal.does("kubectl", "apply", "-k", "my-cluster", cwd=page.folder)
    first.awaits(NOT_TAKEN)
    first.awaits_more("cycle done", 2)
    assert not first.over, first.story
    page.change("my-cluster/policy.yaml", tidying(room))
    page.follow("Change the policy")
    first.awaits("policy loaded", 2)

    page.follow("Upgrade and roll back", block=0)
    second = kubelet.container(3)
    assert (image(first), image(second)) == ("0.1.0", "0.1.1")
    assert first.ended() == 0, first.story
    stage.spoil(room.nodes[2])
    second.awaits("evicted")
    stage.put_right(second)

    page.follow("Upgrade and roll back", block=1)
    third = kubelet.container(4)
    assert image(third) == "0.1.0"
    assert second.ended() == 0, second.story
    third.awaits("cycle done")

    # The roles go before the process does, which may then not even give its lease back.
    assert stage.noted.forbidden() == []
    page.follow("Uninstall")
    third.ended()
    nothing_left(page.terminal)
    accounted_for(stage.noted, *kubelet.containers.values())


def test_with_helm(stage: Stage) -> None:
    page, kubelet, room = stage.page, stage.kubelet, stage.room

    page.follow("With Helm", block=0)
    shown = kubelet.container(1)
    shown.awaits("would evict")
    shown.awaits("cycle done")
    ready_and_alive(shown)
    stage.nothing_but_reading()

    page.follow("With Helm", block=1)
    values = yaml.safe_load((page.folder / "my-values.yaml").read_text())
    page.change("my-values.yaml", {**values, "deschedulerPolicy": tidying(room)})
    page.follow("With Helm", block=2)
    first = kubelet.container(2)
    first.awaits("evicted")
    stage.put_right(first)
    ready_and_alive(first)

    page.follow("With Helm", block=3)
    first.awaits_more("cycle done", 2)
    assert not first.over, "new rights take no new pod"

    page.follow("With Helm", block=4)
    second = kubelet.container(3)
    assert (image(first), image(second)) == ("0.1.0", "0.1.1")
    assert first.ended() == 0, first.story
    stage.spoil(room.nodes[2])
    second.awaits("evicted")
    stage.put_right(second)

    page.follow("With Helm", block=5)
    third = kubelet.container(4)
    assert image(third) == "0.1.0"
    assert second.ended() == 0, second.story
    third.awaits("cycle done")

    # The roles go before the process does, which may then not even give its lease back.
    assert stage.noted.forbidden() == []
    page.follow("With Helm", block=6)
    third.ended()
    nothing_left(page.terminal)
    accounted_for(stage.noted, *kubelet.containers.values())


def ready_and_alive(run: Container) -> None:
    for probe in ("readinessProbe", "livenessProbe"):
        eventually(f"an answer to the {probe}", partial(fine, run, probe))


def fine(run: Container, probe: str) -> bool:
    return run.probed(probe) == 200


def events(page: Page) -> str:
    """What the line of the page for events prints."""
    (line,) = re.findall(r"^\$ (kubectl get events .*)$", doc("operate/install.md").text, re.M)
    told = page.terminal.does("bash", "-c", line)
    return told if "Descheduled" in told or "RemovePods" in told else ""


def image(run: Container) -> str:
    """The tag of its image, which must be one of the registry that the page names."""
    name, _, tag = run.spec["image"].partition(":")
    assert name == "registry.example/resettle"
    return str(tag)


def nothing_left(terminal: Terminal) -> None:
    """Holds that no object is left that is ours, by label or by name, in any namespace or none."""
    kinds = terminal.does("kubectl", "api-resources", "--verbs=list", "-o", "name").split()
    all_kinds = ",".join(it for it in kinds if not it.startswith("events"))
    by_label = terminal.does("kubectl", "get", all_kinds, "-A", "-l", SELECTOR, "-o", "name")
    by_name = terminal.does("kubectl", "get", all_kinds, "-A", "-o", "name").split()

    assert by_label == ""
    assert [it for it in by_name if "resettle" in it] == []
