"""Objects that the tables and the random clusters need beyond those `resettle.testing` builds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from resettle.testing import NodeBuilder, cluster, node, pod

from .scheduler import Oracle

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
DRIVER = "disks.example"


def row(key: str, operator: str, *values: str) -> Object:
    """One condition on a label or field."""
    return {"key": key, "operator": operator, "values": list(values)}


def labelled(**labels: str) -> Object:
    """A selector of pods or namespaces with these labels."""
    return {"matchLabels": labels}


def on_nodes(*terms: Object) -> Object:
    """An affinity that requires one of these node selector terms."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def where(*rows: Object) -> Object:
    """A node selector term of conditions on labels."""
    return {"matchExpressions": list(rows)}


def named(*rows: Object) -> Object:
    """A node selector term of conditions on the node's name."""
    return {"matchFields": list(rows)}


def term(selector: Object | None, key: str = HOSTNAME, **more: Any) -> Object:
    """A pod affinity term."""
    return {"labelSelector": selector, "topologyKey": key, **more}


def near(*terms: Object) -> Object:
    """An affinity to pods."""
    return {"podAffinity": {REQUIRED: list(terms)}}


def away(*terms: Object) -> Object:
    """An anti-affinity to pods."""
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def host_port(port: int, **more: Any) -> Object:
    """A port that is opened on the node."""
    return {"containerPort": port, "hostPort": port, **more}


def container(
    name: str,
    *,
    ports: Iterable[Object] = (),
    sidecar: bool = False,
    **requests: str,
) -> Object:
    """A container, or an init container that may keep running."""
    built = {
        "name": name,
        "image": "registry.example/app:1",
        "ports": list(ports),
        "resources": {"requests": requests},
    }
    return {**built, "restartPolicy": "Always"} if sidecar else built


def mounting(*claims: str) -> list[Object]:
    """Volumes of a pod, one for each claim."""
    return [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]


def bound_claim(
    name: str,
    volume: str = "",
    *,
    namespace: str = "default",
    mode: str = "ReadWriteOnce",
    deleted: bool = False,
) -> Object:
    """A claim, bound to the volume if one is named."""
    meta: Object = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-claim-{name}"}
    if volume:
        meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    if deleted:
        meta["deletionTimestamp"] = "2026-01-31T11:00:00Z"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": {
            "accessModes": [mode],
            "storageClassName": "fast",
            **({"volumeName": volume} if volume else {}),
        },
        "status": {"phase": "Bound" if volume else "Pending"},
    }


def volume(
    name: str,
    *terms: Object,
    labels: Mapping[str, str] | None = None,
    handle: str | None = None,
    driver: str = DRIVER,
) -> Object:
    """A volume that nodes of these terms can reach; `handle` makes it one of a CSI driver."""
    spec: Object = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": list(terms)}}
    if handle is not None:
        spec["csi"] = {"driver": driver, "volumeHandle": handle}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": spec,
    }


def csi_node(name: str, limits: Mapping[str, int | None]) -> Object:
    """How many volumes of each driver a node attaches; None for a driver without a limit."""
    drivers = [
        {"name": driver, "nodeID": name, **({"allocatable": {"count": n}} if n is not None else {})}
        for driver, n in limits.items()
    ]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": drivers},
    }


def oracle(*parts: NodeBuilder | Object) -> Oracle:
    """The oracle of a world built in the small language."""
    return Oracle(cluster(*parts).objects)


def refusal(other: NodeBuilder, *rest: NodeBuilder | Object, **made: Any) -> str | None:
    """Why node n2 does not take `it`, a pod made so, which is on the empty node n1 of zone a."""
    home = node("n1", zone="a").holding(pod("it", **made))
    return oracle(home, other, *rest).refuses("default/it", "n2")
