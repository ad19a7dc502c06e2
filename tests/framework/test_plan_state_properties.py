"""What holds for all rounds of a cycle together, whatever the cluster, the policy, the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from resettle.framework import MoveResult, Plan
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.testing import World
from resettle.testing.strategies import clusters, policies
from tests.framework.fakes import EAGER, Cycle, by_chance, planner, questioned

THOROUGH = settings(max_examples=60, deadline=None, derandomize=True, database=None)
COUNTING = [ending for ending in MoveResult if ending.counts_as_leaving]
ANY = [
    MoveResult.EVICTED,
    *(result for result in MoveResult if result not in (MoveResult.SHOWN, MoveResult.UNSENT)),
]


class Case(NamedTuple):
    """A cluster, a policy that would have everybody go, pods on their way, and dice."""

    world: World
    document: dict[str, Any]
    moving: frozenset[str]
    seed: int

    def snapshot(self) -> Snapshot:
        return replace(self.world.snapshot(), moving=self.moving)

    def cycle(self, endings: Sequence[MoveResult]) -> Cycle:
        return Cycle(planner(self.document), self.snapshot(), by_chance(self.seed, endings))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    world, document = draw(clusters(min_nodes=2)), draw(policies(plugins={EAGER: [{}]}))
    uids = sorted(
        manifest["metadata"]["uid"] for manifest in world.objects if manifest["kind"] == "Pod"
    )
    moving = draw(st.sets(st.sampled_from(uids), max_size=2)) if uids else set()
    return Case(world, document, frozenset(moving), draw(st.integers(0, 2**32)))


@THOROUGH
@given(cases())
def test_no_limit_is_exceeded(case: Case) -> None:
    """Pods that were on their way count; where they alone exceed a limit, no other pod follows."""
    cycle = case.cycle(ANY)
    groups: dict[str, Callable[[Pod], str]] = {
        "maxNoOfPodsToEvictTotal": lambda it: "all",
        "maxNoOfPodsToEvictPerNode": lambda it: it.node,
        "maxNoOfPodsToEvictPerNamespace": lambda it: it.namespace,
    }

    for key, group in groups.items():
        limit, left = case.document.get(key), Counter(map(group, cycle.away + cycle.made))
        for where in {group(pod) for pod in cycle.made}:
            assert limit is None or left[where] <= limit, (key, where)


@THOROUGH
@given(cases())
def test_no_share_of_the_cluster_is_exceeded(case: Case) -> None:
    document, cycle = case.document, case.cycle(ANY)
    if document["apiVersion"] != "resettle/v1" or not cycle.made:
        return
    plan, left = cycle.plans[0], cycle.away + cycle.made
    numbered = "maxNoOfPodsToEvictTotal" in document
    pods = document.get("maxPercentOfPodsToEvict", 100 if numbered else 1)
    nodes = document.get("maxPercentOfNodesToEvictFrom", 5)
    most = max(len(nodes_of(cycle.away)), 1, ceil(nodes * plan.nodes_in_scope / 100))

    assert len(left) <= max(1, ceil(pods * plan.pods / 100))
    assert len(nodes_of(left)) <= most


def nodes_of(pods: list[Pod]) -> set[str]:
    return {pod.node for pod in pods if pod.node}


@THOROUGH
@given(cases())
def test_no_budget_is_overspent(case: Case) -> None:
    """Of pods that run and are ready, for which a budget pays in any case."""
    cycle = case.cycle(ANY)
    paid: Counter[str] = Counter()
    for pod in cycle.made:
        if pod.state.ready and pod.state.phase == "Running" and not pod.terminating:
            paid.update(budget.key for budget in cycle.snapshot.budgets_of(pod))

    allowed = {budget.key: budget.disruptions_allowed for budget in cycle.snapshot.budgets.values()}
    assert {key: count for key, count in paid.items() if count > allowed[key]} == {}


@THOROUGH
@given(cases())
def test_no_pod_is_asked_twice_whatever_the_answer_was(case: Case) -> None:
    cycle = case.cycle(ANY)
    uids = [move.pod.uid for move, _ in cycle.moved]

    assert len(uids) == len(set(uids))
    assert case.moving.isdisjoint(uids)
    assert [plan.errors for plan in cycle.plans if plan.errors] == []


@THOROUGH
@given(cases())
def test_with_nothing_declined_there_is_nothing_left_to_do(case: Case) -> None:
    assert all(names == [] for names in case.cycle(COUNTING).names[1:])


@THOROUGH
@given(cases())
def test_an_objection_leaves_no_trace(case: Case) -> None:
    judge = by_chance(case.seed, ANY)
    plain = Cycle(planner(case.document), case.snapshot(), judge)
    judge = by_chance(case.seed, ANY)
    asked = Cycle(questioned(planner(case.document)), case.snapshot(), judge)

    assert asked.names == plain.names
    assert list(map(account_of, asked.plans)) == list(map(account_of, plain.plans))


def account_of(plan: Plan) -> tuple[object, ...]:
    """What a plan says of itself, but for the turns of those who only ask."""
    return plan.refused, plan.spent, [run for run in plan.runs if run.plugin != "Curious"]
