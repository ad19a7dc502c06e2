"""130 virtual machines on 12 nodes, half of them saturated: they come to rest, and stay so."""

from __future__ import annotations

import pytest

from bench.machines import CYCLES, EXAMPLE, SEEDS, SETTINGS, Setting, builder, story_of
from resettle.framework import default_registry, load_policy
from resettle.simulate.load_model import FIGURES
from resettle.simulate.ping_pong import PING_PONG_CYCLES
from resettle.simulate.result import SimulationResult

STILL = 50
"""Cycles in which nothing may move any more."""
TAINTED = SETTINGS["`resettle/v1`, OpenShift's two"]
PLAIN = SETTINGS["`resettle/v1`, no taints"]
ALSO = SETTINGS["`resettle/v1`, one taint"]


def test_the_files_are_what_the_script_writes() -> None:
    made = builder().machines()

    assert (EXAMPLE / "cluster.json").read_text() == builder().cluster_text(made)
    assert (EXAMPLE / "loads.yaml").read_text() == builder().loads_text(made)


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_half_of_the_nodes_are_saturated(seed: int) -> None:
    machines = builder().machines(seed)
    wanted: dict[str, float] = {}
    for machine in machines:
        wanted[machine.node] = wanted.get(machine.node, 0) + machine.wants

    assert (len(machines), len(wanted)) == (130, 12)
    assert sum(cores > builder().CORES for cores in wanted.values()) == 6


@pytest.mark.parametrize("file", ["policy.yaml", "descheduler.yaml"])
def test_a_policy_has_no_problem_and_no_warning(file: str) -> None:
    text = (EXAMPLE / file).read_text(encoding="utf-8")

    assert load_policy(text, name=file, plugins=default_registry()).warnings == ()


def moved_again(result: SimulationResult) -> list[str]:
    """Pods that were moved within ten cycles of a move, counted by hand."""
    last: dict[str, int] = {}
    repeated = []
    for cycle in result.cycles:
        for landing in cycle.moves:
            key = landing.pod.key
            if cycle.number - last.get(key, -PING_PONG_CYCLES - 1) <= PING_PONG_CYCLES:
                repeated.append(key)
            last[key] = cycle.number
    return repeated


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(TAINTED, id="two taints"),
        pytest.param(ALSO, id="one taint"),
        pytest.param(PLAIN, id="no taints"),
    ],
)
@pytest.mark.parametrize("seed", range(1, 7))
def test_it_comes_to_rest_and_stays_still(seed: int, setting: Setting, figure: str) -> None:
    result = story_of(setting, seed, figure)

    assert result.errors == ()
    assert result.settled_after is not None
    assert result.settled_after <= CYCLES - STILL
    assert result.returned == 0, "no move for nothing"
    assert moved_again(result) == []
    assert result.ping_pong == ()


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("seed", range(1, 7))
def test_with_taints_no_node_is_over_at_the_end(seed: int, figure: str) -> None:
    last = story_of(TAINTED, seed, figure).cycles[-1].plan

    assert [run.stopped.code for run in last.runs if run.stopped] == ["none-overutilized"]


@pytest.mark.parametrize("seed", range(1, 7))
def test_it_rests_without_an_hour_of_grace_too(seed: int) -> None:
    """Who moves is chosen so that the same do not move again; the policy need not forbid it."""
    result = story_of(TAINTED._replace(edit=("minPodAge: 1h", "minPodAge: 0s")), seed)

    assert result.settled_after is not None
    assert moved_again(result) == []
