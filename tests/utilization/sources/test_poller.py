"""Who measures for a run: asked each cycle, followed in between, exchanged with the policy."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from resettle.testing import DeniedPermission, Fault, cluster, node, node_metrics, pod, pod_metrics
from tests.runtime.harness import Stage, policy, running
from tests.utilization.sources.fakes import seeing, truth

NODES = "/apis/metrics.k8s.io/v1beta1/nodes"
PODS = "/apis/metrics.k8s.io/v1beta1/pods"


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def balancing(source: dict[str, Any], provider: dict[str, Any], **thresholds: Any) -> Any:
    """A policy that balances by what the source says."""
    args = {**thresholds, "metricsUtilization": source}
    profile = {
        "name": "main",
        "pluginConfig": [{"name": "LowNodeUtilization", "args": args}],
        "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
    }
    return {**policy(), "metricsProviders": [provider], "profiles": [profile]}


BY_API = balancing(
    {"source": "KubernetesMetrics"},
    {"source": "KubernetesMetrics"},
    thresholds={"cpu": 20},
    targetThresholds={"cpu": 60},
)


def by_query(url: str) -> Any:
    return balancing(
        {"source": "Prometheus", "prometheus": {"query": "busy"}},
        {"source": "Prometheus", "prometheus": {"url": url}},
        thresholds={"MetricResource": 20},
        targetThresholds={"MetricResource": 60},
    )


def objects(hot: str = "3600m") -> list[dict[str, Any]]:
    pods = [pod(f"web-{i}", cpu="100m") for i in range(5)]
    world = cluster(node("hot").holding(*pods), node("cold"))
    uses = [pod_metrics(f"web-{i}", cpu="700m") for i in range(5)]
    return [
        *world.objects,
        node_metrics("hot", cpu=hot),
        node_metrics("cold", cpu="100m"),
        *uses,
    ]


def looks(stage: Stage, path: str) -> int:
    return sum(request.path == path for request in stage.server.requests)


async def both_asleep(stage: Stage) -> None:
    """Returns once the runner waits for its next cycle, and the meter for its next look."""
    await stage.clock.wait_for_sleepers(2)


def test_a_run_uses_what_is_measured() -> None:
    async def scenario() -> None:
        async with running(objects(), BY_API, interval=0.0) as stage:
            assert await stage.working == 0
            assert len(stage.evictions) == 2
            assert looks(stage, NODES) == looks(stage, PODS) == 1

    run(scenario())


def test_between_cycles_nodes_are_looked_at_every_few_seconds() -> None:
    async def scenario() -> None:
        async with running(objects(hot="100m"), BY_API) as stage:
            await stage.cycles(1)
            await both_asleep(stage)
            before = looks(stage, NODES)
            stage.clock.advance(timedelta(seconds=5))
            await stage.until(lambda: looks(stage, NODES) > before)
            assert looks(stage, PODS) == 1, "pods are asked about once a cycle"

    run(scenario())


def test_a_policy_that_measures_nothing_asks_no_source() -> None:
    async def scenario() -> None:
        async with running(objects()) as stage:
            await stage.cycles(1)
            await stage.next_cycle()
            assert looks(stage, NODES) == 0

    run(scenario())


def test_the_server_is_exchanged_with_the_policy() -> None:
    async def scenario() -> None:
        with seeing(truth({"hot": 0.9, "cold": 0.1})) as first, seeing(truth({})) as second:
            async with running(objects(), by_query(first.url)) as stage:
                await stage.cycles(1)
                assert len(stage.evictions) == 1
                stage.write(by_query(second.url))
                await stage.next_cycle()
                assert (len(first.asked), len(second.asked)) == (2, 2)
                (failed,) = stage.log_lines("plugin failed")
                assert "has no sample in the answer, which is empty" in failed

    run(scenario())


def test_a_policy_that_asks_another_source_leaves_the_metrics_api_alone() -> None:
    async def scenario() -> None:
        with seeing(truth({"hot": 0.9, "cold": 0.1})) as seer:
            async with running(objects(hot="100m"), BY_API) as stage:
                await stage.cycles(1)
                await both_asleep(stage)
                stage.write(by_query(seer.url))
                await stage.next_cycle()
                assert len(stage.evictions) == 1
                assert looks(stage, PODS) == 1

    run(scenario())


def test_a_source_that_fails_costs_a_cycle_and_not_the_run() -> None:
    async def scenario() -> None:
        async with running(objects(), BY_API) as stage:
            stage.server.faults.add(Fault(status=503, path=PODS))
            await stage.cycles(1)
            assert stage.evictions == []
            assert "answered 503 to a list of pods" in stage.log_lines("plugin failed")[0]
            await both_asleep(stage)
            await stage.next_cycle()
            assert len(stage.evictions) == 2

    run(scenario())


def test_a_run_that_may_not_measure_does_not_start() -> None:
    async def scenario() -> None:
        async with running(objects(), BY_API) as stage:
            stage.server.denied.append(DeniedPermission(verb="list", group="metrics.k8s.io"))
            await asyncio.gather(stage.working, return_exceptions=True)
            error = stage.working.exception()
            assert "may not list nodes of metrics.k8s.io" in str(error)

    run(scenario())
