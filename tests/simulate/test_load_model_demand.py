"""What each pod wants goes with it, and what a query says of nodes follows from that."""

from __future__ import annotations

import pytest

from resettle.model.measurements import PROMETHEUS, MetricsQuery
from resettle.simulate.load_model import CpuDemand, pressure, use
from resettle.simulate.simulation import Simulation
from resettle.testing import NOW, World, cluster, node, pod, query_answer
from tests.simulate.harness import FIVE_MINUTES, scripted

BUSY = MetricsQuery(PROMETHEUS, "busy")


@pytest.mark.parametrize(
    ("wanted", "cores", "in_use", "waits"),
    [
        pytest.param(0, 8, 0, 0, id="no demand"),
        pytest.param(4, 8, 0.5, 0, id="half full"),
        pytest.param(8, 8, 1, 0, id="just full"),
        pytest.param(10, 8, 1, 0.2, id="a fifth has to wait"),
        pytest.param(32, 8, 1, 0.75, id="three quarters have to"),
        pytest.param(4, 0, 1, 1, id="a node without cpu"),
    ],
)
def test_use_ends_at_one_and_pressure_begins_there(
    wanted: float, cores: float, in_use: float, waits: float
) -> None:
    assert (use(wanted, cores), pressure(wanted, cores)) == pytest.approx((in_use, waits))


def two() -> World:
    """`hot` with four pods, `cold` with none."""
    pods = [pod(f"p{i}", cpu="500m") for i in range(4)]
    return cluster(node("hot", cpu="8").holding(*pods), node("cold", cpu="8"))


def figures(simulation: Simulation) -> dict[str, float]:
    samples = simulation.snapshot.usage[BUSY].figures
    return {sample.node: round(sample.number, 6) for sample in samples}


def test_a_pod_takes_along_what_it_wants_and_gets_what_there_is() -> None:
    wants = CpuDemand({"default/p0": 6, "default/p1": 3.5}, {BUSY: "Use"})
    simulation = Simulation(scripted({1: ["p0"]}), two().snapshot(), FIVE_MINUTES, demand=wants)

    assert figures(simulation) == {"hot": 1.0, "cold": 0.0}, "from the very start"
    simulation.run_cycle()
    assert figures(simulation) == {"hot": 0.5625, "cold": 0.75}, "unnamed ones want what they ask"
    assert {sample.at for sample in simulation.snapshot.usage[BUSY].figures} == {NOW + FIVE_MINUTES}


def test_what_pods_want_counts_for_more_than_what_was_measured() -> None:
    world = World((*two().objects, query_answer("busy", {"hot": 0.1, "cold": 0.9})))
    wants = CpuDemand({"default/p0": 14.5}, {BUSY: "Pressure"})
    simulation = Simulation(scripted(), world.snapshot(), FIVE_MINUTES, demand=wants)

    assert figures(simulation) == {"hot": 0.5, "cold": 0.0}


def test_a_simulation_answers_the_query_of_its_policy() -> None:
    wants = CpuDemand({"default/p0": 14.5}, {BUSY: "Pressure"})
    simulation = Simulation(scripted(), two().snapshot(), FIVE_MINUTES, demand=wants)

    assert simulation.loads["hot"].measured is None, "no policy asks"
