"""Clusters and policies that Hypothesis draws: sound, varied, and small once they fail."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis.errors import InvalidArgument

from resettle import testing
from resettle.framework import Args, Draft, Plugin, Refusal, default_registry, load_policy
from resettle.framework.view import View
from resettle.model import Pod
from resettle.testing import World, plan_policy
from resettle.testing.builders import Object
from resettle.testing.strategies import clusters, policies
from tests import ROOT

SOME = settings(max_examples=60, deadline=None, derandomize=True, database=None)
REGISTRY = default_registry()
LOOKING = settings(
    max_examples=1000, derandomize=True, database=None, phases=[Phase.generate], deadline=None
)
SHRINKING = settings(max_examples=1000, derandomize=True, database=None, deadline=None)

Document = dict[str, Any]


def of_kind(world: World, kind: str) -> list[Object]:
    return [obj for obj in world.objects if obj["kind"] == kind]


def pods(world: World) -> list[Object]:
    return of_kind(world, "Pod")


# -- soundness -----------------------------------------------------------------------------------


@SOME
@given(clusters())
def test_every_cluster_makes_a_snapshot(world: World) -> None:
    snapshot = world.snapshot()

    assert len(snapshot.pods) == len(pods(world))
    assert 1 <= len(list(snapshot.node_index)) <= 6


@SOME
@given(policies())
def test_every_policy_loads_without_a_problem_or_a_warning(document: Document) -> None:
    policy = load_policy(json.dumps(document), name="policy", plugins=REGISTRY)

    assert policy.warnings == ()
    assert len(policy.profiles) == len(document["profiles"])


@SOME
@given(clusters(min_nodes=2, max_nodes=3, min_pods=4, max_pods=5, max_budgets=0))
def test_bounds_are_kept(world: World) -> None:
    assert len(of_kind(world, "Node")) in (2, 3)
    assert len(pods(world)) in (4, 5)
    assert of_kind(world, "PodDisruptionBudget") == []


@SOME
@given(clusters(min_nodes=0, max_nodes=0))
def test_a_cluster_may_have_no_node_at_all(world: World) -> None:
    assert list(world.snapshot().node_index) == []


def test_bounds_that_leave_nothing_are_reported() -> None:
    with pytest.raises(InvalidArgument, match="nothing lies between 3 and 2; widen the bounds"):
        find(clusters(min_nodes=3, max_nodes=2), lambda world: True, settings=LOOKING)


# -- what is of a plugin author's own --------------------------------------------------------------


class Hours(Args, frozen=True, kw_only=True):
    default: str = ""


def sweep(args: Hours, view: View, draft: Draft) -> None:
    for pod in view.pods:
        draft.propose(pod, because="asked to")


def closed(args: Hours, view: View, pod: Pod) -> Refusal | None:
    return Refusal("closed", "may not move now") if pod.labels.get("hours") else None


def name(args: Hours, view: View, pod: Pod) -> str:
    return pod.name


OWN = Plugin(name="Own", args=Hours, balance=sweep, filter=closed, sort=name)


@SOME
@given(
    clusters(
        min_pods=1,
        node_traits={"labels": [{"rack": "1"}, {"rack": "2"}]},
        pod_traits={"labels": [{}, {"hours": "22-05"}]},
    )
)
def test_traits_are_laid_over_what_is_drawn_anyway(world: World) -> None:
    racks = [node["metadata"]["labels"]["rack"] for node in of_kind(world, "Node")]

    assert set(racks) <= {"1", "2"}
    assert {pod["metadata"]["labels"].get("hours", "22-05") for pod in pods(world)} == {"22-05"}


@pytest.mark.parametrize(
    "reached",
    [
        pytest.param(lambda labels: {"hours", "app"} <= labels, id="with the labels it had"),
        pytest.param(lambda labels: "app" in labels and "hours" not in labels, id="or without"),
    ],
)
def test_some_pods_wear_a_trait(reached: Callable[[set[str]], bool]) -> None:
    drawn = clusters(pod_traits={"labels": [{}, {"hours": "22-05"}]})

    world = find(
        drawn,
        lambda drawn_world: any(
            reached(set(pod["metadata"]["labels"])) for pod in pods(drawn_world)
        ),
        settings=LOOKING,
    )

    assert pods(world)


@SOME
@given(clusters(), policies(plugins={OWN: [{}, {"default": "22-05"}]}))
def test_a_plugin_of_ones_own_has_its_say_in_every_profile(
    world: World, document: Document
) -> None:
    improved = document["apiVersion"] == "resettle/v1"
    for profile in document["profiles"]:
        points = {at for at, them in profile["plugins"].items() if "Own" in them["enabled"]}
        given = [entry["args"] for entry in profile["pluginConfig"] if entry["name"] == "Own"]

        assert points == {"balance", "filter"} | ({"sort"} if improved else set())
        assert given in ([{}], [{"default": "22-05"}])

    planned = plan_policy(document, world, registry=REGISTRY.with_plugins(OWN))

    assert planned.errors == []


@pytest.mark.parametrize("version", ["descheduler/v1alpha2", "resettle/v1"])
def test_one_api_version_can_be_asked_for(version: str) -> None:
    @SOME
    @given(policies(api_versions=[version]))
    def is_of_it(document: Document) -> None:
        assert document["apiVersion"] == version

    is_of_it()


# -- corners -------------------------------------------------------------------------------------


def a_pod(question: Callable[[Object], Any]) -> Callable[[World], bool]:
    return lambda world: any(question(pod) for pod in pods(world))


def a_node(question: Callable[[Object], Any]) -> Callable[[World], bool]:
    return lambda world: any(question(node) for node in of_kind(world, "Node"))


def overfull(world: World) -> bool:
    """Whether a node's pods ask for more than it has."""
    snapshot = world.snapshot()
    return any(
        snapshot.requests_on(node).get("cpu", 0) > node.allocatable["cpu"]
        for node in snapshot.node_index
    )


def doubly_covered(world: World) -> bool:
    """Whether two budgets speak for one pod."""
    snapshot = world.snapshot()
    return any(len(snapshot.budgets_of(pod)) > 1 for pod in snapshot.pods)


@pytest.mark.parametrize(
    "corner",
    [
        pytest.param(lambda world: not pods(world), id="no pod at all"),
        pytest.param(lambda world: len(pods(world)) > 25, id="many pods"),
        pytest.param(a_pod(lambda obj: "nodeName" not in obj["spec"]), id="a pod waits for a node"),
        pytest.param(
            a_pod(lambda obj: obj["spec"].get("nodeName") == "gone"), id="its node is gone"
        ),
        pytest.param(a_pod(lambda obj: "deletionTimestamp" in obj["metadata"]), id="a pod leaves"),
        pytest.param(a_pod(lambda obj: obj["status"]["phase"] == "Failed"), id="a pod has failed"),
        pytest.param(a_pod(lambda obj: not obj["metadata"]["ownerReferences"]), id="a bare pod"),
        pytest.param(
            a_pod(lambda obj: "kubernetes.io/config.mirror" in obj["metadata"]["annotations"]),
            id="a mirror pod",
        ),
        pytest.param(
            a_pod(lambda obj: obj["spec"].get("priority", 0) > 10**9), id="a critical pod"
        ),
        pytest.param(
            a_pod(lambda obj: len(obj["metadata"]["ownerReferences"]) > 1), id="two owners"
        ),
        pytest.param(
            a_pod(lambda obj: obj["spec"]["topologySpreadConstraints"]), id="spread rules"
        ),
        pytest.param(
            a_pod(lambda obj: "podAntiAffinity" in obj["spec"].get("affinity", {})), id="enemies"
        ),
        pytest.param(a_pod(lambda obj: obj["spec"]["volumes"]), id="a volume"),
        pytest.param(a_node(lambda obj: obj["spec"].get("unschedulable")), id="a cordoned node"),
        pytest.param(a_node(lambda obj: obj["spec"]["taints"]), id="a tainted node"),
        pytest.param(a_node(lambda obj: not obj["status"]["conditions"]), id="a silent node"),
        pytest.param(overfull, id="a node promised more than it has"),
        pytest.param(doubly_covered, id="a pod of two budgets"),
    ],
)
def test_a_corner_of_clusters_is_reached(corner: Callable[[World], bool]) -> None:
    world = find(clusters(), corner, settings=LOOKING)

    assert corner(world)


@pytest.mark.parametrize("strategy", [plugin for plugin in REGISTRY if REGISTRY[plugin].deschedule])
def test_every_strategy_that_deschedules_is_drawn(strategy: str) -> None:
    document = find(
        policies(), lambda policy: enables(policy, "deschedule", strategy), settings=LOOKING
    )

    assert enables(document, "deschedule", strategy)


def measures(plugin: Plugin) -> bool:
    """Whether it uses figures, which drawn worlds do not have."""
    return bool(plugin.measures(plugin.args()))


@pytest.mark.parametrize(
    "strategy",
    [plugin for plugin in REGISTRY if REGISTRY[plugin].balance and not measures(REGISTRY[plugin])],
)
def test_every_strategy_that_balances_is_drawn(strategy: str) -> None:
    document = find(
        policies(), lambda policy: enables(policy, "balance", strategy), settings=LOOKING
    )

    assert enables(document, "balance", strategy)


def enables(document: Document, point: str, strategy: str) -> bool:
    return any(strategy in profile["plugins"][point]["enabled"] for profile in document["profiles"])


def test_worlds_and_policies_seldom_repeat_and_plans_are_of_many_kinds() -> None:
    drawn: Counter[str] = Counter()
    codes: set[str] = set()
    movers: set[str] = set()

    @settings(SOME, max_examples=100)
    @given(clusters(), policies())
    def look(world: World, document: Document) -> None:
        drawn[repr(world)] += 1
        planned = plan_policy(document, world)
        codes.update(planned.refused)
        movers.update(move.plugin for move in planned.plan.moves)

    look()

    assert len(drawn) >= 80
    assert len(codes) >= 12
    assert len(movers) >= 5


# -- counterexamples -----------------------------------------------------------------------------


def test_a_counterexample_is_as_small_as_it_can_be_and_prints_as_the_call_that_builds_it() -> None:
    leaving = a_pod(
        lambda obj: (
            "deletionTimestamp" in obj["metadata"] and obj["metadata"]["namespace"] == "shop"
        )
    )

    world = find(clusters(), leaving, settings=SHRINKING)

    (only,) = pods(world)
    assert repr(world).splitlines()[1:4] == [
        "    node('n0').holding(",
        f"        pod('{only['metadata']['name']}', namespace='shop', terminating=True),",
        "    ),",
    ]


@SOME
@given(clusters(node_traits={"labels": [{}, {"rack": "1"}]}))
def test_what_a_world_prints_builds_it_again(world: World) -> None:
    names: dict[str, Any] = {item: getattr(testing, item) for item in testing.__all__}

    again = eval(repr(world), names)

    assert again.objects == world.objects


def test_a_policy_shrinks_to_what_it_takes() -> None:
    document = find(
        policies(),
        lambda policy: enables(policy, "balance", "RemoveDuplicates"),
        settings=SHRINKING,
    )

    (profile,) = document["profiles"]
    assert document.keys() == {"apiVersion", "kind", "profiles"}
    assert profile["plugins"] == {
        "deschedule": {"enabled": []},
        "balance": {"enabled": ["RemoveDuplicates"]},
    }
    assert {entry["name"] for entry in profile["pluginConfig"]} == {
        "DefaultEvictor",
        "RemoveDuplicates",
    }


# -- on demand -----------------------------------------------------------------------------------


def run_without_hypothesis(words: str) -> subprocess.CompletedProcess[str]:
    script = f"import sys; sys.modules['hypothesis'] = None\n{words}"
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )


def test_without_hypothesis_the_import_says_what_to_install() -> None:
    done = run_without_hypothesis("import resettle.testing.strategies")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: resettle.testing.strategies needs Hypothesis; install it with "
        "`pip install 'resettle[testing]'`"
    )


def test_the_extra_that_is_named_brings_hypothesis() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (needed,) = declared["optional-dependencies"]["testing"]

    assert needed.startswith("hypothesis>=")
    assert not any(requirement.startswith("hypothesis") for requirement in declared["dependencies"])


def test_without_hypothesis_the_rest_of_the_room_works() -> None:
    done = run_without_hypothesis(
        "from resettle.testing import cluster, node; print(len(cluster(node('n1')).objects))"
    )

    assert (done.returncode, done.stdout) == (0, "1\n")
