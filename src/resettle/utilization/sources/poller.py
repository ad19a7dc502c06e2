"""UsagePoller: asks the metrics API and Prometheus what the plugins of a policy need.

The metrics API is polled in the background, because its figures are smoothed over time; Prometheus
is asked once a cycle.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from resettle.clock import SYSTEM, Clock
from resettle.errors import ResettleError
from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client
from resettle.model.measurements import (
    KUBERNETES_METRICS,
    PROMETHEUS,
    Measured,
    MetricsQuery,
    Readings,
)
from resettle.policy.document import MetricsProvider, Prometheus
from resettle.utilization.sources.metrics_api import POLL_SECONDS, MetricsApi
from resettle.utilization.sources.prometheus import PrometheusServer


async def measure_once(
    access: Access, questions: Iterable[MetricsQuery], providers: Iterable[MetricsProvider]
) -> Measured:
    """The answers for a command that asks only once."""
    async with Client(access) as cluster, run_usage_poller(cluster) as poller:
        poller.set_questions(questions, providers)
        return await poller.measure()


@asynccontextmanager
async def run_usage_poller(
    cluster: Client, clock: Clock = SYSTEM, *, repeatedly: bool = False
) -> AsyncIterator[UsagePoller]:
    """A UsagePoller while the block lasts; `repeatedly` polls in the background."""
    poller = UsagePoller(cluster, clock)
    polling = asyncio.create_task(poller.poll_forever()) if repeatedly else None
    try:
        yield poller
    finally:
        if polling is not None:
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
        await poller.close()


class UsagePoller:
    """Answers the questions of a policy, which may change while it runs."""

    def __init__(self, cluster: Client, clock: Clock = SYSTEM) -> None:
        self._cluster = cluster
        self._clock = clock
        self._api = MetricsApi(cluster, clock)
        self._questions: frozenset[MetricsQuery] = frozenset()
        self._needs_metrics_api = asyncio.Event()
        self._provider: Prometheus | None = None
        self._server: PrometheusServer | None = None
        self._retired: list[PrometheusServer] = []

    def set_questions(
        self, questions: Iterable[MetricsQuery], providers: Iterable[MetricsProvider]
    ) -> None:
        """Use these questions and providers from now on."""
        self._questions = frozenset(questions)
        if self._questions_for(KUBERNETES_METRICS):
            self._needs_metrics_api.set()
        else:
            self._needs_metrics_api.clear()
        named = (provider.prometheus for provider in providers if provider.source == PROMETHEUS)
        provider = next(named, None)
        if provider != self._provider:
            self._provider = provider
            if self._server is not None:
                self._retired.append(self._server)
                self._server = None

    async def measure(self) -> Measured:
        """All answers; one that failed has the reason."""
        await self._close_retired()
        answers: dict[MetricsQuery, Readings] = {}
        if of_metrics := self._questions_for(KUBERNETES_METRICS):
            known = await self._api.readings()
            answers |= {question: known[question] for question in of_metrics}
        if of_prometheus := self._questions_for(PROMETHEUS):
            answers |= await self._ask_prometheus(of_prometheus)
        return answers

    async def poll_forever(self) -> None:
        """Poll the metrics API every few seconds while the policy needs it."""
        while True:
            await self._needs_metrics_api.wait()
            began = self._clock.steady()
            await self._api.poll()
            spent = self._clock.steady() - began
            await self._clock.sleep(max(0.0, POLL_SECONDS - spent))

    async def close(self) -> None:
        """Close all connections."""
        await self._close_retired()
        if self._server is not None:
            await self._server.close()

    async def _close_retired(self) -> None:
        """Close connections to servers that are no longer asked."""
        while self._retired:
            await self._retired.pop().close()

    def _questions_for(self, source: str) -> frozenset[MetricsQuery]:
        return frozenset(question for question in self._questions if question.source == source)

    async def _ask_prometheus(self, questions: frozenset[MetricsQuery]) -> Measured:
        if self._provider is None:
            return {}
        try:
            self._server = self._server or PrometheusServer(
                self._provider, self._cluster, self._clock
            )
        except ResettleError as error:
            return dict.fromkeys(questions, Readings(failure=str(error)))
        return await self._server.answers(questions)
