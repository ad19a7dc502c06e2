"""Writes the difference between the taints that nodes have and those they should have.

One patch a node, with all of its taints, written only if the node is still as it was read:

    read the node ──► as wanted already?  nothing is written
         ▲                   │
         │                   ▼
         └── 409 or ── patch of the whole list, on the version that was read
             no answer

Changes by others meanwhile are not overwritten: the node is read again, and the list worked out
again. One node that fails stops no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec
from msgspec import Struct, field

from resettle.controllers.soft_taints.desired import NodeTaints, OwnTaints
from resettle.errors import AnswerLost, ClusterError, ClusterUnreachable, NotNow
from resettle.kube.failures import refusal_error
from resettle.kube.transport.client import Answer, Client
from resettle.model.constraints import Taint
from resettle.model.snapshot import Snapshot

AT_ONCE = 20
"""Nodes that are being written at the same time."""
TRIES = 6
"""How often a node is read again that others keep writing."""
LOST = 2
"""Answers that never came for one node before it is left to the next pass."""
MERGE = "application/merge-patch+json"

RawTaint = dict[str, Any]
"""A taint as it stands in the spec of a node."""


# -- the difference --------------------------------------------------------------------------------


class TaintPatch(Struct, frozen=True, kw_only=True):
    """Our taints on one node: what it should have, what it had, and why that changes."""

    node: str
    wanted: tuple[Taint, ...]
    before: tuple[Taint, ...]
    ours: OwnTaints
    because: str = ""

    @property
    def added(self) -> list[Taint]:
        """Taints that were not there, or had another value."""
        return [taint for taint in self.wanted if taint not in self.before]

    @property
    def removed(self) -> list[Taint]:
        """Taints that are not to stay under their key."""
        keys = {taint.key for taint in self.wanted}
        return [taint for taint in self.before if taint.key not in keys]


def patches_for(snapshot: Snapshot, desired: NodeTaints, ours: OwnTaints) -> list[TaintPatch]:
    """A patch for each node whose taints differ from the desired ones, in the order of names."""
    patches = []
    for node in snapshot.node_index:
        wanted, before = desired[node.name], ours.on(node)
        if frozenset(before) != frozenset(wanted.taints):
            patches.append(
                TaintPatch(
                    node=node.name,
                    wanted=wanted.taints,
                    before=before,
                    ours=ours,
                    because=wanted.because,
                )
            )
    return patches


def patched_taints(taints: Sequence[RawTaint], patch: TaintPatch) -> list[RawTaint]:
    """All taints of the node after the patch: others as and where they are, ours as wanted.

    A taint of ours that is wanted stays in its place, with a new value if need be; what is missing
    comes last.
    """
    missing = {taint.key: taint for taint in patch.wanted}
    result = []
    for taint in taints:
        key = taint.get("key", "")
        if not patch.ours.includes(key, taint.get("effect", "")):
            result.append(taint)
        elif wanted := missing.pop(key, None):
            same = taint.get("value", "") == wanted.value
            result.append(taint if same else _raw(wanted))
    return [*result, *map(_raw, missing.values())]


def _raw(taint: Taint) -> RawTaint:
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}


# -- writing ---------------------------------------------------------------------------------------


class WriteResult(StrEnum):
    """How the writing of one node ended."""

    WRITTEN = "written"
    ALREADY_SO = "already-so"
    GONE = "gone"
    FAILED = "failed"
    UNSENT = "unsent"


class PatchResult(Struct, frozen=True):
    """The result of writing one patch."""

    patch: TaintPatch
    result: WriteResult
    says: str = ""
    conflicts: int = 0
    """How often others wrote the node while it was being written."""


class TaintWriter(Protocol):
    """Writes the taints of a patch to a node."""

    async def write(self, patch: TaintPatch) -> PatchResult:
        """Write one node; raises `NotNow` when nothing more may be written, anywhere."""


async def apply_patches(
    writer: TaintWriter, patches: Iterable[TaintPatch], *, at_once: int = AT_ONCE
) -> list[PatchResult]:
    """Write all patches, several at once; return the results in their order."""
    every = list(patches)
    results = [PatchResult(patch, WriteResult.UNSENT) for patch in every]
    todo = iter(enumerate(every))

    async def work() -> None:
        for index, patch in todo:
            try:
                results[index] = await writer.write(patch)
            except NotNow as error:
                results[index] = PatchResult(patch, WriteResult.UNSENT, str(error))
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(min(at_once, len(every))):
            group.create_task(work())
    return results


class _Meta(Struct):
    resource_version: str = field(name="resourceVersion", default="")


class _Spec(Struct):
    taints: list[RawTaint] | None = None


class _Node(Struct):
    metadata: _Meta
    spec: _Spec = field(default_factory=_Spec)


class NodeWriter:
    """Writes nodes of one API server, as long as `may_act` does not raise."""

    def __init__(self, client: Client, may_act: Callable[[], None]) -> None:
        self._client = client
        self._may_act = may_act

    async def write(self, patch: TaintPatch) -> PatchResult:
        """Read the node and write what differs, again if others wrote it in between."""
        lost = conflicts = 0
        try:
            for _ in range(TRIES):
                try:
                    result = await self._try(patch)
                except AnswerLost as error:
                    # Reading the node again shows whether it was done.
                    lost += 1
                    if lost == LOST:
                        return PatchResult(patch, WriteResult.FAILED, str(error), conflicts)
                    continue
                if result is None:
                    conflicts += 1
                    continue
                if result is WriteResult.ALREADY_SO and lost:
                    result = WriteResult.WRITTEN
                return PatchResult(patch, result, conflicts=conflicts)
        except ClusterUnreachable as error:
            # The next node would fail as well: the rest waits for the next pass.
            raise NotNow(str(error)) from None
        except ClusterError as error:
            return PatchResult(patch, WriteResult.FAILED, str(error), conflicts)
        says = f"others wrote the node {TRIES} times while it was being read"
        return PatchResult(patch, WriteResult.FAILED, says, conflicts)

    async def _try(self, patch: TaintPatch) -> WriteResult | None:
        """Write once and return the result; None if the node has to be read again."""
        path = f"/api/v1/nodes/{patch.node}"
        read = await self._client.send("GET", path)
        if read.status == 404:
            return WriteResult.GONE
        node = self._decode(read)
        before = node.spec.taints or []
        after = patched_taints(before, patch)
        if after == before:
            return WriteResult.ALREADY_SO
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
                return WriteResult.GONE
        if not answer.is_success:
            raise refusal_error(answer, "patch", "nodes", access=self._client.access)
        return WriteResult.WRITTEN

    def _decode(self, read: Answer) -> _Node:
        if not read.is_success:
            raise refusal_error(read, "get", "nodes", access=self._client.access)
        try:
            return msgspec.json.decode(read.body, type=_Node)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ClusterError(
                f"{self._client.server} sent a node that cannot be understood: {error}"
            ) from None
