"""Limits over time: when the next pod of a workload may be moved."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from resettle.framework.view import View
from resettle.model.semantics import IMPROVED
from resettle.model.workloads import Eviction
from resettle.plugins.migration_limits import PLUGIN
from resettle.plugins.migration_limits.args import Args
from resettle.plugins.migration_limits.rules import MovesInView
from resettle.plugins.migration_limits.workload_limits import Rate, limit_of
from resettle.policy.profiles import build_args
from resettle.testing import NOW

from .builders import pods, web, world

SECOND = timedelta(seconds=1)
TWO_IN_TEN = Rate(2, 10 * SECOND, 1)


@pytest.mark.parametrize(
    ("rate", "ago", "wait"),
    [
        pytest.param(TWO_IN_TEN, [], 0, id="the first"),
        pytest.param(TWO_IN_TEN, [0], 5, id="right after another"),
        pytest.param(TWO_IN_TEN, [3], 2, id="a while after"),
        pytest.param(TWO_IN_TEN, [5], 0, id="after half of the time"),
        pytest.param(TWO_IN_TEN, [100, 0], 5, id="tokens are not saved up"),
        pytest.param(Rate(2, 10 * SECOND, 2), [0], 0, id="a burst of two"),
        pytest.param(Rate(2, 10 * SECOND, 2), [0, 0], 5, id="after the burst"),
        pytest.param(TWO_IN_TEN, [0, 0, 0], 5, id="moves by others take no credit"),
        pytest.param(TWO_IN_TEN, [-3], 5, id="in the future, by a clock that is wrong"),
    ],
)
def test_the_next_move_waits(rate: Rate, ago: list[int], wait: int) -> None:
    times = [NOW - seconds * SECOND for seconds in ago]

    assert rate.wait(times, NOW).total_seconds() == pytest.approx(wait, abs=0.01)


def test_five_moves_are_at_least_five_seconds_apart() -> None:
    times = [NOW]
    now = NOW
    while len(times) < 5:
        now += SECOND / 2
        if not TWO_IN_TEN.wait(times, now):
            times.append(now)

    assert min(b - a for a, b in pairwise(times)) >= 5 * SECOND


def test_the_default_limit_never_falls() -> None:
    limits = [limit_of(None, desired) for desired in range(200)]

    assert limits == sorted(limits)


def evicted(uid: str, seconds: int, owner: str = "ReplicaSet-web-1") -> Eviction:
    """A pod of the Deployment that was evicted so long ago."""
    return Eviction(uid, f"uid-default-{owner}", "default", NOW - seconds * SECOND)


LIMITED = {"workload": {"duration": "10s", "maxMigrating": 2}}
OF_NAMESPACE = {"namespace": {"duration": "10s", "maxMigrating": 2}}


@pytest.mark.parametrize(
    ("limiters", "evictions", "code"),
    [
        pytest.param(LIMITED, [], None, id="none before"),
        pytest.param(LIMITED, [evicted("a", 1)], "rate-workload", id="a second ago"),
        pytest.param(LIMITED, [evicted("a", 5)], None, id="half of the time ago"),
        pytest.param(LIMITED, [evicted("a", 1, "ReplicaSet-other")], None, id="of another"),
        pytest.param(LIMITED, [evicted("uid-default-web-1-0", 1)], None, id="the pod itself"),
        pytest.param(OF_NAMESPACE, [evicted("a", 1, "x")], "rate-namespace", id="a namespace"),
        pytest.param(
            {"workload": {"duration": "0s"}, **OF_NAMESPACE},
            [evicted("a", 1)],
            "rate-namespace",
            id="a limiter that is off does not end the others",
        ),
    ],
)
def test_evictions_of_the_last_minutes_count(
    limiters: dict[str, Any], evictions: list[Eviction], code: str | None
) -> None:
    snapshot = replace(world(pods(3), *web(3)).snapshot(), evictions=tuple(evictions))
    args = build_args(PLUGIN, {"objectLimiters": limiters})
    candidate = snapshot.pod("default", "web-1-0")
    assert isinstance(args, Args)
    assert candidate is not None

    refusal = MovesInView(args, View(snapshot, IMPROVED)).refusal(candidate)

    assert (refusal.code if refusal else None) == code
    assert refusal is None or refusal.temporary
