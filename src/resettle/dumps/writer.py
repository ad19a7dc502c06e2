"""Writes a live cluster, page by page, as a dump that `--cluster` reads back.

Only one page is in memory at a time, so a large cluster takes no more memory than a small one. Only
the fields that a plan reads are written: no environment, no command, no secret. An annotation on
the list says when the dump was taken.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Raw, Struct

from resettle.dumps.anonymize import Anonymizer, trimmed_struct
from resettle.dumps.usage import KINDS, objects_of
from resettle.errors import InputError
from resettle.kube.watch.lists import ListClient, malformed_list
from resettle.model.decoding.workloads import scale_object
from resettle.model.kinds import BuiltInKind, Kind
from resettle.model.measurements import Measured
from resettle.model.workloads import Workload
from resettle.times import parse_time

TAKEN_AT = "resettle/taken-at"


class Annotations(Struct):
    taken_at: str | None = msgspec.field(name=TAKEN_AT, default=None)


class DumpListMeta(Struct):
    annotations: Annotations | None = None


_list_meta = msgspec.json.Decoder(DumpListMeta)


def list_metadata(at: datetime) -> DumpListMeta:
    """The metadata of a list that was taken at this time."""
    time = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return DumpListMeta(Annotations(time))


def taken_at(metadata: Raw, name: str) -> datetime | None:
    """When a list was taken, from its metadata; None if that has no time."""
    if TAKEN_AT.encode() not in bytes(metadata):
        return None
    try:
        annotations = _list_meta.decode(metadata).annotations
        return parse_time(annotations.taken_at if annotations else None)
    except (InputError, msgspec.ValidationError) as error:
        raise InputError(f"{name}: `{TAKEN_AT}`: {error}") from None


GZIP = 31
"""The `wbits` of zlib for `.gz` files; their header then has no time."""

OnProgress = Callable[[str, int], None]


class Sink(Protocol):
    """What bytes are written to."""

    def write(self, content: bytes, /) -> object:
        """Write the bytes."""


class CaptureSummary(NamedTuple):
    """What was written: how many of each kind, by its plural, and how many bytes in all."""

    counts: dict[str, int]
    size: int


def write_capture(
    api: ListClient,
    kinds: Iterable[Kind],
    sink: Sink,
    at: datetime,
    anonymizer: Anonymizer | None = None,
    on_progress: OnProgress = lambda plural, count: None,
    usage: Measured | None = None,
    scales: Iterable[Workload] = (),
) -> CaptureSummary:
    """Write the cluster to the sink; call `on_progress` after each page with the count so far."""
    out = _Gzip(sink)
    counts: dict[str, int] = {}
    list_head = {"apiVersion": "v1", "kind": "List", "metadata": list_metadata(at)}
    out.write(msgspec.json.encode(list_head)[:-1] + b',"items":[')
    between = b"\n"
    for kind in kinds:
        if anonymizer is not None and not isinstance(kind, BuiltInKind):
            continue  # it is not known which of its fields are names
        counts[kind.plural] = 0
        for items in _pages(api, kind, hashing=anonymizer is not None):
            if items:
                written = (_encode(kind, item, anonymizer) for item in items)
                out.write(between + b",\n".join(written))
                between = b",\n"
            counts[kind.plural] += len(items)
            on_progress(kind.plural, counts[kind.plural])
    rest = [(KINDS[item["kind"]].title, item) for item in objects_of(usage or {})]
    rest += [("scales", scale_object(workload)) for workload in scales]
    for title, item in rest:
        counts[title] = counts.get(title, 0) + 1
        head = {key: item.pop(key) for key in ("apiVersion", "kind")}
        shown = item if anonymizer is None else anonymizer.anonymize(head["kind"], item)
        out.write(between + msgspec.json.encode({**head, **shown}))
        between = b",\n"
    out.write(b"\n]}\n")
    return CaptureSummary(counts, out.end())


def _pages(api: ListClient, kind: Kind, *, hashing: bool) -> Iterator[list[Any]]:
    struct: Any = kind.struct
    if isinstance(kind, BuiltInKind):
        struct = trimmed_struct(struct, spelled_out=hashing)
    page_type = msgspec.defstruct(f"{kind.name}Page", [("items", list[struct] | None)])
    decoder = msgspec.json.Decoder(page_type)
    for body in api.pages(kind.list_path, kind.plural):
        try:
            page: Any = decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise malformed_list(kind.plural, error) from None
        yield page.items or []


def _encode(kind: Kind, item: Any, digests: Anonymizer | None) -> bytes:
    says = {"apiVersion": kind.api_version, "kind": kind.name}
    if not isinstance(kind, BuiltInKind):
        # The struct of a plugin may have room for its kind, which a list does not repeat.
        return msgspec.json.encode({**msgspec.json.decode(msgspec.json.encode(item)), **says})
    if digests is not None:
        item = digests.anonymize(kind.name, msgspec.to_builtins(item))
    return msgspec.json.encode(says)[:-1] + b"," + msgspec.json.encode(item)[1:]


class _Gzip:
    """Writes what it is given in the format of `.gz` files, and counts the bytes."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._packer = zlib.compressobj(wbits=GZIP)
        self._size = 0

    def write(self, content: bytes) -> None:
        self._put(self._packer.compress(content))

    def end(self) -> int:
        """Write what is left, and return how many bytes were written in all."""
        self._put(self._packer.flush())
        return self._size

    def _put(self, packed: bytes) -> None:
        self._sink.write(packed)
        self._size += len(packed)
