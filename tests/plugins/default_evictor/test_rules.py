"""DefaultEvictor's filters and their explanations agree, for any pod of any cluster."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from resettle.framework import Descheduler, build_descheduler, default_registry, load_policy
from resettle.framework.profile import Instance
from resettle.framework.view import View
from resettle.model import Pod
from resettle.plugins.default_evictor.rules import FILTER_RULES
from resettle.testing import World, cluster, node, pod
from resettle.testing.strategies import clusters

THOROUGH = settings(max_examples=150, deadline=None, derandomize=True, database=None)
ANNOTATION = "descheduler.alpha.kubernetes.io/"
TRAITS: dict[str, list[Any]] = {
    "annotations": [
        {},
        {},
        {f"{ANNOTATION}evict": "true"},
        {f"{ANNOTATION}evict": "No"},
        {f"{ANNOTATION}prefer-no-eviction": "true"},
        {"kubernetes.io/config.mirror": "abc"},
    ]
}
ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"minReplicas": 3, "minPodAge": "1h"},
    {"noEvictionPolicy": "Mandatory", "nodeFit": True},
    {"priorityThreshold": {"value": 5}, "labelSelector": {"matchLabels": {"version": "1"}}},
    {"namespaceLabelSelector": {"matchLabels": {"team": "blue"}}, "nodeFit": True},
    {"podProtections": {"defaultDisabled": ["PodsWithLocalStorage", "FailedBarePods"]}},
    {
        "podProtections": {
            "extraEnabled": ["PodsWithPVC", "PodsWithoutPDB", "PodsWithResourceClaims"],
            "config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": "fast"}]}},
        }
    },
    {"podProtections": {"extraEnabled": ["PodsWithPVC"], "defaultDisabled": ["DaemonSetPods"]}},
]


def policy(args: dict[str, Any], version: str) -> Descheduler:
    profile = {
        "name": "test",
        "pluginConfig": [
            {"name": "DefaultEvictor", "args": args},
            {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 60}},
        ],
        "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
    }
    document = {"apiVersion": version, "kind": "DeschedulerPolicy", "profiles": [profile]}
    plugins = default_registry()
    return build_descheduler(
        load_policy(json.dumps(document), name="policy", plugins=plugins), plugins
    )


def filters_of(descheduler: Descheduler) -> tuple[Instance, ...]:
    (profile,) = descheduler.profiles
    return (*profile.filters, *profile.pre_eviction_filters)


def codes(instance: Instance, view: View, asked: Pod) -> tuple[str | None, list[str]]:
    """The code that the filter refuses the pod with, and all codes of the explanation."""
    refusal = instance.pod_check(view)(asked)
    every = [each.code for each in instance.all_refusals(view, asked)]
    return refusal.code if refusal else None, every


@THOROUGH
@given(
    clusters(pod_traits=TRAITS),
    st.sampled_from(ARGUMENTS),
    st.sampled_from(["descheduler/v1alpha2", "resettle/v1"]),
)
def test_a_filter_answers_with_the_first_refusal_of_its_explanation(
    world: World, args: dict[str, Any], version: str
) -> None:
    descheduler = policy(args, version)
    view = descheduler.view(world.snapshot())
    for instance in filters_of(descheduler):
        lets_all_leave = instance.template_check(view)
        assert lets_all_leave is not None
        for asked in view.pods:
            first, every = codes(instance, view, asked)

            assert first == next(iter(every), None)
            assert len(every) == len(set(every))
            if lets_all_leave(asked.template) and not asked.terminating:
                assert first is None


def test_an_explanation_has_every_rule_that_refuses_in_the_order_of_the_table() -> None:
    held = pod(
        "it",
        owner="DaemonSet/agent",
        priority=70,
        volumes=[{"name": "v", "emptyDir": {}}],
        age="1m",
    )
    descheduler = policy(
        {"minPodAge": "1h", "minReplicas": 2, "priorityThreshold": {"value": 50}},
        "descheduler/v1alpha2",
    )
    view = descheduler.view(cluster(node("n1").holding(held), node("n2")).snapshot())
    asked = view.pod("default", "it")
    assert asked is not None

    assert codes(filters_of(descheduler)[0], view, asked) == (
        "priority",
        ["priority", "local-storage", "daemon-set", "min-replicas", "min-age"],
    )


def test_rules_about_templates_stand_together() -> None:
    kinds = [rule.of_template for rule in FILTER_RULES]

    assert kinds == [False, *[True] * sum(kinds), *[False] * (len(kinds) - 1 - sum(kinds))]
