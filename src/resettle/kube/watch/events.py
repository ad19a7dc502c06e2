"""What lists and watches say of one kind, off the wire and into the model.

The structs of `model.wire` leave out the resource version, which a plan has no use for; here each
gets it back. A kind that a plugin brought comes with a struct of the plugin's own, which may leave
out even the name, so its objects are read twice: once for who they are, once for what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, get_type_hints

import msgspec
from msgspec import Raw, Struct

from resettle.errors import ClusterError, InputError

UNREADABLE = (InputError, msgspec.ValidationError)
"""What turning an object into the model raises."""
CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
Version = int | str


class MalformedObject(ClusterError):
    """What the API server said cannot be understood."""


class ObjectMeta(Struct, rename="camel", gc=False):
    """Who an object is."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Item(Protocol):
    """An object off the wire."""

    @property
    def metadata(self) -> ObjectMeta:
        """Who it is."""


class WatchEvent(NamedTuple):
    """One line of a watch: what happened, to what, and at which version."""

    type: str
    item: Any
    version: str
    reason: str = ""
    """Why, of an `ERROR`."""


class _Thing(Struct, gc=False):
    """An object of a plugin's own kind."""

    metadata: ObjectMeta
    thing: Any = None


class _Remark(Struct, gc=False):
    """What else than an object may come down a watch: a bookmark, or a status."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    message: str = ""
    reason: str = ""
    code: int = 0


class _RemarkLine(Struct, gc=False):
    type: str
    object: _Remark


_remark = msgspec.json.Decoder(_RemarkLine)
_who = msgspec.json.Decoder(_Thing)


class ObjectReader:
    """Reads one kind; `modelled` turns an object off the wire into the model's own."""

    def __init__(self, struct: type[Struct], convert: Callable[[Any], Any] | None) -> None:
        self._own = None if convert else msgspec.json.Decoder(struct)
        self.convert: Callable[[Any], Any] = convert or _the_thing
        """What makes the model's own of an object; raises what is `UNREADABLE`."""
        item: Any = with_resource_version(struct) if convert else Raw
        page = msgspec.defstruct("Page", [("items", list[item] | None), ("metadata", ObjectMeta)])
        line = msgspec.defstruct("Line", [("type", str), ("object", item)])
        self._page = msgspec.json.Decoder(page)
        self._line = msgspec.json.Decoder(line)

    def read_page(self, body: bytes, what: str) -> tuple[str, Iterable[Item]]:
        """The version of a list and the objects on one page of it."""
        try:
            page: Any = self._page.decode(body)
            items = page.items or ()
            whole = items if self._own is None else [self._whole(raw) for raw in items]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedObject(
                f"the list of {what} cannot be understood: {error}; is this an API server?"
            ) from None
        return page.metadata.resource_version, whole

    def read_event(self, line: bytes, what: str) -> WatchEvent:
        """What a line of a watch tells."""
        try:
            told: Any = self._line.decode(line)
            if told.type in CHANGES:
                item = told.object if self._own is None else self._whole(told.object)
                return WatchEvent(told.type, item, item.metadata.resource_version)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return self._remark(line, what, str(error))
        return self._remark(line, what, f"`{told.type}` is no event")

    def _remark(self, line: bytes, what: str, otherwise: str) -> WatchEvent:
        try:
            told = _remark.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            told = None
        if told is None or told.type not in ("BOOKMARK", "ERROR"):
            raise MalformedObject(f"a watch of {what} said what cannot be understood: {otherwise}")
        said = told.object
        reason = said.message or said.reason or f"code {said.code}"
        return WatchEvent(told.type, None, said.metadata.resource_version, reason)

    def _whole(self, raw: Raw) -> _Thing:
        assert self._own is not None
        item = _who.decode(raw)
        item.thing = self._own.decode(raw)
        return item


def unreadable_object(item: Item, what: str, error: Exception) -> InputError:
    """The error, with the name of the object that it is about."""
    meta = item.metadata
    key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    return InputError(f"{key}, one of the {what}: {error}")


def _the_thing(item: _Thing) -> Any:
    return item.thing


def with_resource_version(struct: type[Struct]) -> type[Struct]:
    """The same struct, whose metadata also tells the resource version."""
    meta = get_type_hints(struct)["metadata"]
    richer = msgspec.defstruct(
        f"Versioned{meta.__name__}", [("resource_version", str, "")], bases=(meta,)
    )
    return msgspec.defstruct(
        f"Versioned{struct.__name__}", [("metadata", richer)], bases=(struct,), kw_only=True
    )


def compact_version(text: str) -> Version:
    """The version as something small to keep; only ever compared for being the same."""
    return int(text) if text.isdecimal() else text
