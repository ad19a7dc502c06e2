"""A live cluster written down, page by page, as a dump that `--cluster` reads back.

Nothing is held but the page at hand, so a large cluster takes no more memory than a small one. Of
each object only what a plan reads is written (`kept`): no environment, no command, no secret.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from resettle.cluster.api import PATHS, Api
from resettle.cluster.collect import Collection
from resettle.cluster.hashing import Digests
from resettle.cluster.kept import kept
from resettle.cluster.stamp import stamped
from resettle.cluster.usage_file import TITLES, objects_of
from resettle.errors import ClusterError, InputError
from resettle.framework.plugin import Kind
from resettle.model import wire
from resettle.model.readings import Measured

GZIP = 31
"""How zlib is told to write the format of `.gz` files; their header then holds no time."""

Told = Callable[[str, int], None]


class Sink(Protocol):
    """Where bytes go."""

    def write(self, content: bytes, /) -> object:
        """Takes some more."""


class Listed(NamedTuple):
    """A kind to capture: its name, where it is listed, and how its objects are read."""

    name: str
    path: str
    struct: type[Struct]

    @property
    def plural(self) -> str:
        """What the API calls many of them."""
        return self.path.rpartition("/")[2]

    @property
    def api_version(self) -> str:
        """Group and version, as objects say it."""
        return "/".join(self.path.split("/")[2:-1])

    @property
    def own(self) -> bool:
        """Whether resettle itself knows the kind, rather than a plugin."""
        return self.name in wire.KINDS


class Captured(NamedTuple):
    """What was written: how many of each kind, by its plural, and how many bytes in all."""

    counts: dict[str, int]
    size: int


def kinds_to_list(kinds: Iterable[Kind] = (), reads: frozenset[str] | None = None) -> list[Listed]:
    """The kinds that are read; without a word on that all that are known. Pods before claims."""
    brought = {kind.name: kind for kind in kinds}
    structs = Collection(brought.values())
    known = {**{name: kind.path for name, kind in brought.items()}, **PATHS}
    listable = frozenset(name for name, path in known.items() if path)
    names = listable if reads is None else reads & known.keys()
    listed = []
    for name in ("Node", "Pod", *sorted(names - {"Node", "Pod"})):
        if not known[name]:
            raise InputError(f"the plugin that reads {name} does not say where it is listed")
        listed.append(Listed(name, known[name], structs.struct(name)))
    return listed


def capture(
    api: Api,
    kinds: Iterable[Listed],
    sink: Sink,
    at: datetime,
    digests: Digests | None = None,
    tell: Told = lambda plural, count: None,
    usage: Measured | None = None,
) -> Captured:
    """Writes the cluster to the sink; `tell` hears after each page how many there are so far."""
    out = _Gzip(sink)
    counts: dict[str, int] = {}
    head = {"apiVersion": "v1", "kind": "List", "metadata": stamped(at)}
    out.write(msgspec.json.encode(head)[:-1] + b',"items":[')
    between = b"\n"
    for kind in kinds:
        if digests is not None and not kind.own:
            continue  # nobody has said which of its fields are names
        counts[kind.plural] = 0
        for items in _pages(api, kind, hashing=digests is not None):
            if items:
                written = (_written(kind, item, digests) for item in items)
                out.write(between + b",\n".join(written))
                between = b",\n"
            counts[kind.plural] += len(items)
            tell(kind.plural, counts[kind.plural])
    for item in objects_of(usage or {}):
        told = TITLES[item["kind"]]
        counts[told] = counts.get(told, 0) + 1
        said = {key: item.pop(key) for key in ("apiVersion", "kind")}
        shown = item if digests is None else digests.hashed(said["kind"], item)
        out.write(between + msgspec.json.encode({**said, **shown}))
        between = b",\n"
    out.write(b"\n]}\n")
    return Captured(counts, out.end())


def _pages(api: Api, kind: Listed, *, hashing: bool) -> Iterator[list[Any]]:
    struct: Any = kept(kind.struct, spelled_out=hashing) if kind.own else kind.struct
    page_type = msgspec.defstruct(f"{kind.name}Page", [("items", list[struct] | None)])
    decoder = msgspec.json.Decoder(page_type)
    for body in api.pages(kind.path, kind.plural):
        try:
            page: Any = decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ClusterError(
                f"the list of {kind.plural} cannot be understood: {error}; is this an API server?"
            ) from None
        yield page.items or []


def _written(kind: Listed, item: Any, digests: Digests | None) -> bytes:
    says = {"apiVersion": kind.api_version, "kind": kind.name}
    if not kind.own:
        # The struct of a plugin may have room for its kind, which a list does not repeat.
        return msgspec.json.encode({**msgspec.json.decode(msgspec.json.encode(item)), **says})
    if digests is not None:
        item = digests.hashed(kind.name, msgspec.to_builtins(item))
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
        """Writes what is left, and tells how much there was in all."""
        self._put(self._packer.flush())
        return self._size

    def _put(self, packed: bytes) -> None:
        self._sink.write(packed)
        self._size += len(packed)
