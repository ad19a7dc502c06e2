"""Making it so: one patch a node, with all its taints, if it is still as it was read.

    read the node ──► as wanted already?  nothing is written
         ▲                   │
         │                   ▼
         └── 409 or ── patch of the whole list, on the version that was read
             no answer

Whoever else writes the node meanwhile is not overwritten: the node is read again, and the list
worked out anew. One node that fails stops no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Protocol

import msgspec
from msgspec import Struct, field

from resettle.cluster.refusals import refused
from resettle.controllers.soft_taints.corrections import TaintPatch, Written, rewritten
from resettle.errors import AnswerLost, ClusterError, ClusterUnreachable, NotNow
from resettle.kube.transport.client import Answer, Client

AT_ONCE = 20
"""Nodes that are being written at the same time."""
TRIES = 6
"""How often a node is read again that others keep writing."""
LOST = 2
"""Answers that never came for one node before it is left to the next round."""
MERGE = "application/merge-patch+json"


class Ending(StrEnum):
    """How the writing of one node ended."""

    WRITTEN = "written"
    ALREADY_SO = "already-so"
    GONE = "gone"
    FAILED = "failed"
    UNSENT = "unsent"


class Outcome(Struct, frozen=True):
    """What became of a patch."""

    patch: TaintPatch
    ending: Ending
    says: str = ""
    conflicts: int = 0
    """How often somebody else wrote the node while it was being written."""


class TaintWriter(Protocol):
    """Whoever can make a node have the taints of a patch."""

    async def write(self, patch: TaintPatch) -> Outcome:
        """Writes one node; raises `NotNow` when nothing more may be written, anywhere."""


async def apply(
    api: TaintWriter, patches: Iterable[TaintPatch], *, at_once: int = AT_ONCE
) -> list[Outcome]:
    """What became of each patch, in their order."""
    every = list(patches)
    outcomes = [Outcome(patch, Ending.UNSENT) for patch in every]
    todo = iter(enumerate(every))

    async def work() -> None:
        for index, patch in todo:
            try:
                outcomes[index] = await api.write(patch)
            except NotNow as error:
                outcomes[index] = Outcome(patch, Ending.UNSENT, str(error))
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(min(at_once, len(every))):
            group.create_task(work())
    return outcomes


class _Meta(Struct):
    resource_version: str = field(name="resourceVersion", default="")


class _Spec(Struct):
    taints: list[Written] | None = None


class _Node(Struct):
    metadata: _Meta
    spec: _Spec = field(default_factory=_Spec)


class NodeWriter:
    """Writes nodes of one API server, while `may_act` has nothing against it."""

    def __init__(self, client: Client, may_act: Callable[[], None]) -> None:
        self._client = client
        self._may_act = may_act

    async def write(self, patch: TaintPatch) -> Outcome:
        """Reads the node and writes what differs, again if somebody else wrote it in between."""
        lost = conflicts = 0
        try:
            for _ in range(TRIES):
                try:
                    ending = await self._tried(patch)
                except AnswerLost as error:
                    # The node itself tells whether it was done.
                    lost += 1
                    if lost == LOST:
                        return Outcome(patch, Ending.FAILED, str(error), conflicts)
                    continue
                if ending is None:
                    conflicts += 1
                    continue
                if ending is Ending.ALREADY_SO and lost:
                    ending = Ending.WRITTEN
                return Outcome(patch, ending, conflicts=conflicts)
        except ClusterUnreachable as error:
            # The next node would fare no better: the rest waits for the next round.
            raise NotNow(str(error)) from None
        except ClusterError as error:
            return Outcome(patch, Ending.FAILED, str(error), conflicts)
        says = f"others wrote the node {TRIES} times while it was being read"
        return Outcome(patch, Ending.FAILED, says, conflicts)

    async def _tried(self, patch: TaintPatch) -> Ending | None:
        """How it ended; None if the node has to be read again."""
        path = f"/api/v1/nodes/{patch.node}"
        read = await self._client.send("GET", path)
        if read.status == 404:
            return Ending.GONE
        node = self._decoded(read)
        before = node.spec.taints or []
        after = rewritten(before, patch)
        if after == before:
            return Ending.ALREADY_SO
        body = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": after or None},
        }
        answer = await self._client.send(
            "PATCH",
            path,
            msgspec.json.encode(body),
            content_type=MERGE,
            before=self._may_act,
        )
        match answer.status:
            case 409:
                return None
            case 404:
                return Ending.GONE
        if not answer.fine:
            raise refused(answer, "patch", "nodes", access=self._client.access)
        return Ending.WRITTEN

    def _decoded(self, read: Answer) -> _Node:
        if not read.fine:
            raise refused(read, "get", "nodes", access=self._client.access)
        try:
            return msgspec.json.decode(read.body, type=_Node)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ClusterError(
                f"{self._client.server} sent a node that cannot be understood: {error}"
            ) from None
