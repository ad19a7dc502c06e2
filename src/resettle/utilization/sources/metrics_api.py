"""The metrics API, `metrics.k8s.io`: what nodes and pods use of cpu and memory.

One list has all nodes and one all pods, however many there are. Node usage is polled every few
seconds and smoothed as upstream does it: nine parts of the old figure to one of the new.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

import msgspec
from msgspec import Struct

from resettle.clock import SYSTEM, Clock
from resettle.errors import ClusterError, InputError, ResettleError
from resettle.kube.failures import refusal_error
from resettle.kube.transport.client import Client
from resettle.model.decoding.wire import NodeMetrics, PodMetrics
from resettle.model.measurements import (
    METRICS_API,
    SMOOTHED,
    Measured,
    Readings,
    Used,
    used_by_node,
    used_by_pod,
)
from resettle.model.resources import NANO, in_resource_unit

GROUP = "metrics.k8s.io"
PATH = f"/apis/{GROUP}/v1beta1"
POLL_SECONDS = 5
FORGET_AFTER = timedelta(minutes=10)
"""How long a node that is no longer listed is remembered."""
_OLD_WEIGHT = 0.9
_MILLI = NANO // 1000
Page = TypeVar("Page", bound=Struct)


class MetricsApi:
    """The latest figures of all nodes, raw and smoothed."""

    def __init__(self, client: Client, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._clock = clock
        self._latest: dict[str, Used] = {}
        self._smooth: dict[str, Used] = {}
        self._failure = ""
        self._polled = False

    async def poll(self) -> None:
        """Read the usage of all nodes; on failure the known figures stay and grow old."""
        try:
            seen = await asyncio.to_thread(read_node_usage, await self._list("nodes"))
        except ResettleError as error:
            self._failure = str(error)
            return
        finally:
            self._polled = True
        self._failure = ""
        self._latest = self._without_expired(self._latest) | seen
        smoothed = {name: smooth(self._smooth.get(name), used) for name, used in seen.items()}
        self._smooth = self._without_expired(self._smooth) | smoothed

    async def readings(self) -> Measured:
        """The latest figures of nodes, and what pods use now."""
        if not self._polled:
            await self.poll()
        if not self._latest:
            failed = Readings(failure=self._failure or "the metrics API knows no node")
            return {METRICS_API: failed, SMOOTHED: failed}
        try:
            pods = await asyncio.to_thread(read_pod_usage, await self._list("pods"))
        except ResettleError as error:
            failed = Readings(failure=str(error))
            return {METRICS_API: failed, SMOOTHED: failed}
        return {
            METRICS_API: Readings(nodes=self._latest, pods=pods),
            SMOOTHED: Readings(nodes=self._smooth, pods=pods),
        }

    def _without_expired(self, known: Mapping[str, Used]) -> dict[str, Used]:
        since = self._clock.now() - FORGET_AFTER
        return {name: used for name, used in known.items() if used.at > since}

    async def _list(self, plural: str) -> bytes:
        answer = await self._client.send("GET", f"{PATH}/{plural}", patience=0)
        if answer.status == 404:
            raise ClusterError(
                f"{self._client.server} does not serve {GROUP}; install a metrics server"
            )
        if not answer.is_success:
            raise refusal_error(answer, "list", plural, group=GROUP, access=self._client.access)
        return answer.body


class _Nodes(Struct):
    items: list[NodeMetrics] | None = None


class _Pods(Struct):
    items: list[PodMetrics] | None = None


def read_node_usage(body: bytes) -> dict[str, Used]:
    """What each node of a list uses; entries that cannot be read are left out."""
    usage = {}
    for item in _read(body, _Nodes).items or ():
        with suppress(InputError):
            if used := used_by_node(item):
                usage[item.metadata.name] = used
    return usage


def read_pod_usage(body: bytes) -> dict[str, Used]:
    """What each pod of a list uses; entries that cannot be read are left out."""
    usage = {}
    for item in _read(body, _Pods).items or ():
        with suppress(InputError):
            if used := used_by_pod(item):
                usage[item.key] = used
    return usage


def _read(body: bytes, page: type[Page]) -> Page:
    try:
        return msgspec.json.decode(body, type=page)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ClusterError(f"a list of {GROUP} cannot be decoded: {error}") from None


def smooth(before: Used | None, now: Used) -> Used:
    """Nine parts of the old figures to one of the new; the first figures unchanged."""
    if before is None:
        return now
    return Used(
        now.at,
        {
            name: _weighted_mean(name, before.amounts[name], amount)
            if name in before.amounts
            else amount
            for name, amount in now.amounts.items()
        },
    )


def _weighted_mean(name: str, old: int, new: int) -> int:
    """The mean in whole milli-cpu or whole units, rounded half up."""
    mean = _OLD_WEIGHT * in_resource_unit(name, old) + (1 - _OLD_WEIGHT) * in_resource_unit(
        name, new
    )
    return math.floor(mean + 0.5) * (_MILLI if name == "cpu" else NANO)
