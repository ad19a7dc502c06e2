"""A page in portions holds what it held as a whole, wherever it is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resettle.kube.watch import lists as module
from resettle.kube.watch.lists import split_page

SEPARATOR = '},{"metadata":{'


def page(items: list[Any]) -> bytes:
    head = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}
    return json.dumps({**head, "items": items}, separators=(",", ":")).encode()


def item(name: str, note: str = "") -> dict[str, Any]:
    ports = [{"metadata": 1}, {"metadata": 2}]
    return {"metadata": {"name": name, "note": note}, "spec": {"ports": ports}, "status": {}}


@given(
    notes=st.lists(st.text() | st.just(SEPARATOR) | st.just(SEPARATOR * 3)),
    size=st.integers(0, 300),
)
def test_portions_make_up_the_page(notes: list[str], size: int) -> None:
    items = [item(f"pod-{i}", note) for i, note in enumerate(notes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PORTION_BYTES", size)
        read = [json.loads(item) for item in split_page(page(items))]

    assert [item for portion in read for item in portion["items"]] == items
    assert read[0]["metadata"] == {"resourceVersion": "7"}
    assert all(portion["metadata"] == {} for portion in read[1:])


def test_a_portion_is_no_longer_than_it_should_be() -> None:
    items = [item(f"pod-{i}", "x" * 10_000) for i in range(100)]
    longest = module.PORTION_BYTES + 2 * len(json.dumps(items[0]))

    cut = list(split_page(page(items)))

    assert len(cut) > 8
    assert max(map(len, cut)) < longest


@pytest.mark.parametrize(
    "whole",
    [
        pytest.param(page([]), id="empty"),
        pytest.param(page([item("a"), item("b")]), id="short"),
        pytest.param(
            page([{"kind": "Widget", **item(str(i), "x" * 90_000)} for i in range(9)]),
            id="items that begin otherwise",
        ),
        pytest.param(
            json.dumps(json.loads(page([item(str(i), "x" * 90_000) for i in range(9)]))).encode(),
            id="with blanks in between",
        ),
    ],
)
def test_what_is_short_or_written_otherwise_stays_in_one_piece(whole: bytes) -> None:
    assert list(split_page(whole)) == [whole]
