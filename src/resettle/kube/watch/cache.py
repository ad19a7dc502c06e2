"""The cluster as the API server has it, always at hand.

Each kind that is read is listed once and watched from then on. A snapshot is made from the last one
and what has changed since, so it costs what has changed. Everything here happens on one event loop,
but for the lists, which are read in threads.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from resettle.clock import SYSTEM, Clock
from resettle.errors import ClusterError, ResettleError
from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client
from resettle.kube.watch.events import ObjectReader
from resettle.kube.watch.reflector import WATCH_SECONDS, Reflector
from resettle.kube.watch.store import Fingerprint, OnChange, CustomObjects, ObjectStore, to_change, fingerprint
from resettle.log import QUIET, Log
from resettle.model.changes import Changes
from resettle.model.decoding.decoder import Decoder
from resettle.model.kinds import ALWAYS_READ, KINDS, Kind, kinds_by_name
from resettle.model.pod import CONDITIONS, Pod
from resettle.model.snapshot import Snapshot

_NEVER = datetime.fromtimestamp(0, UTC)
_SLACK, _SPARE = 1.25, 100
"""How much more than is in use the decoder may remember: in proportion, and in any case."""


class Cache:
    """Nodes, pods and the other `kinds`, as of the last thing heard of each.

    Run it in a task of its own, and wait for `synced` before the first snapshot. `always` is for
    those who can do without pods.
    """

    def __init__(
        self,
        access: Access,
        client: Client,
        kinds: Iterable[str],
        own_kinds: Iterable[Kind] = (),
        clock: Clock = SYSTEM,
        log: Log = QUIET,
        *,
        always: Iterable[str] = ALWAYS_READ,
        watch_seconds: int = WATCH_SECONDS,
    ) -> None:
        kinds, known = frozenset(kinds), kinds_by_name(own_kinds)
        self._clock = clock
        self._decoder = Decoder(conditions=CONDITIONS in kinds)
        self._listeners: list[OnChange] = []
        self._ready = asyncio.Event()
        self._failure: ResettleError | None = None
        self._current_at = -math.inf
        self._custom_objects = {name: CustomObjects() for name in known if name not in KINDS}
        self._last = Snapshot.of(
            nodes=(), pods=(), taken_at=_NEVER, others=dict.fromkeys(sorted(self._custom_objects), ())
        )
        self._stores: dict[str, ObjectStore] = {}
        self._reflectors: dict[str, Reflector] = {}
        # What is read but is no kind, such as usage, is not watched.
        for i, name in enumerate(sorted({*always, *kinds} & known.keys())):
            kind = known[name]
            shelf = self._stores[name] = ObjectStore(self._snapshot_lookup(name), self._change_callback(name))
            self._reflectors[name] = Reflector(
                name,
                kind.list_path,
                ObjectReader(kind.struct, kind.converter(self._decoder)),
                shelf,
                access=access,
                client=client,
                clock=clock,
                log=log,
                # Not all at once: each kind is taken up again at a time of its own.
                watch_seconds=watch_seconds + i,
            )

    # -- keeping up -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Lists and watches every kind until cancelled, or until a first list fails for good."""
        try:
            async with asyncio.TaskGroup() as group:
                for reflector in self._reflectors.values():
                    group.create_task(self._keep(reflector), name=f"watch {reflector.kind}")
        except* ResettleError:
            if self._failure is None:
                raise
        finally:
            self._ready.set()

    async def _keep(self, reflector: Reflector) -> None:
        try:
            await reflector.first_list()
        except ResettleError as error:
            self._failure = self._failure or error
            raise
        if self._listed:
            self._ready.set()
        await reflector.follow()

    async def wait_for_sync(self) -> None:
        """Returns once every kind has been listed; raises what made that fail for good."""
        await self._ready.wait()
        if self._failure is not None:
            raise self._failure
        if not self._listed:
            raise ClusterError("the cluster is no longer watched; it was never listed as a whole")

    @property
    def _listed(self) -> bool:
        return all(reflector.listed for reflector in self._reflectors.values())

    def add_listener(self, heard: Callable[[Pod | None, Pod | None], None]) -> None:
        """Has every later change of a pod told as (before, after), on the event loop.

        A pod of the same name may be another one: then both are there and their uids differ.
        """
        self._listeners.append(heard)

    # -- what is so -------------------------------------------------------------------------------

    def snapshot(
        self,
        at: datetime,
        *,
        history: Mapping[tuple[str, str], Any] | None = None,
        moving: Iterable[str] = (),
    ) -> Snapshot:
        """The cluster as of the last event heard; not to be asked while a plan is being drawn."""
        taken = {kind: shelf.take_changes() for kind, shelf in self._stores.items()}
        changed: dict[str, Any] = {
            KINDS[kind].field: to_change(it) for kind, it in taken.items() if kind in KINDS
        }
        others = {
            kind: own.apply(taken[kind]) for kind, own in self._custom_objects.items() if taken.get(kind)
        }
        self._last = self._last.next(
            Changes(
                at=at,
                others=others,
                history=history or {},
                moving=frozenset(moving),
                **changed,
            )
        )
        self._forget()
        return self._last

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod of this name as of the last event heard."""
        found: Pod | None = self._stores["Pod"].get(namespace, name)
        return found

    def age(self) -> float:
        """Steady seconds since the stalest kind was known to be current; infinite until synced."""
        self._current_at = min(reflector.current_at for reflector in self._reflectors.values())
        return self._clock.steady() - self._current_at

    def is_older_than(self, seconds: float) -> bool:
        """Whether that is longer ago; asked before every request, and so quick about it."""
        # What is known only gets newer: if it was new enough when last looked at, it still is.
        return self._clock.steady() - self._current_at > seconds and self.age() > seconds

    def ages(self) -> dict[str, float]:
        """The same for each kind."""
        return {kind: reflector.age() for kind, reflector in self._reflectors.items()}

    @property
    def versions(self) -> dict[str, str]:
        """The resource version up to which each kind has been heard; empty before its list."""
        return {kind: reflector.version for kind, reflector in self._reflectors.items()}

    def fingerprints(self) -> dict[str, Fingerprint]:
        """How many of each kind are held, with a digest to hold against a fresh list."""
        return {kind: fingerprint(shelf) for kind, shelf in self._stores.items()}

    def log_state(self, log: Log) -> None:
        """Has a log say what is known of each kind, so that it can be checked from outside."""
        ages, versions = self.ages(), self.versions
        for kind, held in self.fingerprints().items():
            log.info(
                "known",
                kind=kind,
                objects=held.objects,
                version=versions[kind],
                age=ages[kind],
                digest=held.digest,
            )

    # -- within -----------------------------------------------------------------------------------

    def _change_callback(self, kind: str) -> OnChange:
        def log_state(before: Any, after: Any) -> None:
            for listener in self._listeners:
                listener(before, after)

        return log_state if kind == "Pod" else _nobody_listens

    def _snapshot_lookup(self, kind: str) -> Callable[[str, str], Any | None]:
        """How to find an object of the last snapshot."""
        if kind == "Pod":
            return lambda namespace, name: self._last.pod_index.get(namespace, name)
        if kind == "Node":
            return lambda _, name: self._last.node_index.get(name)
        if kind in self._custom_objects:
            return self._custom_objects[kind].get
        field = KINDS[kind].field
        return lambda *key: getattr(self._last, field).get("/".join(filter(None, key)))

    def _forget(self) -> None:
        """Has the decoder forget templates and states that no pod has any more."""
        if "Pod" not in self._reflectors:
            return
        pods, decoder = self._last.pod_index, self._decoder
        in_use = len(pods.templates) + len(pods.states)
        # A list that is being read has pods which no snapshot knows of yet.
        if decoder.held > _SLACK * in_use + _SPARE and not self._reflectors["Pod"].listing:
            decoder.keep_only(pods.templates, pods.states, pods.node_names)


def _nobody_listens(before: Any, after: Any) -> None:
    """Lets it pass."""
