"""What is counted, when, and under which names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from resettle.eviction.in_flight import InFlightMove, MoveStage
from resettle.framework import Args, Plugin
from resettle.framework.mover import ApiRequests, Evictor, MoveResponse, MoveResult, Options
from resettle.framework.plan import Move
from resettle.runtime.status import ComponentStatus, ControllerStatus, Result, Role
from resettle.telemetry.metrics.catalogue import RUN_CATALOGUE
from resettle.telemetry.metrics.moves import final_result
from resettle.telemetry.metrics.run import RunMetrics
from resettle.testing import Fault, budget, node, pod
from tests.eviction.builders import seen, to_leave
from tests.runtime.harness import Stage as Running
from tests.runtime.harness import policy, running
from tests.telemetry.harness import read, readings

EVICTED = "descheduler_pods_evicted_total"
OLD = "3h"


def world(*pods: dict[str, Any]) -> list[dict[str, Any]]:
    full = node("n1").holding(*pods)
    return [full.node, node("n2").node, *full.pods]


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


@asynccontextmanager
async def metered(metrics: RunMetrics, *given: Any, **more: Any) -> AsyncIterator[Running]:
    more |= {"observers": [metrics.observe_cycle], "run_observer": metrics}
    async with running(*given, **more) as stage:
        yield stage


# -- the names of upstream -----------------------------------------------------------------------

UPSTREAM = {
    EVICTED: ("counter", {"result", "strategy", "profile", "namespace", "node"}),
    "descheduler_pods_evicted": (
        "counter",
        {"result", "strategy", "profile", "namespace", "node"},
    ),
    "descheduler_loop_duration_seconds": ("histogram", set[str]()),
    "descheduler_descheduler_loop_duration_seconds": ("histogram", set[str]()),
    "descheduler_strategy_duration_seconds": ("histogram", {"strategy", "profile"}),
    "descheduler_descheduler_strategy_duration_seconds": ("histogram", {"strategy", "profile"}),
    "descheduler_build_info": (
        "gauge",
        {"GoVersion", "AppVersion", "DeschedulerVersion", "GitBranch", "GitSha1"},
    ),
}
"""As kubernetes-sigs/descheduler v0.36.0 has them."""
_OF_LOAD = "descheduler_lownodeutilization"
OPENSHIFTS = {
    f"{_OF_LOAD}_node_utilization_value": ("gauge", {"node", "resource"}),
    f"{_OF_LOAD}_node_utilization_threshold": ("gauge", {"node", "resource", "threshold_type"}),
    f"{_OF_LOAD}_node_classification": ("gauge", {"node"}),
    f"{_OF_LOAD}_threshold_mode": ("gauge", set[str]()),
}
"""As OpenShift's build of it has them besides."""
LOADED = {
    "name": "LowNodeUtilization",
    "args": {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}},
}


def test_metrics_of_upstream_have_its_names_kinds_and_labels() -> None:
    async def scenario() -> None:
        metrics = RunMetrics()
        document = policy()
        document["profiles"][0]["pluginConfig"].append(LOADED)
        document["profiles"][0]["plugins"]["balance"] = {"enabled": ["LowNodeUtilization"]}
        async with metered(metrics, world(pod("a", age=OLD)), document, interval=0) as stage:
            await stage.working
        text = metrics.text()
        kinds = dict(re.findall(r"^# TYPE (descheduler_\S+) (\w+)$", text.decode(), re.M))
        wanted = UPSTREAM | OPENSHIFTS
        assert kinds == {name: kind for name, (kind, _) in wanted.items()}
        for name, (kind, labels) in wanted.items():
            suffix = "_count" if kind == "histogram" else ""
            lines = [reading for reading in readings(text) if reading.name == name + suffix]
            assert lines
            assert {frozenset(line.labels) for line in lines} == {frozenset(labels)}

    play(scenario())


@pytest.mark.parametrize(
    ("name", "last"),
    [("descheduler_loop_duration_seconds", 500), ("descheduler_strategy_duration_seconds", 100)],
)
def test_buckets_are_those_of_upstream_and_are_written_as_go_writes_them(
    name: str, last: int
) -> None:
    async def scenario() -> None:
        metrics = RunMetrics()
        async with metered(metrics, world(pod("a", age=OLD)), interval=0) as stage:
            await stage.working
        text = metrics.text().decode()
        buckets = re.findall(rf'^{name}_bucket{{.*?le="([^"]+)"', text, re.M)
        steps = "0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 25 50 100 250 500".split()
        assert buckets == [*steps[: steps.index(str(last)) + 1], "+Inf"]

    play(scenario())


def test_a_build_reads_one() -> None:
    metrics = RunMetrics()

    assert read(metrics, "descheduler_build_info") == 1
    assert read(metrics, "resettle_build_info") == 1


def test_a_metric_with_two_names_has_the_same_value_under_both() -> None:
    metrics = RunMetrics()
    metrics.move_sent(to_leave(seen()), MoveResponse(MoveResult.EVICTED))

    where = {"namespace": "default", "node": "n1", "strategy": "PodLifeTime", "profile": "daily"}
    for name in (EVICTED, "descheduler_pods_evicted"):
        assert read(metrics, name, result="success", **where) == 1


# -- evictions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "result"),
    [
        (MoveResult.EVICTED, "success"),
        (MoveResult.SHOWN, "success"),
        (MoveResult.BACKGROUND, "background"),
        (MoveResult.BUDGET, "error"),
        (MoveResult.WEBHOOK, "error"),
        (MoveResult.ERROR, "error"),
        (MoveResult.GONE, None),
        (MoveResult.CHANGED, None),
        (MoveResult.UNKNOWN, None),
        (MoveResult.REQUESTED, None),
    ],
)
def test_each_ending_has_its_result(ending: MoveResult, result: str | None) -> None:
    metrics = RunMetrics()

    metrics.move_sent(to_leave(seen()), MoveResponse(ending))

    assert read(metrics, EVICTED) == (result is not None)
    assert result is None or read(metrics, EVICTED, result=result) == 1
    assert read(metrics, "resettle_moves_total", outcome=str(ending)) == 1


@pytest.mark.parametrize(
    ("stage", "plugin", "left", "result"),
    [
        pytest.param(MoveStage.UNKNOWN, "A", True, "success", id="a lost answer that was a yes"),
        pytest.param(MoveStage.UNKNOWN, "A", False, "error", id="a lost answer that was a no"),
        pytest.param(MoveStage.CONFIRMED, "A", True, "success", id="moved in background"),
        pytest.param(MoveStage.ASSUMED, "A", False, "error", id="never moved in background"),
        pytest.param(MoveStage.CONFIRMED, "", True, None, id="moved on another's word"),
        pytest.param(MoveStage.EVICTED, "A", True, None, id="counted when it was granted"),
    ],
)
def test_a_move_whose_end_was_open_counts_when_it_is_known(
    stage: MoveStage, plugin: str, left: bool, result: str | None
) -> None:
    metrics = RunMetrics()

    metrics.move_ended(InFlightMove(seen(), stage, 0.0, plugin, "daily"), left)

    assert read(metrics, EVICTED) == (result is not None)
    assert result is None or read(metrics, EVICTED, result=result, strategy="A") == 1


def test_evictions_count_while_the_cycle_goes_on() -> None:
    """A cycle may take an hour at the pace of evictions."""
    metrics, may_end = RunMetrics(), asyncio.Event()

    class Slow:
        async def move(self, move: Move, options: Options, requests: ApiRequests) -> MoveResponse:
            if move.pod.name == "b":
                await may_end.wait()
            return MoveResponse(MoveResult.EVICTED)

    def make(args: Args, evictor: Evictor) -> Slow:
        return Slow()

    async def scenario() -> None:
        document = policy(
            version="resettle/v1", evict={"enabled": ["Slow"]}, maxNoOfPodsToEvictTotal=2
        )
        pods = [pod(name, age=OLD, owner=f"ReplicaSet/{name}") for name in "ab"]
        extra = [pod(f"{name}2", age="1m", owner=f"ReplicaSet/{name}") for name in "ab"]
        slow = Plugin(name="Slow", evict=make)
        given = (world(*pods, *extra), document)
        async with metered(metrics, *given, plugins=[slow], interval=0) as stage:
            await stage.until(lambda: read(metrics, EVICTED, result="success") == 1)
            assert read(metrics, "resettle_cycles_total") == 0
            assert not stage.working.done()
            may_end.set()
            assert await stage.working == 0
        assert read(metrics, EVICTED, result="success") == 2
        assert read(metrics, "resettle_cycles_total", result="done") == 1

    play(scenario())


def test_pods_that_a_limit_holds_back_are_counted_under_its_name() -> None:
    async def scenario() -> None:
        metrics = RunMetrics()
        limited = policy(maxNoOfPodsToEvictPerNode=1)
        pods = (pod("a", age="5h"), pod("b", age="4h", namespace="shop"))
        async with metered(metrics, world(*pods), limited, interval=0) as stage:
            await stage.working
        result = "maximum number of evicted pods per node reached"
        assert read(metrics, EVICTED, result=result, namespace="shop", node="n1") == 1
        assert read(metrics, "resettle_verdicts_total", verdict="refused", code="limit-node") == 1

    play(scenario())


def test_a_dry_run_counts_as_in_upstream_and_is_labelled_as_a_dry_run() -> None:
    async def scenario() -> None:
        metrics = RunMetrics()
        async with metered(metrics, world(pod("a", age=OLD)), interval=0, dry_run=True) as stage:
            await stage.working
        assert read(metrics, EVICTED, result="success") == 1
        assert read(metrics, "resettle_moves_total", outcome="shown") == 1
        assert read(metrics, "resettle_moves_total", outcome="evicted") == 0

    play(scenario())


# -- cycles and plans ----------------------------------------------------------------------------


def test_metrics_of_a_cycle_show_all_that_it_decided() -> None:
    async def scenario() -> None:
        metrics = RunMetrics()
        shy = budget("shy", allowed=0, labels={"app": "shy"})
        pods = (pod("a", age=OLD), pod("b", age=OLD, labels={"app": "shy"}), pod("c", age="1m"))
        async with metered(metrics, [*world(*pods), shy]) as stage:
            await stage.cycles(1)
            metrics.update(stage.runner.status())
        assert read(metrics, "resettle_plan_moves") == 1
        assert read(metrics, "resettle_plan_pods") == 3
        assert read(metrics, "resettle_plan_nodes") == 2
        assert 0 < read(metrics, "resettle_templates_per_pod") <= 1
        assert read(metrics, "resettle_verdicts_total", verdict="admitted") == 1
        assert read(metrics, "resettle_verdicts_total", verdict="refused", code="budget") == 1
        who = {"point": "deschedule", "profile": "main", "plugin": "PodLifeTime"}
        assert read(metrics, "resettle_extension_point_runs_total", result="done", **who) == 1
        assert read(metrics, "resettle_extension_point_duration_seconds_count", **who) == 1
        for phase in ("snapshot", "plan", "carry-out"):
            assert read(metrics, "resettle_phase_duration_seconds_count", phase=phase) == 1
        assert read(metrics, "descheduler_loop_duration_seconds_count") == 1
        assert read(metrics, "resettle_last_cycle_result", result="done") == 1
        assert read(metrics, "resettle_last_cycle_result") == 1
        assert read(metrics, "resettle_last_cycle_timestamp_seconds") > 0
        assert read(metrics, "resettle_cycle_interval_seconds") == 20
        assert read(metrics, "resettle_cache_synced") == 1
        kinds = {
            reading.labels["kind"]
            for reading in readings(metrics.text())
            if "kind" in reading.labels
        }
        assert {"Node", "Pod", "PodDisruptionBudget"} == kinds

    play(scenario())


def test_a_strategy_that_moves_nothing_begins_at_zero_so_that_its_first_move_is_a_rise() -> None:
    async def scenario() -> None:
        metrics = RunMetrics()
        async with metered(metrics, world(pod("a", age="1m"))) as stage:
            await stage.cycles(1)
        (moves,) = [
            reading
            for reading in readings(metrics.text())
            if reading.name == "resettle_moves_total"
        ]
        labels = {"profile": "main", "plugin": "PodLifeTime", "outcome": "evicted"}
        assert (moves.labels, moves.value) == (labels, 0)

    play(scenario())


def test_a_plugin_that_fails_shows_in_its_turns_and_in_the_cycle() -> None:
    def broken(*given: Any) -> None:
        raise ArithmeticError("seven")

    async def scenario() -> None:
        metrics = RunMetrics()
        plugin = Plugin(name="Broken", deschedule=broken)
        old = {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 3600}}
        configs: list[Any] = [{"name": "Broken"}, old]
        document = policy("Broken", "PodLifeTime", configs=configs)
        given = (world(pod("a", age=OLD)), document)
        async with metered(metrics, *given, plugins=[plugin], interval=0) as stage:
            assert await stage.working == 1
        runs = "resettle_extension_point_runs_total"
        assert read(metrics, runs, plugin="Broken", result="failed") == 1
        assert read(metrics, runs, plugin="PodLifeTime", result="done") == 1
        assert read(metrics, "resettle_cycles_total", result="plugin-failed") == 1

    play(scenario())


def test_a_cycle_that_finds_nothing_to_go_by_counts_as_skipped() -> None:
    async def scenario() -> None:
        metrics = RunMetrics()
        async with metered(metrics, [node("n1").node], interval=0) as stage:
            await stage.working
        assert read(metrics, "resettle_cycles_total", result="skipped") == 1
        assert read(metrics, "descheduler_loop_duration_seconds_count") == 1

    play(scenario())


def test_a_policy_that_turns_bad_shows_until_it_is_corrected() -> None:
    async def scenario() -> None:
        metrics = RunMetrics()

        def usable(stage: Running) -> tuple[float, float]:
            metrics.update(stage.runner.status())
            name = "resettle_policy_last_reload_success"
            return read(metrics, f"{name}ful"), read(metrics, f"{name}_timestamp_seconds")

        async with metered(metrics, world(pod("a"))) as stage:
            await stage.cycles(1)
            good, taken_at = usable(stage)
            assert good == 1
            stage.write("apiVersion: nonsense")
            await stage.next_cycle()
            assert usable(stage) == (0, taken_at)
            stage.write(policy(nodeSelector="none=such"))
            await stage.next_cycle()
            assert usable(stage) == (1, taken_at + 40)

    play(scenario())


# -- all of them ---------------------------------------------------------------------------------


def test_every_metric_of_the_catalogue_has_its_kind_and_its_labels() -> None:
    async def scenario() -> None:
        metrics = RunMetrics()
        async with metered(metrics, world(pod("a", age=OLD))) as stage:
            stage.server.faults.add(Fault(path="*/a/eviction", status=504, times=1))
            await stage.cycles(1)
            metrics.update(stage.runner.status())
        text = metrics.text()
        kinds = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text.decode(), re.M))
        for meter in RUN_CATALOGUE:
            assert kinds[meter.name] == meter.kind
            names = {meter.name, f"{meter.name}_count"}
            for line in readings(text):
                if line.name in names:
                    assert set(line.labels) == set(meter.labels)

    play(scenario())


def test_nothing_of_ours_grows_with_the_cluster() -> None:
    metrics = [metric for metric in RUN_CATALOGUE if metric.name.startswith("resettle_")]
    ours = {label for metric in metrics for label in metric.labels}

    assert not ours & {"pod", "uid", "node", "namespace", "owner", "reason"}


def test_a_reset_has_everything_begin_at_zero() -> None:
    metrics = RunMetrics()
    metrics.move_sent(to_leave(seen()), MoveResponse(MoveResult.EVICTED))
    metrics.update(ComponentStatus(role=Role.ALONE))

    metrics.reset()

    assert read(metrics, EVICTED) == 0
    assert read(metrics, "descheduler_build_info") == 1
    assert {
        reading.labels["result"]
        for reading in readings(metrics.text())
        if "result" in reading.labels
    } == {*Result}


def test_kinds_that_were_never_listed_have_no_age() -> None:
    metrics = RunMetrics()

    metrics.update(ComponentStatus(role=Role.ALONE, ages={"Pod": float("inf"), "Node": 3.0}))

    assert read(metrics, "resettle_cache_age_seconds") == 3
    metrics.update(ComponentStatus(role=Role.STANDBY))
    assert read(metrics, "resettle_cache_age_seconds") == 0
    assert read(metrics, "resettle_cache_synced") == 0
    assert read(metrics, "resettle_role", role="standby") == 1
    assert read(metrics, "resettle_role") == 1


# -- controllers ---------------------------------------------------------------------------------


def controller(name: str, *, running: bool = True, restarts: int = 0) -> ControllerStatus:
    return ControllerStatus(profile="main", name=name, running=running, restarts=restarts)


def test_controllers_are_shown_while_they_are_there() -> None:
    metrics = RunMetrics()
    status = ComponentStatus(role=Role.ALONE)
    both = (controller("Tidy"), controller("Jobs", running=False, restarts=3))
    metrics.update(structs.replace(status, controllers=both))

    for name, is_running, restarts in (("Tidy", 1, 0), ("Jobs", 0, 3)):
        labels = {"profile": "main", "controller": name}
        assert read(metrics, "resettle_controller_running", **labels) == is_running
        assert read(metrics, "resettle_controller_restarts", **labels) == restarts

    metrics.update(structs.replace(status, controllers=both[:1]))
    text = metrics.text().decode()
    assert 'controller="Tidy"' in text
    assert 'controller="Jobs"' not in text, "it would look as if it still ran"


@pytest.mark.parametrize("left", [True, False])
def test_a_move_that_an_object_asks_for_is_not_counted_as_an_eviction(left: bool) -> None:
    entry = InFlightMove(seen(), MoveStage.REQUESTED, 0.0, "PodLifeTime", "daily")

    assert final_result(entry, left) == ""
