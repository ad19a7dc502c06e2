"""kubectl gets along with the test API server, over TLS, for it shows no token without."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from resettle.testing import ApiServer, ObjectChange, budget, cluster, definition, node, pod
from tests.testing.api_server.harness import certified

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")

WEB = {"app": "web"}
WORLD = cluster(
    node("n1").holding(pod("web-1", labels=WEB), pod("web-2", labels=WEB)),
    node("n2").holding(pod("web-3", labels=WEB)),
    budget("web", allowed=3, labels=WEB),
)
Kubectl = Callable[..., str]


@pytest.fixture
def api_server(tmp_path: Path) -> Iterator[ApiServer]:
    tls, authority = certified(tmp_path)
    with ApiServer(WORLD.objects, token="t", tls=tls, authority=authority) as server:
        yield server


@pytest.fixture
def kubectl(api_server: ApiServer, tmp_path: Path) -> Kubectl:
    config = api_server.kubeconfig(tmp_path / "config")

    def run(*words: str, sent: Any = None) -> str:
        done = subprocess.run(
            ["kubectl", "--kubeconfig", config, "--cache-dir", tmp_path / "cache", *words],
            input=json.dumps(sent),
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        pytest.param("get nodes -o name", ["node/n1", "node/n2"], id="all of a kind"),
        pytest.param(
            "get no,po,pdb -A -o name",
            [
                *("node/n1", "node/n2", "pod/web-1", "pod/web-2", "pod/web-3"),
                "poddisruptionbudget.policy/web",
            ],
            id="several kinds by their short names",
        ),
        pytest.param(
            "get pods -A --field-selector spec.nodeName=n1 -o name",
            ["pod/web-1", "pod/web-2"],
            id="by field",
        ),
        pytest.param("get pods -A --chunk-size=1 -l app=web -o name", 3, id="page by page"),
        pytest.param("get --raw /readyz", ["ok"], id="anything at all"),
        pytest.param("api-resources --api-group=policy -o name", 1, id="what there is"),
    ],
)
def test_kubectl_reads(kubectl: Kubectl, words: str, printed: list[str] | int) -> None:
    lines = kubectl(*words.split()).splitlines()

    assert (len(lines) if isinstance(printed, int) else lines) == printed


@pytest.mark.parametrize(
    ("words", "part", "expected"),
    [
        pytest.param(
            "label node n1 pool=blue",
            ("metadata", "labels"),
            {"kubernetes.io/hostname": "n1", "pool": "blue"},
            id="label",
        ),
        pytest.param(
            "annotate node n1 a=b", ("metadata", "annotations"), {"a": "b"}, id="annotate"
        ),
        pytest.param(
            "taint node n1 gpu=yes:NoSchedule",
            ("spec", "taints"),
            [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
            id="taint",
        ),
        pytest.param("cordon n1", ("spec", "unschedulable"), True, id="cordon"),
    ],
)
def test_kubectl_changes_nodes(
    kubectl: Kubectl, api_server: ApiServer, words: str, part: tuple[str, str], expected: Any
) -> None:
    kubectl(*words.split())

    changed = api_server.store.get("Node", "n1")
    assert changed is not None
    assert changed[part[0]][part[1]] == expected


def test_kubectl_drains_a_node(kubectl: Kubectl, api_server: ApiServer) -> None:
    def kubelet(change: ObjectChange) -> None:
        if change.new and change.new["metadata"].get("deletionTimestamp"):
            api_server.store.delete("Pod", change.new["metadata"]["name"])

    api_server.store.subscribe("Pod", kubelet)

    kubectl("drain", "n1", "--force", "--timeout=30s")

    assert [obj["metadata"]["name"] for obj in api_server.store.list("Pod")] == ["web-3"]
    spent = api_server.store.get("PodDisruptionBudget", "web")
    assert spent is not None
    assert spent["status"]["disruptionsAllowed"] == 1


def deployment(image: str) -> dict[str, Any]:
    container = {"name": "main", "image": image}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": WEB},
            "template": {"metadata": {"labels": WEB}, "spec": {"containers": [container]}},
        },
    }


def test_kubectl_applies_scales_and_deletes(kubectl: Kubectl, api_server: ApiServer) -> None:
    for image in ("registry.example/app:1", "registry.example/app:2"):
        kubectl("apply", "--validate=false", "-f", "-", sent=deployment(image))
    kubectl("scale", "deployment/web", "--replicas=5")

    obj = api_server.store.get("Deployment", "web")
    assert obj is not None
    assert obj["spec"]["replicas"] == 5
    (container,) = obj["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/app:2"
    assert obj["metadata"]["generation"] == 3
    kubectl("delete", "deployment", "web")
    assert api_server.store.get("Deployment", "web") is None


def test_kubectl_creates_and_deletes_custom_resources(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", "--validate=false", sent=definition("Widget", group="example.com"))
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    kubectl("create", "-f", "-", "--validate=false", sent=widget)

    assert kubectl("get", "widgets", "-o", "name") == "widget.example.com/w\n"
    kubectl("delete", "widget", "w")
    assert kubectl("get", "widgets", "-o", "name") == ""


def test_kubectl_waits_by_watching(kubectl: Kubectl) -> None:
    printed = kubectl("wait", "pod/web-1", "--for=condition=Ready", "--timeout=30s")

    assert printed == "pod/web-1 condition met\n"


def test_kubectl_makes_a_namespace_and_ends_it(kubectl: Kubectl, api_server: ApiServer) -> None:
    kubectl("create", "namespace", "team")
    made = api_server.store.get("Namespace", "team")
    kubectl("delete", "namespace", "team")

    assert made is not None
    assert made["status"] == {"phase": "Active"}
    assert api_server.store.get("Namespace", "team") is None


def test_kubectl_asks_what_it_may_do(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods", "--subresource=eviction") == "yes\n"


def test_kubectl_shows_usage(kubectl: Kubectl, api_server: ApiServer) -> None:
    for name, cpu in (("n1", "1"), ("n2", "500m")):
        api_server.store.put(
            {
                "apiVersion": "metrics.k8s.io/v1beta1",
                "kind": "NodeMetrics",
                "metadata": {"name": name},
                "timestamp": "2026-01-31T12:00:00Z",
                "window": "30s",
                "usage": {"cpu": cpu, "memory": "4Gi"},
            }
        )

    rows = [line.split() for line in kubectl("top", "nodes", "--no-headers").splitlines()]

    assert rows == [
        ["n1", "1000m", "25%", "4096Mi", "25%"],
        ["n2", "500m", "12%", "4096Mi", "25%"],
    ]
