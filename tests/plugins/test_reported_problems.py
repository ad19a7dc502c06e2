"""Problems that operators reported, as clusters in which they do not occur here.

Each test is one report of an operator: what they had, and what must not happen to it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from resettle.errors import PolicyError
from resettle.framework import default_registry, load_policy
from resettle.plugins import (
    high_node_utilization,
    pod_life_time,
    remove_duplicates,
    remove_pods_having_too_many_restarts,
    remove_pods_violating_node_affinity,
    remove_pods_violating_node_taints,
    remove_pods_violating_topology_spread_constraint,
)
from resettle.testing import World, cluster, node, pod, spread
from tests.plugins.builders import improved, landings

WEB = {"app": "web"}
OLD: dict[str, Any] = {"maxPodLifeTimeSeconds": 3600}
GPU = "nvidia.com/gpu"


# -- two deployments were to expire, and everything older than a day went --------------------------


@pytest.mark.parametrize("api_version", ["descheduler/v1alpha2", "resettle/v1"])
@pytest.mark.parametrize(
    ("level", "path"),
    [
        pytest.param("config", "profiles[0].pluginConfig[0].labelSelector", id="beside args"),
        pytest.param("profile", "profiles[0].labelSelector", id="in the profile"),
        pytest.param("top", "labelSelector", id="at the top"),
    ],
)
def test_a_selector_at_the_wrong_level_is_an_error(api_version: str, level: str, path: str) -> None:
    selector = {"labelSelector": {"matchLabels": WEB}}
    config: dict[str, Any] = {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 86400}}
    profile: dict[str, Any] = {
        "name": "expire",
        "pluginConfig": [config | (selector if level == "config" else {})],
        "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
    }
    document = {
        "apiVersion": api_version,
        "kind": "DeschedulerPolicy",
        "profiles": [profile | (selector if level == "profile" else {})],
        **(selector if level == "top" else {}),
    }

    with pytest.raises(PolicyError) as caught:
        load_policy(json.dumps(document), name="policy.json", plugins=default_registry())

    assert f"{path}\n" in str(caught.value)
    assert "args" in str(caught.value)


# -- a DNS server was evicted every five minutes for want of another node that fits ----------------


def the_only_home() -> World:
    """One node has the memory the server asks for; the others have room, but never enough."""
    return cluster(
        node("large", memory="32Gi").holding(pod("dns", memory="20Gi", restarts=100)),
        node("small", memory="16Gi"),
        node("full", memory="32Gi").holding(pod("cache", memory="16Gi", age="1m")),
    )


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        pytest.param(pod_life_time.PLUGIN, OLD, id="for its age"),
        pytest.param(
            remove_pods_having_too_many_restarts.PLUGIN,
            {"podRestartThreshold": 5},
            id="for its restarts",
        ),
    ],
)
def test_a_pod_whose_only_feasible_node_is_its_own_is_never_evicted(
    plugin: Any, args: dict[str, Any]
) -> None:
    planned = improved(plugin, the_only_home(), **args)

    assert planned.evicts == []
    assert planned.refused == {"no-node-fits": 1}


def test_an_evict_annotation_of_false_means_no() -> None:
    opts_out = {"descheduler.alpha.kubernetes.io/evict": "false"}
    world = cluster(node("n1").holding(pod("dns", annotations=opts_out)), node("n2"))

    planned = improved(pod_life_time.PLUGIN, world, **OLD)

    assert planned.evicts == []
    assert planned.refused == {"opted-out": 1}


# -- monitoring bounced on the same node over and over ---------------------------------------------


def test_what_was_moved_is_not_moved_again_while_nothing_else_changes() -> None:
    world = cluster(
        node("n1", taints=["maintenance:NoSchedule"]).holding(pod("monitoring"), pod("metrics")),
        node("n2"),
        node("n3"),
    )
    landed = landings(improved(remove_pods_violating_node_taints.PLUGIN, world))
    assert landed.keys() == {"monitoring", "metrics"}

    for item in world.objects:
        if item["kind"] == "Pod":
            item["spec"]["nodeName"] = landed[item["metadata"]["name"]]

    assert improved(remove_pods_violating_node_taints.PLUGIN, world).evicts == []


# -- an endless loop between on-demand and spot, by preferred affinity -----------------------------


@pytest.mark.parametrize(
    ("spot", "goes"),
    [
        pytest.param(node("spot", cpu="1", labels={"pool": "spot"}), [], id="too small"),
        pytest.param(node("spot", labels={"pool": "spot"}, cordoned=True), [], id="cordoned"),
        pytest.param(
            node("spot", labels={"pool": "spot"}, taints=["spot:NoSchedule"]), [], id="tainted"
        ),
        pytest.param(node("spot", labels={"pool": "spot"}), ["a"], id="free"),
    ],
)
def test_a_preferred_node_that_cannot_take_the_pod_is_no_reason_to_move(
    spot: Any, goes: list[str]
) -> None:
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["spot"]}]}
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {preferred: [{"weight": 50, "preference": term}]}}
    world = cluster(node("n1").holding(pod("a", cpu="2", affinity=affinity)), node("n2"), spot)

    planned = improved(
        remove_pods_violating_node_affinity.PLUGIN, world, nodeAffinityType=[preferred]
    )

    assert planned.evicts == goes


# -- with thresholds on GPUs alone, packing evicted every pod of the node --------------------------


def test_thresholds_on_gpus_alone_never_empty_a_node_of_pods_that_use_none() -> None:
    world = cluster(
        node("idle", resources={GPU: "8"}).holding(pod("web-1"), pod("web-2", cpu="1")),
        node("little", resources={GPU: "8"}).holding(
            pod("web-3"), pod("training", requests={GPU: "1"})
        ),
        node("busy", resources={GPU: "8"}).holding(pod("big", requests={GPU: "6"})),
        node("without").holding(pod("web-4")),
    )

    planned = improved(high_node_utilization.PLUGIN, world, thresholds={GPU: 30})

    assert planned.evicts == ["training"]
    assert landings(planned) == {"training": "busy"}


# -- spread evicted pods that have no spread rule; namesakes counted as duplicates -----------------


def test_pods_without_a_spread_rule_are_left_alone() -> None:
    job = [pod(f"job-{i}", labels=WEB, owner="Job/nightly") for i in range(4)]
    stating = [pod(f"web-{i}", labels=WEB, spread=[spread(labels=WEB)]) for i in range(2)]
    world = cluster(node("n1", zone="a").holding(*job, *stating), node("n2", zone="b"))

    planned = improved(remove_pods_violating_topology_spread_constraint.PLUGIN, world)

    assert set(planned.evicts) == {"web-0", "web-1"}


def test_owners_of_one_name_in_different_namespaces_are_no_duplicates() -> None:
    world = cluster(
        node("n1").holding(
            pod("a", namespace="red", owner="ReplicaSet/api"),
            pod("b", namespace="blue", owner="ReplicaSet/api"),
        ),
        node("n2"),
    )

    assert improved(remove_duplicates.PLUGIN, world).evicts == []


# -- a pod kept returning because anti-affinity was not in the fit check ---------------------------


@pytest.mark.parametrize(
    ("resident", "goes"),
    [
        pytest.param(pod("there", labels=WEB), [], id="its own rule, over the whole zone"),
        pytest.param(
            pod("there", away_from={"app": "packed"}), [], id="the rule of one who is there"
        ),
        pytest.param(pod("there"), ["packed"], id="no rule at all"),
    ],
)
def test_anti_affinity_on_the_target_is_seen(resident: Any, goes: list[str]) -> None:
    term = {
        "labelSelector": {"matchLabels": WEB},
        "topologyKey": "topology.kubernetes.io/zone",
    }
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    packed = pod(
        "packed",
        cpu="100m",
        labels={"app": "packed"},
        affinity={"podAntiAffinity": {required: [term]}},
    )
    world = cluster(
        node("hardly-used", zone="a").holding(packed),
        node("busy", zone="b").holding(pod("load", cpu="2", age="1m"), resident),
    )

    planned = improved(high_node_utilization.PLUGIN, world, thresholds={"cpu": 20})

    assert planned.evicts == goes
