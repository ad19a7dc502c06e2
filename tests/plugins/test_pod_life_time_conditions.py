"""PodLifeTime's conditions: type, status, reason, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.model.pod import CONDITIONS
from resettle.plugins.pod_life_time import PLUGIN, Args, ConditionFilter
from resettle.testing import cluster, node, plan, pod
from resettle.testing.builders import before

Object = dict[str, Any]


def condition(
    type: str, status: str = "False", reason: str = "", since: str | None = "1h"
) -> Object:
    changed_at = {"lastTransitionTime": before(since)} if since else {}
    return {"type": type, "status": status, "reason": reason, **changed_at}


def leaves(conditions: list[Object], wanted: list[Object]) -> bool:
    made = pod("it", status={"conditions": conditions})
    world = cluster(node("n1").holding(made), node("n2"))
    return plan(PLUGIN, world, conditions=wanted).evicts != []


def test_conditions_are_read_only_where_some_are_named() -> None:
    assert PLUGIN.reads(Args(states=("Running",))) == frozenset()
    assert PLUGIN.reads(Args(conditions=(ConditionFilter(type="Ready"),))) == {CONDITIONS}


READY = condition("Ready", "True")
UNREADY = condition("Ready", "False", "ContainersNotReady")
DONE = condition("Initialized", "True", "PodCompleted")


@pytest.mark.parametrize(
    ("conditions", "wanted", "goes"),
    [
        pytest.param([READY], [{"type": "Ready"}], True, id="type"),
        pytest.param([READY], [{"type": "ready"}], False, id="type in another case"),
        pytest.param([], [{"type": "Ready"}], False, id="no condition at all"),
        pytest.param([READY], [{"status": "True"}], True, id="status"),
        pytest.param([READY], [{"status": "False"}], False, id="other status"),
        pytest.param([UNREADY], [{"reason": "ContainersNotReady"}], True, id="reason"),
        pytest.param([UNREADY], [{"reason": "PodCompleted"}], False, id="other reason"),
        pytest.param([UNREADY], [{"type": "Ready", "status": "False"}], True, id="type and status"),
        pytest.param([READY], [{"type": "Ready", "status": "False"}], False, id="status differs"),
        pytest.param(
            [UNREADY, DONE],
            [{"type": "Ready", "reason": "PodCompleted"}],
            False,
            id="all fields of one and the same condition",
        ),
        pytest.param([READY, DONE], [{"reason": "PodCompleted"}], True, id="any condition will do"),
        pytest.param(
            [READY], [{"type": "Initialized"}, {"type": "Ready"}], True, id="any filter will do"
        ),
    ],
)
def test_every_field_that_is_set_must_agree(
    conditions: list[Object], wanted: list[Object], goes: bool
) -> None:
    assert leaves(conditions, wanted) is goes


@pytest.mark.parametrize(
    ("since", "goes"),
    [
        pytest.param("599s", False, id="too recent"),
        pytest.param("600s", True, id="exactly long enough leaves"),
        pytest.param("1h", True, id="long ago"),
        pytest.param("-5m", False, id="in the future"),
        pytest.param(None, False, id="unknown"),
    ],
)
def test_a_condition_may_have_to_last(since: str | None, goes: bool) -> None:
    wanted = {"type": "Ready", "minTimeSinceLastTransitionSeconds": 600}

    assert leaves([condition("Ready", since=since)], [wanted]) is goes


@pytest.mark.parametrize(
    ("wanted", "goes"),
    [
        pytest.param(
            {"minTimeSinceLastTransitionSeconds": 600}, True, id="any condition that lasts"
        ),
        pytest.param(
            {"type": "Ready", "minTimeSinceLastTransitionSeconds": 600},
            False,
            id="only the one meant",
        ),
        pytest.param({"type": "Ready"}, True, id="time not asked for"),
        pytest.param(
            {"type": "Ready", "minTimeSinceLastTransitionSeconds": 0},
            True,
            id="zero seconds suffice",
        ),
    ],
)
def test_the_time_is_that_of_the_condition_meant(wanted: Object, goes: bool) -> None:
    recent_and_old = [condition("Ready", since="10s"), condition("Initialized", since="1h")]

    assert leaves(recent_and_old, [wanted]) is goes


def test_a_condition_of_unknown_time_matches_where_time_is_not_asked_for() -> None:
    assert leaves([condition("Ready", since=None)], [{"type": "Ready"}])
    assert not leaves(
        [condition("Ready", since=None)],
        [{"type": "Ready", "minTimeSinceLastTransitionSeconds": 0}],
    )
