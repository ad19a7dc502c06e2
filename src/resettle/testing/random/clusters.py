"""A random cluster, drawn from a seed.

Every object has a random number generator of its own, so that one can be left out, or turn out
plainer, and the others stay as they are: that is what makes a counterexample small. Names, labels
and amounts come from small sets, so that pods share nodes, owners, budgets and topologies, nodes
overflow, and limits apply. A value that is listed several times in a column is that much more
likely. The `repr` of a cluster is the call of builders that makes it, to paste into a test.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from inspect import signature
from random import Random
from textwrap import indent
from typing import Any, NamedTuple

from resettle.testing import builders
from resettle.testing.builders import HOSTNAME, NodeBuilder, Object, merge_objects, spread
from resettle.testing.worlds import World, cluster

Table = Mapping[str, Sequence[Any]]

_EVICT = "descheduler.alpha.kubernetes.io/evict"
_PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
_MIRROR = "kubernetes.io/config.mirror"
_NAMESPACES = ("default", "shop")
_APPS = ("web", "db")

NODES: Table = {
    "zone": ("a", "b", "b", "c", None),
    "labels": ({}, {"pool": "blue"}, {"pool": "red"}, {"pool": "blue", "rank": "7"}),
    "taints": (
        *([], [], [], ["gpu=yes:NoSchedule"], ["soft:PreferNoSchedule"]),
        ["gpu=yes:NoSchedule", "old:NoExecute"],
    ),
    "cordoned": (*[False] * 6, True),
    "ready": (*[True] * 6, None, False),
    "cpu": ("1", "4", "8"),
    "memory": ("1Gi", "4Gi"),
    "pods": (8, 30, 110),
    "resources": ({}, {"vendor.example/gpu": "2"}),
}


def _node_affinity(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "pool", "operator": operator, "values": list(values)}]}


_REQUIRED = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [_node_affinity("In", "blue"), _node_affinity("Exists")]
        }
    }
}
_PREFERRED = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 5, "preference": _node_affinity("In", "red")},
            {"weight": 2, "preference": _node_affinity("NotIn", "blue", "green")},
        ]
    }
}
_UNREADABLE = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [_node_affinity("Near", "blue"), {}]
        }
    }
}
_TOLERATIONS = [
    {"key": "gpu", "operator": "Exists"},
    {"operator": "Exists", "effect": "NoExecute"},
    {"key": "soft", "operator": "Equal", "value": ""},
]
_SPREADS = [
    spread(labels={"app": "web"}),
    spread(labels={"app": "web"}, key=HOSTNAME, nodeTaintsPolicy="Honor"),
    spread(labels={}, when="ScheduleAnyway", max_skew=2, nodeAffinityPolicy="Ignore"),
    spread(labels={"app": "db"}, matchLabelKeys=["version"]),
]

MAKES: Table = {
    "namespace": ("default", *_NAMESPACES),
    "owner": ("ReplicaSet/web", "ReplicaSet/web", "ReplicaSet/db", "Job/once"),
    "labels": [{"app": app, "version": v} for app in _APPS for v in "12"],
    "priority": (0, 0, 7, -3, None),
    "cpu": (None, "100m", "500m", "1500m"),
    "memory": (None, "256Mi", "1Gi"),
    "spread": ([], *([rule] for rule in _SPREADS), _SPREADS[:2], _SPREADS[2:]),
}
"""What the pods of one workload have in common."""
ODDITIES: Sequence[Mapping[str, Any]] = (
    *[{}] * 20,
    *({"annotations": {mark: ""}} for mark in (_EVICT, _PREFER_NO_EVICTION, _MIRROR)),
    *({"owner": owner} for owner in (["ReplicaSet/web", "ReplicaSet/db"], "DaemonSet/agent", None)),
    *({"priority": priority} for priority in (1000, 2_000_000_000)),
    *({"tolerations": [toleration]} for toleration in _TOLERATIONS),
    {"tolerations": _TOLERATIONS},
    *({"node_selector": {"pool": pool}} for pool in ("blue", "none")),
    *({"affinity": affinity} for affinity in (_REQUIRED, _PREFERRED, _UNREADABLE)),
    *({"away_from": {"app": app}} for app in _APPS),
    {"requests": {"vendor.example/gpu": "1"}},
    {"labels": {}},
    {"volumes": [{"name": "v", "emptyDir": {}}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
)
"""One of them is laid over what a workload's pods have in common."""

_UNREADY = {"conditions": [{"type": "Ready", "status": "False"}]}
_WAITING = {
    "containerStatuses": [
        {"name": "main", "restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    ]
}
PODS: Table = {
    "age": ("30s", "10m", "2h", "3h", "3d", "-5m"),
    "phase": (*["Running"] * 12, "Pending", "Failed", "Succeeded", "Unknown"),
    "restarts": (0, 0, 1, 5),
    "terminating": (*[False] * 12, True),
    "status": (*[{}] * 8, _UNREADY, _WAITING),
}
"""What each pod has for itself."""
BUDGETS: Table = {
    "namespace": _NAMESPACES,
    "labels": ({"app": "web"}, {"app": "db"}, {"version": "1"}, {}),
    "allowed": (0, 1, 1, 2, 3),
    "spec": ({}, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}),
    "status": ({}, {"currentHealthy": 2, "desiredHealthy": 2}, {"desiredHealthy": 3}),
}


class Call(NamedTuple):
    """A builder, the name it is given, and the rest of what it is given."""

    builder: str
    name: str
    given: Mapping[str, Any]

    def build(self) -> Any:
        """What the builder makes of it."""
        return getattr(builders, self.builder)(self.name, **self.given)

    def __str__(self) -> str:
        known = signature(getattr(builders, self.builder)).parameters
        arguments = [
            f", {key}={value!r}"
            for key, value in self.given.items()
            if not (key in known and _says_nothing(value, known[key].default))
        ]
        return f"{self.builder}({self.name!r}{''.join(arguments)})"


class PrintableWorld(World):
    """Nodes with the pods they hold, and what stands beside them; its `repr` is the call for it."""

    def __init__(self, held: Iterable[tuple[Call, Iterable[Call]]], beside: Iterable[Call]) -> None:
        self._held = [(node, list(pods)) for node, pods in held]
        self._beside = list(beside)
        parts: list[NodeBuilder | Object] = [
            node.build().holding(*(pod.build() for pod in pods)) for node, pods in self._held
        ]
        super().__init__(cluster(*parts, *(call.build() for call in self._beside)).objects)

    def __repr__(self) -> str:
        nodes = [f"{node}.holding({_lines(pods)})" if pods else node for node, pods in self._held]
        return f"cluster({_lines([*nodes, *self._beside])})"


def _says_nothing(value: Any, default: Any) -> bool:
    """Whether the builder would do the same without the argument."""
    return bool(value == default) or (not value and default in (None, ()))


def _lines(parts: Iterable[object]) -> str:
    text = ",\n".join(map(str, parts))
    return f"\n{indent(text, '    ')},\n" if text else ""


ODDITY, HOME = "oddity", "home"
COLUMNS = tuple(dict.fromkeys((*NODES, *MAKES, *PODS, ODDITY, HOME)))
"""What can be left plain."""
_SURROUNDINGS = (
    Call("namespace", "default", {"team": "blue"}),
    Call("namespace", "shop", {"team": "red"}),
    Call("priority_class", "high", {"value": 1000}),
    Call("claim", "data", {"storage_class": "fast"}),
)


def cluster_of(
    rng: Random,
    *,
    nodes: int,
    pods: Collection[int],
    budgets: int,
    makes: int = 3,
    plain: Collection[str] = (),
    node_traits: Table | None = None,
    pod_traits: Table | None = None,
) -> PrintableWorld:
    """A cluster with so many nodes and budgets, and the pods with these numbers.

    Pods are of so many makes, as those of a workload are. Columns that are `plain` are left to the
    builders; traits are choices for further arguments, of which plain ones get the first.
    """
    seed = rng.getrandbits(64)

    def own(kind: str, number: int) -> Random:
        return Random(f"{seed} {kind} {number}")

    held: dict[str, tuple[Call, list[Call]]] = {}
    for i in range(nodes):
        own_rng = own("node", i)
        given = _with_traits(own_rng, _draw(own_rng, NODES, plain), node_traits, plain)
        held[f"n{i}"] = (Call("node", f"n{i}", given), [])
    looks = [_make(own("make", i), plain, pod_traits) for i in range(makes)]
    beside: list[Call] = []
    for i in pods:
        own_rng = own("pod", i)
        given = {**own_rng.choice(looks), **_draw(own_rng, PODS, plain)}
        home = _draw_node(own_rng, list(held), plain)
        if home in held:
            held[home][1].append(Call("pod", f"p{i}", given))
        else:
            beside.append(
                Call("pod", f"p{i}", {**given, "spec": {"nodeName": home}} if home else given)
            )
    allowances = (
        Call("budget", f"b{i}", _draw(own("budget", i), BUDGETS, ())) for i in range(budgets)
    )
    return PrintableWorld(held.values(), [*beside, *allowances, *_SURROUNDINGS])


def _draw_node(rng: Random, names: list[str], plain: Collection[str]) -> str:
    """A node, the first one more often than others; one that is not there; or none yet."""
    home = rng.choice([*names * 3, *names[:1] * 5, "gone", ""])
    return names[0] if names and HOME in plain else home


def _make(rng: Random, plain: Collection[str], traits: Table | None) -> dict[str, Any]:
    """What the pods of one workload have in common."""
    given = _draw(rng, MAKES, plain)
    oddity = rng.choice(ODDITIES)
    return _with_traits(rng, given if ODDITY in plain else {**given, **oddity}, traits, plain)


def _draw(rng: Random, table: Table, plain: Collection[str]) -> dict[str, Any]:
    """One choice from each column that is not plain."""
    drawn = {key: rng.choice(choices) for key, choices in table.items()}
    return {key: value for key, value in drawn.items() if key not in plain}


def _with_traits(
    rng: Random, given: Mapping[str, Any], traits: Table | None, plain: Collection[str]
) -> dict[str, Any]:
    """The arguments with one choice of each trait laid over them."""
    for key, choices in (traits or {}).items():
        drawn = rng.choice(choices)
        given = merge_objects(given, {key: choices[0] if key in plain else drawn})
    return dict(given)
