"""Whatever happens, in whatever order: the past is shown as it was, and watches add up to lists."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from resettle.testing import ManualClock, pod
from resettle.testing.api_server.objects.patches import (
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from resettle.testing.api_server.storage.lists import selection
from resettle.testing.api_server.storage.revisions import Storage, StoredObject
from resettle.testing.api_server.storage.store import Store
from resettle.testing.api_server.storage.watch import Watch

SOME = settings(deadline=None, derandomize=True, database=None)
NAMES = ("a", "b", "c", "d")
COLOURS = ("red", "blue")

Step = tuple[str, str, str]
steps = st.lists(
    st.tuples(st.sampled_from(["put", "delete"]), st.sampled_from(NAMES), st.sampled_from(COLOURS)),
    max_size=30,
)


def take(store: Store, step: Step) -> None:
    act, name, colour = step
    if act == "put":
        store.put(pod(name, labels={"colour": colour}))
    else:
        store.delete("Pod", name)


def seen(entries: list[StoredObject]) -> dict[str, str]:
    return {entry.key: entry.meta["resourceVersion"] for entry in entries}


@SOME
@given(steps=steps)
def test_a_list_of_the_past_is_what_the_list_was_then(steps: list[Step]) -> None:
    ledger = Storage(ManualClock())
    store = Store(ledger)
    pods = ledger.catalogue.of_kind("Pod")
    lists = {ledger.version: seen(ledger.entries(pods))}
    for step in steps:
        take(store, step)
        lists[ledger.version] = seen(ledger.entries(pods))

    assert {item: seen(ledger.entries(pods, item)) for item in lists} == lists


@SOME
@given(
    before=steps,
    after=steps,
    labels=st.sampled_from(["", "colour=red", "colour notin (red)"]),
    turns=st.lists(st.booleans(), min_size=30, max_size=30),
)
def test_a_list_and_its_watch_add_up_to_the_next_list(
    before: list[Step], after: list[Step], labels: str, turns: list[bool]
) -> None:
    ledger = Storage(ManualClock())
    store = Store(ledger)
    pods = ledger.catalogue.of_kind("Pod")
    chosen = selection(pods, "", {"labelSelector": labels})
    for step in before:
        take(store, step)
    cache = {
        entry.meta["name"]: entry.meta["resourceVersion"]
        for entry in ledger.entries(pods)
        if chosen.selects(entry)
    }
    watch = Watch(ledger, pods, chosen, {"resourceVersion": str(ledger.version)})
    follow(cache, watch.first())

    for step, listens in zip(after, turns, strict=False):
        take(store, step)
        if listens:
            follow(cache, watch.news())
    follow(cache, watch.news())

    assert cache == {
        entry.meta["name"]: entry.meta["resourceVersion"]
        for entry in ledger.entries(pods)
        if chosen.selects(entry)
    }


def follow(cache: dict[str, str], lines: list[bytes]) -> None:
    """What a client does with the lines of a watch; an event that makes no sense is an error."""
    for line in lines:
        event = json.loads(line)
        meta = event["object"]["metadata"]
        assert (event["type"] == "ADDED") is (meta["name"] not in cache)
        if event["type"] == "DELETED":
            del cache[meta["name"]]
        else:
            cache[meta["name"]] = meta["resourceVersion"]


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x"]),
    lambda inner: st.dictionaries(st.sampled_from(["p", "q", "r"]), inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from(["p", "q", "r"]), plain, max_size=3)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(obj) for key, obj in value.items() if obj is not None}
    return value


@SOME
@given(old=documents, patch=documents)
def test_a_merge_patch_applied_twice_changes_nothing_more(
    old: dict[str, Any], patch: dict[str, Any]
) -> None:
    once = merge_patch(old, patch)

    assert merge_patch(once, patch) == once


@SOME
@given(old=documents, patch=documents)
def test_a_strategic_merge_without_lists_is_a_merge(
    old: dict[str, Any], patch: dict[str, Any]
) -> None:
    old = without_nulls(old)

    assert strategic_merge_patch(old, patch) == merge_patch(old, patch)


@SOME
@given(old=documents, new=documents)
def test_a_json_patch_can_lead_from_anywhere_to_anywhere(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    before = json.dumps(old)
    removals = [{"op": "remove", "path": f"/{key}"} for key in old]
    additions = [{"op": "add", "path": f"/{key}", "value": obj} for key, obj in new.items()]

    assert json_patch(old, [*removals, *additions]) == new
    assert json.dumps(old) == before
