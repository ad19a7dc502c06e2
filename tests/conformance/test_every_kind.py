"""Each kind lives a whole life: made, found, listed, labelled, watched, deleted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.harness import NO_SCHEDULER, Place, pod_body

from .client import Object

LABELS = {"app": "kinds"}


def template(**spec: Any) -> Object:
    container = {"name": "main", "image": "registry.example/app:1"}
    inner = {"schedulerName": NO_SCHEDULER, "containers": [container], **spec}
    return {"metadata": {"labels": LABELS}, "spec": inner}


SELECTOR = {"matchLabels": LABELS}
STORAGE = {"accessModes": ["ReadWriteOnce"]}
KINDS: dict[str, tuple[str, bool, Object]] = {
    "ConfigMap": ("/api/v1/configmaps", True, {}),
    "CSINode": ("/apis/storage.k8s.io/v1/csinodes", False, {"spec": {"drivers": []}}),
    "DaemonSet": (
        "/apis/apps/v1/daemonsets",
        True,
        {"spec": {"selector": SELECTOR, "template": template(nodeSelector={"no": "node"})}},
    ),
    "Deployment": (
        "/apis/apps/v1/deployments",
        True,
        {"spec": {"replicas": 0, "selector": SELECTOR, "template": template()}},
    ),
    "HorizontalPodAutoscaler": (
        "/apis/autoscaling/v2/horizontalpodautoscalers",
        True,
        {
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 1,
            }
        },
    ),
    "Job": (
        "/apis/batch/v1/jobs",
        True,
        {"spec": {"suspend": True, "template": template(restartPolicy="Never")}},
    ),
    "Lease": ("/apis/coordination.k8s.io/v1/leases", True, {"spec": {"holderIdentity": "me"}}),
    "Namespace": ("/api/v1/namespaces", False, {}),
    "Node": ("/api/v1/nodes", False, {}),
    "PersistentVolume": (
        "/api/v1/persistentvolumes",
        False,
        {"spec": {**STORAGE, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/none"}}},
    ),
    "PersistentVolumeClaim": (
        "/api/v1/persistentvolumeclaims",
        True,
        {"spec": {**STORAGE, "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    "Pod": ("/api/v1/pods", True, {"spec": pod_body("any")["spec"]}),
    "PodDisruptionBudget": (
        "/apis/policy/v1/poddisruptionbudgets",
        True,
        {"spec": {"maxUnavailable": 1, "selector": SELECTOR}},
    ),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1/priorityclasses", False, {"value": 1}),
    "ReplicaSet": (
        "/apis/apps/v1/replicasets",
        True,
        {"spec": {"replicas": 0, "selector": SELECTOR, "template": template()}},
    ),
    "ReplicationController": (
        "/api/v1/replicationcontrollers",
        True,
        {"spec": {"replicas": 0, "selector": LABELS, "template": template()}},
    ),
    "Secret": ("/api/v1/secrets", True, {}),
    "Service": ("/api/v1/services", True, {"spec": {"ports": [{"port": 80}]}}),
    "ServiceAccount": ("/api/v1/serviceaccounts", True, {}),
    "StatefulSet": (
        "/apis/apps/v1/statefulsets",
        True,
        {
            "spec": {
                "replicas": 0,
                "serviceName": "none",
                "selector": SELECTOR,
                "template": template(),
            }
        },
    ),
    "StorageClass": (
        "/apis/storage.k8s.io/v1/storageclasses",
        False,
        {"provisioner": "example.com/none"},
    ),
}


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind) for kind in KINDS])
def test_a_kind_lives_from_its_making_to_its_end(place: Place, kind: str) -> None:
    everywhere, namespaced, rest = KINDS[kind]
    base, _, plural = everywhere.rpartition("/")
    path = f"{base}/namespaces/{place.mark}/{plural}" if namespaced else everywhere
    name, mine = f"{place.mark}-it", {"labelSelector": f"made-for={place.mark}"}
    labels = {"made-for": place.mark}

    made = place.made(path, {"metadata": {"name": name, "labels": labels}, **rest})
    version = place.client.get(path, **mine).body["metadata"]["resourceVersion"]
    listed = place.client.get(everywhere, **mine)
    with place.client.watch(everywhere, resourceVersion=version, **mine) as events:
        patch = {"metadata": {"labels": {"seen": "yes"}}}
        labelled = place.client.patch(f"{path}/{name}", patch)
        event = next(event for event in events if event.object["metadata"]["labels"].get("seen"))
    place.client.delete(f"{path}/{name}", {"propagationPolicy": "Background"})
    left = place.client.get(f"{path}/{name}")

    assert made["kind"] == kind
    assert (listed.body["kind"], listed.names) == (f"{kind}List", [name])
    assert labelled.code == 200
    assert (event.type, event.name, event.object["kind"]) == ("MODIFIED", name, kind)
    assert left.code == 404 or "deletionTimestamp" in left.body["metadata"]
