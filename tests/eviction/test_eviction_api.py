"""The default mover: the request it sends, and what it makes of every answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from resettle.eviction.eviction_api import eviction_of, move_response
from resettle.framework import MoveResult
from resettle.kube.status import Answer
from tests.eviction.builders import WILLING, options, seen

E = MoveResult
SPENT = "The disruption budget web needs 3 healthy pods and has 3 currently"
UNREADY = "The disruption budget web is still being processed by the server."
VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
DENIED = 'admission webhook "virt.example" denied the request: '
BEGUN = f'{DENIED}Eviction triggered evacuation of VMI "default/vm"'
BEGUN_BEFORE = f'{DENIED}Evacuation in progress: Eviction triggered evacuation of VMI "default/vm"'
SEVERAL = (
    "This pod has more than one PodDisruptionBudget, "
    "which the eviction subresource does not support."
)
NAMESAKE = (
    'Operation cannot be fulfilled on Pod "web-1": the UID in the precondition (a) does not match '
    "the UID in record (b). The object might have been deleted and then recreated"
)
FORBIDDEN = (
    'pods "web-1" is forbidden: User "mover" cannot create resource "pods/eviction" '
    'in API group "" in the namespace "default"'
)
NEGATIVE = 'poddisruptionbudget.policy "web" is forbidden: pdb disruptions allowed is negative'
NOT_CALLED = 'Internal error occurred: failed calling webhook "virt.example": connection refused'


def answer(code: int, message: str, reason: str = "Any", **details: Any) -> Answer:
    """A refusal as an API server words it."""
    status = {"kind": "Status", "code": code, "message": message, "reason": reason}
    return Answer(code, json.dumps({**status, "details": details}).encode())


def because_of_budget(message: str, **more: Any) -> Answer:
    cause = {"reason": "DisruptionBudget", "message": message}
    return answer(429, VIOLATES, "TooManyRequests", causes=[cause], **more)


@pytest.mark.parametrize(
    ("reply", "ending", "says"),
    [
        pytest.param(Answer(201, b'{"kind": "Status"}'), E.EVICTED, "", id="granted"),
        pytest.param(Answer(200, b""), E.EVICTED, "", id="granted by an older server"),
        pytest.param(
            answer(404, 'pods "web-1" not found', "NotFound"),
            E.GONE,
            'pods "web-1" not found',
            id="the pod is not there",
        ),
        pytest.param(
            answer(409, NAMESAKE, "Conflict"), E.GONE, NAMESAKE, id="a namesake is there instead"
        ),
        pytest.param(
            answer(409, "object is being deleted", "Conflict"),
            E.ERROR,
            "object is being deleted",
            id="another conflict",
        ),
        pytest.param(because_of_budget(SPENT), E.BUDGET, SPENT, id="a spent budget"),
        pytest.param(
            because_of_budget(UNREADY, retryAfterSeconds=10),
            E.BUDGET,
            UNREADY,
            id="a budget that is not ready",
        ),
        pytest.param(answer(500, SEVERAL), E.BUDGET, SEVERAL, id="several budgets"),
        pytest.param(
            answer(403, NEGATIVE, "Forbidden"), E.BUDGET, NEGATIVE, id="a budget that is broken"
        ),
        pytest.param(
            answer(504, 'Timeout: couldn\'t update PodDisruptionBudget "web" due to conflicts'),
            E.ERROR,
            'Timeout: couldn\'t update PodDisruptionBudget "web" due to conflicts',
            id="a budget that many write to",
        ),
        pytest.param(
            answer(429, "the server has received too many requests", retryAfterSeconds=1),
            E.ERROR,
            "the server has received too many requests",
            id="an overloaded server",
        ),
        pytest.param(
            Answer(429, b"Too many requests, please try again later."),
            E.ERROR,
            "Too many requests, please try again later.",
            id="one too busy for more",
        ),
        pytest.param(
            answer(403, f"{DENIED}not on Sundays", "Forbidden"),
            E.WEBHOOK,
            f"{DENIED}not on Sundays",
            id="a webhook denies",
        ),
        pytest.param(
            answer(500, f"{DENIED}", "InternalError"), E.WEBHOOK, DENIED, id="whatever its code"
        ),
        pytest.param(
            answer(500, NOT_CALLED, "InternalError"), E.ERROR, NOT_CALLED, id="a webhook is down"
        ),
        pytest.param(
            answer(403, FORBIDDEN, "Forbidden"),
            E.ERROR,
            f"{FORBIDDEN}; add to its role: "
            'apiGroups: [""], resources: ["pods/eviction"], verbs: ["create"]',
            id="we may not",
        ),
        pytest.param(
            answer(401, "Unauthorized", "Unauthorized"), E.ERROR, "Unauthorized", id="who are we"
        ),
        pytest.param(
            answer(500, "etcdserver: request timed out", "InternalError"),
            E.UNKNOWN,
            "etcdserver: request timed out",
            id="the store is slow",
        ),
        pytest.param(Answer(502, b"Bad Gateway"), E.UNKNOWN, "Bad Gateway", id="a proxy gave up"),
        pytest.param(
            answer(503, "apiserver is shutting down", "ServiceUnavailable"),
            E.UNKNOWN,
            "apiserver is shutting down",
            id="the server is going down",
        ),
        pytest.param(
            answer(504, "Timeout: request did not complete within the allotted timeout", "Timeout"),
            E.UNKNOWN,
            "Timeout: request did not complete within the allotted timeout",
            id="no time was left",
        ),
    ],
)
def test_an_answer_becomes_an_outcome(reply: Answer, ending: MoveResult, says: str) -> None:
    outcome = move_response(reply, seen(), options())

    assert (outcome.result, outcome.message) == (ending, says)


@pytest.mark.parametrize(
    ("annotations", "phase", "gate", "message", "ending"),
    [
        pytest.param(WILLING, "Running", True, BEGUN, E.BACKGROUND, id="others move it from now"),
        pytest.param(WILLING, "Running", True, BEGUN_BEFORE, E.BACKGROUND, id="or did before"),
        pytest.param(WILLING, "Pending", True, BEGUN, E.BACKGROUND, id="even before it runs"),
        pytest.param(WILLING, "Succeeded", True, BEGUN, E.GONE, id="it has run its course"),
        pytest.param(WILLING, "Failed", True, BEGUN, E.GONE, id="or has failed"),
        pytest.param(WILLING, "Running", False, BEGUN, E.WEBHOOK, id="the gate is closed"),
        pytest.param({}, "Running", True, BEGUN, E.WEBHOOK, id="it never said that others move it"),
        pytest.param(
            WILLING, "Running", True, f"{DENIED}no", E.WEBHOOK, id="the webhook says something else"
        ),
    ],
)
def test_a_refusal_may_mean_that_the_move_has_begun(
    annotations: dict[str, str], phase: str, gate: bool, message: str, ending: MoveResult
) -> None:
    asked = seen(annotations=annotations, phase=phase)

    outcome = move_response(answer(429, message), asked, options(in_background=gate))

    assert (outcome.result, outcome.message) == (ending, message)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({}, id="the pod's own grace period"),
        pytest.param({"gracePeriodSeconds": 0}, id="none at all"),
        pytest.param({"gracePeriodSeconds": 30}, id="one that the policy names"),
        pytest.param({"propagationPolicy": "Orphan"}, id="what becomes of dependents"),
    ],
)
def test_a_request_says_who_is_meant_who_asks_and_why(
    how: dict[str, Any],
) -> None:
    body = json.loads(eviction_of(seen(), options(delete_options=how)))

    assert body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {
            "name": "web-1",
            "namespace": "default",
            "annotations": {
                "requested-by": "sigs.k8s.io/descheduler",
                "reason": "triggered by daily/PodLifeTime: has lived 3 h",
            },
        },
        "deleteOptions": {"preconditions": {"uid": "uid-default-web-1"}, **how},
    }


@pytest.mark.parametrize(
    ("ending", "counts", "declined"),
    [
        pytest.param(E.EVICTED, True, False, id="it goes"),
        pytest.param(E.BACKGROUND, True, False, id="it will go"),
        pytest.param(E.UNKNOWN, True, False, id="it may go"),
        pytest.param(E.BUDGET, False, True, id="a budget keeps it"),
        pytest.param(E.WEBHOOK, False, True, id="a webhook keeps it"),
        pytest.param(E.CHANGED, False, True, id="we leave it alone"),
        pytest.param(E.ERROR, False, True, id="it could not be asked"),
        pytest.param(E.GONE, False, False, id="it had gone"),
        pytest.param(E.SHOWN, False, False, id="a dry run"),
        pytest.param(E.UNSENT, False, False, id="acting had to stop"),
    ],
)
def test_an_outcome_says_whether_limits_count_it_and_whether_the_pod_stays(
    ending: MoveResult, counts: bool, declined: bool
) -> None:
    assert (ending.counts_as_leaving, ending.declined) == (counts, declined)
