"""Segments: pairs of files, named by their first cycle and when it was.

Files that grow by whole entries: gzip streams that are fit to be read after each of them.

Whatever cuts a writer off, what was finished before can be read; the rest is passed over.
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
_PARTS = 16
"""A record is thrown away in steps of such a part of it."""


class Segment(NamedTuple):
    """One segment, be it there or yet to be written."""

    first: int
    """The number of its first cycle."""
    began: datetime
    folder: Path

    @property
    def cycles(self) -> Path:
        """What was decided and done."""
        return self._file("cycles")

    @property
    def objects(self) -> Path:
        """What was seen."""
        return self._file("objects")

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(file.stat().st_size for file in (self.cycles, self.objects) if file.exists())

    def remove(self) -> None:
        """Takes it off the disk; whoever reads it at that moment finds nothing half."""
        self.cycles.unlink(missing_ok=True)
        self.objects.unlink(missing_ok=True)

    def _file(self, what: str) -> Path:
        return self.folder / f"{self.first:08}-{self.began.astimezone(UTC):{_TIME}}.{what}.gz"


def segments_in(folder: Path) -> list[Segment]:
    """The segments of a folder, oldest first; other files are nobody's business."""
    found = set()
    for file in folder.iterdir():
        if name := _NAME.fullmatch(file.name):
            began = datetime.strptime(name[2], _TIME).replace(tzinfo=UTC)
            found.add(Segment(int(name[1]), began, folder))
    return sorted(found)


class Bounds(NamedTuple):
    """How much is kept."""

    size: int
    """Bytes in all."""
    age: timedelta

    def full(self, segment: Segment, size: int, now: datetime) -> bool:
        """Whether the next cycle had better begin another segment."""
        return size * _PARTS > self.size or (now - segment.began) * _PARTS > self.age

    def outlived(self, segments: list[Segment], now: datetime) -> Iterator[Segment]:
        """Segments to remove, oldest first; the last one stays."""
        total = sum(segment.size for segment in segments)
        for segment, following in pairwise(segments):
            # All of its cycles are older than the first one of the next.
            if total <= self.size and now - following.began <= self.age:
                return
            total -= segment.size
            yield segment


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
