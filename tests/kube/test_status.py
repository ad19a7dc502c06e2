"""What an answer means: three kinds of 429, and the words of a refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from resettle.kube.status import Answer, budget_of, is_overload, status_of

BUDGET = {
    "reason": "DisruptionBudget",
    "message": "The disruption budget web needs 3 healthy pods and has 3 currently",
}
BUSY_BUDGET = {
    "reason": "DisruptionBudget",
    "message": "The disruption budget web is still being processed by the server.",
}
EVACUATION = 'admission webhook "virt.example" denied the request: Eviction triggered evacuation'


def answer(
    code: int, message: str = "no", retry_after: float | None = None, **details: Any
) -> Answer:
    status = {"kind": "Status", "message": message, "reason": "Any", "details": details}
    return Answer(code, json.dumps(status).encode(), retry_after)


@pytest.mark.parametrize(
    ("given", "overload"),
    [
        pytest.param(
            Answer(429, b"Too many requests, please try again later.", 1.0), True, id="words"
        ),
        pytest.param(Answer(429, b""), True, id="nothing at all"),
        pytest.param(answer(429, retryAfterSeconds=1), True, id="a status with a time"),
        pytest.param(answer(429, retry_after=1.0), True, id="a status with a time in its header"),
        pytest.param(answer(429), False, id="a status without a time"),
        pytest.param(answer(429, causes=[BUDGET]), False, id="a budget"),
        pytest.param(
            answer(429, retry_after=10.0, retryAfterSeconds=10, causes=[BUSY_BUDGET]),
            False,
            id="a budget that names a time",
        ),
        pytest.param(answer(429, EVACUATION), False, id="a webhook"),
        pytest.param(
            answer(429, EVACUATION, retryAfterSeconds=5), False, id="a webhook that names a time"
        ),
        pytest.param(answer(503, retryAfterSeconds=1), False, id="another code"),
        pytest.param(answer(200), False, id="no refusal"),
    ],
)
def test_only_an_overloaded_server_is_worth_another_try(given: Answer, overload: bool) -> None:
    assert is_overload(given) is overload


@pytest.mark.parametrize(
    ("given", "budget"),
    [
        pytest.param(answer(429, causes=[BUDGET]), "web", id="spent"),
        pytest.param(answer(429, causes=[BUSY_BUDGET]), "web", id="not worked out yet"),
        pytest.param(
            answer(429, causes=[{"reason": "DisruptionBudget"}]), "", id="one without a name"
        ),
        pytest.param(answer(429, causes=[{"reason": "Other"}]), None, id="another cause"),
        pytest.param(answer(429, retryAfterSeconds=1), None, id="an overloaded server"),
        pytest.param(answer(429, EVACUATION), None, id="a webhook"),
        pytest.param(answer(500, causes=[BUDGET]), None, id="another code"),
    ],
)
def test_a_budget_that_refuses_is_named(given: Answer, budget: str | None) -> None:
    assert budget_of(given) == budget


@pytest.mark.parametrize(
    ("message", "webhook"),
    [
        pytest.param(EVACUATION, "virt.example", id="denied"),
        pytest.param(f"so: {EVACUATION}", None, id="spoken of further on"),
        pytest.param("pods is forbidden", None, id="no webhook"),
    ],
)
def test_a_webhook_that_denies_is_named(message: str, webhook: str | None) -> None:
    assert status_of(answer(403, message)).webhook == webhook


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"no healthy upstream\n", "no healthy upstream", id="a proxy's words"),
        pytest.param(b"x" * 999, "x" * 200, id="too many words"),
        pytest.param(b'{"message": "hidden"}', '{"message": "hidden"}', id="JSON of another kind"),
        pytest.param(b"[]", "[]", id="a list"),
        pytest.param(b'{"kind": "Status"}', "", id="a status without words"),
        pytest.param(b'{"kind": "Status", "message": null, "details": null}', "", id="nulls"),
        pytest.param(b"\xff", "\ufffd", id="no text at all"),
        pytest.param(
            b'{"kind": "Status", "details": 5}', '{"kind": "Status", "details": 5}', id="bent"
        ),
    ],
)
def test_whatever_comes_back_has_a_message(body: bytes, message: str) -> None:
    assert status_of(Answer(500, body)).message == message


def test_the_header_says_how_long_to_wait_where_the_status_does_not() -> None:
    assert status_of(answer(429, retry_after=3.0)).retry_after_seconds == 3
    assert status_of(answer(429, retryAfterSeconds=4)).retry_after_seconds == 4
    assert status_of(answer(429, retryAfterSeconds=0)).retry_after_seconds is None
