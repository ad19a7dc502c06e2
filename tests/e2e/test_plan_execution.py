"""Plans of `resettle/v1`, carried out on a real control plane: where do the pods end up?

Fifty random clusters grow on the API server, one after another. Of each a plan is drawn; its pods
are evicted in the order of the plan, the next one once the one before has its replacement, and
controllers and scheduler do the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

import pytest

from resettle.kube.auth.kubeconfig import read_kubeconfig
from tests.e2e.random_clusters.execution import Landed, carried_out, circumstances
from tests.e2e.random_clusters.policies import BALANCE, DESCHEDULE
from tests.e2e.random_clusters.scenario_cluster import Settlement
from tests.e2e.random_clusters.scenarios import grown
from tools.control_plane.papers import ADMIN, QUIET
from tools.control_plane.plane import Access

CLUSTERS = 50
AT_LEAST = 250
"""Moves, over all clusters; fewer prove little."""

Plans = dict[int, list[Landed]]


@pytest.fixture(scope="module")
def plans(plane: Access) -> Plans:
    """What became of each move of each cluster's plan, by the number of the cluster."""
    access = read_kubeconfig(str(plane.papers.kubeconfig(ADMIN)))
    found: Plans = {}
    with plane.api(QUIET) as api:
        for seed in range(CLUSTERS):
            cluster = grown(seed)
            with Settlement(api, cluster) as settlement:
                found[seed] = carried_out(settlement, access, cluster.policy, patient=True)
    return found


@pytest.fixture(scope="module")
def moved(plans: Plans) -> list[Landed]:
    """All of them together."""
    return list(chain.from_iterable(plans.values()))


def test_the_figures_are_told(
    plans: Plans, moved: list[Landed], plane: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "\n".join([*figures(moved), *exceptions(plans)])
    (plane.folder / "carried-out.txt").write_text(f"{told}\n")
    with capsys.disabled():
        print(f"\n{told}")

    assert len(moved) >= AT_LEAST


@pytest.mark.parametrize("strategy", [*DESCHEDULE, *BALANCE])
def test_every_strategy_has_its_part(strategy: str, moved: list[Landed]) -> None:
    assert any(it.move.plugin == strategy for it in moved)


def test_every_eviction_is_granted(moved: list[Landed]) -> None:
    declined = [f"{it}: {it.answer}" for it in moved if not it.answer.fine]

    assert not declined, "\n".join(declined)


def test_nobody_is_left_without_a_node(moved: list[Landed]) -> None:
    waiting = [str(it) for it in moved if not it.node]

    assert not waiting, "\n".join(waiting)


def test_99_of_100_land_on_another_node(plans: Plans, moved: list[Landed]) -> None:
    elsewhere = sum(not it.came_back for it in moved)

    assert elsewhere / len(moved) >= 0.99, "\n".join(exceptions(plans))


def test_those_that_come_back_were_not_alone(plans: Plans) -> None:
    without = [
        f"cluster {seed}: {it}"
        for seed, landed in plans.items()
        for it in landed
        if it.came_back and not circumstances(it, landed)
    ]

    assert not without, "\n".join(without)


def test_most_land_where_the_plan_said(moved: list[Landed]) -> None:
    assert sum(it.as_foretold for it in moved) / len(moved) > 0.6


def figures(moved: Iterable[Landed]) -> Iterator[str]:
    """How many went where, by strategy."""
    groups: dict[str, list[Landed]] = {}
    for it in moved:
        groups.setdefault(it.move.plugin, []).append(it)
        groups.setdefault("all", []).append(it)
    yield f"{'':45}{'moved':>8}{'elsewhere':>11}{'as foretold':>13}{'back':>6}{'waiting':>9}"
    for name, them in sorted(groups.items()):
        counts = Counter(_end_of(it) for it in them)
        elsewhere = counts["elsewhere"]
        foretold = sum(it.as_foretold for it in them)
        row = f"{len(them):>8}{elsewhere:>11}{foretold:>13}{counts['back']:>6}"
        yield f"{name:45}{row}{counts['waiting']:>9}"


def _end_of(it: Landed) -> str:
    if not it.node:
        return "waiting"
    return "back" if it.came_back else "elsewhere"


def exceptions(plans: Plans) -> Iterator[str]:
    """Each pod that is on no other node, and why."""
    for seed, landed in plans.items():
        for it in landed:
            if it.came_back or not it.node:
                yield f"cluster {seed}: {it}: {circumstances(it, landed) or 'nobody knows why'}"
