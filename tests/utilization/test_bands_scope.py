"""Which nodes are balanced: the control plane only where a policy names it."""

from __future__ import annotations

import pytest

from resettle.framework.view import View
from resettle.model.selectors import parse_selector
from resettle.model.semantics import IMPROVED, PARITY, Semantics
from resettle.testing import cluster, node
from resettle.utilization.bands import nodes_to_balance

ROLE = "node-role.kubernetes.io"


@pytest.mark.parametrize(
    ("selector", "semantics", "names"),
    [
        pytest.param("", IMPROVED, ["both", "worker"], id="left out unless a worker as well"),
        pytest.param("", PARITY, ["boss", "both", "old", "worker"], id="balanced as any"),
        pytest.param(f"{ROLE}/control-plane", IMPROVED, ["boss", "both"], id="named"),
        pytest.param(
            f"{ROLE}/control-plane notin (x)",
            IMPROVED,
            ["boss", "both", "worker"],
            id="named, and all the others too; the older role is not",
        ),
        pytest.param("pool=a", IMPROVED, [], id="selected by something else"),
        pytest.param("pool=a", PARITY, ["boss"], id="selected by something else, as any"),
    ],
)
def test_the_control_plane_is_balanced_only_where_it_is_named(
    selector: str, semantics: Semantics, names: list[str]
) -> None:
    world = cluster(
        node("worker"),
        node("boss", labels={f"{ROLE}/control-plane": "", "pool": "a"}),
        node("old", labels={f"{ROLE}/master": ""}),
        node("both", labels={f"{ROLE}/control-plane": "", f"{ROLE}/worker": ""}),
        node("gone", ready=False),
    )
    view = View(world.snapshot(), semantics, parse_selector(selector))

    assert [each.name for each in nodes_to_balance(view)] == names
