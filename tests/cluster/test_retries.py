"""Which answers are worth another try, and after what pause."""

from __future__ import annotations

import pytest

from resettle.cluster.retries import TRIES, pause_before_retry
from resettle.cluster.statuses import Answer
from resettle.errors import ClusterUnreachable

from .test_statuses import BUDGET, EVACUATION, answer

OVERLOAD = answer(429, retryAfterSeconds=2)
STARTING = answer(503, retry_after=3.0)
NOBODY = ClusterUnreachable("nobody", nobody_there=True)


@pytest.mark.parametrize(
    ("method", "heard", "pause"),
    [
        pytest.param("GET", OVERLOAD, 2, id="429 to a read: when it says"),
        pytest.param("POST", OVERLOAD, 2, id="429 to an eviction: nothing was done"),
        pytest.param("POST", Answer(429, b"busy", 4.0), 4, id="429 in plain words"),
        pytest.param("POST", Answer(429, b"busy"), 1, id="429 without advice: a second"),
        pytest.param(
            "POST", answer(429, causes=[BUDGET], retryAfterSeconds=9), None, id="a budget"
        ),
        pytest.param("POST", answer(429, EVACUATION), None, id="a webhook"),
        pytest.param("GET", STARTING, 3, id="503 to a read"),
        pytest.param("POST", STARTING, None, id="503 to a write: who knows"),
        pytest.param("GET", answer(503), None, id="503 without advice"),
        pytest.param("GET", NOBODY, 0.5, id="nobody there: soon again"),
        pytest.param("POST", NOBODY, None, id="nobody there to write to"),
        pytest.param("GET", ClusterUnreachable("no such name"), None, id="unreachable otherwise"),
        pytest.param("GET", Answer(200, b""), None, id="fine"),
        pytest.param("GET", answer(500), None, id="an error"),
        pytest.param("PUT", answer(409), None, id="a conflict"),
    ],
)
def test_what_was_certainly_not_acted_upon_is_tried_again(
    method: str, heard: Answer | ClusterUnreachable, pause: float | None
) -> None:
    assert pause_before_retry(method, heard, 1, 60) == pause


def test_pauses_grow_while_nobody_is_there() -> None:
    assert [pause_before_retry("GET", NOBODY, n, 60) for n in (1, 2, 3)] == [0.5, 1, 2]


@pytest.mark.parametrize(
    ("left", "pause"),
    [
        pytest.param(2.0, 2, id="just enough"),
        pytest.param(1.9, None, id="not enough"),
        pytest.param(-1.0, None, id="long over"),
    ],
)
def test_a_pause_that_outlasts_our_patience_is_not_begun(left: float, pause: float | None) -> None:
    assert pause_before_retry("GET", OVERLOAD, 1, left) == pause


def test_there_is_a_last_try() -> None:
    assert pause_before_retry("GET", OVERLOAD, TRIES - 1, 60) == 2
    assert pause_before_retry("GET", OVERLOAD, TRIES, 60) is None
