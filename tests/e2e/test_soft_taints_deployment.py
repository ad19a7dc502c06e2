"""The soft tainter as it is deployed, by Helm and by kustomize, with a prefix of one's own.

What is installed is run as its pod says. It must mark a node, serve its metrics to who may read
them, ask for nothing that it has no right to, and be held to its own taints by its guard.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests import ROOT
from tests.docs.page import blocks_in, doc
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.installing.installations import NAMESPACE, by_helm, home
from tests.e2e.installing.terminal import CHART, Terminal
from tests.e2e.kubelet.containers import Container
from tests.e2e.kubelet.kubelet import Kubelet
from tests.e2e.processes.run import Noted
from tests.e2e.servers.metrics_endpoint import Reader
from tests.e2e.soft_taints.builders import fill, policy, soft, written
from tests.e2e.test_install_page import ready_and_alive
from tools.control_plane.api import Answer, Api, Object
from tools.control_plane.plane import Access

NAME = "resettle-soft-tainter"
SELECTOR = f"app.kubernetes.io/name={NAME}"
USER = f"system:serviceaccount:{NAMESPACE}:{NAME}"
PREFIX = "marks.example.com"
MARK = f"{PREFIX}/overutilized"


class Site(NamedTuple):
    """A room with a node that is too full, and what is needed to install a tainter beside it."""

    plane: Access
    api: Api
    room: Room
    terminal: Terminal
    folder: Path
    at: dict[str, str]

    @property
    def hot(self) -> str:
        return self.room.nodes[0]

    def keys(self) -> list[str]:
        """The keys of the taints of the node that is too full."""
        return [it["key"] for it in written(self.api, self.hot)]


@pytest.fixture
def site(plane: Access, api: Api, room: Room, terminal: Terminal, tmp_path: Path) -> Iterator[Site]:
    fill(room, room.nodes[0], 90)
    with home(room) as at:
        yield Site(plane, api, room, terminal, tmp_path, at)


class Tainter:
    """What the account of the tainter may do to the node that is too full."""

    def __init__(self, site: Site) -> None:
        self._site = site
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{NAME}/token"
        given = site.api.post(path, {"spec": {"expirationSeconds": 3600}}).granted()
        self._token: str = given["status"]["token"]

    def wishes(self, **parts: Object) -> Answer:
        """What is answered to a change that is asked for and not made."""
        with Api(self._site.plane.url, self._token, self._site.plane.papers.ca) as mine:
            return mine.patch(f"/api/v1/nodes/{self._site.hot}?dryRun=All", parts)

    def would_taint(self, key: str, effect: str = "PreferNoSchedule") -> Answer:
        more = {**soft(f"{key}=level2"), "effect": effect}
        there = [it for it in written(self._site.api, self._site.hot) if it["key"] != key]
        return self.wishes(spec={"taints": [*there, more]})


def guarded(site: Site) -> None:
    """Holds that the guard is in force, and knows the prefix."""
    tainter = Tainter(site)
    denied = tainter.wishes(metadata={"labels": {"by": "the-tainter"}})
    assert (denied.status, denied.body["reason"]) == (403, "Forbidden")
    assert f"{USER} may change no metadata of a node" in denied.body["message"]
    assert tainter.wishes(spec={"unschedulable": True}).status == 403

    assert tainter.would_taint(f"{MARK}-2").fine
    assert tainter.would_taint(f"{MARK}-2", "NoSchedule").status == 403
    assert tainter.would_taint("other.example.com/overutilized").status == 403


def at_work(site: Site, tainter: Container) -> None:
    """Holds that the node is marked, and that nothing was asked for in vain."""
    eventually("a taint", lambda: site.keys() == [MARK])
    ready_and_alive(tainter)
    tainter.awaits_more("round done", 2)
    tainter.check()


# -- by Helm -------------------------------------------------------------------------------------


def values(site: Site) -> Path:
    """Values as an operator would write them; the descheduler itself is left out."""
    file = site.folder / "values.yaml"
    tainter = {
        "enabled": True,
        "interval": "300ms",
        "prefix": PREFIX,
        "cmdOptions": {"protect-metrics": True},
    }
    given = {
        "deschedulerPolicy": policy(site.room),
        "replicas": 0,
        "nodeSelector": site.at,
        "softTainter": tainter,
    }
    file.write_text(yaml.safe_dump(given))
    return file


def test_by_helm_it_marks_nodes_is_guarded_and_cleans_up_before_it_goes(site: Site) -> None:
    reader = Reader(site.api, site.room, may_read=True)
    noted = Noted(site.plane, USER)
    with Kubelet(site.plane, SELECTOR) as kubelet, by_helm(site.terminal, "-f", values(site)):
        first = kubelet.container()
        at_work(site, first)
        assert noted.forbidden() == []
        guarded(site)

        assert first.asked("/metrics")[0] == 401
        status, text = first.asked("/metrics", reader.token)
        assert status == 200
        assert 'resettle_soft_tainter_marked_nodes{taint="overutilized"} 1.0\n' in text
        assert 'resettle_soft_tainter_writes_total{outcome="set"} 1.0\n' in text
        assert 'resettle_role{role="leading"} 1.0\n' in text

        notes = site.terminal.does("helm", "get", "notes", NAMESPACE, "--namespace", NAMESPACE)
        (line,) = re.findall(r"helm upgrade .*softTainter\.removeOnly=true", notes)
        site.terminal.does("bash", "-c", line.replace("CHART", str(CHART)))
        second = kubelet.container(2)
        eventually("no taint", lambda: site.keys() == [])
        assert first.ended() == 0, first.story
        second.awaits("round done")
        kubelet.check()


# -- by kustomize --------------------------------------------------------------------------------


@contextmanager
def as_the_page_says(site: Site) -> Iterator[None]:
    """`docs/policy/soft-taints.md` followed where it speaks of a prefix of one's own.

    In a copy of `deploy/` rounds come often, and the policy and the node are those of the test.
    """
    clone = site.folder / "clone"
    shutil.copytree(ROOT / "deploy", clone / "deploy")
    chosen = yaml.safe_dump(policy(site.room, softTaints={"prefix": PREFIX}))
    for file in ("policy.yaml", "deploy/kustomize/base/policy.yaml"):
        (clone / file).write_text(chosen)
    pod = clone / "deploy" / "soft-tainter" / "deployment.yaml"
    (label,) = site.at.items()
    text = pod.read_text().replace("--interval=1m", "--interval=300ms")
    place = "      restartPolicy: Always\n"
    pod.write_text(text.replace(place, f"{place}      nodeSelector: {{{label[0]}: {label[1]}}}\n"))

    base = "deploy/kustomize/base"
    site.terminal.does("kubectl", "apply", "-k", base, cwd=clone)
    try:
        for block in blocks_in(doc("policy/soft-taints.md").section("The admission policy")):
            if block.title:
                (clone / block.title).parent.mkdir()
                (clone / block.title).write_text(block.body)
            for command, _ in block.commands:
                site.terminal.does("bash", "-c", command, cwd=clone)
        yield
    finally:
        for folder in ("my-tainter", base):
            words = ("kubectl", "delete", "--ignore-not-found", "-k", folder)
            site.terminal.does(*words, cwd=clone)


def test_by_kustomize_the_guard_knows_the_prefix_of_the_policy(site: Site) -> None:
    noted = Noted(site.plane, USER)
    with Kubelet(site.plane, SELECTOR) as kubelet, as_the_page_says(site):
        at_work(site, kubelet.container())
        assert noted.forbidden() == []
        guarded(site)
        kubelet.check()
