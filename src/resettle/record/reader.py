"""Reads a record: which cycles it has, and the snapshot that each of them used.

A snapshot is built from the first one of its segment and all changes since, so reading the last
cycle of a segment costs as much as reading the whole segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from resettle import __version__
from resettle.errors import InputError
from resettle.model.kinds import Kind
from resettle.model.snapshot import Snapshot
from resettle.record.encoding import ChangesDecoder
from resettle.record.entry import FORMAT_VERSION, CycleEntry
from resettle.record.segments import GzipLines, Segment, segments_in


class _EntryHeader(Struct):
    """The fields that entries of every format version have."""

    form: int = 0
    resettle: str = ""
    cycle: int = 0


_header_decoder = msgspec.json.Decoder(_EntryHeader)
_entry_decoder = msgspec.json.Decoder(CycleEntry)

EMPTY_SNAPSHOT = Snapshot.of(nodes=(), pods=(), taken_at=datetime.fromtimestamp(0, UTC))
"""The snapshot that the first changes of a segment are applied to."""


class RecordedCycle(NamedTuple):
    """A cycle of a record, its policy, and the segment that holds it."""

    entry: CycleEntry
    policy: str
    segment: Segment

    @property
    def title(self) -> str:
        """Its number and time, as messages show them."""
        return f"cycle {self.entry.cycle} of {self.entry.at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def last_cycle_number(folder: Path) -> int:
    """The greatest number of a cycle so far, of any format version; 0 if there is none."""
    for segment in reversed(segments_in(folder)):
        numbers = [_header_decoder.decode(line).cycle for line in GzipLines(segment.cycles)]
        if numbers:
            return max(numbers)
    return 0


class RecordReader:
    """The cycles of a record in order; `warnings` says what could not be read."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.warnings: list[str] = []
        self.cycles: list[RecordedCycle] = []
        path = Path(folder)
        if not path.is_dir():
            raise InputError(f"there is no folder `{folder}`; name one that `run --record` filled")
        try:
            segments = segments_in(path)
            for segment in segments:
                self.cycles += self._read(segment)
        except OSError as error:
            why = error.strerror or str(error)
            raise InputError(f"the record `{folder}` cannot be read: {why}") from None
        if not segments:
            raise InputError(
                f"`{folder}` holds no record; name a folder that `run --record` filled"
            )
        if not self.cycles:
            raise InputError(f"the record `{folder}` holds no cycle that can be read")

    def _read(self, segment: Segment) -> Iterator[RecordedCycle]:
        """Yield the cycles of a segment up to the first incomplete one."""
        lines, policy = GzipLines(segment.cycles), ""
        try:
            for line in lines:
                form = _header_decoder.decode(line)
                if form.form != FORMAT_VERSION:
                    self.warnings.append(
                        f"{segment.cycles.name} was written by resettle {form.resettle} in a "
                        "format that this version does not know, and is skipped"
                    )
                    return
                entry = _entry_decoder.decode(line)
                policy = policy if entry.policy is None else entry.policy
                yield RecordedCycle(entry, policy, segment)
        except FileNotFoundError:
            return  # removed meanwhile, or never finished
        except (msgspec.DecodeError, UnicodeDecodeError):
            lines.truncated = True
        if lines.truncated:
            self.warnings.append(
                f"{segment.cycles.name} ends in an incomplete entry, which is skipped; "
                "it is being written, or the run was killed"
            )

    def cycle(self, number: int) -> RecordedCycle:
        """The cycle of this number."""
        for recorded in reversed(self.cycles):
            if recorded.entry.cycle == number:
                return recorded
        first, last = self.cycles[0].entry.cycle, self.cycles[-1].entry.cycle
        raise InputError(f"the record holds no cycle {number}; it has {first} to {last}")

    def at(self, moment: datetime) -> RecordedCycle:
        """The last cycle at a time or before it."""
        for recorded in reversed(self.cycles):
            if recorded.entry.at <= moment:
                return recorded
        raise InputError(f"the record begins later, with {self.cycles[0].title}")

    def last_cycle_with(
        self, pod: tuple[str, str], kinds: Iterable[Kind] = ()
    ) -> RecordedCycle | None:
        """The last cycle that saw a pod of this namespace and name; None if none did."""
        name = msgspec.json.encode(pod[1])
        for segment in sorted({recorded.segment for recorded in self.cycles}, reverse=True):
            if any(name in line for line in GzipLines(segment.objects)):
                seen = self.snapshots(segment, kinds)
                with_pod = [recorded for recorded, snapshot in seen if snapshot.pod(*pod)]
                if with_pod:
                    return with_pod[-1]
        return None

    def snapshot(self, recorded: RecordedCycle, kinds: Iterable[Kind] = ()) -> Snapshot:
        """The snapshot that a cycle used."""
        *_, (_, snapshot) = self.snapshots(recorded.segment, kinds, until=recorded)
        return snapshot

    def snapshots(
        self, segment: Segment, kinds: Iterable[Kind] = (), until: RecordedCycle | None = None
    ) -> Iterator[tuple[RecordedCycle, Snapshot]]:
        """Yield the cycles of a segment with their snapshots, each built from the one before."""
        pages, read = iter(GzipLines(segment.objects)), 0
        unpacker, snapshot = ChangesDecoder(kinds), EMPTY_SNAPSHOT
        for recorded in self.cycles:
            if recorded.segment != segment:
                continue
            entry = recorded.entry
            if entry.resettle != __version__:
                raise other_version_error(until or recorded)
            try:
                lines = list(islice(pages, entry.pages - read))
                changes = unpacker.decode(lines, entry.at)
            except (OSError, msgspec.DecodeError, UnicodeDecodeError, LookupError) as error:
                raise damaged_error(recorded, str(error)) from None
            read += len(lines)
            if read != entry.pages:
                raise damaged_error(recorded, f"{segment.objects.name} ends too early")
            snapshot = snapshot.next(changes)
            yield recorded, snapshot
            if recorded is until:
                return


def other_version_error(recorded: RecordedCycle) -> InputError:
    """The error for objects that another version of resettle wrote."""
    then = recorded.entry.resettle
    return InputError(
        f"{recorded.title} was recorded by resettle {then}; this is {__version__}, which may "
        f"decide otherwise. Use resettle {then} for it; `resettle record show` shows what it did"
    )


def damaged_error(recorded: RecordedCycle, why: str) -> InputError:
    """The error for objects that are missing or damaged."""
    return InputError(
        f"what {recorded.title} saw cannot be read: {why}; `resettle record show` shows what it did"
    )
