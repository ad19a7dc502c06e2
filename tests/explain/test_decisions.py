"""Why a pod was not proposed agrees with what the plugin decided, for drawn clusters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from resettle.explain.cycle import WatchedPlan
from resettle.explain.pod import NO_TURN, answer_for
from resettle.explain.what_if import PlanInputs
from resettle.framework import Descheduler, build_descheduler, default_registry, load_policy
from resettle.testing import World
from resettle.testing.random.policies import BALANCE, DESCHEDULE
from resettle.testing.strategies import clusters

THOROUGH = settings(max_examples=40, deadline=None, derandomize=True, database=None)
EACH_POD_ALONE = {
    "PodLifeTime",
    "RemoveFailedPods",
    "RemovePodsHavingTooManyRestarts",
    "RemovePodsViolatingNodeTaints",
    "RemovePodsViolatingNodeAffinity",
}
"""Strategies that propose every pod to which their rule applies, whatever becomes of others."""
STRATEGIES = [
    pytest.param(name, point, args, id=f"{name}-{i}")
    for point, table in (("deschedule", DESCHEDULE), ("balance", BALANCE))
    for name, choices in table.items()
    for i, args in enumerate(choices)
]


def policy(plugin: str, point: str, args: dict[str, Any]) -> Descheduler:
    """One strategy in parity semantics, without limits."""
    profile = {
        "name": "test",
        "pluginConfig": [
            {"name": "DefaultEvictor", "args": {}},
            {"name": plugin, "args": dict(args)},
        ],
        "plugins": {point: {"enabled": [plugin]}},
    }
    document = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [profile],
    }
    plugins = default_registry()
    return build_descheduler(
        load_policy(json.dumps(document), name="policy", plugins=plugins), plugins
    )


def drawn(descheduler: Descheduler, world: World) -> WatchedPlan:
    """The plan of a cycle in which every pod is watched, and no plugin fails."""
    snapshot = world.snapshot()
    watched = WatchedPlan(PlanInputs(descheduler, snapshot), [pod.key for pod in snapshot.pods])
    assert watched.plan.errors == ()
    return watched


def disagreements(plugin: str, descheduler: Descheduler, world: World) -> Iterator[str]:
    """Pods that were proposed against the plugin's own words, or not proposed for no reason."""
    watched = drawn(descheduler, world)
    if watched.plan.skipped:
        return
    (turn,) = watched.turns
    hook = turn.instance.plugin.why_not_proposed
    assert hook is not None
    before = descheduler.view(world.snapshot())
    for pod in before.pods:
        (decision,) = answer_for(watched, pod).decisions
        if decision.proposals:
            reason = hook(turn.instance.args, before, pod)
            if reason:
                yield f"{pod.key}: {decision.proposals[0].because}, though {reason.says}"
        else:
            assert decision.not_proposed is not None
            if decision.not_proposed.code == NO_TURN and plugin in EACH_POD_ALONE:
                yield f"{pod.key} was not proposed: {decision.not_proposed.says}"


@pytest.mark.parametrize(("plugin", "point", "args"), STRATEGIES)
@THOROUGH
@given(world=clusters(min_nodes=2, min_pods=4))
def test_a_reason_for_not_proposing_a_pod_is_given_only_for_pods_that_were_not_proposed(
    plugin: str, point: str, args: dict[str, Any], world: World
) -> None:
    assert list(disagreements(plugin, policy(plugin, point, args), world)) == []


SHARE = re.compile(r"(\d+) copies of (.+) are on (.+), at most (\d+) expected")
SKEW = re.compile(r": (\d+), fewest anywhere: (\d+), `maxSkew` is (\d+)")


@THOROUGH
@given(world=clusters(min_nodes=2, min_pods=8))
def test_the_share_of_a_node_is_the_same_for_copies_that_go_and_copies_that_stay(
    world: World,
) -> None:
    watched = drawn(policy("RemoveDuplicates", "balance", {}), world)
    shares: dict[tuple[str, str], set[str]] = {}
    for pod in watched.view.pods:
        for decision in answer_for(watched, pod).decisions:
            because = [(proposal.because, True) for proposal in decision.proposals]
            kept = [(item.says, False) for item in (decision.not_proposed,) if item]
            for says, leaves in because + kept:
                if figures := SHARE.fullmatch(says):
                    here, owner, _, share = figures.groups()
                    shares.setdefault((pod.namespace, owner), set()).add(share)
                    assert (int(here) > int(share)) == leaves

    assert all(len(figures) == 1 for figures in shares.values())


@THOROUGH
@given(world=clusters(min_nodes=2, min_pods=8))
def test_a_satisfied_constraint_is_within_its_skew(world: World) -> None:
    constraints = {"constraints": ["DoNotSchedule", "ScheduleAnyway"]}
    spreading = policy("RemovePodsViolatingTopologySpreadConstraint", "balance", constraints)
    watched = drawn(spreading, world)
    for pod in watched.view.pods:
        for decision in answer_for(watched, pod).decisions:
            if decision.not_proposed and (figures := SKEW.search(decision.not_proposed.says)):
                here, fewest, skew = map(int, figures.groups())
                assert here - fewest <= skew
