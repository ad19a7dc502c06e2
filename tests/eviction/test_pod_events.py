"""Events on moved pods: their content, which moves get one, and when they are dropped."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest

from resettle.eviction import pod_events
from resettle.eviction.pod_events import EventWriter, event_of
from resettle.framework import MoveResponse, MoveResult
from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client
from resettle.log import Log
from resettle.testing import ApiServer, DeniedPermission, Fault, ManualClock, namespace
from tests.eviction.builders import seen, to_leave
from tests.eviction.harness import run_with_timeout

E = MoveResult
NOTE = "pod eviction from n1 node by sigs.k8s.io/descheduler"
BY = "PodLifeTime in profile daily: has lived 3 h"
CREATING = "/apis/events.k8s.io/v1/*"


@asynccontextmanager
async def recording(
    server: ApiServer, log_lines: list[str], *, failures: bool = False
) -> AsyncIterator[EventWriter]:
    """An EventWriter at work; every event is written when the block ends."""
    async with Client(Access(server=server.url)) as client:
        recorder = EventWriter(
            client, "house-1", ManualClock(), Log.to(log_lines), failures=failures
        )
        async with recorder.writing():
            yield recorder


async def kept(server: ApiServer) -> list[dict[str, Any]]:
    """The events that the server has, as a client gets them."""
    async with Client(Access(server=server.url)) as client:
        answer = await client.send("GET", "/apis/events.k8s.io/v1/events")
    items: list[dict[str, Any]] = json.loads(answer.body)["items"]
    return items


def test_an_eviction_writes_an_event_on_its_pod() -> None:
    async def run_scenario() -> None:
        async with ApiServer([namespace("default")]) as server:
            async with recording(server, []) as recorder:
                recorder.record_move(to_leave(seen()), MoveResponse(E.EVICTED))

            (event,) = await kept(server)
            meta = event.pop("metadata")
            assert meta["namespace"] == "default"
            assert meta["name"].startswith("web-1.")
            assert event == {
                "eventTime": "2026-01-31T12:00:00.000000Z",
                "reportingController": "sigs.k8s.io.descheduler",
                "reportingInstance": "house-1",
                "action": "Descheduled",
                "reason": "PodLifeTime",
                "regarding": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": "default",
                    "name": "web-1",
                    "uid": "uid-default-web-1",
                },
                "note": f"{NOTE}; {BY}",
                "type": "Normal",
            }

    run_with_timeout(run_scenario())


def test_who_why_and_which_profile_stand_where_kubectl_looks() -> None:
    """`kubectl get events` and `describe pod` ask the core group, by the pod that it is about."""

    async def run_scenario() -> None:
        async with ApiServer([namespace("default")]) as server:
            async with recording(server, []) as recorder:
                recorder.record_move(to_leave(seen()), MoveResponse(E.EVICTED))
                recorder.record_move(to_leave(seen("web-2")), MoveResponse(E.EVICTED))

            about = "involvedObject.name=web-1,involvedObject.uid=uid-default-web-1"
            path = f"/api/v1/namespaces/default/events?fieldSelector={quote(about)}"
            async with Client(Access(server=server.url)) as client:
                answer = await client.send("GET", path)
            (event,) = json.loads(answer.body)["items"]
            assert event["involvedObject"]["name"] == "web-1"
            assert (event["type"], event["reason"]) == ("Normal", "PodLifeTime")
            assert event["reportingComponent"] == "sigs.k8s.io.descheduler"
            assert event["message"] == f"{NOTE}; {BY}"

    run_with_timeout(run_scenario())


@pytest.mark.parametrize(
    ("ending", "failures", "expected"),
    [
        pytest.param(E.EVICTED, False, ["Normal"], id="evicted"),
        pytest.param(E.BUDGET, False, [], id="a failure, with failure events off"),
        pytest.param(E.BUDGET, True, ["Warning"], id="a budget refused"),
        pytest.param(E.WEBHOOK, True, ["Warning"], id="a webhook refused"),
        pytest.param(E.ERROR, True, ["Warning"], id="it could not be done"),
        pytest.param(E.CHANGED, True, ["Warning"], id="it was left alone"),
        pytest.param(E.BACKGROUND, True, [], id="begun, which is neither"),
        pytest.param(E.UNKNOWN, True, [], id="not known yet"),
        pytest.param(E.GONE, True, [], id="there is no pod to write it on"),
        pytest.param(E.UNSENT, True, [], id="nothing was tried"),
        pytest.param(E.SHOWN, True, [], id="a dry run"),
    ],
)
def test_failures_get_events_only_if_the_policy_asks_for_it(
    ending: MoveResult, failures: bool, expected: list[str]
) -> None:
    async def run_scenario() -> None:
        async with ApiServer([namespace("default")]) as server:
            async with recording(server, [], failures=failures) as recorder:
                recorder.record_move(to_leave(seen()), MoveResponse(ending, "because"))

            assert [item["type"] for item in await kept(server)] == expected

    run_with_timeout(run_scenario())


def test_a_failure_says_why() -> None:
    event = event_of(to_leave(seen()), "none left", "house-1", ManualClock().now())

    assert (event.type, event.reason) == ("Warning", "EvictionFailed")
    assert event.note == f"{NOTE} failed: none left; {BY}"


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        pytest.param("a" * 253, "a" * 230, id="a long name is cut"),
        pytest.param("a" * 229 + "-" + "a" * 23, "a" * 229, id="never in the middle of a sign"),
        pytest.param("web-1", "web-1", id="a short one is not"),
    ],
)
def test_an_event_has_a_name_that_the_server_takes(name: str, cut: str) -> None:
    event = event_of(to_leave(seen(name)), "", "house-1", ManualClock().now())

    begin, _, end = event.metadata.name.rpartition(".")
    assert begin == cut
    assert len(end) == 16
    assert event.regarding.name == name


def test_a_note_is_no_longer_than_the_server_takes() -> None:
    move = to_leave(seen(), reason="ä" * 2000)

    note = event_of(move, "", "house-1", ManualClock().now()).note

    assert len(note.encode()) in (1023, 1024)
    assert note.endswith("ää")


@pytest.mark.parametrize(
    ("troubles", "line"),
    [
        pytest.param(
            {"denied": [DeniedPermission(verb="create", resource="events")]},
            'WARNING events dropped reason="we may not create them; add to our role: '
            'apiGroups: [\\"events.k8s.io\\"], resources: [\\"events\\"], verbs: [\\"create\\"]"',
            id="we may not write them",
        ),
        pytest.param(
            {"faults": [Fault(verbs=("create",), path=CREATING, status=500, times=99)]},
            'WARNING events dropped reason="the API server answered 500"',
            id="the server fails",
        ),
    ],
)
def test_dropped_events_are_logged_once(troubles: dict[str, Any], line: str) -> None:
    async def run_scenario() -> None:
        lines: list[str] = []
        async with ApiServer([namespace("default")], **troubles) as server:
            async with recording(server, lines) as recorder:
                for i in range(20):
                    recorder.record_move(to_leave(seen(f"web-{i}")), MoveResponse(E.EVICTED))

            assert await kept(server) == []
            assert len([request for request in server.requests if request.verb == "create"]) == 20
        assert lines == [line]

    run_with_timeout(run_scenario())


def test_events_beyond_the_queue_limit_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_events, "_QUEUE_LIMIT", 2)

    async def run_scenario() -> None:
        lines: list[str] = []
        async with ApiServer([namespace("default")]) as server:
            async with recording(server, lines) as recorder:
                for i in range(5):
                    recorder.record_move(to_leave(seen(f"web-{i}")), MoveResponse(E.EVICTED))

            assert {item["regarding"]["name"] for item in await kept(server)} == {"web-0", "web-1"}
        assert lines == ['WARNING events dropped reason="too many are waiting"']

    run_with_timeout(run_scenario())


def test_the_end_does_not_wait_forever_for_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_events, "_FLUSH_SECONDS", 0.05)

    async def run_scenario() -> None:
        lines: list[str] = []
        late = Fault(path=CREATING, delay_seconds=60)
        async with (
            ApiServer([namespace("default")], faults=[late]) as server,
            recording(server, lines) as recorder,
        ):
            recorder.record_move(to_leave(seen()), MoveResponse(E.EVICTED))

        assert lines == ['WARNING events dropped reason="no time was left for them"']

    run_with_timeout(run_scenario())
