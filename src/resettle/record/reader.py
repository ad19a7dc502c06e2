"""A record, as it is read back: which cycles there are, and what each of them saw.

Where a pod turns up in a record: who wanted it when, and what came of it.

Who moved stands in the record. Who was refused does not: plans are drawn again with the pod being
watched, each from the snapshot before it.
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
from resettle.record.encoding import Unpacker
from resettle.record.entry import FORM, Entry
from resettle.record.segments import PackedLines, Segment, segments_in


class _Numbered(Struct):
    """What every form of an entry has."""

    form: int = 0
    resettle: str = ""
    cycle: int = 0


_numbered = msgspec.json.Decoder(_Numbered)
_entry = msgspec.json.Decoder(Entry)

NOTHING_SEEN = Snapshot.of(nodes=(), pods=(), taken_at=datetime.fromtimestamp(0, UTC))
"""What the first changes of a segment are made to."""


class Recorded(NamedTuple):
    """A cycle of a record, and where it stands there."""

    entry: Entry
    policy: str
    segment: Segment

    @property
    def named(self) -> str:
        """What messages call it."""
        return f"cycle {self.entry.cycle} of {self.entry.at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def last_cycle(folder: Path) -> int:
    """The greatest number given to a cycle so far, by whatever version; 0 if there is none."""
    for segment in reversed(segments_in(folder)):
        numbers = [_numbered.decode(line).cycle for line in PackedLines(segment.cycles)]
        if numbers:
            return max(numbers)
    return 0


class Book:
    """The cycles of a record in order; `remarks` tells what could not be read of it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.remarks: list[str] = []
        self.cycles: list[Recorded] = []
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

    def _read(self, segment: Segment) -> Iterator[Recorded]:
        """The cycles of a segment, as far as they are whole."""
        lines, policy = PackedLines(segment.cycles), ""
        try:
            for line in lines:
                form = _numbered.decode(line)
                if form.form != FORM:
                    self.remarks.append(
                        f"{segment.cycles.name} was written by resettle {form.resettle} in a form "
                        "that this version does not know, and is left out"
                    )
                    return
                entry = _entry.decode(line)
                policy = policy if entry.policy is None else entry.policy
                yield Recorded(entry, policy, segment)
        except FileNotFoundError:
            return  # thrown away meanwhile, or never finished
        except (msgspec.DecodeError, UnicodeDecodeError):
            lines.torn = True
        if lines.torn:
            self.remarks.append(
                f"{segment.cycles.name} ends in an entry that is not whole and is left out; "
                "it is being written, or its writer was cut off"
            )

    def cycle(self, number: int) -> Recorded:
        """The cycle of this number."""
        for recorded in reversed(self.cycles):
            if recorded.entry.cycle == number:
                return recorded
        first, last = self.cycles[0].entry.cycle, self.cycles[-1].entry.cycle
        raise InputError(f"the record holds no cycle {number}; it has {first} to {last}")

    def at(self, moment: datetime) -> Recorded:
        """The last cycle at a time or before it."""
        for recorded in reversed(self.cycles):
            if recorded.entry.at <= moment:
                return recorded
        raise InputError(f"the record begins later, with {self.cycles[0].named}")

    def last_that_knew(self, pod: tuple[str, str], kinds: Iterable[Kind] = ()) -> Recorded | None:
        """The last cycle that saw a pod of this namespace and name; None if none did."""
        name = msgspec.json.encode(pod[1])
        for segment in sorted({it.segment for it in self.cycles}, reverse=True):
            if any(name in line for line in PackedLines(segment.objects)):
                seen = self.snapshots(segment, kinds)
                knew = [recorded for recorded, snapshot in seen if snapshot.pod(*pod)]
                if knew:
                    return knew[-1]
        return None

    def snapshot(self, recorded: Recorded, kinds: Iterable[Kind] = ()) -> Snapshot:
        """What a cycle saw."""
        *_, (_, snapshot) = self.snapshots(recorded.segment, kinds, until=recorded)
        return snapshot

    def snapshots(
        self, segment: Segment, kinds: Iterable[Kind] = (), until: Recorded | None = None
    ) -> Iterator[tuple[Recorded, Snapshot]]:
        """What the cycles of a segment saw, each made from the one before."""
        pages, read = iter(PackedLines(segment.objects)), 0
        unpacker, snapshot = Unpacker(kinds), NOTHING_SEEN
        for recorded in self.cycles:
            if recorded.segment != segment:
                continue
            entry = recorded.entry
            if entry.resettle != __version__:
                raise other_version(until or recorded)
            try:
                lines = list(islice(pages, entry.pages - read))
                changes = unpacker.changes(lines, entry.at)
            except (OSError, msgspec.DecodeError, UnicodeDecodeError, LookupError) as error:
                raise damaged(recorded, str(error)) from None
            read += len(lines)
            if read != entry.pages:
                raise damaged(recorded, f"{segment.objects.name} ends too early")
            snapshot = snapshot.next(changes)
            yield recorded, snapshot
            if recorded is until:
                return


def other_version(recorded: Recorded) -> InputError:
    """What is said of objects that another version wrote, and would have decided about."""
    then = recorded.entry.resettle
    return InputError(
        f"{recorded.named} was recorded by resettle {then}; this is {__version__}, which may "
        f"decide otherwise. Ask resettle {then} about it; `resettle record show` tells what it did"
    )


def damaged(recorded: Recorded, why: str) -> InputError:
    """What is said of objects that are not there."""
    return InputError(
        f"what {recorded.named} saw cannot be read: {why}; `resettle record show` tells what it did"
    )
