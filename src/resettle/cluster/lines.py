"""Lines out of a stream that is cut anywhere, as watches are."""

from __future__ import annotations

from collections.abc import Iterator

from resettle.errors import ClusterError

LONGEST = 64 << 20
"""No object comes near this: etcd itself takes 1.5 MiB."""


class Lines:
    """Puts chunks together again; a line that has not ended is kept for the next chunk."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    def of(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that end in this chunk, without their ends; empty ones are left out."""
        first, *rest = chunk.split(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if self._size > self._longest:
            raise ClusterError(
                f"a watch sent a line of more than {self._longest} bytes; is this an API server?"
            )
        if not rest:
            return
        whole = b"".join(self._parts)
        *lines, pending = [whole, *rest]
        self._parts, self._size = [pending], len(pending)
        yield from filter(None, lines)
