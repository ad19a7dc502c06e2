"""The folder that cycles are written to: one writer, one open segment, no more than is allowed.

    write ──► new segment? ──► differences to the last cycle ──► objects ──► entry ──► oldest out
                 │ the first of this run, the last one full, or nearly everything changed:
                 └─ differences to nothing, which are a capture

An entry is in force once its line is on the disk; objects without an entry are never looked at. Any
trouble closes the segment as it is, and the next cycle begins another.

Who has cycles written down while a run goes on.

A cycle is handed over on the event loop and written by a thread. Whatever is wrong with the disk
is told once and costs the record some cycles; it never costs the run one.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from resettle.cycle import Report
from resettle.errors import InputError, ResettleError
from resettle.log import Log
from resettle.model.changes import Changes
from resettle.model.snapshot import Snapshot
from resettle.record.encoding import Packer, is_plain
from resettle.record.entry import entry_of
from resettle.record.reader import NOTHING_SEEN, last_cycle
from resettle.record.segments import Bounds, PackedFile, Segment, segments_in

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


_TROUBLE = "record"
_STILL_WRITING = "the cycle before is still being written"


class Scribe:
    """A `CycleObserver` that records cycles; `close` it in the end."""

    def __init__(self, folder: str, bounds: Bounds, log: Log) -> None:
        self._folder = folder
        self._archive = Archive(Path(folder), bounds)
        self._log = log
        self._writing: asyncio.Task[None] | None = None
        self._well = False

    def __call__(self, snapshot: Snapshot, report: Report) -> None:
        """Has the cycle written; one that ends before the last one is written is left out."""
        if self._writing is not None and not self._writing.done():
            self._left_out(_STILL_WRITING)
            return
        self._writing = asyncio.create_task(self._write(snapshot, report))

    async def close(self) -> None:
        """Returns once all is written that was handed over."""
        if self._writing is not None:
            await self._writing
        await asyncio.to_thread(self._archive.close)

    async def _write(self, snapshot: Snapshot, report: Report) -> None:
        try:
            forgotten = await asyncio.to_thread(self._archive.write, snapshot, report)
        except OSError as error:
            self._left_out(error.strerror or str(error))
        except ResettleError as error:
            self._left_out(str(error))
        except Exception as error:
            self._left_out(f"{type(error).__name__}: {error}")
        else:
            if not self._well:
                self._log.info("cycles are recorded", record=self._folder)
                self._log.forget(_TROUBLE)
            self._well = True
            for whose in forgotten:
                self._log.only_when_new(f"memory of {whose}").warning(
                    "cycles are recorded in part",
                    plugin=whose,
                    reason="what it remembers is not made of plain values and cannot be written",
                )

    def _left_out(self, why: str) -> None:
        self._well = False
        self._log.only_when_new(_TROUBLE).warning(
            "cycles are not recorded", record=self._folder, reason=why
        )
