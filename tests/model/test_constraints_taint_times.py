"""When a taint was added is known of the node, and never parts taints that are equal."""

from __future__ import annotations

from datetime import datetime

import pytest

from resettle.errors import InputError
from resettle.model import Taint
from resettle.testing import NOW, cluster, node
from resettle.testing.builders import NodeBuilder, before

TAINT = Taint("dedicated", "NoSchedule", "batch")


def tainted(name: str, added: str | None) -> NodeBuilder:
    built = node(name, taints=[str(TAINT)])
    if added is not None:
        built.node["spec"]["taints"][0]["timeAdded"] = added
    return built


@pytest.mark.parametrize(
    ("added", "known"),
    [
        pytest.param(before("0s"), {TAINT: NOW}, id="with a time"),
        pytest.param("", {}, id="empty"),
        pytest.param(None, {}, id="without a time, as most taints"),
    ],
)
def test_the_time_stands_beside_the_taint(added: str | None, known: dict[Taint, datetime]) -> None:
    (tainted_node,) = cluster(tainted("n1", added)).snapshot().node_index

    assert tainted_node.taints == (TAINT,)
    assert tainted_node.tainted_at == known


def test_equal_taints_are_one_set_of_nodes_whenever_they_were_added() -> None:
    ages = [before("1m"), before("1h"), None]
    node_index = (
        cluster(*(tainted(f"n{i}", added) for i, added in enumerate(ages)), node("free"))
        .snapshot()
        .node_index
    )

    assert node_index.tainted == {TAINT: node_index.all_nodes & ~node_index.only("free")}


def test_a_time_that_is_none_is_an_error() -> None:
    with pytest.raises(InputError, match="`yesterday` is not a time"):
        cluster(tainted("n1", "yesterday")).snapshot()
