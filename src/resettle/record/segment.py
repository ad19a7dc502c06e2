"""Segments: pairs of files, named by their first cycle and when it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

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
