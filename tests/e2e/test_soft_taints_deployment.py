"""The soft tainter deployed with Helm and with kustomize, with another prefix.

Its pod is run. It must taint a node, serve its metrics to authorized readers and send no forbidden
request, and the admission policy must limit it to its own taints.
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
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.installing.installations import NAMESPACE, helm_install, node_for_resettle
from tests.e2e.installing.terminal import CHART, Terminal
from tests.e2e.kubelet.containers import Container
from tests.e2e.kubelet.kubelet import Kubelet
from tests.e2e.processes.run import AuditedUser
from tests.e2e.servers.metrics_endpoint import MetricsReader
from tests.e2e.soft_taints.builders import fill_node, policy, soft_taint, taints_of
from tests.e2e.test_install_page import wait_until_probes_pass
from tools.control_plane.api import Answer, Api, Object
from tools.control_plane.plane import Access

NAME = "resettle-soft-tainter"
SELECTOR = f"app.kubernetes.io/name={NAME}"
USER = f"system:serviceaccount:{NAMESPACE}:{NAME}"
PREFIX = "marks.example.com"
OVERUTILIZED = f"{PREFIX}/overutilized"


class Site(NamedTuple):
    """A workspace with a node that is too full, and what is needed to install a tainter."""

    plane: Access
    api: Api
    workspace: Workspace
    terminal: Terminal
    folder: Path
    node_selector: dict[str, str]

    @property
    def hot(self) -> str:
        return self.workspace.nodes[0]

    def keys(self) -> list[str]:
        """The keys of the taints of the node that is too full."""
        return [taint["key"] for taint in taints_of(self.api, self.hot)]


@pytest.fixture
def site(
    plane: Access, api: Api, workspace: Workspace, terminal: Terminal, tmp_path: Path
) -> Iterator[Site]:
    fill_node(workspace, workspace.nodes[0], 90)
    with node_for_resettle(workspace) as node_selector:
        yield Site(plane, api, workspace, terminal, tmp_path, node_selector)


class Tainter:
    """A client with the token of the tainter, for dry runs of changes to the full node."""

    def __init__(self, site: Site) -> None:
        self._site = site
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{NAME}/token"
        given = site.api.post(path, {"spec": {"expirationSeconds": 3600}}).granted()
        self._token: str = given["status"]["token"]

    def try_change(self, **parts: Object) -> Answer:
        """The answer to a dry run of a change."""
        with Api(self._site.plane.url, self._token, self._site.plane.papers.ca) as mine:
            return mine.patch(f"/api/v1/nodes/{self._site.hot}?dryRun=All", parts)

    def would_taint(self, key: str, effect: str = "PreferNoSchedule") -> Answer:
        more = {**soft_taint(f"{key}=level2"), "effect": effect}
        other_taints = [
            taint for taint in taints_of(self._site.api, self._site.hot) if taint["key"] != key
        ]
        return self.try_change(spec={"taints": [*other_taints, more]})


def assert_admission_policy(site: Site) -> None:
    """Asserts that the admission policy is in force and allows the prefix."""
    tainter = Tainter(site)
    denied = tainter.try_change(metadata={"labels": {"by": "the-tainter"}})
    assert (denied.status, denied.body["reason"]) == (403, "Forbidden")
    assert f"{USER} may change no metadata of a node" in denied.body["message"]
    assert tainter.try_change(spec={"unschedulable": True}).status == 403

    assert tainter.would_taint(f"{OVERUTILIZED}-2").fine
    assert tainter.would_taint(f"{OVERUTILIZED}-2", "NoSchedule").status == 403
    assert tainter.would_taint("other.example.com/overutilized").status == 403


def wait_until_tainted(site: Site, tainter: Container) -> None:
    """Waits until the node is tainted and the tainter is ready and runs rounds."""
    eventually("a taint", lambda: site.keys() == [OVERUTILIZED])
    wait_until_probes_pass(tainter)
    tainter.wait_for_more("round done", 2)
    tainter.check()


# -- with Helm -----------------------------------------------------------------------------------


def write_values(site: Site) -> Path:
    """Writes values as an operator would; the descheduler itself has no replicas."""
    file = site.folder / "values.yaml"
    tainter = {
        "enabled": True,
        "interval": "300ms",
        "prefix": PREFIX,
        "cmdOptions": {"protect-metrics": True},
    }
    given = {
        "deschedulerPolicy": policy(site.workspace),
        "replicas": 0,
        "nodeSelector": site.node_selector,
        "softTainter": tainter,
    }
    file.write_text(yaml.safe_dump(given))
    return file


def test_installed_with_helm_it_taints_nodes_is_restricted_and_cleans_up(site: Site) -> None:
    reader = MetricsReader(site.api, site.workspace, may_read=True)
    audited = AuditedUser(site.plane, USER)
    with (
        Kubelet(site.plane, SELECTOR) as kubelet,
        helm_install(site.terminal, "-f", write_values(site)),
    ):
        first = kubelet.container()
        wait_until_tainted(site, first)
        assert audited.forbidden_requests() == []
        assert_admission_policy(site)

        assert first.get("/metrics")[0] == 401
        status, text = first.get("/metrics", reader.token)
        assert status == 200
        assert 'resettle_soft_tainter_marked_nodes{taint="overutilized"} 1.0\n' in text
        assert 'resettle_soft_tainter_writes_total{outcome="set"} 1.0\n' in text
        assert 'resettle_role{role="leading"} 1.0\n' in text

        notes = site.terminal.output_of("helm", "get", "notes", NAMESPACE, "--namespace", NAMESPACE)
        (line,) = re.findall(r"helm upgrade .*softTainter\.removeOnly=true", notes)
        site.terminal.output_of("bash", "-c", line.replace("CHART", str(CHART)))
        second = kubelet.container(2)
        eventually("no taint", lambda: site.keys() == [])
        assert first.wait_for_exit() == 0, first.log_text
        second.wait_for("round done")
        kubelet.check()


# -- with kustomize ------------------------------------------------------------------------------


@contextmanager
def kustomize_install_of_page(site: Site) -> Iterator[None]:
    """Follows `docs/policy/soft-taints.md` about another prefix; uninstalls when the block ends.

    In a copy of `deploy/` the interval is short, and the policy and the node are of the test.
    """
    clone = site.folder / "clone"
    shutil.copytree(ROOT / "deploy", clone / "deploy")
    chosen = yaml.safe_dump(policy(site.workspace, softTaints={"prefix": PREFIX}))
    for file in ("policy.yaml", "deploy/kustomize/base/policy.yaml"):
        (clone / file).write_text(chosen)
    pod = clone / "deploy" / "soft-tainter" / "deployment.yaml"
    (label,) = site.node_selector.items()
    text = pod.read_text().replace("--interval=1m", "--interval=300ms")
    place = "      restartPolicy: Always\n"
    pod.write_text(text.replace(place, f"{place}      nodeSelector: {{{label[0]}: {label[1]}}}\n"))

    base = "deploy/kustomize/base"
    site.terminal.output_of("kubectl", "apply", "-k", base, cwd=clone)
    try:
        for block in blocks_in(doc("policy/soft-taints.md").section("The admission policy")):
            if block.title:
                (clone / block.title).parent.mkdir()
                (clone / block.title).write_text(block.body)
            for command, _ in block.commands:
                site.terminal.output_of("bash", "-c", command, cwd=clone)
        yield
    finally:
        for folder in ("my-tainter", base):
            words = ("kubectl", "delete", "--ignore-not-found", "-k", folder)
            site.terminal.output_of(*words, cwd=clone)


def test_installed_with_kustomize_the_admission_policy_allows_the_prefix_of_the_policy(
    site: Site,
) -> None:
    audited = AuditedUser(site.plane, USER)
    with Kubelet(site.plane, SELECTOR) as kubelet, kustomize_install_of_page(site):
        wait_until_tainted(site, kubelet.container())
        assert audited.forbidden_requests() == []
        assert_admission_policy(site)
        kubelet.check()
