"""Recent evictions: what counts, how long, and that it counts once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from resettle.eviction.recent import RecentEvictions
from resettle.framework import Move, MoveResponse, MoveResult
from resettle.model.workloads import Eviction
from resettle.testing import NOW, cluster, pod

MINUTE = timedelta(minutes=1)


def kept_for(minutes: int) -> RecentEvictions:
    """Evictions that are kept for so long."""
    recent = RecentEvictions()
    recent.keep_for(minutes * MINUTE)
    return recent


def test_evictions_are_kept_for_a_while_oldest_first() -> None:
    recent = kept_for(5)
    recent.add("rs", "shop", NOW, "b")
    recent.add("rs", "shop", NOW - MINUTE, "a")

    assert [eviction.pod for eviction in recent.until(NOW)] == ["a", "b"]
    assert [eviction.pod for eviction in recent.until(NOW + 5 * MINUTE)] == ["b"]
    assert recent.until(NOW + 6 * MINUTE) == ()


def test_a_pod_counts_once_whoever_reports_it() -> None:
    recent = kept_for(5)
    recent.add("rs", "shop", NOW, "a")
    recent.add("rs", "shop", NOW + MINUTE, "a")
    recent.add("rs", "shop", NOW)
    recent.add("rs", "shop", NOW)

    assert len(recent.until(NOW)) == 2


def test_nothing_is_kept_where_no_plugin_looks_back() -> None:
    recent = kept_for(5)
    recent.add("rs", "shop", NOW, "a")
    recent.keep_for(timedelta())
    recent.add("rs", "shop", NOW, "b")

    assert recent.until(NOW) == ()


@pytest.mark.parametrize(
    ("result", "counts"),
    [
        (MoveResult.EVICTED, True),
        (MoveResult.BACKGROUND, True),
        (MoveResult.UNKNOWN, True),
        (MoveResult.BUDGET, False),
        (MoveResult.SHOWN, False),
    ],
)
def test_moves_count_by_their_result(result: MoveResult, counts: bool) -> None:
    (moved,) = cluster(pod("p", namespace="shop")).snapshot().pods
    recent = kept_for(5)

    recent.add_moves([Move(moved, "P", "main", "why")], [MoveResponse(result)], NOW)

    made = Eviction("uid-shop-p", "uid-shop-ReplicaSet-web", "shop", NOW)
    assert recent.until(NOW) == ((made,) if counts else ())


def test_as_long_as_nothing_changes_the_answer_is_the_same_object() -> None:
    recent = kept_for(5)
    recent.add("rs", "shop", NOW, "a")

    assert recent.until(NOW) is recent.until(NOW + MINUTE)
