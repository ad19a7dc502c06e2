"""Captures made in memory, from a test API server."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Any

from resettle.dumps.anonymize import Anonymizer
from resettle.dumps.reader import Dump
from resettle.dumps.writer import CaptureSummary, write_capture
from resettle.framework import Kind
from resettle.kube.auth.access import Access
from resettle.kube.watch.lists import ListClient
from resettle.model.kinds import kinds_to_list
from resettle.model.snapshot import Snapshot
from resettle.testing import NOW, ApiServer
from resettle.testing.builders import Object


class Copy:
    """A capture, and ways to look into it."""

    def __init__(self, captured: CaptureSummary, packed: bytes) -> None:
        self.captured = captured
        self.packed = packed
        self.text = gzip.decompress(packed)

    @property
    def items(self) -> list[Object]:
        """The objects in it, in order."""
        items: list[Object] = json.loads(self.text)["items"]
        return items

    def of(self, kind: str) -> list[Object]:
        """Its objects of one kind."""
        return [item for item in self.items if item["kind"] == kind]

    def snapshot(self, kinds: Iterable[Kind] = ()) -> Snapshot:
        """The cluster as read back from it."""
        dump = Dump(kinds)
        dump.add(self.text, "capture")
        return dump.snapshot(NOW)


def copied(
    server: ApiServer,
    *,
    kinds: Iterable[Kind] = (),
    reads: frozenset[str] | None = None,
    digests: Anonymizer | None = None,
    progress: Callable[[str, int], None] = lambda plural, count: None,
) -> Copy:
    """What a capture of the server holds."""
    api, sink = ListClient(Access(server=server.url)), BytesIO()
    try:
        listed = kinds_to_list(kinds, reads)
        captured = write_capture(api, listed, sink, NOW, digests, progress)
    finally:
        api.close()
    return Copy(captured, sink.getvalue())


def strings_in(part: Any) -> Iterable[str]:
    """Every text in a document, keys too."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for key, value in part.items():
            yield key
            yield from strings_in(value)
    elif isinstance(part, list):
        for value in part:
            yield from strings_in(value)
