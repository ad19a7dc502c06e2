"""One watch: the version it has sent so far, and the events after that.

Nothing here waits; `http` calls `news` whenever the storage wakes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from resettle.testing.api_server.objects.kinds import Resource
from resettle.testing.api_server.status import bad_options, expired_version
from resettle.testing.api_server.storage.lists import Selection, number
from resettle.testing.api_server.storage.revisions import Compacted, Revision, Storage, StoredObject
from resettle.testing.api_server.storage.store import encode_object
from resettle.testing.builders import Object

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Watch:
    """A stream of events from one version on."""

    def __init__(
        self, storage: Storage, resource: Resource, chosen: Selection, query: Mapping[str, str]
    ) -> None:
        self._storage = storage
        self._resource = resource
        self._chosen = chosen
        self._bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self._bookmarked = storage.bookmarks
        self._unsent: list[bytes] = []
        self.over = False
        version = number(query, "resourceVersion") or 0
        listing = query.get("sendInitialEvents", "")
        _check(listing, query.get("resourceVersionMatch", ""))
        self._streaming_list = listing in ("true", "1")
        self._begin_with_all = self._streaming_list or (version == 0 and listing == "")
        self._version = version or storage.version

    def first(self) -> list[bytes]:
        """What the stream begins with."""
        if not self._begin_with_all:
            return self.news()
        self._version = self._storage.version
        selected = (
            entry for entry in self._storage.entries(self._resource) if self._chosen.selects(entry)
        )
        lines = [_line("ADDED", encode_object(self._resource, entry)) for entry in selected]
        if self._streaming_list and self._bookmarks:
            lines.append(self._bookmark({INITIAL_EVENTS_END: "true"}))
        return lines

    def news(self) -> list[bytes]:
        """Events since the last call; the last is an error once the version is compacted."""
        self.catch_up()
        lines, self._unsent = self._unsent, []
        return lines

    def catch_up(self) -> None:
        """Read new changes, to be sent with the next call of `news`."""
        self._unsent += self._new_lines()

    def _new_lines(self) -> list[bytes]:
        try:
            changes = self._storage.history.since(self._resource.bucket, self._version)
        except Compacted:
            self.over = True
            oldest = self._storage.history.compacted
            says = f"too old resource version: {self._version} ({oldest})"
            return [_line("ERROR", msgspec.json.encode(expired_version(says).status()))]
        lines = [line for change in changes for line in self._events_of(change)]
        self._version = max(self._storage.version, self._version)
        if self._storage.bookmarks != self._bookmarked:
            self._bookmarked = self._storage.bookmarks
            lines += self.last()
        return lines

    def last(self) -> list[bytes]:
        """What the stream ends with when its time is over: a bookmark, if it takes them."""
        return [self._bookmark({})] if self._bookmarks else []

    def _events_of(self, change: Revision) -> Iterator[bytes]:
        before, after = self._chosen.selects(change.old), self._chosen.selects(change.new)
        if change.new is not None and after:
            yield _line(
                "MODIFIED" if before else "ADDED", encode_object(self._resource, change.new)
            )
        elif change.old is not None and before:
            yield _line(
                "DELETED", encode_object(self._resource, _as_of(change.old, change.version))
            )

    def _bookmark(self, annotations: Object) -> bytes:
        meta: Object = {"resourceVersion": str(self._version)}
        if annotations:
            meta["annotations"] = annotations
        head = {"kind": self._resource.kind, "apiVersion": self._resource.api_version}
        return _line("BOOKMARK", msgspec.json.encode({**head, "metadata": meta}))


def _check(listing: str, match: str) -> None:
    if match and not listing:
        raise bad_options(
            "resourceVersionMatch",
            "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
            "provided",
        )
    if listing and match != "NotOlderThan":
        raise bad_options(
            "resourceVersionMatch",
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )


def _as_of(entry: StoredObject, version: int) -> StoredObject:
    """The last state, with the version at which it ceased to be selected."""
    if entry.version == version:
        return entry
    meta = {**entry.meta, "resourceVersion": str(version)}
    return StoredObject(entry.key, {**entry.object, "metadata": meta}, version)


def _line(kind: str, body: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"
