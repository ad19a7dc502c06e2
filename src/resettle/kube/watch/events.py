"""Decodes pages of lists and lines of watches, and converts their objects for the model.

The structs of `model.decoding.wire` leave out the resource version, which a plan does not need; it
is added here. A kind declared by a plugin has the plugin's own struct, which may leave out even the
name, so its objects are decoded twice: once for their metadata, once for the plugin's fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, get_type_hints

import msgspec
from msgspec import Raw, Struct

from resettle.errors import ClusterError, InputError

UNREADABLE = (InputError, msgspec.ValidationError)
"""What `ObjectReader.convert` raises for an object that it cannot convert."""
CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
Version = int | str


class MalformedObject(ClusterError):
    """The API server sent an object or an event that cannot be decoded."""


class ObjectMeta(Struct, rename="camel", gc=False):
    """Name, namespace and version of an object."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Item(Protocol):
    """An object off the wire."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its name, namespace and version."""


class WatchEvent(NamedTuple):
    """One line of a watch: what happened, to what, and at which version."""

    type: str
    item: Any
    version: str
    reason: str = ""
    """The message of an `ERROR` event."""


class _CustomObject(Struct, gc=False):
    """An object of a kind that a plugin declares; `content` is decoded by the plugin's struct."""

    metadata: ObjectMeta
    content: Any = None


class _BookmarkOrStatus(Struct, gc=False):
    """What a watch sends besides objects: a bookmark, or the status of an error."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    message: str = ""
    reason: str = ""
    code: int = 0


class _OtherEvent(Struct, gc=False):
    type: str
    object: _BookmarkOrStatus


_other_event_decoder = msgspec.json.Decoder(_OtherEvent)
_metadata_decoder = msgspec.json.Decoder(_CustomObject)


class ObjectReader:
    """Decodes lists and watch events of one kind; `convert` makes a model object of a decoded one.

    Without `convert`, the kind is a plugin's own and its objects are given as decoded.
    """

    def __init__(self, struct: type[Struct], convert: Callable[[Any], Any] | None) -> None:
        self._own = None if convert else msgspec.json.Decoder(struct)
        self.convert: Callable[[Any], Any] = convert or _content
        """Makes a model object of a decoded one; raises an error of `UNREADABLE`."""
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
        """The event on one line of a watch."""
        try:
            event: Any = self._line.decode(line)
            if event.type in CHANGES:
                item = event.object if self._own is None else self._whole(event.object)
                return WatchEvent(event.type, item, item.metadata.resource_version)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return _read_other_event(line, what, str(error))
        return _read_other_event(line, what, f"`{event.type}` is no event")

    def _whole(self, raw: Raw) -> _CustomObject:
        assert self._own is not None
        item = _metadata_decoder.decode(raw)
        item.content = self._own.decode(raw)
        return item


def _read_other_event(line: bytes, what: str, problem: str) -> WatchEvent:
    """A bookmark or an error event; raises with the `problem` if the line is neither."""
    try:
        event = _other_event_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        event = None
    if event is None or event.type not in ("BOOKMARK", "ERROR"):
        raise MalformedObject(f"a watch of {what} sent an event that cannot be decoded: {problem}")
    status = event.object
    reason = status.message or status.reason or f"code {status.code}"
    return WatchEvent(event.type, None, status.metadata.resource_version, reason)


def unreadable_object(item: Item, what: str, error: Exception) -> InputError:
    """An error that names the object which could not be converted."""
    meta = item.metadata
    key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    return InputError(f"{key}, one of the {what}: {error}")


def _content(item: _CustomObject) -> Any:
    return item.content


def with_resource_version(struct: type[Struct]) -> type[Struct]:
    """A struct like this one, whose metadata also has the resource version."""
    meta = get_type_hints(struct)["metadata"]
    richer = msgspec.defstruct(
        f"Versioned{meta.__name__}", [("resource_version", str, "")], bases=(meta,)
    )
    return msgspec.defstruct(
        f"Versioned{struct.__name__}", [("metadata", richer)], bases=(struct,), kw_only=True
    )


def compact_version(text: str) -> Version:
    """The version in a form that takes little memory; compare it for equality only."""
    return int(text) if text.isdecimal() else text
