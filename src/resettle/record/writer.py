"""Writes cycles to the folder of a record: one writer, one open segment, limited size and age.

    write ──► new segment? ──► changes since the last cycle ──► objects ──► entry ──► delete oldest
                 │ the first cycle of this run, the last segment full, or most pods changed:
                 └─ changes since an empty snapshot, that is all objects

An entry counts once its line is on the disk; objects without an entry are never read. After any
error the segment is closed as it is, and the next cycle starts another.

`CycleRecorder` takes cycles on the event loop and writes them in a thread. A problem with the disk
is logged once and loses cycles of the record; it never stops a cycle of the run.
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

from resettle.cycle import CycleReport
from resettle.errors import InputError, ResettleError
from resettle.log import Log
from resettle.model.changes import Changes
from resettle.model.snapshot import Snapshot
from resettle.record.encoding import ChangesEncoder, is_plain
from resettle.record.entry import entry_of
from resettle.record.reader import EMPTY_SNAPSHOT, last_cycle_number
from resettle.record.segments import GzipWriter, RecordLimits, Segment, segments_in

_PRIVATE = 0o700
_LOCK = ".lock"


class _OpenSegment(NamedTuple):
    """A segment that is being written."""

    segment: Segment
    objects: GzipWriter
    cycles: GzipWriter
    packer: ChangesEncoder

    @property
    def size(self) -> int:
        return self.objects.size + self.cycles.size


class RecordWriter:
    """Writes cycles to a folder; it waits for the disk, so call it in a thread."""

    def __init__(self, folder: Path, limits: RecordLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._lock: int | None = None
        self._next = 0
        self._open: _OpenSegment | None = None
        self._seen = EMPTY_SNAPSHOT
        self._policy: str | None = None

    def write(self, snapshot: Snapshot, report: CycleReport) -> tuple[str, ...]:
        """Add a cycle; return the plugins whose history could not be written.

        Raises `OSError` or `InputError` if the cycle could not be added.
        """
        try:
            self._lock_folder()
            return self._add_cycle(snapshot, report)
        except BaseException:
            self._close_after_error()
            raise

    def close(self) -> None:
        """End the open segment and unlock the folder."""
        if self._open is not None:
            with suppress(OSError):
                self._open.objects.finish()
                self._open.cycles.finish()
        self._open = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _lock_folder(self) -> None:
        if self._lock is not None:
            return
        self._folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise InputError("another run writes to it; give each run its own folder") from None
        except OSError:
            os.close(lock)
            raise
        self._lock = lock
        self._next = last_cycle_number(self._folder) + 1

    def _add_cycle(self, snapshot: Snapshot, report: CycleReport) -> tuple[str, ...]:
        opened, changes = self._next_difference(snapshot)
        opened.objects.add(opened.packer.encode(changes))
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
        self._remove_old_segments(opened, snapshot.taken_at)
        return forgotten

    def _next_difference(self, snapshot: Snapshot) -> tuple[_OpenSegment, Changes]:
        """The segment to write to, and the changes since the last cycle in it."""
        opened = self._open
        if opened is not None and not self._limits.is_full(
            opened.segment, opened.size, snapshot.taken_at
        ):
            changes = snapshot.since(self._seen)
            if 2 * len(changes.pods.put) <= len(snapshot.pod_index):
                return opened, changes
        if opened is not None:
            self._open = None
            opened.objects.finish()
            opened.cycles.finish()
        return self._start_segment(snapshot.taken_at), snapshot.since(EMPTY_SNAPSHOT)

    def _start_segment(self, now: datetime) -> _OpenSegment:
        for dead in segments_in(self._folder):
            if dead.first >= self._next:
                dead.remove()  # it has no readable entry, or its number would be in use
        segment = Segment(self._next, now, self._folder)
        objects = GzipWriter(segment.objects)
        try:
            cycles = GzipWriter(segment.cycles)
        except OSError:
            objects.close()
            raise
        self._policy = None
        self._open = _OpenSegment(segment, objects, cycles, ChangesEncoder())
        return self._open

    def _remove_old_segments(self, opened: _OpenSegment, now: datetime) -> None:
        for segment in self._limits.expired_segments(segments_in(self._folder), now):
            segment.remove()
        if opened.size > self._limits.size:
            opened.segment.remove()
            raise InputError(
                f"one snapshot of the cluster takes {opened.size:,} bytes; raise --record-max-size"
            )

    def _close_after_error(self) -> None:
        """Close the open segment as it is; delete it if it has no entry."""
        opened, self._open = self._open, None
        if opened is None:
            return
        with suppress(OSError):
            opened.objects.close()
            opened.cycles.close()
            if not opened.cycles.lines:
                opened.segment.remove()


_LOG_KEY = "record"
_STILL_WRITING = "the cycle before is still being written"


class CycleRecorder:
    """A `CycleObserver` that records cycles; call `close` at the end."""

    def __init__(self, folder: str, limits: RecordLimits, log: Log) -> None:
        self._folder = folder
        self._writer = RecordWriter(Path(folder), limits)
        self._log = log
        self._writing: asyncio.Task[None] | None = None
        self._healthy = False

    def __call__(self, snapshot: Snapshot, report: CycleReport) -> None:
        """Start to write the cycle; skip it if the cycle before is still being written."""
        if self._writing is not None and not self._writing.done():
            self._log_not_recorded(_STILL_WRITING)
            return
        self._writing = asyncio.create_task(self._write(snapshot, report))

    async def close(self) -> None:
        """Return once all cycles are written."""
        if self._writing is not None:
            await self._writing
        await asyncio.to_thread(self._writer.close)

    async def _write(self, snapshot: Snapshot, report: CycleReport) -> None:
        try:
            forgotten = await asyncio.to_thread(self._writer.write, snapshot, report)
        except OSError as error:
            self._log_not_recorded(error.strerror or str(error))
        except ResettleError as error:
            self._log_not_recorded(str(error))
        except Exception as error:
            self._log_not_recorded(f"{type(error).__name__}: {error}")
        else:
            if not self._healthy:
                self._log.info("cycles are recorded", record=self._folder)
                self._log.forget(_LOG_KEY)
            self._healthy = True
            for plugin in forgotten:
                self._log.only_when_new(f"history of {plugin}").warning(
                    "cycles are recorded in part",
                    plugin=plugin,
                    reason="its history is not made of plain values and cannot be written",
                )

    def _log_not_recorded(self, why: str) -> None:
        self._healthy = False
        self._log.only_when_new(_LOG_KEY).warning(
            "cycles are not recorded", record=self._folder, reason=why
        )
