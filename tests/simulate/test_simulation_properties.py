"""What holds for every simulation, whatever the cluster and the policy."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from hypothesis import given, settings

from resettle.model.resources import in_resource_unit
from resettle.model.snapshot import Snapshot
from resettle.simulate.scheduler import is_replaced, is_tied_to_node
from resettle.simulate.simulation import Simulation
from resettle.testing import World
from tests.builders import Case, cases
from tests.simulate.harness import planner

THOROUGH = settings(max_examples=60, deadline=None, derandomize=True, database=None)
CYCLES = 4


def simulation(case: Case) -> Simulation:
    return Simulation(planner(case.document), World(case.objects).snapshot(), timedelta(minutes=5))


def may_end(snapshot: Snapshot) -> set[str]:
    """Pods that are not created again, or only for their own node."""
    return {
        pod.key
        for pod in snapshot.pods
        if not is_replaced(pod) or is_tied_to_node(pod) or pod.terminating
    }


@THOROUGH
@given(cases())
def test_no_pod_is_lost_or_doubled(case: Case) -> None:
    run = simulation(case)
    before = {pod.key for pod in run.snapshot.pods}
    mortal = may_end(run.snapshot)

    for _ in range(CYCLES):
        cycle = run.run_cycle()
        keys = Counter(pod.key for pod in run.snapshot.pods)

        assert set(keys) <= before
        assert before - set(keys) <= mortal
        assert max(keys.values(), default=1) == 1
        assert len({landing.pod.key for landing in cycle.moves}) == len(cycle.moves)


@THOROUGH
@given(cases())
def test_every_pod_that_lands_fits_unless_it_was_there_before(case: Case) -> None:
    run = simulation(case)

    for _ in range(CYCLES):
        homes = {pod.key: pod.node for pod in run.snapshot.pods}
        run.run_cycle()
        now = run.snapshot
        for node in now.node_index:
            came = [pod for pod in now.active_on(node) if homes[pod.key] != node.name]
            asked = {name for pod in came for name in pod.spec.requests}
            used = now.requests_on(node)
            for name in asked | ({"pods"} if came else set()):
                offer = (node.allocatable or node.capacity).get(name, 0)
                assert in_resource_unit(name, used.get(name, 0)) <= in_resource_unit(name, offer)


@THOROUGH
@given(cases())
def test_what_a_cycle_reports_is_what_the_next_one_finds(case: Case) -> None:
    run = simulation(case)

    for number in range(1, CYCLES + 1):
        cycle = run.run_cycle()
        nodes = {pod.key: pod.node for pod in run.snapshot.pods}

        assert cycle.number == number
        assert cycle.waiting == sum(
            not pod.node and not pod.finished and not pod.terminating for pod in run.snapshot.pods
        )
        for landing in cycle.moves:
            assert nodes.get(landing.pod.key, "") == (landing.node or "")
        for arrival in cycle.newly_scheduled:
            moved_on = {landing.pod.key for landing in cycle.moves}
            assert arrival.pod.key in moved_on or nodes[arrival.pod.key] == arrival.node
