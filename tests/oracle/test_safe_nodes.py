"""The places of a pod are the nodes that take it and where its move breaks nothing that held."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from random import Random

import pytest

from resettle.framework.view import View
from tests.oracle.clusters import cluster
from tests.oracle.scheduler import Oracle
from tests.oracle.test_feasible_nodes import movable, read

CLUSTERS = 120
AT_ONCE = 40


def disagreements(view: View, oracle: Oracle, case: str) -> Iterator[str]:
    """Each pod and node of which the two think differently, in words."""
    before = oracle.broken()
    node_index, projection = view.node_index, view.projection
    for pod in movable(view):
        # Violations of a pod on an unknown node are not known.
        if pod.node not in node_index.position:
            continue
        places = {node.name for node in node_index.members(projection.safe_nodes(pod))}
        for node in node_index.members(projection.feasible_nodes(pod)):
            after = copy(oracle)
            after.move(pod.key, node.name)
            new = sorted(after.broken() - before)
            if (node.name in places) != (not new):
                effect = new[0] if new else "nothing breaks"
                planner = "moves" if node.name in places else "spares"
                yield f"{case}: {pod.key} to {node.name}: the planner {planner} it, but {effect}"


@pytest.mark.parametrize("first", range(0, CLUSTERS, AT_ONCE))
def test_a_place_is_where_a_move_breaks_nothing_that_held(first: int) -> None:
    differences = [
        disagreement
        for seed in range(first, first + AT_ONCE)
        for objects in [cluster(Random(seed))]
        for disagreement in disagreements(read(objects), Oracle(objects), f"seed {seed}")
    ]
    assert not differences, "\n".join(differences)
