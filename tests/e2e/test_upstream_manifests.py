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
from tests.e2e.cluster.old_pods import uids_on_nodes
from tests.e2e.cluster.policies import UPSTREAM, policy
from tests.e2e.cluster.violation_scenarios import taint_two_nodes
from tests.e2e.cluster.violations import pods_on_tainted_nodes
from tests.e2e.cluster.workloads import read_cluster
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.installing.installations import NAMESPACE, SELECTOR, USER, helm_install
from tests.e2e.installing.terminal import Terminal
from tests.e2e.kubelet.kubelet import Kubelet
from tests.e2e.processes.run import AuditedUser, assert_audit_agrees
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

MANIFESTS = ROOT / "tests" / "deploy" / "upstream"
ACCOUNT = "system:serviceaccount:kube-system:descheduler-sa"
CONFIG_MAP = "descheduler-policy-configmap"


@contextmanager
def apply_manifests(
    terminal: Terminal, workspace: Workspace, kind: str, folder: Path
) -> Iterator[None]:
    """Applies the roles, ConfigMap and one manifest of upstream while the block lasts."""
    chosen = policy(UPSTREAM, "RemovePodsViolatingNodeTaints", {}, workspace)
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": "kube-system"},
        "data": {"policy.yaml": yaml.safe_dump(chosen)},
    }
    (folder / "configmap.yaml").write_text(yaml.safe_dump(config_map))
    files = [MANIFESTS / "rbac.yaml", folder / "configmap.yaml", MANIFESTS / f"{kind}.yaml"]
    words = [word for file in files for word in ("-f", file)]
    terminal.output_of("kubectl", "apply", *words)
    try:
        yield
    finally:
        terminal.output_of("kubectl", "delete", *words)
        # Pods of the deleted objects are deleted a little later.
        pods = "/api/v1/namespaces/kube-system/pods?labelSelector=app%3Ddescheduler"
        eventually("no pods of upstream's manifests", lambda: not workspace.api.items(pods))


@pytest.mark.parametrize("kind", ["job", "cronjob", "deployment"])
def test_the_manifests_of_upstream_work(
    kind: str, plane: Access, api: Api, workspace: Workspace, terminal: Terminal, tmp_path: Path
) -> None:
    taint_two_nodes(workspace)
    audited = AuditedUser(plane, ACCOUNT)

    with (
        Kubelet(plane, "app=descheduler") as kubelet,
        apply_manifests(terminal, workspace, kind, tmp_path),
    ):
        if kind == "cronjob":
            ahead = ("create", "job", "--from=cronjob/descheduler-cronjob", "now")
            terminal.output_of("kubectl", "-n", "kube-system", *ahead)
        first = kubelet.container()
        first.wait_for("cycle done")
        if kind == "deployment":
            eventually("an answer to its probe", lambda: first.probe_status("livenessProbe") == 200)
        else:
            assert first.wait_for_exit() == 0, first.log_text

    assert pods_on_tainted_nodes(read_cluster(workspace)) == []
    assert_audit_agrees(api, audited, *kubelet.containers.values())
    assert audited.evictions()


def test_the_values_of_the_chart_of_upstream_work(
    plane: Access, api: Api, workspace: Workspace, terminal: Terminal
) -> None:
    taint_two_nodes(workspace)
    before = uids_on_nodes(workspace)
    audited = AuditedUser(plane, USER)

    with Kubelet(plane, SELECTOR) as kubelet, helm_install(terminal, "-f", values("upstream")):
        terminal.output_of(
            "kubectl", "-n", NAMESPACE, "create", "job", "--from=cronjob/resettle", "now"
        )
        done = kubelet.container()
        assert done.wait_for_exit() == 0, done.log_text

    assert pods_on_tainted_nodes(read_cluster(workspace)) == []
    assert uids_on_nodes(workspace) != before
    assert_audit_agrees(api, audited, *kubelet.containers.values())
