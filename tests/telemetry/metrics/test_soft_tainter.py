"""What the soft tainter counts, and what it shows through its window."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from typing import Any

import pytest

from resettle.clock import SYSTEM
from resettle.controllers.soft_taints.apply import TRIES, WriteResult
from resettle.controllers.soft_taints.reconcile import Mode
from resettle.kube.auth.access import Access
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.log import Log
from resettle.telemetry import Endpoint, EndpointSettings, build_soft_tainter_metrics
from resettle.telemetry.metrics.catalogue import SHARED, SOFT_TAINTER_CATALOGUE
from resettle.telemetry.metrics.run import RunMetrics
from resettle.telemetry.metrics.soft_tainter import SoftTainterMetrics, Write
from resettle.testing import ApiServer, Fault
from tests.controllers.soft_taints.harness import SOFT, full, policy, tainting
from tests.https.harness import SECONDS, get
from tests.telemetry.harness import read, readings

OURS = "resettle_soft_tainter"
WORLD = [*full("a", 90), *full("b", 60), *full("c", 40), *full("d", 10)]


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 3 * SECONDS))


def after_one_round(
    objects: list[dict[str, Any]] | None = None, *given: Any, **more: Any
) -> SoftTainterMetrics:
    """What is counted once a single round is over."""
    metrics = SoftTainterMetrics()

    async def scenario() -> None:
        worlds = WORLD if objects is None else objects
        async with tainting(worlds, *given, interval=0, observer=metrics, **more) as stage:
            await stage.working
            metrics.update(stage.runner.status())

    play(scenario())
    return metrics


def values(metrics: SoftTainterMetrics, name: str) -> dict[str, float]:
    """What a metric with one label reads for each of its values."""
    lines = [reading for reading in readings(metrics.text()) if reading.name == f"{OURS}_{name}"]
    return {value: line.value for line in lines for value in line.labels.values()}


# -- nodes ---------------------------------------------------------------------------------------


def test_nodes_are_counted_by_their_bands_and_by_their_taints() -> None:
    metrics = after_one_round(None, policy(softTaints={"levels": 3}))

    assert values(metrics, "nodes") == {"under": 1, "within": 1, "over": 2, "unknown": 0}
    assert values(metrics, "marked_nodes") == {
        "overutilized": 2,
        "overutilized-2": 1,
        "overutilized-3": 1,
    }
    assert values(metrics, "nodes_in_doubt") == {}


def test_the_two_taints_of_openshift_are_counted_by_their_names() -> None:
    metrics = after_one_round(None, policy(softTaints={"style": "OpenShift"}))

    assert values(metrics, "marked_nodes") == {"appropriate": 3, "overutilized": 2}


def test_a_node_that_cannot_be_judged_is_counted_with_the_reason() -> None:
    metrics = after_one_round([*full("lost", 90, SOFT, ready=False), *full("b", 10)])

    assert values(metrics, "nodes_in_doubt") == {"not-ready": 1}
    assert values(metrics, "nodes") == {"under": 1, "within": 0, "over": 0, "unknown": 0}
    assert values(metrics, "marked_nodes") == {"overutilized": 1}, "it keeps what it has"


def test_a_mark_that_is_gone_reads_zero() -> None:
    metrics = SoftTainterMetrics()

    async def scenario() -> None:
        async with tainting(WORLD, policy(softTaints={"levels": 2}), observer=metrics) as stage:
            await stage.rounds(1)
            metrics.update(stage.runner.status())
            assert values(metrics, "marked_nodes")["overutilized-2"] == 1
            stage.fill("a", 60)
            await stage.comes_to(lambda: "overutilized-2" not in str(stage.taints("a")))
            metrics.update(stage.runner.status())
            assert values(metrics, "marked_nodes") == {"overutilized": 2, "overutilized-2": 0}

    play(scenario())


def test_a_dry_run_shows_what_would_be_tainted_and_writes_nothing() -> None:
    metrics = after_one_round(mode=Mode.DRY_RUN)

    assert values(metrics, "marked_nodes") == {"overutilized": 2}
    assert sum(values(metrics, "writes_total").values()) == 0


# -- writes --------------------------------------------------------------------------------------


def test_writes_are_counted_by_their_results() -> None:
    world = [*full("a", 90), *full("b", 10, SOFT), *full("c", 95), *full("d", 99)]
    conflict = Fault(verbs=("patch",), path="*/c", status=409, times=1)
    refused = Fault(verbs=("patch",), path="*/d", status=500, times=9)

    metrics = after_one_round([], server=ApiServer(world, faults=[conflict, refused]))

    counted = {name: count for name, count in values(metrics, "writes_total").items() if count}
    assert counted == {"set": 2, "removed": 1, "conflict": 1, "failed": 1}


def test_a_node_that_others_keep_writing_counts_every_time() -> None:
    conflicts = Fault(verbs=("patch",), path="*/hot", status=409, times=99)

    metrics = after_one_round([], server=ApiServer(full("hot", 90), faults=[conflicts]))

    counted = {name: count for name, count in values(metrics, "writes_total").items() if count}
    assert counted == {"conflict": TRIES, "failed": 1}


def test_every_ending_of_a_write_is_counted_under_some_name() -> None:
    assert {*WriteResult} - {WriteResult.WRITTEN} <= {*Write}


# -- rounds --------------------------------------------------------------------------------------


def test_a_round_that_is_done_is_shown_with_its_time() -> None:
    metrics = after_one_round()

    assert values(metrics, "rounds_total") == {
        "done": 1,
        "incomplete": 0,
        "skipped": 0,
        "failed": 0,
    }
    assert values(metrics, "last_round_result")["done"] == 1
    assert read(metrics, f"{OURS}_last_round_timestamp_seconds") > 0
    assert read(metrics, f"{OURS}_round_interval_seconds") == 0


def test_a_round_that_could_not_write_all_is_incomplete_until_one_can() -> None:
    metrics = SoftTainterMetrics()

    async def scenario() -> None:
        once = Fault(verbs=("patch",), status=500, times=1)
        server = ApiServer(full("hot", 90), faults=[once])
        async with tainting([], server=server, observer=metrics) as stage:
            await stage.rounds(1)
            metrics.update(stage.runner.status())
            assert values(metrics, "last_round_result")["incomplete"] == 1
            await stage.next_round(after=1.0)
            metrics.update(stage.runner.status())
            assert values(metrics, "last_round_result")["incomplete"] == 0
            assert values(metrics, "rounds_total")["done"] == 1

    play(scenario())


def test_a_round_without_a_figure_fails_and_what_was_known_of_nodes_stays() -> None:
    """The metrics API is not served here, so nothing is measured."""
    metrics = SoftTainterMetrics()
    args = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    measured = {**args, "metricsUtilization": {"source": "KubernetesMetrics"}}
    document = policy(metricsProviders=[{"source": "KubernetesMetrics"}])
    document["profiles"][0]["pluginConfig"][0]["args"] = measured

    async def scenario() -> None:
        async with tainting(WORLD, observer=metrics) as stage:
            await stage.rounds(1)
            stage.write(document)
            await stage.next_round()
            metrics.update(stage.runner.status())
        assert values(metrics, "rounds_total")["failed"] == 1
        assert values(metrics, "nodes")["over"] == 2

    play(scenario())


def test_beginning_at_zero_again_forgets_counts_and_not_how_it_stands() -> None:
    metrics = SoftTainterMetrics()

    async def scenario() -> None:
        async with tainting(WORLD, observer=metrics) as stage:
            await stage.rounds(1)
            metrics.reset()
            metrics.update(stage.runner.status())
        assert sum(values(metrics, "rounds_total").values()) == 0
        assert sum(values(metrics, "writes_total").values()) == 0
        assert values(metrics, "nodes")["over"] == 2
        assert read(metrics, f"{OURS}_last_round_timestamp_seconds") > 0

    play(scenario())


# -- how it stands -------------------------------------------------------------------------------


def test_role_policy_and_cache_have_the_names_that_a_run_has() -> None:
    metrics = SoftTainterMetrics()

    async def scenario() -> None:
        lease = LeaseSettings(name="turn", namespace="kube-system")
        async with tainting(WORLD, lease=lease, observer=metrics) as stage:
            await stage.rounds(1)
            stage.write("apiVersion: nonsense")
            await stage.next_round()
            metrics.update(stage.runner.status())
        assert read(metrics, "resettle_role", role="leading") == 1
        assert read(metrics, "resettle_policy_last_reload_successful") == 0
        assert read(metrics, "resettle_cache_synced") == 1
        kinds = {
            reading.labels["kind"]
            for reading in readings(metrics.text())
            if "kind" in reading.labels
        }
        assert kinds == {"Node", "Pod"}

    play(scenario())


def test_a_run_that_is_gone_is_missed_while_a_tainter_is_there() -> None:
    """An alert depends on the absence of `resettle_build_info`."""
    assert "resettle_build_info" not in {
        reading.name for reading in readings(SoftTainterMetrics().text())
    }
    assert read(SoftTainterMetrics(), f"{OURS}_build_info") == 1


def test_every_metric_of_the_catalogue_has_its_kind_and_its_labels() -> None:
    metrics = SoftTainterMetrics()

    async def scenario() -> None:
        world = [*full("lost", 90, ready=False), *full("b", 90)]
        async with tainting(world, observer=metrics) as stage:
            await stage.rounds(1)
            metrics.update(stage.runner.status())

    play(scenario())
    text = metrics.text()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text.decode(), re.M))
    shown_readings = readings(text)
    ours = {name: kind for name, kind in kinds.items() if not name.startswith("process_")}
    assert ours == {meter.name: meter.kind for meter in SOFT_TAINTER_CATALOGUE}
    for meter in SOFT_TAINTER_CATALOGUE:
        lines = [line for line in shown_readings if line.name == meter.name]
        assert lines, meter.name
        assert {frozenset(line.labels) for line in lines} == {frozenset(meter.labels)}


def test_what_is_shared_with_a_run_is_shown_alike() -> None:
    text = RunMetrics().text().decode()

    for meter in SHARED:
        assert f"# HELP {meter.name} {meter.help}\n" in text


# -- through the window --------------------------------------------------------------------------


@pytest.mark.parametrize("shown", [True, False], ids=["metrics and health", "health alone"])
def test_both_are_served_on_one_port(shown: bool) -> None:
    async def scenario() -> None:
        unreachable = Access(server="http://127.0.0.1:1")
        settings = EndpointSettings(port=0, address="127.0.0.1", metrics=shown)
        endpoint = Endpoint(settings, unreachable, SYSTEM, Log.to([]), build_soft_tainter_metrics)
        more: dict[str, Any] = {"observer": endpoint.metrics} if endpoint.metrics else {}
        async with tainting(WORLD, **more) as stage, endpoint.open(stage.runner.status) as port:
            await stage.rounds(1)
            assert (await get(port, "/readyz")).status == 200
            response = await get(port, "/metrics")
            assert response.status == (200 if shown else 404)
            assert (f'{OURS}_nodes{{band="over"}} 2.0\n' in response.text) is shown

    play(scenario())
