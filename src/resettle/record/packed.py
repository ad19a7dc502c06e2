"""Files that grow by whole entries: gzip streams that are fit to be read after each of them.

Whatever cuts a writer off, what was finished before can be read; the rest is passed over.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from resettle.cluster.capture import GZIP

_PRIVATE = 0o600
_PIECE = 1 << 18


class PackedFile:
    """A new file that only its owner may read."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
        self._packer = zlib.compressobj(wbits=GZIP)
        self.size = 0
        self.lines = 0

    def add(self, lines: Iterable[bytes]) -> None:
        """Adds lines, and returns once they are safe on the disk."""
        for line in lines:
            self._put(self._packer.compress(line))
            self.lines += 1
        self._put(self._packer.flush(zlib.Z_SYNC_FLUSH))
        os.fsync(self._file)

    def end(self) -> None:
        """Ends the file as gzip would have it."""
        self._put(self._packer.flush())
        self.close()

    def close(self) -> None:
        """Leaves the file as it is."""
        os.close(self._file)

    def _put(self, packed: bytes) -> None:
        while packed:
            written = os.write(self._file, packed)
            self.size += written
            packed = packed[written:]


class PackedLines:
    """The whole lines of such a file, one after the other; `torn` tells if there was more."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.torn = False

    def __iter__(self) -> Iterator[bytes]:
        unpacker = zlib.decompressobj(wbits=GZIP)
        rest = b""
        with self._path.open("rb") as file:
            while piece := file.read(_PIECE):
                try:
                    text = rest + unpacker.decompress(piece)
                except zlib.error:
                    self.torn = True
                    return
                *lines, rest = text.split(b"\n")
                yield from lines
        self.torn = bool(rest)
