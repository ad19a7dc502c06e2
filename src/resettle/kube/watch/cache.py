"""The watch cache: nodes, pods and other kinds, kept current by lists and watches.

Each kind that is read is listed once and then watched. A snapshot is made from the last one and the
changes since, so its cost depends on the changes, not on the size of the cluster. Everything runs
on one event loop, except for lists, which are read in threads.
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
from resettle.kube.watch.store import (
    CustomObjects,
    Fingerprint,
    ObjectStore,
    OnChange,
    fingerprint,
    to_change,
)
from resettle.log import QUIET, Log
from resettle.model.changes import Changes
from resettle.model.decoding.decoder import Decoder
from resettle.model.kinds import ALWAYS_READ, KINDS, Kind, kinds_by_name
from resettle.model.pod import CONDITIONS, Pod
from resettle.model.snapshot import Snapshot
from resettle.model.workloads import Eviction

_NEVER = datetime.fromtimestamp(0, UTC)
_SLACK, _SPARE = 1.25, 100
"""How many more templates and states than are in use the decoder may keep: a factor, a number."""


class Cache:
    """Nodes, pods and the other `kinds`, each as of its last watch event.

    Run it in a task of its own, and call `wait_for_sync` before the first snapshot. `always` is for
    callers that need no pods.
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
        self.changes = 0
        """How many changes of objects there were so far."""
        self._changed = asyncio.Event()
        self._failure: ResettleError | None = None
        self._current_at = -math.inf
        self._custom_objects = {name: CustomObjects() for name in known if name not in KINDS}
        self._last = Snapshot.of(
            nodes=(),
            pods=(),
            taken_at=_NEVER,
            others=dict.fromkeys(sorted(self._custom_objects), ()),
        )
        self._stores: dict[str, ObjectStore] = {}
        self._reflectors: dict[str, Reflector] = {}
        # Names that are not kinds, such as usage, are not watched.
        for i, name in enumerate(sorted({*always, *kinds} & known.keys())):
            kind = known[name]
            store = self._stores[name] = ObjectStore(
                self._snapshot_lookup(name), self._change_callback(name)
            )
            self._reflectors[name] = Reflector(
                name,
                kind.list_path,
                ObjectReader(kind.struct, kind.converter(self._decoder)),
                store,
                access=access,
                client=client,
                clock=clock,
                log=log,
                # Different lengths, so that the watches are not all renewed at the same time.
                watch_seconds=watch_seconds + i,
            )

    # -- keeping up -------------------------------------------------------------------------------

    async def run(self) -> None:
        """List and watch every kind until cancelled, or until a first list fails for good."""
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
        """Return when every kind has been listed; raise the error if a first list has failed."""
        await self._ready.wait()
        if self._failure is not None:
            raise self._failure
        if not self._listed:
            raise ClusterError("the watch cache was stopped before every kind was listed")

    @property
    def _listed(self) -> bool:
        return all(reflector.listed for reflector in self._reflectors.values())

    def add_listener(self, on_change: Callable[[Pod | None, Pod | None], None]) -> None:
        """Call `on_change(before, after)` on the event loop for every later change of a pod.

        A pod may have been replaced by one of the same name: then the two uids differ.
        """
        self._listeners.append(on_change)

    async def wait_for_change(self, seen: int) -> None:
        """Return when there were more changes than `seen`, which is a former `changes`."""
        while self.changes == seen:
            if self._changed.is_set():
                self._changed = asyncio.Event()
            await self._changed.wait()

    # -- reading ----------------------------------------------------------------------------------

    def snapshot(
        self,
        at: datetime,
        *,
        history: Mapping[tuple[str, str], Any] | None = None,
        moving: Iterable[str] = (),
        evictions: tuple[Eviction, ...] = (),
    ) -> Snapshot:
        """The cluster as of the last watch event; do not call it while a plan is being drawn."""
        taken = {kind: store.take_changes() for kind, store in self._stores.items()}
        changed: dict[str, Any] = {
            KINDS[kind].field: to_change(changes)
            for kind, changes in taken.items()
            if kind in KINDS
        }
        others = {
            kind: own.apply(taken[kind])
            for kind, own in self._custom_objects.items()
            if taken.get(kind)
        }
        self._last = self._last.next(
            Changes(
                at=at,
                others=others,
                history=history or {},
                moving=frozenset(moving),
                evictions=evictions,
                **changed,
            )
        )
        self._forget()
        return self._last

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod of this name as of the last watch event."""
        pod: Pod | None = self._stores["Pod"].get(namespace, name)
        return pod

    def age(self) -> float:
        """Seconds since the stalest kind was known to be current; infinite until synced."""
        self._current_at = min(reflector.current_at for reflector in self._reflectors.values())
        return self._clock.steady() - self._current_at

    def is_older_than(self, seconds: float) -> bool:
        """Whether `age` is above this; called before every request, so it must be fast."""
        # `_current_at` only grows: if the remembered one is recent enough, the real one is too.
        return self._clock.steady() - self._current_at > seconds and self.age() > seconds

    def ages(self) -> dict[str, float]:
        """Seconds since each kind was known to be current."""
        return {kind: reflector.age() for kind, reflector in self._reflectors.items()}

    @property
    def versions(self) -> dict[str, str]:
        """The last resource version received of each kind; empty before its list."""
        return {kind: reflector.version for kind, reflector in self._reflectors.items()}

    def fingerprints(self) -> dict[str, Fingerprint]:
        """How many objects of each kind there are, with a digest to compare with a fresh list."""
        return {kind: fingerprint(store) for kind, store in self._stores.items()}

    def log_state(self, log: Log) -> None:
        """Log what the cache has of each kind, so that it can be compared with the API server."""
        ages, versions = self.ages(), self.versions
        for kind, state in self.fingerprints().items():
            log.info(
                "cache state",
                kind=kind,
                objects=state.objects,
                version=versions[kind],
                age=ages[kind],
                digest=state.digest,
            )

    # -- helpers ----------------------------------------------------------------------------------

    def _change_callback(self, kind: str) -> OnChange:
        def call_listeners(before: Any, after: Any) -> None:
            self._note_change(before, after)
            for listener in self._listeners:
                listener(before, after)

        return call_listeners if kind == "Pod" else self._note_change

    def _note_change(self, before: Any, after: Any) -> None:
        self.changes += 1
        self._changed.set()

    def _snapshot_lookup(self, kind: str) -> Callable[[str, str], Any | None]:
        """A function that finds an object of the last snapshot."""
        if kind == "Pod":
            return lambda namespace, name: self._last.pod_index.get(namespace, name)
        if kind == "Node":
            return lambda _, name: self._last.node_index.get(name)
        if kind in self._custom_objects:
            return self._custom_objects[kind].get
        field = KINDS[kind].field
        return lambda *key: getattr(self._last, field).get("/".join(filter(None, key)))

    def _forget(self) -> None:
        """Have the decoder forget templates and states that no pod has any more."""
        if "Pod" not in self._reflectors:
            return
        pods, decoder = self._last.pod_index, self._decoder
        in_use = len(pods.templates) + len(pods.states)
        # A list that is being read has pods which no snapshot knows of yet.
        if decoder.held > _SLACK * in_use + _SPARE and not self._reflectors["Pod"].listing:
            decoder.keep_only(pods.templates, pods.states, pods.node_names)
