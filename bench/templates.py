"""What a generated pod is made of, and how a thousand like it are written quickly.

A workload's pods differ in little more than names and times, so each workload is rendered to JSON
once, with `@gaps@` where its pods differ, and every pod only fills them.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any

Object = dict[str, Any]
ZONES = ("zone-a", "zone-b", "zone-c")
POOLS = ("general", "memory", "compute")
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
POOL = "example.com/pool"
PRIORITIES = {"ordinary": 0, "important": 1000, "urgent": 100_000}

Size = dict[int, int]
"""Millicores that a container may ask for, and how often that is so."""
INIT: Size = {10: 1}
SMALL: Size = {50: 40, 100: 30, 250: 20, 500: 10}
ANY: Size = {50: 25, 100: 25, 250: 20, 500: 15, 1000: 9, 2000: 5, 4000: 1}

_GAP = re.compile(r"@([a-z]+)@")


class Template:
    """An object with gaps in it."""

    def __init__(self, value: Object) -> None:
        text = json.dumps(value, separators=(",", ":")).replace('"@restarts@"', "@restarts@")
        self._pieces = _GAP.split(text)
        self._gaps = self._pieces[1::2]

    def filled(self, **values: str) -> str:
        """The JSON with every gap filled."""
        self._pieces[1::2] = [values[gap] for gap in self._gaps]
        return "".join(self._pieces)


def pod_object(
    *,
    owner_kind: str,
    owner: str,
    owner_uid: str,
    namespace: str,
    labels: dict[str, str],
    managed: list[Object],
    spec: Object,
) -> Object:
    """A pod of an owner, without its status."""
    return {
        "metadata": {
            "name": "@name@",
            "generateName": f"{owner}-",
            "namespace": namespace,
            "uid": "@uid@",
            "resourceVersion": "@version@",
            "creationTimestamp": "@created@",
            "labels": labels,
            "annotations": {"cni.example/ip": "@ip@", "prometheus.io/scrape": "true"},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1" if owner_kind == "Job" else "apps/v1",
                    "kind": owner_kind,
                    "name": owner,
                    "uid": owner_uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": managed,
        },
        "spec": spec,
    }


def container(lots: random.Random, name: str, size: Size) -> Object:
    """A container with requests of a size that is usual for its purpose."""
    (cpu,) = lots.choices(list(size), list(size.values()))
    memory = lots.choice(("64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "2Gi", "1500M"))
    init = size is INIT
    probe = {
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    return {
        "name": name,
        "image": f"registry.example/{name}:v{lots.randrange(40)}",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [
            {"name": "SETTING", "value": f"value-of-{name}"},
            {
                "name": "POD_NAME",
                "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
            },
        ],
        "resources": {
            "limits": {"memory": memory},
            "requests": {"cpu": f"{cpu}m", "memory": "64Mi" if init else memory},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/app"},
            {
                "name": "kube-api-access-@suffix@",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            },
        ],
        **({} if init else {"readinessProbe": probe}),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def required_nodes(match: str, key: str, *values: str) -> Object:
    """A required node affinity to nodes where the key has one of the values."""
    term = {match: [{"key": key, "operator": "In", "values": sorted(values)}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def tolerates(key: str) -> Object:
    """The toleration that every pod gets for a node that is away for a moment."""
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def token_volume() -> Object:
    """The volume with the service account's token; its name is another in every pod."""
    return {
        "name": "kube-api-access-@suffix@",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
            ],
            "defaultMode": 420,
        },
    }


def managed_fields(labels: dict[str, str]) -> list[Object]:
    """Who wrote which field: a fifth of a real pod, and of no use to a planner."""
    owned: Object = {f"f:{key}": {} for key in labels}
    conditions: Object = {
        f'k:{{"type":"{kind}"}}': {".": {}, "f:lastTransitionTime": {}, "f:status": {}}
        for kind in ("ContainersReady", "Initialized", "PodReadyToStartContainers", "Ready")
    }
    by_manager: dict[str, Object] = {
        "kube-controller-manager": {
            "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, **owned}},
            "f:spec": {"f:containers": {}, "f:dnsPolicy": {}, "f:volumes": {".": {}}},
        },
        "kubelet": {"f:status": {"f:conditions": conditions, "f:containerStatuses": {}}},
    }
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-02T03:04:05Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        for manager, fields in by_manager.items()
    ]


def status(phase: str, first: list[Object], main: Object) -> Object:
    """The status of a pod that runs, or of one that has done its work."""
    running = phase == "Running"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": phase,
        "conditions": [
            {
                "type": kind,
                "status": "True" if running or "Ready" not in kind else "False",
                "lastProbeTime": None,
                "lastTransitionTime": "@started@",
            }
            for kind in kinds
        ],
        "hostIP": "@ip@",
        "podIP": "@ip@",
        "startTime": "@started@",
        **(
            {"initContainerStatuses": [_container_status(it, False) for it in first]}
            if first
            else {}
        ),
        "containerStatuses": [_container_status(main, running)],
        "qosClass": "Burstable",
    }


def _container_status(container: Object, running: bool) -> Object:
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    return {
        "name": container["name"],
        "state": {"running": {"startedAt": "@started@"}} if running else ended,
        "lastState": {},
        "ready": running,
        "restartCount": "@restarts@",
        "image": container["image"],
        "imageID": f"{container['image']}@sha256:@digest@",
        "containerID": "containerd://@digest@",
        "started": running,
    }
