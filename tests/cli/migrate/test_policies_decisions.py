"""Policies as people write them give the decisions that were recorded from upstream.

tools/upstream_record made the record. Where upstream chooses at random, our choice may be in none
of its six runs; then an order of nodes and pods is searched under which both agree, as in
tests/parity: the order differs, not the rule.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import timedelta

import pytest

from resettle.framework import Descheduler, Draft, build_descheduler, default_registry
from resettle.model import Pod, Snapshot
from resettle.testing import NOW, World
from tests.cli.migrate.builders import digest, estate
from tests.cli.migrate.samples import FILES, policy_in, seed_of
from tests.cli.migrate.upstream_record import Recorded, read
from tests.parity.test_parity import MOST_ORDERS, evicted, shuffled

RECORDED = {record.file: record for record in read()}
OTHER_LOTS = {
    "01-flux-release-with-metrics.yaml": "LowNodeUtilization: which of three equals goes first, "
    "and so whether two of them are enough",
}
SOON = NOW + timedelta(seconds=5)
"""Upstream decided some seconds after its cluster was made."""


def planner(file: str) -> Descheduler:
    """What the policy of a file describes, mistakes taken as upstream takes them."""
    reading = policy_in(file).reading
    assert reading is not None
    return build_descheduler(reading.policy, default_registry())


def snapshot_of(file: str) -> Snapshot:
    return World(estate(seed_of(file)), SOON).snapshot()


@pytest.mark.parametrize("file", FILES)
def test_the_record_is_of_this_cluster(file: str) -> None:
    assert RECORDED[file].cluster == digest(estate(seed_of(file))), (
        "the clusters have changed; record again: python -m tools.upstream_record.record"
    )
    assert all(RECORDED[file].runs), "upstream found pods to evict"


@pytest.mark.parametrize("file", FILES)
def test_a_plan_agrees_with_upstream(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record, descheduler, snapshot = RECORDED[file], planner(file), snapshot_of(file)
    if file not in OTHER_LOTS:
        ours = evicted(descheduler, snapshot)
        assert record.agrees(ours), differing(record, ours)
        return
    assert len(record.choices) > 1, differing(record, evicted(descheduler, snapshot))
    lots = random.Random(file)

    def shuffle(draft: Draft, pods: Iterable[Pod]) -> list[Pod]:
        candidates = list(pods)
        return lots.sample(candidates, len(candidates))

    monkeypatch.setattr(Draft, "presort", shuffle)
    tries = (evicted(descheduler, shuffled(snapshot, lots)) for _ in range(MOST_ORDERS))
    assert any(map(record.agrees, tries)), differing(record, evicted(descheduler, snapshot))


def differing(record: Recorded, ours: frozenset[str]) -> str:
    """What to look at when a plan does not agree."""
    always = frozenset.intersection(*record.choices)
    ever = frozenset.union(*record.choices)
    counts = sorted({len(choice) for choice in record.choices})
    return (
        f"{record.file}: ours {len(ours)}, upstream {counts}; "
        f"only ours: {sorted(ours - ever)}; missed: {sorted(always - ours)}"
    )
