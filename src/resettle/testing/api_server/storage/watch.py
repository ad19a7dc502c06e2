"""One watch: what it has told, and what there is to tell.

It keeps a version and asks the history for what came after. Nothing here waits; the part that
speaks HTTP calls `news` whenever the ledger wakes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from resettle.testing.api_server.objects.kinds import Resource
from resettle.testing.api_server.status import bad_options, expired
from resettle.testing.api_server.storage.lists import Selection, number
from resettle.testing.api_server.storage.revisions import Change, Entry, Forgotten, Ledger
from resettle.testing.api_server.storage.store import whole
from resettle.testing.builders import Object

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Watch:
    """A stream of events from one version on."""

    def __init__(
        self, ledger: Ledger, resource: Resource, chosen: Selection, query: Mapping[str, str]
    ) -> None:
        self._ledger = ledger
        self._resource = resource
        self._chosen = chosen
        self._bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self._bookmarked = ledger.bookmarks
        self._untold: list[bytes] = []
        self.over = False
        version = number(query, "resourceVersion") or 0
        listing = query.get("sendInitialEvents", "")
        _check(listing, query.get("resourceVersionMatch", ""))
        self._streaming_list = listing in ("true", "1")
        self._begin_with_all = self._streaming_list or (version == 0 and listing == "")
        self._version = version or ledger.version

    def first(self) -> list[bytes]:
        """What the stream begins with."""
        if not self._begin_with_all:
            return self.news()
        self._version = self._ledger.version
        found = (it for it in self._ledger.entries(self._resource) if self._chosen.takes(it))
        lines = [_line("ADDED", whole(self._resource, it)) for it in found]
        if self._streaming_list and self._bookmarks:
            lines.append(self._bookmark({INITIAL_EVENTS_END: "true"}))
        return lines

    def news(self) -> list[bytes]:
        """What has happened since; the last line is an error once that cannot be told."""
        self.catch_up()
        lines, self._untold = self._untold, []
        return lines

    def catch_up(self) -> None:
        """Takes note of what has happened, to be told when asked."""
        self._untold += self._happened()

    def _happened(self) -> list[bytes]:
        try:
            changes = self._ledger.history.since(self._resource.bucket, self._version)
        except Forgotten:
            self.over = True
            oldest = self._ledger.history.compacted
            says = f"too old resource version: {self._version} ({oldest})"
            return [_line("ERROR", msgspec.json.encode(expired(says).status()))]
        lines = [line for change in changes for line in self._told(change)]
        self._version = max(self._ledger.version, self._version)
        if self._ledger.bookmarks != self._bookmarked:
            self._bookmarked = self._ledger.bookmarks
            lines += self.last()
        return lines

    def last(self) -> list[bytes]:
        """What the stream ends with when its time is over: a bookmark, if it takes them."""
        return [self._bookmark({})] if self._bookmarks else []

    def _told(self, change: Change) -> Iterator[bytes]:
        before, after = self._chosen.takes(change.old), self._chosen.takes(change.new)
        if change.new is not None and after:
            yield _line("MODIFIED" if before else "ADDED", whole(self._resource, change.new))
        elif change.old is not None and before:
            yield _line("DELETED", whole(self._resource, _as_of(change.old, change.version)))

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


def _as_of(entry: Entry, version: int) -> Entry:
    """The last state, with the version at which it ceased to be selected."""
    if entry.version == version:
        return entry
    meta = {**entry.meta, "resourceVersion": str(version)}
    return Entry(entry.key, {**entry.object, "metadata": meta}, version)


def _line(kind: str, body: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"
