"""Recorded clusters, changed here and there by the throw of dice, so that every refusal occurs."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import datetime
from random import Random
from typing import Any, NamedTuple, NoReturn

from resettle.framework import (
    Args,
    Descheduler,
    Plugin,
    Registry,
    build_descheduler,
    default_registry,
    load_policy,
)
from resettle.framework.view import View
from resettle.model import Pod, Snapshot
from resettle.testing import World, cluster, node, pod
from tests.parity.corpus import FILES, cases

Object = dict[str, Any]


class Varied(NamedTuple):
    """A cluster and a policy that were not recorded in this form."""

    id: str
    descheduler: Descheduler
    snapshot: Snapshot


def fails(args: Args, view: View, pod: Pod) -> NoReturn:
    raise LookupError("no such ledger")


BROKEN = Plugin(name="BrokenGuard", preevictionfilter=fails)
PLUGINS = Registry([*default_registry().values(), BROKEN])


def varied(seed: int, every: int) -> Iterator[Varied]:
    """One case in so many of each file, each with changes of its own."""
    dice = Random(seed)
    for file in FILES:
        for at, case in enumerate(cases(file)):
            if at % every == 0:
                policy, objects = copy.deepcopy(case.policy), copy.deepcopy(case.objects)
                _change_policy(policy, dice)
                _change_objects(objects, dice)
                text = json.dumps(policy)
                read = load_policy(text, name=case.id, plugins=PLUGINS)
                world = World(objects, datetime.fromisoformat(case.at))
                yield Varied(case.id, build_descheduler(read, PLUGINS), world.snapshot())


# -- policies -------------------------------------------------------------------------------------

LIMITS = (
    "maxNoOfPodsToEvictTotal",
    "maxNoOfPodsToEvictPerNode",
    "maxNoOfPodsToEvictPerNamespace",
)
SELECTOR = {"matchLabels": {"tier": "t0"}}
GUARDS: tuple[Object, ...] = (
    {"minReplicas": 3},
    {"minReplicas": 12, "nodeFit": True},
    {"minPodAge": "36h"},
    {"minPodAge": "9000h", "nodeFit": True},
    {"priorityThreshold": {"value": 5}},
    {"priorityThreshold": {"value": -2000}, "minReplicas": 2},
    {"labelSelector": SELECTOR},
    {"namespaceLabelSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ns0"}}},
    {"noEvictionPolicy": "Mandatory", "nodeFit": True},
    {"nodeFit": True, "nodeSelector": "disk=ssd"},
    {"podProtections": {"extraEnabled": ["PodsWithPVC", "PodsWithResourceClaims"]}},
    {"podProtections": {"extraEnabled": ["PodsWithoutPDB"], "defaultDisabled": ["DaemonSetPods"]}},
    {
        "podProtections": {
            "extraEnabled": ["PodsWithPVC"],
            "config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": "std"}]}},
        }
    },
    {"ignorePvcPods": True, "evictSystemCriticalPods": True},
    {"evictLocalStoragePods": True, "evictFailedBarePods": True, "ignorePodsWithoutPDB": True},
)


def _change_policy(policy: Object, dice: Random) -> None:
    ours = dice.random() < 0.4
    if ours:
        policy["apiVersion"] = "resettle/v1"
        policy["maxPercentOfPodsToEvict"] = dice.choice([5, 30, 100])
        policy["maxPercentOfNodesToEvictFrom"] = dice.choice([20, 60, 100])
    for key in LIMITS:
        if dice.random() < 0.35:
            policy[key] = dice.choice([0, 1, 2, 4])
    for profile in policy["profiles"]:
        configs = profile["pluginConfig"]
        guard = {"name": "DefaultEvictor", "args": dict(dice.choice(GUARDS))}
        profile["pluginConfig"] = [
            config for config in configs if config["name"] != "DefaultEvictor"
        ] + [guard]
        if dice.random() < 0.05:
            points = profile["plugins"].setdefault("preevictionfilter", {})
            points["enabled"] = ["DefaultEvictor", "BrokenGuard"]
            profile["pluginConfig"].append({"name": "BrokenGuard"})


# -- clusters -------------------------------------------------------------------------------------


def _change_objects(objects: list[Object], dice: Random) -> None:
    for item in objects:
        if item["kind"] == "Pod":
            _change_pod(item, dice)
        elif item["kind"] == "PodDisruptionBudget" and dice.random() < 0.3:
            item["status"]["observedGeneration"] = 0
            item["status"]["disruptionsAllowed"] = dice.choice([0, 1, 2])
    spaces = sorted(
        {manifest["metadata"]["namespace"] for manifest in objects if manifest["kind"] == "Pod"}
    )
    crowded = [space for space in spaces if dice.random() < 0.3]
    objects += [_budget(space, dice.choice([0, 1, 3])) for space in crowded]


def _budget(space: str, allowed: int) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "everyone", "namespace": space},
        "spec": {"selector": {"matchLabels": {"tier": "t1"}}},
        "status": {"disruptionsAllowed": allowed},
    }


def _change_pod(item: Object, dice: Random) -> None:
    notes = item["metadata"].setdefault("annotations", {})
    match dice.randrange(40):
        case 0:
            notes["kubernetes.io/config.source"] = "file"
        case 1:
            notes["descheduler.alpha.kubernetes.io/prefer-no-eviction"] = "true"
        case 2:
            notes["descheduler.alpha.kubernetes.io/evict"] = dice.choice(["true", "false"])
        case 3:
            item["metadata"].pop("uid", None)
        case 4:
            item["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "gpu"}]
        case 5:
            claim = {"persistentVolumeClaim": {"claimName": dice.choice(["claim", "gone"])}}
            item["spec"].setdefault("volumes", []).append({"name": "data", **claim})


# -- what no recorded cluster has -----------------------------------------------------------------

NEAR_THE_LEADER = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"app": "leader"}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}
OLD_PODS = {
    "apiVersion": "resettle/v1",
    "kind": "DeschedulerPolicy",
    "maxPercentOfPodsToEvict": 100,
    "maxPercentOfNodesToEvictFrom": 100,
    "profiles": [
        {
            "name": "old",
            "pluginConfig": [
                {"name": "DefaultEvictor", "args": {"minReplicas": 0, "nodeFit": False}},
                {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 60}},
            ],
            "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
        }
    ],
}


def leader_and_follower() -> Varied:
    """A pod that cannot stay on its cordoned node, nor leave the one that must be near it."""
    held = (
        pod("leader", labels={"app": "leader"}),
        pod("follower", affinity=NEAR_THE_LEADER, tolerations=[{"operator": "Exists"}]),
    )
    world = cluster(node("n1", cordoned=True).holding(*held), node("n2"), node("n3"))
    read = load_policy(json.dumps(OLD_PODS), name="leader", plugins=PLUGINS)
    return Varied("leader", build_descheduler(read, PLUGINS), world.snapshot())


COPIES = {
    **OLD_PODS,
    "profiles": [
        {
            "name": "copies",
            "pluginConfig": [
                {"name": "DefaultEvictor", "args": {"minReplicas": 0}},
                {"name": "RemoveDuplicates"},
            ],
            "plugins": {"balance": {"enabled": ["RemoveDuplicates"]}},
        }
    ],
}


def drawn_to(disk: str) -> Varied:
    """Copies that share a node and would all rather be where the disk is of this kind.

    That is where they are (`ssd`), or where another copy is already (`nvme`).
    """
    wanted = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]}
    rows = [{"weight": 1, "preference": wanted}]
    liking = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": rows}}
    first, second, third = (pod(name, affinity=liking) for name in ("one", "two", "three"))
    world = cluster(
        node("n1", labels={"disk": "ssd"}).holding(first, second),
        node("n2", labels={"disk": "nvme"}).holding(third),
        node("n3"),
    )
    read = load_policy(json.dumps(COPIES), name="copies", plugins=PLUGINS)
    return Varied(f"copies on {disk}", build_descheduler(read, PLUGINS), world.snapshot())
