"""Objects gathered one by one, from files or from an API server, until they make a snapshot."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from mmap import mmap
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from resettle.dumps import usage
from resettle.errors import InputError
from resettle.model.decoding.decoder import Decoder
from resettle.model.decoding.workloads import SCALE, ScaleObject, scale_of
from resettle.model.kinds import KINDS, Kind, kinds_by_name, kinds_to_list
from resettle.model.measurements import Measured
from resettle.model.pod import CONDITIONS
from resettle.model.snapshot import Snapshot
from resettle.model.workloads import Workload

if TYPE_CHECKING:
    from resettle.kube.auth.access import Access
    from resettle.kube.watch.lists import ListClient

Bytes = bytes | mmap | Raw
Phase = Callable[[str], AbstractContextManager[object]]
"""Measures the part of the work that its argument names."""


class Collection:
    """What has been read so far, in the model's own terms; equal parts are held once."""

    def __init__(self, kinds: Iterable[Kind] = (), decoder: Decoder | None = None) -> None:
        decoder = decoder or Decoder()
        known = kinds_by_name(kinds)
        self._declared = sorted(known.keys() - KINDS.keys())
        self._converters = {name: kind.converter(decoder) for name, kind in known.items()}
        self._wire = {name: msgspec.json.Decoder(kind.struct) for name, kind in known.items()}
        self._wire[SCALE] = msgspec.json.Decoder(ScaleObject)
        self._objects: dict[str, list[Any]] = {name: [] for name in known}
        self._sources: dict[str, list[tuple[int, str]]] = {name: [] for name in known}
        self.usage = usage.UsageReader()
        self.measured: Measured = {}
        """What was measured of a live cluster, which is not among its objects."""
        self.scales: list[Workload] = []
        """What `scale` subresources said."""
        self.taken_times: set[datetime] = set()
        """When the captures among the sources were taken; other sources have no time."""

    @property
    def taken_at(self) -> datetime | None:
        """When all sources were taken; None if none has a time, or they differ."""
        return next(iter(self.taken_times)) if len(self.taken_times) == 1 else None

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds it can take."""
        return frozenset(self._wire) | usage.KINDS.keys()

    def begin_source(self, source: str) -> None:
        """Name the source of the objects that follow."""
        for kind, objects in self._objects.items():
            self._sources[kind].append((len(objects), source))

    def add(self, kind: str, content: Bytes, place: str) -> None:
        """Adds one object, given as JSON; `place` names it in errors, and may be empty."""
        if kind in usage.KINDS:
            self.usage.add(kind, content, place)
            return
        if kind == SCALE:
            self.scales.append(scale_of(self._decode(kind, content, place), kind, ""))
            return
        self.add_decoded(kind, (self._decode(kind, content, place),), place)

    def _decode(self, kind: str, content: Bytes, place: str) -> Any:
        try:
            return self._wire[kind].decode(content)
        except (msgspec.ValidationError, UnicodeDecodeError) as error:
            raise InputError(
                f"{place or 'this'} is not a {kind} as Kubernetes writes it: {_in_words(error)}",
                "correct it or leave it out",
            ) from None

    def add_decoded(self, kind: str, items: Iterable[Any], place: str) -> None:
        """Takes objects of one kind as they came off the wire."""
        objects, convert = self._objects[kind], self._converters[kind]
        if convert is None:
            objects.extend(items)
            return
        for item in items:
            try:
                objects.append(convert(item))
            except (InputError, msgspec.ValidationError) as error:
                meta = item.metadata
                key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
                what, fix = str(error), ""
                if isinstance(error, InputError):
                    what, fix = error.what, error.fix
                where = f"{place}, {kind} {key}" if place else f"{kind} {key}"
                raise InputError(f"{where}: {what}", fix) from None

    def snapshot(
        self, at: datetime, history: Mapping[tuple[str, str], Any] | None = None
    ) -> Snapshot:
        """The cluster as read, stamped with a time; an object that came twice is an error."""
        self._check_names()
        objects = self._objects
        return Snapshot.of(
            taken_at=at,
            others={
                name: tuple(sorted(objects[name], key=msgspec.json.encode))
                for name in self._declared
            },
            history=history,
            usage={**self.usage.usage, **self.measured},
            scales=self.scales,
            **{kind.field: objects[name] for name, kind in KINDS.items()},
        )

    def _check_names(self) -> None:
        for kind in KINDS:
            seen: dict[tuple[str, str], int] = {}
            for i, item in enumerate(self._objects[kind]):
                name = (getattr(item, "namespace", ""), item.name)
                first = seen.setdefault(name, i)
                if first != i:
                    where = sorted({self._source(kind, first), self._source(kind, i)})
                    key = "/".join(filter(None, name))
                    raise InputError(
                        f"{kind} {key} is there twice, in {' and in '.join(where)}", "keep only one"
                    )

    def _source(self, kind: str, index: int) -> str:
        sources = self._sources[kind]
        return sources[bisect_right(sources, index, key=lambda source: source[0]) - 1][1]


def _in_words(error: Exception) -> str:
    """The decoder's message, with an example if it expected a time."""
    message = str(error)
    example = "RFC3339" in message or "timezone" in message
    return f"{message} (a time looks like `2026-01-31T12:00:00Z`)" if example else message


def _no_measurement(name: str) -> AbstractContextManager[object]:
    return nullcontext()


def list_cluster(
    access: Access,
    reads: frozenset[str],
    declared: Iterable[Kind] = (),
    phase: Phase = _no_measurement,
) -> Collection:
    """Nodes, pods and the other kinds that are read, as the API server has them now."""
    # Imported here: plans from files do without sockets and TLS.
    from resettle.kube.watch.lists import ListClient

    declared = list(declared)
    collection = Collection(declared, Decoder(conditions=CONDITIONS in reads))
    api = ListClient(access)
    try:
        for kind in kinds_to_list(declared, reads):
            collection.begin_source(access.server)
            _list_kind(api, collection, kind, phase)
    finally:
        api.close()
    return collection


def _list_kind(api: ListClient, collection: Collection, kind: Kind, phase: Phase) -> None:
    from resettle.kube.watch.lists import malformed_list

    struct: Any = kind.struct
    page_type = msgspec.defstruct(f"{kind.name}Page", [("items", list[struct] | None)])
    decoder = msgspec.json.Decoder(page_type)
    bodies = api.portions(kind.list_path, kind.plural)
    while True:
        with phase("fetch"):
            body = next(bodies, None)
        if body is None:
            return
        with phase("decode"):
            try:
                page: Any = decoder.decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise malformed_list(kind.plural, error) from None
            collection.add_decoded(kind.name, page.items or (), kind.plural)
