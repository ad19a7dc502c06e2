"""All that measures for one policy, asked once a cycle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from resettle.clock import SYSTEM, Clock
from resettle.errors import ResettleError
from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client
from resettle.model.measurements import KUBERNETES_METRICS, PROMETHEUS, Measured, Question, Readings
from resettle.policy.document import MetricsProvider, Prometheus
from resettle.utilization.sources.metrics_api import POLL_SECONDS, MetricsApi
from resettle.utilization.sources.prometheus import PrometheusServer


async def measured_once(
    access: Access, questions: Iterable[Question], providers: Iterable[MetricsProvider]
) -> Measured:
    """The answers for somebody who asks only once."""
    async with Client(access) as cluster, measuring(cluster) as meters:
        meters.serve(questions, providers)
        return await meters.measured()


@asynccontextmanager
async def measuring(
    cluster: Client, clock: Clock = SYSTEM, *, again: bool = False
) -> AsyncIterator[Meters]:
    """Meters while the block lasts; `again` says that they will be asked more than once."""
    meters = Meters(cluster, clock)
    following = asyncio.create_task(meters.keep_looking()) if again else None
    try:
        yield meters
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        await meters.close()


class Meters:
    """Answers the questions of a policy, which may become another one."""

    def __init__(self, cluster: Client, clock: Clock = SYSTEM) -> None:
        self._cluster = cluster
        self._clock = clock
        self._api = MetricsApi(cluster, clock)
        self._questions: frozenset[Question] = frozenset()
        self._followed = asyncio.Event()
        self._provider: Prometheus | None = None
        self._server: PrometheusServer | None = None
        self._retired: list[PrometheusServer] = []

    def serve(self, questions: Iterable[Question], providers: Iterable[MetricsProvider]) -> None:
        """From now on these questions are answered by these providers."""
        self._questions = frozenset(questions)
        if self._about(KUBERNETES_METRICS):
            self._followed.set()
        else:
            self._followed.clear()
        named = (it.prometheus for it in providers if it.source == PROMETHEUS)
        provider = next(named, None)
        if provider != self._provider:
            self._provider = provider
            if self._server is not None:
                self._retired.append(self._server)
                self._server = None

    async def measured(self) -> Measured:
        """The answers, each as it came or with the reason why none did."""
        await self._let_go()
        found: dict[Question, Readings] = {}
        if of_metrics := self._about(KUBERNETES_METRICS):
            known = await self._api.readings()
            found |= {question: known[question] for question in of_metrics}
        if of_prometheus := self._about(PROMETHEUS):
            found |= await self._ask(of_prometheus)
        return found

    async def keep_looking(self) -> None:
        """Follows what nodes use from look to look, as long as the policy goes by it."""
        while True:
            await self._followed.wait()
            began = self._clock.steady()
            await self._api.look()
            spent = self._clock.steady() - began
            await self._clock.sleep(max(0.0, POLL_SECONDS - spent))

    async def close(self) -> None:
        """Ends all connections."""
        await self._let_go()
        if self._server is not None:
            await self._server.close()

    async def _let_go(self) -> None:
        """Hangs up on servers that are asked no more."""
        while self._retired:
            await self._retired.pop().close()

    def _about(self, source: str) -> frozenset[Question]:
        return frozenset(it for it in self._questions if it.source == source)

    async def _ask(self, questions: frozenset[Question]) -> Measured:
        if self._provider is None:
            return {}
        try:
            self._server = self._server or PrometheusServer(
                self._provider, self._cluster, self._clock
            )
        except ResettleError as error:
            return dict.fromkeys(questions, Readings(failure=str(error)))
        return await self._server.answers(questions)
