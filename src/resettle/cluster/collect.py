"""Objects gathered one by one, from files or from an API server, until they make a snapshot."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from mmap import mmap
from typing import Any

import msgspec
from msgspec import Raw, Struct

from resettle.cluster import usage_file
from resettle.errors import InputError, PluginError
from resettle.framework.plugin import Kind
from resettle.model import wire
from resettle.model.decode import Decoder
from resettle.model.readings import Measured
from resettle.model.snapshot import Snapshot

Bytes = bytes | mmap | Raw


class Collection:
    """What has been read so far, in the model's own terms; equal parts are held once."""

    def __init__(self, kinds: Iterable[Kind] = (), decoder: Decoder | None = None) -> None:
        decoder = decoder or Decoder()
        self._models: dict[str, Any] = {
            "Node": decoder.node,
            "Pod": decoder.pod,
            "Namespace": decoder.namespace,
            "PriorityClass": decoder.priority_class,
            "PodDisruptionBudget": decoder.budget,
            "PersistentVolumeClaim": decoder.claim,
            "PersistentVolume": decoder.volume,
            "CSINode": decoder.attach_limits,
        }
        self._structs: dict[str, type[Struct]] = dict(wire.KINDS)
        self._own_kinds: list[str] = []
        for kind in kinds:
            if self._structs.setdefault(kind.name, kind.struct) is not kind.struct:
                raise PluginError(
                    f"two structs are declared for the kind `{kind.name}`; plugins that read one "
                    "kind must share a struct, and resettle's own kinds are in the snapshot already"
                )
            self._own_kinds.append(kind.name)
        self._wire = {name: msgspec.json.Decoder(struct) for name, struct in self._structs.items()}
        self._objects: dict[str, list[Any]] = {name: [] for name in self._structs}
        self._sources: dict[str, list[tuple[int, str]]] = {name: [] for name in self._structs}
        self.usage = usage_file.UsageReader()
        self.measured: Measured = {}
        """What was measured of a live cluster, which is not among its objects."""
        self.stamps: set[datetime] = set()
        """When the captures among the sources were taken; other sources do not tell."""

    @property
    def taken_at(self) -> datetime | None:
        """When all of it was taken, as far as any source tells; None where they disagree."""
        return next(iter(self.stamps)) if len(self.stamps) == 1 else None

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds it can take."""
        return frozenset(self._structs) | usage_file.KINDS.keys()

    def struct(self, kind: str) -> type[Struct]:
        """The struct its objects come off the wire as."""
        return self._structs[kind]

    def modelled(self, kind: str) -> Callable[[Any], Any] | None:
        """What turns them into the model's own; None for a plugin's own kind, taken as it is."""
        found: Callable[[Any], Any] | None = self._models.get(kind)
        return found

    def begin(self, source: str) -> None:
        """Names where the objects that follow come from."""
        for kind, objects in self._objects.items():
            self._sources[kind].append((len(objects), source))

    def add(self, kind: str, content: Bytes, place: str) -> None:
        """Adds one object, given as JSON; `place` names it in errors, and may be empty."""
        if kind in usage_file.KINDS:
            self.usage.add(kind, content, place)
            return
        try:
            item = self._wire[kind].decode(content)
        except (msgspec.ValidationError, UnicodeDecodeError) as error:
            raise InputError(
                f"{place or 'this'} is not a {kind} as Kubernetes writes it: {_in_words(error)}",
                "correct it or leave it out",
            ) from None
        self.take(kind, (item,), place)

    def take(self, kind: str, items: Iterable[Any], place: str) -> None:
        """Takes objects of one kind as they came off the wire."""
        objects, modelled = self._objects[kind], self._models.get(kind)
        if modelled is None:
            objects.extend(items)
            return
        for item in items:
            try:
                objects.append(modelled(item))
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
            nodes=objects["Node"],
            pods=objects["Pod"],
            taken_at=at,
            namespaces=objects["Namespace"],
            priority_classes=objects["PriorityClass"],
            budgets=objects["PodDisruptionBudget"],
            claims=objects["PersistentVolumeClaim"],
            volumes=objects["PersistentVolume"],
            attach_limits=objects["CSINode"],
            others={
                name: tuple(sorted(objects[name], key=msgspec.json.encode))
                for name in sorted(self._own_kinds)
            },
            history=history,
            usage={**self.usage.usage, **self.measured},
        )

    def _check_names(self) -> None:
        for kind in self._models:
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
        return sources[bisect_right(sources, index, key=lambda it: it[0]) - 1][1]


def _in_words(error: Exception) -> str:
    """What the decoder has to say, with an example where it misses a time."""
    said = str(error)
    example = "RFC3339" in said or "timezone" in said
    return f"{said} (a time looks like `2026-01-31T12:00:00Z`)" if example else said
