"""The metrics API, `metrics.k8s.io`: what nodes and pods use of cpu and memory.

One list has all nodes and one all pods, however many there are. What nodes use is looked at every
few seconds and evened out, as kubernetes-sigs/descheduler does: of each new look a tenth counts.
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
from resettle.kube.failures import refused
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
from resettle.model.resources import NANO, counted

GROUP = "metrics.k8s.io"
PATH = f"/apis/{GROUP}/v1beta1"
POLL_SECONDS = 5
REMEMBERED = timedelta(minutes=10)
"""How long a node that is told of no more is remembered."""
_OLD_COUNTS = 0.9
_MILLI = NANO // 1000
Page = TypeVar("Page", bound=Struct)


class MetricsApi:
    """The latest figures, and the same evened out; one look after the other."""

    def __init__(self, client: Client, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._clock = clock
        self._latest: dict[str, Used] = {}
        self._smooth: dict[str, Used] = {}
        self._failure = ""
        self._looked = False

    async def look(self) -> None:
        """One look at all nodes; one that fails leaves what is known as it is, to grow old."""
        try:
            seen = await asyncio.to_thread(of_nodes, await self._listed("nodes"))
        except ResettleError as error:
            self._failure = str(error)
            return
        finally:
            self._looked = True
        self._failure = ""
        self._latest = self._kept(self._latest) | seen
        evened = {name: evened_out(self._smooth.get(name), used) for name, used in seen.items()}
        self._smooth = self._kept(self._smooth) | evened

    async def readings(self) -> Measured:
        """What is known now of nodes, and what pods use at this moment."""
        if not self._looked:
            await self.look()
        if not self._latest:
            failed = Readings(failure=self._failure or "the metrics API knows no node")
            return {METRICS_API: failed, SMOOTHED: failed}
        try:
            pods = await asyncio.to_thread(of_pods, await self._listed("pods"))
        except ResettleError as error:
            failed = Readings(failure=str(error))
            return {METRICS_API: failed, SMOOTHED: failed}
        return {
            METRICS_API: Readings(nodes=self._latest, pods=pods),
            SMOOTHED: Readings(nodes=self._smooth, pods=pods),
        }

    def _kept(self, known: Mapping[str, Used]) -> dict[str, Used]:
        since = self._clock.now() - REMEMBERED
        return {name: used for name, used in known.items() if used.at > since}

    async def _listed(self, plural: str) -> bytes:
        answer = await self._client.send("GET", f"{PATH}/{plural}", patience=0)
        if answer.status == 404:
            raise ClusterError(
                f"{self._client.server} does not serve {GROUP}; install a metrics server"
            )
        if not answer.fine:
            raise refused(answer, "list", plural, group=GROUP, access=self._client.access)
        return answer.body


class _Nodes(Struct):
    items: list[NodeMetrics] | None = None


class _Pods(Struct):
    items: list[PodMetrics] | None = None


def of_nodes(body: bytes) -> dict[str, Used]:
    """What each node of a list uses; whoever is told of in a way that cannot be is left out."""
    found = {}
    for item in _read(body, _Nodes).items or ():
        with suppress(InputError):
            if used := used_by_node(item):
                found[item.metadata.name] = used
    return found


def of_pods(body: bytes) -> dict[str, Used]:
    """The same of pods."""
    found = {}
    for item in _read(body, _Pods).items or ():
        with suppress(InputError):
            if used := used_by_pod(item):
                found[item.key] = used
    return found


def _read(body: bytes, page: type[Page]) -> Page:
    try:
        return msgspec.json.decode(body, type=page)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ClusterError(f"a list of {GROUP} cannot be understood: {error}") from None


def evened_out(before: Used | None, now: Used) -> Used:
    """The new figures, with nine parts of the old to one of the new; the first as they are."""
    if before is None:
        return now
    return Used(
        now.at,
        {
            name: _mixed(name, before.amounts[name], amount) if name in before.amounts else amount
            for name, amount in now.amounts.items()
        },
    )


def _mixed(name: str, old: int, new: int) -> int:
    """In whole thousandths of cpu or whole units, half of one upwards."""
    mean = _OLD_COUNTS * counted(name, old) + (1 - _OLD_COUNTS) * counted(name, new)
    return math.floor(mean + 0.5) * (_MILLI if name == "cpu" else NANO)
