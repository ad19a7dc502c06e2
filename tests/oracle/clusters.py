"""Small random clusters, in which many pods fit and many do not.

Workloads of a few replicas each, every one with two or three of all constraints, thrown
onto nodes of two or three zones without asking whether they may be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from resettle.testing import budget, namespace, node, pod, spread
from resettle.testing.builders import merge_objects

from .objects import (
    DRIVER,
    HOSTNAME,
    PREFERRED,
    REGION,
    REQUIRED,
    ZONE,
    Object,
    bound_claim,
    container,
    csi_node,
    host_port,
    labelled,
    mounting,
    named,
    row,
    term,
    volume,
    where,
)

GPU = "example.com/gpu"
RACK = "example.com/rack"
CORDON = "node.kubernetes.io/unschedulable"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OTHER_DRIVER = "files.example"
TEAMS = {"default": "blue", "shop": "red", "lab": "red"}
APPS = ("web", "db", "cache")

Choices = Mapping[str, Sequence[Any]]


def rolled(lots: Random, choices: Choices) -> dict[str, Any]:
    """One choice from each column."""
    return {key: lots.choice(options) for key, options in choices.items()}


def cluster(lots: Random) -> list[Object]:
    """The objects of a random cluster, as the API would list them."""
    nodes = list(_nodes(lots, lots.randint(3, 8)))
    names = [node["metadata"]["name"] for node in nodes if node["kind"] == "Node"]
    homes = sorted(lots.sample(sorted(TEAMS), lots.randint(1, 3)))
    objects = [*nodes, *(namespace(name, team=team) for name, team in TEAMS.items())]
    left = lots.randint(5, 30)
    while left:
        replicas = min(left, lots.choice([1, 2, 3, 4, 6, 8]))
        objects += _workload(lots, f"w{left}", lots.choice(homes), replicas, names)
        left -= replicas
    lots.shuffle(objects)
    return objects


# -- nodes -----------------------------------------------------------------------------------------

_NODES: Choices = {
    "zone": ("a", "a", "b", "b", "c", None),
    "cpu": ("2", "4", "8", "16"),
    "memory": ("4Gi", "8Gi", "16Gi", "32Gi"),
    "pods": (4, 8, 110, 110, 110, 110),
    "resources": ({}, {}, {GPU: "2"}),
    "taints": (
        *[[]] * 28,
        ["gpu=yes:NoSchedule"],
        ["rank=5:NoSchedule"],
        ["old:NoExecute"],
        ["soft:PreferNoSchedule"],
        ["gpu=yes:NoSchedule", "soft:PreferNoSchedule"],
    ),
    "ready": (*[True] * 35, None, False),
}
_MARKS: Sequence[dict[str, str]] = (
    {},
    {"pool": "blue"},
    {"pool": "red"},
    {"pool": "blue", "rank": "7"},
    {"pool": "red", "rank": "3"},
)
_RACKS: Sequence[dict[str, str]] = (
    *({}, {}, {}, {}, {}, {}),
    *({RACK: "r1"}, {RACK: "r1"}, {RACK: "r1"}, {RACK: "r2"}, {RACK: "r2"}, {RACK: ""}),
    {OLD_ZONE: "b"},
)
_CORDONS: Sequence[Object] = (
    *[{}] * 40,
    {"cordoned": True},
    {"cordoned": True, "taints": [f"{CORDON}:NoSchedule"]},
)
_LIMITS: Sequence[dict[str, int | None]] = (
    {DRIVER: 1},
    {DRIVER: 2},
    {DRIVER: 4, OTHER_DRIVER: 1},
    {DRIVER: None},
    {},
)


def _nodes(lots: Random, count: int) -> Iterator[Object]:
    for i in range(count):
        made = rolled(lots, _NODES) | lots.choice(_CORDONS)
        region = {REGION: lots.choice("xxxy")} if made["zone"] and lots.random() < 0.5 else {}
        labels = lots.choice(_MARKS) | lots.choice(_RACKS) | region
        yield node(f"n{i}", labels=labels, **made).node
        if lots.random() < 0.8:
            yield csi_node(f"n{i}", lots.choice(_LIMITS))


# -- workloads -------------------------------------------------------------------------------------

_PLAIN: Choices = {
    "cpu": (None, "50m", "100m", "100m", "0.5", "1500m"),
    "memory": (None, "128Mi", "512Mi", "1G", "2Gi"),
    "priority": (0, 0, 0, 100, -5, None),
}
_STATES: Choices = {
    "phase": (*["Running"] * 30, "Pending", "Unknown", "Succeeded", "Failed"),
    "terminating": (*[False] * 25, True),
    "age": ("2h", "1d", "3d"),
    "restarts": (0, 0, 0, 3, 150),
}


def _workload(
    lots: Random, name: str, home: str, replicas: int, nodes: Sequence[str]
) -> Iterator[Object]:
    app = lots.choice(APPS)
    labels = {"app": app, "version": lots.choice("12"), "pod-template-hash": name}
    if lots.random() < 0.2:
        labels.pop("version")
    kind = lots.choice(["ReplicaSet"] * 8 + ["StatefulSet", "DaemonSet", None])
    made: Object = rolled(lots, _PLAIN) | {
        "namespace": home,
        "labels": labels,
        "owner": kind and f"{kind}/{name}",
    }
    spec: Object = {}
    for chance, constraint in _CONSTRAINTS:
        if lots.random() < chance:
            spec = merge_objects(spec, constraint(lots, labels))
    favourite = lots.choice(nodes)
    disks = [lots.choice(_DISKS) for _ in range(lots.choice([0, 0, 0, 0, 0, 1, 1, 2]))]
    shared = lots.random() < 0.5
    for i in range(replicas):
        place = lots.choice([favourite, *nodes, *nodes, *nodes])
        claims = [f"{name}-d{j}" if shared else f"{name}-{i}-d{j}" for j in range(len(disks))]
        own = {**spec, "volumes": [*spec.get("volumes", ()), *mounting(*claims)]}
        if kind == "DaemonSet":
            own = merge_objects(own, {"affinity": _pinned(place)})
        state = rolled(lots, _STATES)
        if lots.random() < 0.97:
            own["nodeName"] = place if lots.random() < 0.98 else "gone"
        else:
            state["phase"] = "Pending"
        yield pod(f"{name}-{i}", **made, spec=own, **state)
        for disk, claim in zip(disks, claims, strict=True):
            if i == 0 or not shared:
                yield from disk(lots, claim, home)
        if any("ephemeral" in volume for volume in own["volumes"]) and lots.random() < 0.7:
            yield from _bound(lots, f"{name}-{i}-scratch", home)
    if lots.random() < 0.15:
        yield budget(name, allowed=lots.randint(0, 2), labels={"app": app}, namespace=home)


def _pinned(place: str) -> Object:
    terms = [named(row("metadata.name", "In", place))]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


# -- constraints of workloads ----------------------------------------------------------------------

_SELECTORS: Sequence[Object | None] = (
    *({"matchExpressions": [row("app", operator, "web")]} for operator in ("In", "NotIn")),
    {"matchExpressions": [row("version", "Exists")]},
    {"matchExpressions": [row("version", "DoesNotExist"), row("app", "In", "db", "web")]},
    {},
    None,
)
_TERM_SCOPES: Sequence[Object] = (
    *[{}] * 8,
    {"namespaces": ["shop"]},
    {"namespaceSelector": {}},
    {"namespaceSelector": labelled(team="red")},
    {"namespaceSelector": labelled(team="red"), "namespaces": ["default"]},
    {"namespaceSelector": labelled(team="green")},
)
_TERM_KEYS: Sequence[Object] = (
    *[{}] * 6,
    {"matchLabelKeys": ["version"]},
    {"matchLabelKeys": ["pod-template-hash"]},
    {"mismatchLabelKeys": ["version"]},
    {"mismatchLabelKeys": ["unheard-of"]},
)
_TOPOLOGIES = (HOSTNAME, HOSTNAME, ZONE, ZONE, RACK)


def _selector(lots: Random, labels: Mapping[str, str]) -> Object | None:
    own = [labelled(app=labels["app"])] * 10
    return lots.choice([*own, *(labelled(app=app) for app in APPS), *_SELECTORS])


def _term(lots: Random, labels: Mapping[str, str]) -> Object:
    more = {**lots.choice(_TERM_SCOPES), **lots.choice(_TERM_KEYS)}
    return term(_selector(lots, labels), lots.choice(_TOPOLOGIES), **more)


def _near(lots: Random, labels: Mapping[str, str]) -> Object:
    terms = [_term(lots, labels) for _ in range(lots.choice([1, 1, 1, 2]))]
    return {"affinity": {"podAffinity": {REQUIRED: terms}}}


def _away(lots: Random, labels: Mapping[str, str]) -> Object:
    terms = [_term(lots, labels) for _ in range(lots.choice([1, 1, 1, 2]))]
    return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}


def _rather_near(lots: Random, labels: Mapping[str, str]) -> Object:
    kind = lots.choice(["podAffinity", "podAntiAffinity"])
    return {
        "affinity": {kind: {PREFERRED: [{"weight": 10, "podAffinityTerm": _term(lots, labels)}]}}
    }


_NODE_TERMS: Sequence[Object] = (
    where(row("pool", "In", "blue")),
    where(row("pool", "NotIn", "blue")),
    where(row("pool", "Exists"), row(ZONE, "In", "a", "b")),
    where(row("pool", "DoesNotExist")),
    where(row("rank", "Gt", "4")),
    where(row("rank", "Lt", "4")),
    where(row(ZONE, "In", "b", "c")),
    named(row("metadata.name", "NotIn", "n0")),
    named(row("metadata.name", "In", "n1")),
    {},
)


def _on_nodes(lots: Random, labels: Mapping[str, str]) -> Object:
    terms = lots.sample(_NODE_TERMS, lots.choice([1, 2, 2]))
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def _rather_on_nodes(lots: Random, labels: Mapping[str, str]) -> Object:
    preferred = {"weight": 3, "preference": where(row("pool", "In", "red"))}
    return {"affinity": {"nodeAffinity": {PREFERRED: [preferred]}}}


def _node_selector(lots: Random, labels: Mapping[str, str]) -> Object:
    return {"nodeSelector": lots.choice([{"pool": "blue"}, {"pool": "red"}, {ZONE: "a"}, {}])}


_TOLERATIONS: Sequence[Object] = (
    {"operator": "Exists"},
    {"key": "gpu", "operator": "Exists"},
    {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
    {"key": "gpu", "value": "no"},
    {"key": "old", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
    {"key": "rank", "operator": "Gt", "value": "4"},
    {"key": "rank", "operator": "Lt", "value": "4"},
    {"key": CORDON, "operator": "Exists", "effect": "NoSchedule"},
)


def _tolerant(lots: Random, labels: Mapping[str, str]) -> Object:
    return {"tolerations": lots.sample(_TOLERATIONS, lots.choice([1, 2]))}


_RULES: Choices = {
    "key": (ZONE, ZONE, ZONE, HOSTNAME, HOSTNAME, RACK),
    "max_skew": (1, 1, 2, 3),
    "minDomains": (None, None, None, None, 2, 4),
    "nodeAffinityPolicy": (None, None, None, "Honor", "Ignore"),
    "nodeTaintsPolicy": (None, None, "Honor", "Ignore"),
    "matchLabelKeys": (None, None, ["version"], ["pod-template-hash"], ["unheard-of"]),
}


def _rule(lots: Random, labels: Mapping[str, str], when: str) -> Object:
    chosen = {key: value for key, value in rolled(lots, _RULES).items() if value is not None}
    rule = {**spread(labels={}, when=when, **chosen), "labelSelector": _selector(lots, labels)}
    # The API server takes no keys without a selector, and no minDomains for a soft constraint.
    if rule["labelSelector"] is None:
        rule.pop("matchLabelKeys", None)
    if when != "DoNotSchedule":
        rule.pop("minDomains", None)
    return rule


def _spread(lots: Random, labels: Mapping[str, str]) -> Object:
    whens = lots.choice([["DoNotSchedule"]] * 4 + [["DoNotSchedule"] * 2])
    if lots.random() < 0.2:
        whens = [*whens, "ScheduleAnyway"]
    return {"topologySpreadConstraints": [_rule(lots, labels, when) for when in whens]}


def _softly_spread(lots: Random, labels: Mapping[str, str]) -> Object:
    return {"topologySpreadConstraints": [_rule(lots, labels, "ScheduleAnyway")]}


_PORTS: Sequence[Object] = (
    host_port(80),
    host_port(80, protocol="UDP"),
    host_port(80, protocol="TCP", hostIP="10.0.0.1"),
    host_port(80, hostIP="10.0.0.2"),
    host_port(81, hostIP="0.0.0.0"),
    host_port(81),
)


def _open(lots: Random, labels: Mapping[str, str]) -> Object:
    if lots.random() < 0.3:
        sidecar = container("proxy", ports=[lots.choice(_PORTS)], sidecar=True, cpu="50m")
        return {"initContainers": [sidecar]}
    ports = lots.sample(_PORTS, lots.choice([1, 1, 2]))
    return {"containers": [container("main", ports=ports, cpu="200m")]}


def _on_gpus(count: str) -> Object:
    return merge_objects(container("main", cpu="300m"), {"resources": {"requests": {GPU: count}}})


_HUNGRY: Sequence[Object] = (
    {"initContainers": [container("first", cpu="2"), container("then", memory="3Gi")]},
    {"initContainers": [container("aside", sidecar=True, cpu="300m"), container("i", cpu="1")]},
    {"overhead": {"cpu": "250m", "memory": "100Mi"}},
    {"resources": {"requests": {"cpu": "1200m", "memory": "1e9"}}},
    {"containers": [container("main", cpu="0", memory="0")]},
    {"containers": [_on_gpus("1"), container("aux", memory="1Gi")]},
    {"containers": [_on_gpus("1")]},
    {"containers": [_on_gpus("0")]},
)


def _hungry(lots: Random, labels: Mapping[str, str]) -> Object:
    return lots.choice(_HUNGRY)


def _scratch(lots: Random, labels: Mapping[str, str]) -> Object:
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}}
    return {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim}}]}


def _cached(lots: Random, labels: Mapping[str, str]) -> Object:
    return {"volumes": [{"name": "cache", "emptyDir": {}}]}


def _unknowable(lots: Random, labels: Mapping[str, str]) -> Object:
    devices = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}
    return lots.choice([devices, {"schedulingGates": [{"name": "example.com/wait"}]}])


_CONSTRAINTS = (
    (0.15, _hungry),
    (0.15, _open),
    (0.06, _node_selector),
    (0.10, _on_nodes),
    (0.15, _rather_on_nodes),
    (0.30, _tolerant),
    (0.15, _near),
    (0.25, _away),
    (0.10, _rather_near),
    (0.10, _softly_spread),
    (0.30, _spread),
    (0.06, _cached),
    (0.06, _scratch),
    (0.01, _unknowable),
)


# -- disks -----------------------------------------------------------------------------------------

_VOLUMES: Sequence[tuple[Sequence[Object], dict[str, str]]] = (
    *[((), {})] * 5,
    ((where(row(ZONE, "In", "a")),), {}),
    ((where(row(ZONE, "In", "a")), where(row(ZONE, "In", "b"), row("pool", "Exists"))), {}),
    ((where(row(HOSTNAME, "In", "n0", "n1")),), {}),
    ((), {ZONE: "a"}),
    ((), {ZONE: "a__b"}),
    ((), {ZONE: "b", REGION: "x"}),
    ((), {OLD_ZONE: "b"}),
)


def _bound(lots: Random, name: str, home: str) -> Iterator[Object]:
    mode = lots.choice(["ReadWriteOnce"] * 5 + ["ReadWriteMany", "ReadWriteOncePod"])
    yield bound_claim(name, f"pv-{home}-{name}", namespace=home, mode=mode)
    terms, labels = lots.choice(_VOLUMES)
    handle = lots.choice([f"disk-{home}-{name}"] * 4 + ["disk-common", None])
    driver = lots.choice([DRIVER, DRIVER, OTHER_DRIVER])
    yield volume(f"pv-{home}-{name}", *terms, labels=labels, handle=handle, driver=driver)


def _unbound(lots: Random, name: str, home: str) -> Iterator[Object]:
    yield bound_claim(name, namespace=home)


def _leaving(lots: Random, name: str, home: str) -> Iterator[Object]:
    yield bound_claim(name, namespace=home, deleted=True)


def _without_volume(lots: Random, name: str, home: str) -> Iterator[Object]:
    yield bound_claim(name, f"pv-{home}-{name}", namespace=home)


def _missing(lots: Random, name: str, home: str) -> Iterator[Object]:
    yield from ()


_DISKS = (*[_bound] * 25, _unbound, _leaving, _without_volume, _missing)
