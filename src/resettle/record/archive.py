"""The folder that cycles are written to: one writer, one open segment, no more than is allowed.

    write ──► new segment? ──► differences to the last cycle ──► objects ──► entry ──► oldest out
                 │ the first of this run, the last one full, or nearly everything changed:
                 └─ differences to nothing, which are a capture

An entry is in force once its line is on the disk; objects without an entry are never looked at. Any
trouble closes the segment as it is, and the next cycle begins another.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from resettle.cycle import Report
from resettle.errors import InputError
from resettle.model.changes import Changes
from resettle.model.snapshot import Snapshot
from resettle.record.book import NOTHING_SEEN, last_cycle
from resettle.record.entry import entry_of
from resettle.record.packed import PackedFile
from resettle.record.pages import Packer, is_plain
from resettle.record.segment import Bounds, Segment, segments_in

_PRIVATE = 0o700
_LOCK = ".lock"


class _Open(NamedTuple):
    """A segment that is being written."""

    segment: Segment
    objects: PackedFile
    cycles: PackedFile
    packer: Packer

    @property
    def size(self) -> int:
        return self.objects.size + self.cycles.size


class Archive:
    """Writes cycles to a folder. Nothing here is for the event loop: it waits for the disk."""

    def __init__(self, folder: Path, bounds: Bounds) -> None:
        self._folder = folder
        self._bounds = bounds
        self._lock: int | None = None
        self._next = 0
        self._open: _Open | None = None
        self._seen = NOTHING_SEEN
        self._policy: str | None = None

    def write(self, snapshot: Snapshot, report: Report) -> tuple[str, ...]:
        """Adds a cycle; names plugins whose memory cannot be written.

        Raises `OSError` or `InputError` if it could not be added.
        """
        try:
            self._take_folder()
            return self._written(snapshot, report)
        except BaseException:
            self._abandon()
            raise

    def close(self) -> None:
        """Ends the open segment and lets go of the folder."""
        if self._open is not None:
            with suppress(OSError):
                self._open.objects.end()
                self._open.cycles.end()
        self._open = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_folder(self) -> None:
        if self._lock is not None:
            return
        self._folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise InputError("another run writes to it; give each a folder of its own") from None
        except OSError:
            os.close(lock)
            raise
        self._lock = lock
        self._next = last_cycle(self._folder) + 1

    def _written(self, snapshot: Snapshot, report: Report) -> tuple[str, ...]:
        opened, changes = self._next_difference(snapshot)
        opened.objects.add(opened.packer.pages(changes))
        forgotten = tuple(
            f"{plugin} in profile {profile}"
            for (profile, plugin), value in snapshot.history.items()
            if not is_plain(value)
        )
        entry = entry_of(
            report,
            snapshot,
            cycle=self._next,
            pages=opened.objects.lines,
            policy=None if report.policy == self._policy else report.policy,
            forgotten=forgotten,
        )
        opened.cycles.add([msgspec.json.encode(entry) + b"\n"])
        self._next += 1
        self._seen, self._policy = snapshot, report.policy
        self._tidy(opened, snapshot.taken_at)
        return forgotten

    def _next_difference(self, snapshot: Snapshot) -> tuple[_Open, Changes]:
        """The segment to write to, and what differs from the cluster as it is known there."""
        opened = self._open
        if opened is not None and not self._bounds.full(
            opened.segment, opened.size, snapshot.taken_at
        ):
            changes = snapshot.since(self._seen)
            if 2 * len(changes.pods.put) <= len(snapshot.population):
                return opened, changes
        if opened is not None:
            self._open = None
            opened.objects.end()
            opened.cycles.end()
        return self._begin(snapshot.taken_at), snapshot.since(NOTHING_SEEN)

    def _begin(self, now: datetime) -> _Open:
        for dead in segments_in(self._folder):
            if dead.first >= self._next:
                dead.remove()  # nothing in it can be read, or its numbers would have counted
        segment = Segment(self._next, now, self._folder)
        objects = PackedFile(segment.objects)
        try:
            cycles = PackedFile(segment.cycles)
        except OSError:
            objects.close()
            raise
        self._policy = None
        self._open = _Open(segment, objects, cycles, Packer())
        return self._open

    def _tidy(self, opened: _Open, now: datetime) -> None:
        for segment in self._bounds.outlived(segments_in(self._folder), now):
            segment.remove()
        if opened.size > self._bounds.size:
            opened.segment.remove()
            raise InputError(
                f"one capture of the cluster takes {opened.size:,} bytes; raise --record-max-size"
            )

    def _abandon(self) -> None:
        """Leaves the open segment as it is; one without an entry is removed."""
        opened, self._open = self._open, None
        if opened is None:
            return
        with suppress(OSError):
            opened.objects.close()
            opened.cycles.close()
            if not opened.cycles.lines:
                opened.segment.remove()
