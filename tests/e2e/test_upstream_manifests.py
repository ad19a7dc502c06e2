"""Manifests and values that were written for kubernetes-sigs/descheduler, with another image.

`tests/deploy/upstream` has its example manifests, written from what is known of them, and
`tests/deploy/values/upstream.yaml` the values of its chart. Only the image is changed in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests import ROOT
from tests.deploy.values import values
from tests.e2e.cluster.old_pods import left_on_nodes
from tests.e2e.cluster.policies import UPSTREAM, policy
from tests.e2e.cluster.violation_scenarios import nodes_are_tainted
from tests.e2e.cluster.violations import pods_on_tainted_nodes
from tests.e2e.cluster.workloads import look
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.installing.installations import NAMESPACE, SELECTOR, USER, by_helm
from tests.e2e.installing.terminal import Terminal
from tests.e2e.kubelet.kubelet import Kubelet
from tests.e2e.processes.run import Noted, settled
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

MANIFESTS = ROOT / "tests" / "deploy" / "upstream"
ACCOUNT = "system:serviceaccount:kube-system:descheduler-sa"
MAPPED = "descheduler-policy-configmap"


@contextmanager
def applied(terminal: Terminal, room: Room, form: str, folder: Path) -> Iterator[None]:
    """descheduler's permissions, a policy in the ConfigMap of its name, and one of its forms."""
    chosen = policy(UPSTREAM, "RemovePodsViolatingNodeTaints", {}, room)
    mapped = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": MAPPED, "namespace": "kube-system"},
        "data": {"policy.yaml": yaml.safe_dump(chosen)},
    }
    (folder / "configmap.yaml").write_text(yaml.safe_dump(mapped))
    files = [MANIFESTS / "rbac.yaml", folder / "configmap.yaml", MANIFESTS / f"{form}.yaml"]
    words = [word for file in files for word in ("-f", file)]
    terminal.does("kubectl", "apply", *words)
    try:
        yield
    finally:
        terminal.does("kubectl", "delete", *words)
        # What the deleted made goes a little later.
        pods = "/api/v1/namespaces/kube-system/pods?labelSelector=app%3Ddescheduler"
        eventually("the last of its pods gone", lambda: not room.api.items(pods))


@pytest.mark.parametrize("form", ["job", "cronjob", "deployment"])
def test_its_manifests_do_their_work(
    form: str, plane: Access, api: Api, room: Room, terminal: Terminal, tmp_path: Path
) -> None:
    nodes_are_tainted(room)
    noted = Noted(plane, ACCOUNT)

    with Kubelet(plane, "app=descheduler") as kubelet, applied(terminal, room, form, tmp_path):
        if form == "cronjob":
            ahead = ("create", "job", "--from=cronjob/descheduler-cronjob", "now")
            terminal.does("kubectl", "-n", "kube-system", *ahead)
        first = kubelet.container()
        first.awaits("cycle done")
        if form == "deployment":
            eventually("an answer to its probe", lambda: first.probed("livenessProbe") == 200)
        else:
            assert first.ended() == 0, first.story

    assert pods_on_tainted_nodes(look(room)) == []
    settled(api, noted, *kubelet.containers.values())
    assert noted.evictions()


def test_the_values_of_its_chart_do_their_work(
    plane: Access, api: Api, room: Room, terminal: Terminal
) -> None:
    nodes_are_tainted(room)
    before = left_on_nodes(room)
    noted = Noted(plane, USER)

    with Kubelet(plane, SELECTOR) as kubelet, by_helm(terminal, "-f", values("upstream")):
        terminal.does("kubectl", "-n", NAMESPACE, "create", "job", "--from=cronjob/resettle", "now")
        done = kubelet.container()
        assert done.ended() == 0, done.story

    assert pods_on_tainted_nodes(look(room)) == []
    assert left_on_nodes(room) != before
    settled(api, noted, *kubelet.containers.values())
