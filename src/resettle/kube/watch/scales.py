"""Reads `scale` subresources: how many replicas a workload of any kind should have.

Kinds such as OpenKruise's CloneSet are not watched: their objects may be large, and a role would
have to allow reading all of them. Their `scale` says what is needed. What was read is used again
for half a minute. What cannot be read is left out, so that its workload stays unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from resettle.clock import SYSTEM, Clock
from resettle.errors import ClusterError, ResettleError
from resettle.kube.auth.access import Access
from resettle.kube.failures import refusal_error
from resettle.kube.transport.client import Client
from resettle.log import QUIET, Log
from resettle.model.decoding.workloads import ScaleObject, scale_of
from resettle.model.workloads import ScaledObject, ScaleKind, Workload

FRESH_SECONDS = 30.0
"""How long an answer is used again."""
AT_ONCE = 8
"""Requests that are under way at the same time."""
MOST_READS = 2000
"""Objects that are read for one snapshot; more would take too long, and stay unknown."""


class _Resource(Struct):
    name: str = ""
    kind: str = ""


class _Discovery(Struct):
    resources: list[_Resource] | None = None


class _Answer(Struct):
    """What was read of one object, or why it could not be read."""

    read_at: float
    workload: Workload | None = None
    problem: str = ""


class ScaleReader:
    """Reads the scale of objects, and keeps the answers for a while."""

    def __init__(self, client: Client, clock: Clock = SYSTEM, log: Log = QUIET) -> None:
        self._client = client
        self._clock = clock
        self._log = log
        self._answers: dict[ScaledObject, _Answer] = {}
        self._plurals: dict[ScaleKind, str] = {}

    async def read(self, objects: Iterable[ScaledObject]) -> tuple[Workload, ...]:
        """The objects whose scale is known, in order."""
        now = self._clock.steady()
        wanted = sorted(set(objects))
        self._answers = {
            obj: answer
            for obj in wanted
            if (answer := self._answers.get(obj)) and now - answer.read_at < FRESH_SECONDS
        }
        missing = [obj for obj in wanted if obj not in self._answers]
        if len(missing) > MOST_READS:
            self._log.warning("scales not read", objects=len(missing) - MOST_READS, reason="limit")
        await self._read_all(missing[:MOST_READS], now)
        answers = (self._answers.get(obj) for obj in wanted)
        return tuple(answer.workload for answer in answers if answer and answer.workload)

    async def _read_all(self, objects: list[ScaledObject], now: float) -> None:
        plurals = {kind: await self._plural(kind) for kind in {obj.kind for obj in objects}}
        turns = asyncio.Semaphore(AT_ONCE)

        async def answer_for(obj: ScaledObject) -> _Answer:
            plural = plurals[obj.kind]
            if isinstance(plural, ResettleError):
                return _Answer(now, problem=str(plural))
            async with turns:
                try:
                    return _Answer(now, await self._scale(obj, plural))
                except ResettleError as error:
                    return _Answer(now, problem=str(error))

        answers = await asyncio.gather(*map(answer_for, objects))
        self._answers |= zip(objects, answers, strict=True)
        problems: dict[str, int] = {}
        for answer in answers:
            if answer.problem:
                problems[answer.problem] = problems.get(answer.problem, 0) + 1
        for problem, count in problems.items():
            self._log.warning("scales not read", objects=count, reason=problem)

    async def _plural(self, kind: ScaleKind) -> str | ResettleError:
        """The resource name of the kind, as the API server calls it, or why it is not known."""
        known = self._plurals.get(kind)
        if known is not None:
            return known
        try:
            served: _Discovery = await self._get(f"/apis/{kind.api_version}", _Discovery, kind, "")
        except ResettleError as error:
            return error
        names = {resource.name: resource.kind for resource in served.resources or ()}
        for name, of_kind in names.items():
            if of_kind == kind.kind and f"{name}/scale" in names:
                self._plurals[kind] = name
                return name
        return ClusterError(f"{kind.api_version} has no kind {kind.kind} with a scale subresource")

    async def _scale(self, obj: ScaledObject, plural: str) -> Workload:
        kind = obj.kind
        place = f"namespaces/{obj.namespace}/{plural}/{obj.name}/scale"
        resource = f"{plural}/scale"
        item = await self._get(f"/apis/{kind.api_version}/{place}", ScaleObject, kind, resource)
        return scale_of(item, kind.kind, kind.api_version)

    async def _get(self, path: str, struct: type[Any], kind: ScaleKind, resource: str) -> Any:
        answer = await self._client.send("GET", path, patience=0)
        if answer.status == 404:
            raise ClusterError(f"{self._client.server} has no {path}")
        if not answer.is_success:
            access, group = self._client.access, kind.group
            raise refusal_error(answer, "get", resource or group, group=group, access=access)
        try:
            return msgspec.json.decode(answer.body, type=struct)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ClusterError(f"the answer for {path} cannot be decoded: {error}") from None


async def read_scales_once(
    access: Access, objects: Iterable[ScaledObject], log: Log = QUIET
) -> tuple[Workload, ...]:
    """The scales for a command that asks only once."""
    async with Client(access) as client:
        return await ScaleReader(client, log=log).read(objects)
