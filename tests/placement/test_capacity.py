"""What nodes have left: bitmaps by amount, kept true while amounts change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resettle.model.node_index import NodeIndex
from resettle.model.objects import Node
from resettle.placement.capacity import FreeResource

NODES = 6
NODE_INDEX = NodeIndex([Node(f"n{i}", {}) for i in range(NODES)])

amounts = st.integers(-5, 5)
questions = st.tuples(st.just("ask"), amounts, st.just(0))
changes = st.tuples(st.just("change"), st.integers(0, NODES - 1), amounts)


@given(
    left=st.lists(amounts, min_size=NODES, max_size=NODES),
    steps=st.lists(st.one_of(questions, changes), max_size=40),
)
def test_who_has_enough_is_always_who_has_that_much_left(
    left: list[int], steps: list[tuple[str, int, int]]
) -> None:
    free_resource = FreeResource(NODE_INDEX, list(left))

    for what, first, by in steps:
        if what == "change":
            left[first] += by
            free_resource.add(first, by)
        else:
            expected = {f"n{i}" for i, amount in enumerate(left) if amount >= first}
            assert {
                node.name for node in NODE_INDEX.members(free_resource.at_least(first))
            } == expected
    assert free_resource.free == left
