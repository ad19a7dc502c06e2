"""The cluster that is measured on: the same every time, well formed, and full of work."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from bench.generate import LISTS, NODE_CPU, NODE_PODS, WORST, Shape, shape_of, write
from bench.run import policy_text
from resettle.dumps.reader import Dump
from resettle.framework.descheduler import build_descheduler
from resettle.framework.plan import Plan
from resettle.framework.registry import default_registry
from resettle.policy.load import load_policy
from resettle.testing import NOW

Objects = dict[str, list[Any]]
STRATEGIES = """RemovePodsHavingTooManyRestarts RemovePodsViolatingNodeAffinity
    RemovePodsViolatingNodeTaints RemovePodsViolatingInterPodAntiAffinity RemoveDuplicates
    RemovePodsViolatingTopologySpreadConstraint LowNodeUtilization""".split()
SMALL = Shape(nodes=30, pods_per_node=20, pods_per_template=10, budgets=0.5)


def written(shape: Shape) -> str:
    out = io.StringIO()
    write(shape, out)
    return out.getvalue()


@cache
def objects(shape: Shape) -> Objects:
    by_kind: Objects = {kind: [] for kind in LISTS}
    for item in json.loads(written(shape))["items"]:
        by_kind[item["kind"]].append(item)
    return by_kind


@cache
def planned(shape: Shape) -> Plan:
    plugins = default_registry()
    policy = load_policy(policy_text("on"), name="policy", plugins=plugins)
    dump = Dump()
    dump.add(written(shape).encode(), "generated")
    return build_descheduler(policy, plugins).draw_plan(dump.snapshot(NOW))


def hard(name: str, nodes: int = 30) -> Shape:
    return shape_of(nodes, 20, name)


def test_the_same_shape_gives_the_same_bytes() -> None:
    assert written(SMALL) == written(SMALL)


def test_another_seed_gives_another_cluster() -> None:
    assert written(shape_of(10, 10, seed=1)) != written(shape_of(10, 10, seed=2))


def test_a_cluster_is_as_large_as_was_asked() -> None:
    held = objects(SMALL)

    assert (len(held["Node"]), len(held["Pod"])) == (30, 600)


@pytest.mark.parametrize("kind", LISTS)
def test_objects_of_every_kind_have_names_of_their_own(kind: str) -> None:
    names = [
        (item["metadata"].get("namespace"), item["metadata"]["name"])
        for item in objects(SMALL)[kind]
    ]

    assert names
    assert len(names) == len(set(names))


def test_no_node_holds_more_than_a_scheduler_would_give_it() -> None:
    cpu: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    for pod in objects(SMALL)["Pod"]:
        (main,) = pod["spec"]["containers"]
        cpu[pod["spec"]["nodeName"]] += int(main["resources"]["requests"]["cpu"].rstrip("m"))
        pods[pod["spec"]["nodeName"]] += 1

    assert set(pods) <= {node["metadata"]["name"] for node in objects(SMALL)["Node"]}
    assert max(cpu.values()) <= NODE_CPU
    assert max(pods.values()) <= NODE_PODS


def test_claims_are_there_for_the_pods_that_name_them() -> None:
    named = {
        (pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"])
        for pod in objects(SMALL)["Pod"]
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }
    held = {
        (claim["metadata"]["namespace"], claim["metadata"]["name"])
        for claim in objects(SMALL)["PersistentVolumeClaim"]
    }

    assert named == held


def test_a_pod_is_as_heavy_as_a_real_one() -> None:
    sizes = [len(json.dumps(pod, separators=(",", ":"))) for pod in objects(SMALL)["Pod"]]

    assert 4000 < sum(sizes) / len(sizes) < 6500


@pytest.mark.parametrize("plugin", STRATEGIES)
def test_every_strategy_finds_work(plugin: str) -> None:
    plan = planned(shape_of(100, 30))
    (run,) = (run for run in plan.runs if run.plugin == plugin)

    assert not plan.errors
    assert run.admitted > 0


def owners(held: Objects) -> Counter[str]:
    """Pods of each workload that is no DaemonSet."""
    references = (pod["metadata"]["ownerReferences"][0] for pod in held["Pod"])
    return Counter(owner["uid"] for owner in references if owner["kind"] != "DaemonSet")


def spreads(held: Objects) -> int:
    constrained = (pod for pod in held["Pod"] if "topologySpreadConstraints" in pod["spec"])
    return len({pod["metadata"]["ownerReferences"][0]["uid"] for pod in constrained})


def apart(held: Objects) -> bool:
    own = (pod for pod in held["Pod"] if pod["metadata"]["namespace"] != "kube-system")
    return all("podAntiAffinity" in pod["spec"]["affinity"] for pod in own)


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        pytest.param(
            "own-template", lambda objects: set(owners(objects).values()) == {1}, id="own-template"
        ),
        pytest.param("one-template", lambda objects: len(owners(objects)) == 1, id="one-template"),
        pytest.param(
            "many-spreads",
            lambda objects: spreads(objects) == len(owners(objects)),
            id="many-spreads",
        ),
        pytest.param("anti-affinity", apart, id="anti-affinity"),
    ],
)
def test_a_hard_cluster_is_what_its_name_says(name: str, holds: Callable[[Objects], bool]) -> None:
    assert holds(objects(hard(name)))


def test_many_spreads_are_a_thousand_in_one_namespace() -> None:
    held = objects(hard("many-spreads", nodes=80))
    teams = {pod["metadata"]["namespace"] for pod in held["Pod"]} - {"kube-system"}

    assert (len(teams), spreads(held)) == (1, 1000)


@pytest.mark.parametrize("name", WORST)
def test_hard_clusters_are_planned_over_without_errors(name: str) -> None:
    plan = planned(hard(name))

    assert (plan.errors, plan.pods) == ((), 600)
