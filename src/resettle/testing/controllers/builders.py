"""Builders of workloads, in the language of `resettle.testing.pod`.

    deployment("web", replicas=3, cpu="500m", spread=[spread(labels={"app": "web"})])

What describes a pod there describes the pods of the workload here; they carry the label `app`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from resettle.testing.builders import Object, merge_objects, pod


def template(name: str, wanted: Mapping[str, Any]) -> Object:
    """A pod template with these arguments of `pod`."""
    labels = {"app": name, **(wanted.get("labels") or {})}
    sample = pod(name, owner=None, **{"priority": None, **wanted, "labels": labels})
    annotations = sample["metadata"]["annotations"]
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": sample["spec"]}


def _workload(
    group: str, kind: str, name: str, namespace: str, spec: Mapping[str, Any], wanted: Object
) -> Object:
    return {
        "apiVersion": group,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": merge_objects(
            {"selector": {"matchLabels": {"app": name}}, "template": template(name, wanted)}, spec
        ),
    }


def deployment(
    name: str, *, replicas: int = 1, namespace: str = "default", **wanted: Any
) -> Object:
    """A Deployment."""
    spec = {"replicas": replicas}
    return _workload("apps/v1", "Deployment", name, namespace, spec, wanted)


def replica_set(
    name: str, *, replicas: int = 1, namespace: str = "default", **wanted: Any
) -> Object:
    """A ReplicaSet."""
    spec = {"replicas": replicas}
    return _workload("apps/v1", "ReplicaSet", name, namespace, spec, wanted)


def stateful_set(
    name: str,
    *,
    replicas: int = 1,
    namespace: str = "default",
    claims: Iterable[str] = (),
    parallel: bool = False,
    **wanted: Any,
) -> Object:
    """A StatefulSet whose pods have a volume for each of these claims."""
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "replicas": replicas,
        "serviceName": name,
        "podManagementPolicy": "Parallel" if parallel else "OrderedReady",
        "volumeClaimTemplates": [{"metadata": {"name": claim}, "spec": asked} for claim in claims],
    }
    return _workload("apps/v1", "StatefulSet", name, namespace, spec, wanted)


def daemon_set(name: str, *, namespace: str = "default", **wanted: Any) -> Object:
    """A DaemonSet."""
    return _workload("apps/v1", "DaemonSet", name, namespace, {}, wanted)


def job(
    name: str,
    *,
    completions: int = 1,
    parallelism: int = 1,
    namespace: str = "default",
    **wanted: Any,
) -> Object:
    """A Job."""
    spec = {"completions": completions, "parallelism": parallelism}
    return _workload("batch/v1", "Job", name, namespace, spec, wanted)


def disruption_budget(
    name: str,
    *,
    app: str,
    namespace: str = "default",
    min_available: int | str | None = None,
    max_unavailable: int | str | None = None,
) -> Object:
    """A budget over the pods of one workload, for the controller to fill in."""
    bounds = {"minAvailable": min_available, "maxUnavailable": max_unavailable}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            **{key: value for key, value in bounds.items() if value is not None},
        },
    }
