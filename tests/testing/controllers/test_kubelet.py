"""Kubelets: pods start, crash, finish and leave, and nodes report how they are."""

from __future__ import annotations

from datetime import timedelta

import pytest

from resettle.errors import InputError
from resettle.testing import node, pod
from resettle.testing.builders import Object
from resettle.testing.controllers import CRASHES_EVERY, SILENT, TAKES, Durations, deployment
from tests.testing.controllers.harness import Living, condition


def bound(**wanted: object) -> Object:
    """A pod that was bound a moment ago."""
    status: Object = {"startTime": None, "conditions": [], "containerStatuses": []}
    made = {"owner": None, "phase": "Pending", "age": "0s", "status": status, **wanted}
    return pod("p", **made)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "phase", "ready"),
    [
        pytest.param(0, "Pending", None, id="at once it is only bound"),
        pytest.param(1, "Pending", None, id="not yet"),
        pytest.param(2, "Running", "True", id="exactly when its start is over"),
        pytest.param(600, "Running", "True", id="and from then on"),
    ],
)
def test_a_bound_pod_serves_after_a_while(seconds: int, phase: str, ready: str | None) -> None:
    living = Living(node("n1").holding(bound())).after(seconds)

    assert living.phases == [phase]
    ready_condition = condition(living.pods["p"], "Ready")
    assert ready_condition.get("status") == ready
    assert ready_condition.get("lastTransitionTime") in (None, "2026-01-31T12:00:02Z")


def test_the_pace_can_be_another() -> None:
    slow = Durations(start=timedelta(minutes=1), stop=timedelta(0))
    living = Living(node("n1").holding(bound()), pace=slow)

    assert living.after(59).phases == ["Pending"]
    assert living.after(1).phases == ["Running"]


@pytest.mark.parametrize(
    ("grace", "gone_after"),
    [
        pytest.param(30, 2, id="when it has stopped"),
        pytest.param(1, 1, id="or when its grace is over, if that is sooner"),
    ],
)
def test_a_leaving_pod_is_gone(grace: int, gone_after: int) -> None:
    end = f"2026-01-31T12:00:{grace:02}Z"
    leaving = {"deletionTimestamp": end, "deletionGracePeriodSeconds": grace}
    living = Living(node("n1").holding(bound(metadata=leaving)))

    assert living.after(gone_after - 0.5).pods
    assert not living.after(0.5).pods


def test_a_leaving_pod_without_a_node_is_gone_at_once() -> None:
    living = Living(bound(metadata={"deletionTimestamp": "2026-01-31T12:00:30Z"}))

    living.life.settle()

    assert not living.pods


@pytest.mark.parametrize(
    ("minutes", "restarts", "ready"),
    [
        pytest.param(4, 0, "True", id="before the first crash"),
        pytest.param(6, 1, "False", id="once"),
        pytest.param(61, 12, "False", id="again and again"),
    ],
)
def test_a_pod_can_be_made_to_crash(minutes: int, restarts: int, ready: str) -> None:
    doomed = bound(annotations={CRASHES_EVERY: "5m"})
    obj = Living(node("n1").holding(doomed)).after(minutes * 60).pods["p"]

    [container] = obj["status"]["containerStatuses"]
    assert (container["restartCount"], container["ready"]) == (restarts, ready == "True")
    assert condition(obj, "Ready")["status"] == ready
    assert obj["status"]["phase"] == "Running"


def test_all_pods_of_a_workload_can_be_made_to_crash() -> None:
    doomed = deployment("web", replicas=2, annotations={CRASHES_EVERY: "30s"})
    living = Living(node("n1"), doomed).after(63)

    counts = [
        item["status"]["containerStatuses"][0]["restartCount"] for item in living.pods.values()
    ]
    assert counts == [2, 2]


@pytest.mark.parametrize(
    ("wanted", "ends"),
    [
        pytest.param({"annotations": {TAKES: "30s"}}, 32, id="when it has taken its time"),
        pytest.param({"spec": {"restartPolicy": "Never"}}, 62, id="after a minute by default"),
    ],
)
def test_a_pod_that_runs_to_an_end_succeeds(wanted: dict[str, object], ends: int) -> None:
    living = Living(node("n1").holding(bound(**wanted)))

    assert living.after(ends - 1).phases == ["Running"]
    assert living.after(1).phases == ["Succeeded"]
    assert living.after(600).phases == ["Succeeded"]


def test_a_time_that_is_none_is_an_error_that_says_how_to_write_one() -> None:
    living = Living(node("n1").holding(bound(annotations={TAKES: "soon"})))

    with pytest.raises(InputError, match="life/takes says `soon`; write a time such as 30s or 5m"):
        living.after(60)


@pytest.mark.parametrize(
    ("ready", "says"),
    [
        pytest.param(None, "True", id="ready, if it has said nothing so far"),
        pytest.param(True, "True", id="what it has said before"),
        pytest.param(False, "False", id="not ready"),
    ],
)
def test_a_node_says_how_it_is(ready: bool | None, says: str) -> None:
    living = Living(node("n1", ready=ready)).after(1)

    [obj] = living.store.list("Node")
    assert condition(obj, "Ready")["status"] == says


def test_a_silent_node_is_unknown_and_so_are_its_pods_until_it_speaks_again() -> None:
    living = Living(node("n1").holding(bound())).after(5)

    living.store.merge("Node", "n1", {"metadata": {"annotations": {SILENT: ""}}})
    living.after(5)
    [quiet] = living.store.list("Node")
    lost = condition(living.pods["p"], "Ready")["status"]
    living.store.merge("Node", "n1", {"metadata": {"annotations": {SILENT: None}}})
    living.after(5)
    [reported] = living.store.list("Node")

    assert (condition(quiet, "Ready")["status"], lost) == ("Unknown", "False")
    assert condition(reported, "Ready")["status"] == "True"
    assert condition(living.pods["p"], "Ready")["status"] == "True"
