"""What is held of one kind, in a line that anybody can hold against the API server.

The digest is that of these lines, sorted as bytes, each with a newline at its end:

    namespace/name resourceVersion
    namespace/name resourceVersion uid node phase      of a pod

Things without a namespace begin with the `/`, and what a pod does not have yet is left empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from msgspec import Struct

from resettle.cluster.shelf import Shelf
from resettle.model.pod import Pod


class Fingerprint(Struct, frozen=True):
    """How many objects are held, and a digest of what they are."""

    objects: int
    digest: str


def fingerprint(shelf: Shelf) -> Fingerprint:
    """That of all a shelf holds, as of the last event heard."""
    lines = sorted(_lines(shelf))
    return Fingerprint(len(lines), sha256(b"".join(lines)).hexdigest())


def _lines(shelf: Shelf) -> Iterator[bytes]:
    for namespace, versions in shelf.versions.items():
        for name, version in versions.items():
            thing = shelf.get(namespace, name)
            yield f"{namespace}/{name} {version}{_more(thing)}\n".encode()


def _more(thing: Any) -> str:
    return f" {thing.uid} {thing.node} {thing.state.phase}" if isinstance(thing, Pod) else ""
