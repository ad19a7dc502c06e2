"""Faults: what goes wrong, with which requests, and how often."""

from __future__ import annotations

import http.client
import time
from typing import Any

import pytest

from resettle.testing import ApiServer, Fault, node, pod
from tests.testing.api_server.harness import DEFAULT_PODS, PODS, client_of, eviction

OBJECTS = [*node("n1").holding(pod("a"), pod("b")).pods, node("n1").node]


@pytest.mark.parametrize(
    ("fault", "code", "reason", "wait"),
    [
        pytest.param(
            Fault(status=429, retry_after_seconds=3), 429, "TooManyRequests", "3", id="too many"
        ),
        pytest.param(Fault(status=500), 500, "InternalError", None, id="an error"),
        pytest.param(Fault(status=503), 503, "ServiceUnavailable", None, id="not there"),
        pytest.param(Fault(status=410), 410, "Expired", None, id="gone"),
    ],
)
def test_a_fault_answers_in_place_of_the_server(
    fault: Fault, code: int, reason: str, wait: str | None
) -> None:
    with ApiServer(OBJECTS, faults=[fault]) as server:
        client = client_of(server)
        struck, fine = client.get(PODS), client.get(PODS)

    assert (struck.code, struck.reason, struck.headers.get("retry-after")) == (code, reason, wait)
    assert fine.code == 200


@pytest.mark.parametrize(
    ("fault", "codes"),
    [
        pytest.param(Fault(status=500, times=2), [500, 500, 201], id="as often as it says"),
        pytest.param(
            Fault(status=500, verbs=("create",), times=9), [200, 200, 500], id="a verb of many"
        ),
        pytest.param(
            Fault(status=500, path="*/eviction", times=9), [200, 200, 500], id="a path of many"
        ),
        pytest.param(
            Fault(status=500, verbs=("list",), path="/api/v1/nodes"), [200, 500, 201], id="both"
        ),
        pytest.param(Fault(status=500, verbs=("patch",)), [200, 200, 201], id="none of these"),
    ],
)
def test_a_fault_strikes_the_requests_it_is_about(fault: Fault, codes: list[int]) -> None:
    with ApiServer(OBJECTS) as server:
        server.faults.add(fault)
        client = client_of(server)
        statuses = [
            client.get(PODS).code,
            client.get("/api/v1/nodes").code,
            client.post(f"{DEFAULT_PODS}/a/eviction", eviction("a")).code,
        ]

    assert statuses == codes


def test_faults_strike_one_after_another_and_can_be_called_off() -> None:
    with ApiServer(faults=[Fault(status=500), Fault(status=503, times=2)]) as server:
        client = client_of(server)
        codes = [client.get(PODS).code, client.get(PODS).code]
        left = server.faults.pending
        server.faults.clear()

        assert (codes, left) == ([500, 503], 1)
        assert client.get(PODS).code == 200


def test_an_answer_can_be_late() -> None:
    with ApiServer(faults=[Fault(delay_seconds=0.2)]) as server:
        began = time.monotonic()
        reply = client_of(server).get(PODS)

    assert reply.code == 200
    assert time.monotonic() - began >= 0.2


def test_an_answer_can_be_held_back_when_all_is_done() -> None:
    held = Fault(path="*/eviction", hold_seconds=0.2)
    with ApiServer(OBJECTS, faults=[held]) as server:
        done_at: list[float] = []
        server.store.subscribe("Pod", lambda _: done_at.append(time.monotonic()))
        reply = client_of(server).post(f"{DEFAULT_PODS}/a/eviction", eviction("a"))

    assert reply.code == 201
    assert time.monotonic() - done_at[0] >= 0.2


def test_a_body_can_trickle() -> None:
    with ApiServer(OBJECTS) as server:
        client = client_of(server)
        whole = client.call("GET", PODS).body
        size = len(str(whole))
        server.faults.add(Fault(bytes_per_second=size * 4))
        began = time.monotonic()
        slow = client.get(PODS).body
        took = time.monotonic() - began

    assert slow == whole
    assert took >= 0.15


@pytest.mark.parametrize(
    ("fault", "code", "wait"),
    [
        pytest.param(Fault(body=b"<html>"), 200, None, id="as if all were well"),
        pytest.param(Fault(body=b"<html>", status=502), 502, None, id="with a code"),
        pytest.param(
            Fault(body=b"<html>", status=503, retry_after_seconds=2), 503, "2", id="and a wait"
        ),
    ],
)
def test_an_answer_can_be_anything_at_all(fault: Fault, code: int, wait: str | None) -> None:
    with ApiServer(OBJECTS, faults=[fault]) as server:
        client = client_of(server)
        struck, fine = client.get(PODS), client.get(PODS)

    assert (struck.code, struck.body, struck.headers.get("retry-after")) == (code, "<html>", wait)
    assert _names(fine.body) == ["a", "b"]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        pytest.param({}, ["p0", "p1"], id="less than all"),
        pytest.param({"limit": 3}, ["p0", "p1"], id="less than asked for"),
        pytest.param({"limit": 1}, ["p0"], id="as asked for, if that is less"),
    ],
)
def test_a_list_can_come_in_small_pages(asked: dict[str, int], names: list[str]) -> None:
    pods = [pod(f"p{i}") for i in range(4)]
    with ApiServer(pods, faults=[Fault(largest_page=2)]) as server:
        client = client_of(server)
        page = client.get(PODS, **asked)
        rest = client.get(PODS, **{"continue": page.body["metadata"]["continue"]})

    assert page.names == names
    assert page.names + rest.names == ["p0", "p1", "p2", "p3"]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(cut_after_bytes=0), id="before it begins"),
        pytest.param(Fault(cut_after_bytes=20), id="in its middle"),
        pytest.param(Fault(cut_after_bytes=20, status=500), id="a refusal too"),
        pytest.param(Fault(cut_after_bytes=20, bytes_per_second=4000), id="slowly"),
    ],
)
def test_a_body_can_be_cut_short(fault: Fault) -> None:
    with ApiServer(OBJECTS, faults=[fault]) as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
        connection.request("GET", PODS)
        answer = connection.getresponse()
        with pytest.raises(http.client.IncompleteRead) as met:
            answer.read()
        connection.close()

        assert len(met.value.partial) == fault.cut_after_bytes
        assert client_of(server).get(PODS).code == 200


def test_a_fault_is_about_paths_below_the_prefix() -> None:
    with ApiServer(OBJECTS, prefix="/k8s/c1", faults=[Fault(path=PODS, status=500)]) as server:
        client = client_of(server)
        codes = [client.get(f"/k8s/c1{PODS}").code for _ in range(2)]

    assert codes == [500, 200]


def test_a_connection_can_end_without_an_answer() -> None:
    with ApiServer(faults=[Fault(hang_up=True)]) as server:
        client = client_of(server)
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            client.get(PODS)

        assert client.get(PODS).code == 200


def test_a_watch_can_break_off_after_some_events() -> None:
    objects = [pod(f"p{i:04}") for i in range(2000)]
    with ApiServer(objects) as server:
        server.faults.add(Fault(verbs=("watch",), drop_after_events=1500))
        with client_of(server).watch(PODS) as events:
            received = [event.name for event in events]
        again = _names(client_of(server).get(PODS).body)

    assert received == [f"p{i:04}" for i in range(1500)]
    assert len(again) == 2000


def test_a_watch_can_begin_with_any_line_and_send_everything_twice() -> None:
    line = '{"type":"ERROR","object":{"metadata":{"name":"not today"}}}'
    with ApiServer(OBJECTS) as server:
        server.faults.add(
            Fault(verbs=("watch",), begins_with=line, twice=True, drop_after_events=5)
        )
        with client_of(server).watch(PODS) as events:
            received = [(event.type, event.name) for event in events]

    assert received == [("ERROR", "not today"), *[("ADDED", name) for name in ("a", "a", "b", "b")]]


def test_open_watches_can_be_dropped_and_their_bodies_are_not_whole() -> None:
    with ApiServer(OBJECTS) as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
        connection.request("GET", f"{PODS}?watch=true")
        answer = connection.getresponse()
        lines = [answer.readline(), answer.readline()]
        server.drop_watches()
        with pytest.raises((ConnectionError, http.client.IncompleteRead)):
            answer.read()
        connection.close()

    assert [b"ADDED" in line for line in lines] == [True, True]


def _names(body: Any) -> list[str]:
    return [obj["metadata"]["name"] for obj in body["items"]]
