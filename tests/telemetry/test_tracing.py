"""Traces of real cycles, as a collector gets them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import trustme

from resettle import __version__
from resettle.log import Log
from resettle.telemetry.tracing import TracingSettings, send_traces
from resettle.testing import ApiServer, Fault, cluster, node, pod
from tests.runtime.harness import Object, policy, running

from .fakes import Receiver, facts, receiving

WORLD = cluster(node("n1").holding(pod("old", age="2h")), node("n2")).objects


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def followed(receiver: Receiver, tracing: TracingSettings, document: Object | None = None) -> None:
    """A cycle over the world, sent to the receiver."""

    async def scenario() -> None:
        with send_traces(tracing, Log.to([])) as spans:
            async with running(WORLD, document, spans=spans) as stage:
                await stage.cycles(1)
                await stage.until(lambda: bool(receiver.named("runDeschedulerLoop")))

    play(scenario())


def test_a_cycle_is_a_trace_with_its_plugins_and_evictions_within() -> None:
    lifetime = {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 3600}}
    failed = {"name": "RemoveFailedPods"}
    document = policy("PodLifeTime", "RemoveFailedPods", configs=[lifetime, failed])
    with receiving() as receiver:
        tracing = TracingSettings(endpoint=receiver.endpoint, service="mover", namespace="ops")
        followed(receiver, tracing, document)

    (root,) = receiver.named("runDeschedulerLoop")
    (plan,) = receiver.named("runProfiles")
    (point,) = receiver.named("deschedule")
    (old,), (broken,) = receiver.named("PodLifeTime"), receiver.named("RemoveFailedPods")
    (gone,) = receiver.named("EvictPod")
    assert {span.trace_id for span in receiver.spans} == {root.trace_id}
    assert root.parent_span_id == b""
    assert plan.parent_span_id == gone.parent_span_id == root.span_id
    assert point.parent_span_id == plan.span_id
    assert old.parent_span_id == broken.parent_span_id == point.span_id
    assert facts(point) == {"profile": "main", "operation": "deschedule"}
    assert facts(old) == {"plugin": "PodLifeTime", "profile": "main", "operation": "deschedule"}
    assert facts(plan) == {"moves": 1}
    assert {
        "podName": "old",
        "podNamespace": "default",
        "node": "n1",
        "plugin": "PodLifeTime",
        "operation": "evict",
        "ending": "evicted",
    }.items() <= facts(gone).items()
    assert root.start_time_unix_nano <= plan.start_time_unix_nano <= gone.start_time_unix_nano
    assert {
        "service.name": "mover",
        "service.namespace": "ops",
        "service.version": __version__,
    }.items() <= receiver.service.items()


def test_an_eviction_that_is_refused_is_an_event_of_its_span() -> None:
    async def scenario() -> None:
        refused = Fault(path="*/eviction", status=500, times=9, message="no such luck")
        with send_traces(TracingSettings(endpoint=receiver.endpoint), Log.to([])) as spans:
            server = ApiServer(WORLD, faults=[refused])
            async with running([], spans=spans, server=server) as stage:
                await stage.cycles(1)
                await stage.until(lambda: bool(receiver.named("runDeschedulerLoop")))

    with receiving() as receiver:
        play(scenario())

    (span, *_) = receiver.named("EvictPod")
    (event,) = span.events
    assert event.name == "Eviction Failed"
    assert facts(event)["node"] == "n1"
    assert "no such luck" in facts(event)["err"]
    assert span.status.code == 2  # an error


def test_a_collector_may_be_reached_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with receiving(authority.issue_cert("localhost")) as receiver:
        followed(
            receiver, TracingSettings(endpoint=receiver.endpoint, ca_cert=str(tmp_path / "ca.pem"))
        )

    assert receiver.named("EvictPod")


def test_nothing_is_sampled_at_a_rate_of_zero() -> None:
    async def scenario() -> None:
        tracing = TracingSettings(endpoint=receiver.endpoint, sample_rate=0)
        with send_traces(tracing, Log.to([])) as spans:
            async with running(WORLD, spans=spans) as stage:
                await stage.cycles(1)
                assert stage.evictions == ["old"]

    with receiving() as receiver:
        play(scenario())

    assert receiver.spans == []


def test_a_collector_that_is_away_costs_traces_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("resettle.telemetry.tracing.SEND_SECONDS", 0.2)
    lines: list[str] = []

    async def scenario() -> None:
        with send_traces(TracingSettings(endpoint="localhost:9"), Log.to(lines)) as spans:
            async with running(WORLD, spans=spans) as stage:
                await stage.cycles(1)
                assert stage.evictions == ["old"]
                await stage.until(lambda: bool(lines))

    play(scenario())

    assert lines[0].startswith("WARNING traces dropped reason=")
