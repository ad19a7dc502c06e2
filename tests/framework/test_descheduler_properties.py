"""What holds for every plan, whatever the cluster and the policy."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from math import ceil
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from resettle.cli.text.plan import plan_json
from resettle.framework import Descheduler, Draft, Plan, Plugin, build_descheduler, default_registry
from resettle.framework.view import View
from resettle.model.snapshot import Snapshot
from resettle.policy.load import load_policy
from resettle.testing import World
from resettle.testing.builders import Object
from tests.builders import Case, cases

THOROUGH = settings(max_examples=100, deadline=None, derandomize=True, database=None)


def ask_everything(args: Any, view: View, draft: Draft) -> None:
    """Asks all questions about all pods, several times, and proposes none."""
    for pod in view.pods * 3:
        draft.may_leave(pod)
        draft.could_go(pod)
        draft.is_terminating(pod)
    draft.sort(draft.presort(view.pods))


PROBES = [
    Plugin(name=f"Probe{i}", deschedule=ask_everything, balance=ask_everything) for i in range(4)
]
REGISTRY = default_registry().with_plugins(*PROBES)


def descheduler(document: dict[str, Any]) -> Descheduler:
    return build_descheduler(
        load_policy(json.dumps(document), name="policy", plugins=REGISTRY), REGISTRY
    )


def seen(case: Case) -> Snapshot:
    return replace(World(case.objects).snapshot(), moving=case.moving)


def drawn(case: Case, watching: Iterable[str] = ()) -> Plan:
    return descheduler(case.document).draw_plan(seen(case), watching=watching)


def pods_of(case: Case) -> list[Object]:
    return [manifest for manifest in case.objects if manifest["kind"] == "Pod"]


def keys_of(case: Case) -> list[str]:
    """The names of all that a plan could keep notes about."""
    metas = [
        manifest["metadata"] for manifest in case.objects if manifest["kind"] in ("Pod", "Node")
    ]
    return [
        f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
        for meta in metas
    ]


@THOROUGH
@given(cases())
def test_planning_succeeds_and_no_plugin_fails(case: Case) -> None:
    plan = drawn(case, watching=keys_of(case))

    assert plan.errors == ()
    assert plan.skipped is None or (plan.moves, plan.runs) == ((), ())


@THOROUGH
@given(cases())
def test_no_limit_is_exceeded(case: Case) -> None:
    """Pods that are on their way already count too; where they alone exceed, nothing is added."""
    plan = drawn(case)
    moves = [(move.pod.node, move.pod.namespace) for move in plan.moves]
    away = [
        (pod["spec"].get("nodeName", ""), pod["metadata"]["namespace"])
        for pod in pods_of(case)
        if pod["metadata"]["uid"] in case.moving
    ]
    limits = {
        "maxNoOfPodsToEvictTotal": lambda row: "all",
        "maxNoOfPodsToEvictPerNode": lambda row: row[0],
        "maxNoOfPodsToEvictPerNamespace": lambda row: row[1],
    }
    for key, group in limits.items():
        limit = case.document.get(key)
        already = Counter(map(group, away))
        for where, count in Counter(map(group, moves)).items():
            assert limit is None or count + already[where] <= limit, (key, where)


@THOROUGH
@given(cases())
def test_no_share_of_the_cluster_is_exceeded(case: Case) -> None:
    """In `resettle/v1`; a share is rounded up and at least one, and pods on their way count."""
    document, plan = case.document, drawn(case)
    if document["apiVersion"] != "resettle/v1":
        return
    away = [pod for pod in seen(case).pods if pod.uid in case.moving]
    numbered = "maxNoOfPodsToEvictTotal" in document
    pods = document.get("maxPercentOfPodsToEvict", 100 if numbered else 1)
    nodes = document.get("maxPercentOfNodesToEvictFrom", 5)
    left = {move.pod.node for move in plan.moves} | {pod.node for pod in away if pod.node}

    if plan.moves:
        assert len(plan.moves) + len(away) <= max(1, ceil(pods * plan.pods / 100))
        before = len({pod.node for pod in away if pod.node})
        assert len(left) <= max(before, 1, ceil(nodes * plan.nodes_in_scope / 100))


@THOROUGH
@given(cases())
def test_no_pod_moves_twice_or_while_it_is_on_its_way(case: Case) -> None:
    uids = [move.pod.uid for move in drawn(case).moves]

    assert len(uids) == len(set(uids))
    assert case.moving.isdisjoint(uids)


def covers(budget: Object, pod: Object) -> bool:
    labels, wanted = pod["metadata"]["labels"], budget["spec"]["selector"]["matchLabels"]
    same_place = budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same_place and bool(wanted.items() <= labels.items())


def pays(budget: Object, pod: Object) -> bool:
    """Whether the API server would take this eviction from the budget."""
    status = budget["status"]
    if ("Ready", "True") in [
        (condition["type"], condition["status"]) for condition in pod["status"]["conditions"]
    ]:
        return True
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return False
    desired = status.get("desiredHealthy", 0)
    return not (desired > 0 and status.get("currentHealthy", 0) >= desired)


@THOROUGH
@given(cases())
def test_no_budget_is_overspent(case: Case) -> None:
    budgets = [manifest for manifest in case.objects if manifest["kind"] == "PodDisruptionBudget"]
    by_uid = {pod["metadata"]["uid"]: pod for pod in pods_of(case)}
    spent: Counter[str] = Counter()
    for move in drawn(case).moves:
        pod = by_uid[move.pod.uid]
        serving = pod["status"]["phase"] not in ("Pending", "Succeeded", "Failed")
        if serving and "deletionTimestamp" not in pod["metadata"]:
            covering = [budget for budget in budgets if covers(budget, pod)]
            assert len(covering) <= 1
            spent.update(budget["metadata"]["name"] for budget in covering if pays(budget, pod))

    allowed = {
        budget["metadata"]["name"]: budget["status"]["disruptionsAllowed"] for budget in budgets
    }
    assert {name: n for name, n in spent.items() if n > allowed[name]} == {}


@THOROUGH
@given(cases())
def test_every_proposed_pod_has_a_verdict(case: Case) -> None:
    plan = drawn(case)

    for run in plan.runs:
        assert run.proposed == run.admitted + run.already_moving + sum(run.refused.values())
    admitted = Counter((run.profile, run.plugin) for run in plan.runs for _ in range(run.admitted))
    assert admitted == Counter((move.profile, move.plugin) for move in plan.moves)


@THOROUGH
@given(cases(), st.randoms(use_true_random=True))
def test_the_order_of_listing_never_shows_in_a_plan(case: Case, dice: Random) -> None:
    shuffled = case._replace(objects=dice.sample(case.objects, len(case.objects)))
    watching = keys_of(case)
    plan, other = drawn(case, watching), drawn(shuffled, watching)

    assert plan_json(other) == plan_json(plan)
    assert (other.notes, other.history) == (plan.notes, plan.history)


def probed(document: dict[str, Any]) -> dict[str, Any]:
    """The policy with a probe before each of its strategies, and one after them."""
    document = deepcopy(document)
    for profile in document["profiles"]:
        for point in ("deschedule", "balance"):
            probes = (probe.name for probe in PROBES)
            names = profile["plugins"][point]["enabled"]
            woven = [name for strategy in names for name in (next(probes), strategy)]
            profile["plugins"][point]["enabled"] = [*woven, next(probes)]
        profile["pluginConfig"] += [{"name": probe.name} for probe in PROBES]
    return document


@THOROUGH
@given(cases())
def test_questions_leave_no_trace(case: Case) -> None:
    plan = drawn(case)
    asked = drawn(case._replace(document=probed(case.document)))
    runs = tuple(run for run in asked.runs if not run.plugin.startswith("Probe"))

    assert plan_json(structs.replace(asked, runs=runs)) == plan_json(plan)


@THOROUGH
@given(cases())
def test_every_pod_that_moves_passes_the_guards_and_is_on_a_node_in_scope(case: Case) -> None:
    whole = descheduler(case.document)
    snapshot = seen(case)
    view = whole.view(snapshot)
    by_name = {profile.name: profile for profile in whole.profiles}

    for move in whole.draw_plan(snapshot).moves:
        profile = by_name[move.profile]
        pod = snapshot.pod(move.pod.namespace, move.pod.name)
        assert pod is not None
        assert pod.node in view.names_in_scope
        for guard in (*profile.filters, *profile.pre_eviction_filters):
            says = getattr(guard.plugin, guard.point)
            assert says(guard.args, view, pod) is None


@THOROUGH
@given(cases())
def test_guards_that_let_a_template_go_refuse_none_of_its_pods(case: Case) -> None:
    planner = descheduler(case.document)
    view = planner.view(seen(case))
    for profile in planner.profiles:
        for guard in (*profile.filters, *profile.pre_eviction_filters):
            lets_go, ask = guard.template_check(view), guard.pod_check(view)
            if lets_go is not None:
                free = [pod for pod in view.pods if lets_go(pod.template)]
                assert [pod for pod in free if not pod.terminating and ask(pod)] == []
