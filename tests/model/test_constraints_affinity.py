"""Required node affinity: operators, terms, fields, and how they go together."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.testing import cluster, node, pod

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODES = [
    node("n1", labels={"disk": "ssd", "cores": "8"}),
    node("n2", labels={"disk": "hdd", "cores": "16"}),
    node("n3", labels={"cores": "many"}),
    node("n4"),
]
ALL = {"n1", "n2", "n3", "n4"}


def expressions(*rows: tuple[str, str, list[str]]) -> Object:
    return {"matchExpressions": [{"key": k, "operator": op, "values": v} for k, op, v in rows]}


def fields(*rows: tuple[str, str, list[str]]) -> Object:
    return {"matchFields": [{"key": k, "operator": op, "values": v} for k, op, v in rows]}


def welcoming(terms: list[Object] | None, selector: dict[str, str] | None = None) -> set[str]:
    """Names of the nodes that the affinity and the node selector allow."""
    affinity = {} if terms is None else {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    snapshot = cluster(*NODES, pod("it", affinity=affinity, node_selector=selector)).snapshot()
    (subject,) = snapshot.pods
    nodes = snapshot.node_index.matching_node_affinity(subject.spec.demand, "")
    return {node.name for node in snapshot.node_index.members(nodes)}


@pytest.mark.parametrize(
    ("row", "nodes"),
    [
        pytest.param(("disk", "In", ["ssd"]), {"n1"}, id="In"),
        pytest.param(("disk", "In", ["ssd", "hdd"]), {"n1", "n2"}, id="In several"),
        pytest.param(("disk", "NotIn", ["ssd"]), {"n2", "n3", "n4"}, id="NotIn, or absent"),
        pytest.param(("disk", "Exists", []), {"n1", "n2"}, id="Exists"),
        pytest.param(("disk", "DoesNotExist", []), {"n3", "n4"}, id="DoesNotExist"),
        pytest.param(("cores", "Gt", ["8"]), {"n2"}, id="Gt"),
        pytest.param(("cores", "Gt", ["7"]), {"n1", "n2"}, id="Gt compares numbers"),
        pytest.param(("cores", "Lt", ["16"]), {"n1"}, id="Lt"),
        pytest.param(("cores", "Lt", ["17"]), {"n1", "n2"}, id="Lt leaves out what is no number"),
        pytest.param(("disk", "In", []), set(), id="In without values"),
        pytest.param(("disk", "Exists", ["ssd"]), set(), id="Exists with values"),
        pytest.param(("cores", "Gt", ["8", "9"]), set(), id="Gt with two values"),
        pytest.param(("cores", "Gt", ["few"]), set(), id="Gt with no number"),
        pytest.param(("disk", "Like", ["ssd"]), set(), id="unknown operator"),
        pytest.param(("-", "Exists", []), set(), id="no label key"),
    ],
)
def test_each_operator_allows_its_nodes(row: tuple[str, str, list[str]], nodes: set[str]) -> None:
    assert welcoming([expressions(row)]) == nodes


@pytest.mark.parametrize(
    ("row", "nodes"),
    [
        pytest.param(("metadata.name", "In", ["n2"]), {"n2"}, id="by name"),
        pytest.param(("metadata.name", "NotIn", ["n2"]), ALL - {"n2"}, id="all but one"),
        pytest.param(("metadata.name", "In", ["n9"]), set(), id="no such node"),
        pytest.param(("metadata.name", "In", ["n1", "n2"]), set(), id="two names are not allowed"),
        pytest.param(("metadata.name", "Exists", []), set(), id="other operators are not allowed"),
        pytest.param(("metadata.uid", "In", ["n2"]), set(), id="other fields are not allowed"),
    ],
)
def test_a_node_may_be_named(row: tuple[str, str, list[str]], nodes: set[str]) -> None:
    assert welcoming([fields(row)]) == nodes


SSD = ("disk", "In", ["ssd"])
MANY = ("cores", "In", ["many"])
BROKEN = ("disk", "Like", ["ssd"])


@pytest.mark.parametrize(
    ("terms", "nodes"),
    [
        pytest.param(None, ALL, id="no affinity"),
        pytest.param([], set(), id="no term matches nothing"),
        pytest.param([{}], set(), id="an empty term matches nothing"),
        pytest.param([{}, expressions(SSD)], {"n1"}, id="an empty term beside another"),
        pytest.param([expressions(SSD), expressions(MANY)], {"n1", "n3"}, id="any term will do"),
        pytest.param([expressions(SSD, MANY)], set(), id="all of a term must hold"),
        pytest.param(
            [expressions(SSD) | fields(("metadata.name", "In", ["n1"]))],
            {"n1"},
            id="labels and name",
        ),
        pytest.param(
            [expressions(SSD) | fields(("metadata.name", "In", ["n2"]))], set(), id="labels or name"
        ),
        pytest.param(
            [expressions(BROKEN), expressions(SSD)], {"n1"}, id="an unreadable term beside one"
        ),
        pytest.param([expressions(BROKEN, SSD)], set(), id="an unreadable row spoils its term"),
    ],
)
def test_terms_are_alternatives(terms: list[Object] | None, nodes: set[str]) -> None:
    assert welcoming(terms) == nodes


@pytest.mark.parametrize(
    ("selector", "nodes"),
    [
        pytest.param(None, {"n1", "n2"}, id="no selector"),
        pytest.param({}, {"n1", "n2"}, id="an empty selector"),
        pytest.param({"disk": "ssd"}, {"n1"}, id="both must hold"),
        pytest.param({"disk": "ssd", "cores": "16"}, set(), id="all entries must hold"),
        pytest.param({"cores": "many"}, set(), id="selector elsewhere"),
    ],
)
def test_the_node_selector_must_hold_as_well(
    selector: dict[str, str] | None, nodes: set[str]
) -> None:
    assert welcoming([expressions(("disk", "Exists", []))], selector) == nodes
