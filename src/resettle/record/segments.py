"""Segments of a record: pairs of gzip files, named by their first cycle and its time.

The gzip stream is flushed after each entry, so a file can be read while it is being written. If
the writer is killed, all complete entries can be read; what comes after them is skipped.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from resettle.dumps.writer import GZIP

_NAME = re.compile(r"(\d{8,})-(\d{8}T\d{6}Z)\.(cycles|objects)\.gz")
_TIME = "%Y%m%dT%H%M%SZ"
_SEGMENTS = 16
"""A full record has about this many segments; old cycles are deleted by the segment."""


class Segment(NamedTuple):
    """One segment, which may not be written yet."""

    first: int
    """The number of its first cycle."""
    began: datetime
    folder: Path

    @property
    def cycles(self) -> Path:
        """The file of what cycles decided and did."""
        return self._file("cycles")

    @property
    def objects(self) -> Path:
        """The file of what cycles saw."""
        return self._file("objects")

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(file.stat().st_size for file in (self.cycles, self.objects) if file.exists())

    def remove(self) -> None:
        """Delete both files; a reader that has them open can still read them whole."""
        self.cycles.unlink(missing_ok=True)
        self.objects.unlink(missing_ok=True)

    def _file(self, what: str) -> Path:
        return self.folder / f"{self.first:08}-{self.began.astimezone(UTC):{_TIME}}.{what}.gz"


def segments_in(folder: Path) -> list[Segment]:
    """The segments of a folder, oldest first; other files are ignored."""
    segments = set()
    for file in folder.iterdir():
        if name := _NAME.fullmatch(file.name):
            began = datetime.strptime(name[2], _TIME).replace(tzinfo=UTC)
            segments.add(Segment(int(name[1]), began, folder))
    return sorted(segments)


class RecordLimits(NamedTuple):
    """How much of a record is kept."""

    size: int
    """Bytes in all."""
    age: timedelta

    def is_full(self, segment: Segment, size: int, now: datetime) -> bool:
        """Whether the next cycle has to start another segment."""
        return size * _SEGMENTS > self.size or (now - segment.began) * _SEGMENTS > self.age

    def expired_segments(self, segments: list[Segment], now: datetime) -> Iterator[Segment]:
        """Segments to remove, oldest first; the last one stays."""
        total = sum(segment.size for segment in segments)
        for segment, following in pairwise(segments):
            # All of its cycles are older than the first one of the next.
            if total <= self.size and now - following.began <= self.age:
                return
            total -= segment.size
            yield segment


_PRIVATE = 0o600
_CHUNK_BYTES = 1 << 18


class GzipWriter:
    """Writes a new gzip file that only its owner may read."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
        self._packer = zlib.compressobj(wbits=GZIP)
        self.size = 0
        self.lines = 0

    def add(self, lines: Iterable[bytes]) -> None:
        """Add lines; return once they are on the disk."""
        for line in lines:
            self._put(self._packer.compress(line))
            self.lines += 1
        self._put(self._packer.flush(zlib.Z_SYNC_FLUSH))
        os.fsync(self._file)

    def finish(self) -> None:
        """End the gzip stream and close the file."""
        self._put(self._packer.flush())
        self.close()

    def close(self) -> None:
        """Close the file as it is."""
        os.close(self._file)

    def _put(self, packed: bytes) -> None:
        while packed:
            written = os.write(self._file, packed)
            self.size += written
            packed = packed[written:]


class GzipLines:
    """The complete lines of such a file; `truncated` says whether a part of one followed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.truncated = False

    def __iter__(self) -> Iterator[bytes]:
        unpacker = zlib.decompressobj(wbits=GZIP)
        rest = b""
        with self._path.open("rb") as file:
            while piece := file.read(_CHUNK_BYTES):
                try:
                    text = rest + unpacker.decompress(piece)
                except zlib.error:
                    self.truncated = True
                    return
                *lines, rest = text.split(b"\n")
                yield from lines
        self.truncated = bool(rest)
