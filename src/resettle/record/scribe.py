"""Who has cycles written down while a run goes on.

A cycle is handed over on the event loop and written by a thread. Whatever is wrong with the disk
is told once and costs the record some cycles; it never costs the run one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from resettle.cycle import Report
from resettle.errors import ResettleError
from resettle.log import Log
from resettle.model.snapshot import Snapshot
from resettle.record.archive import Archive
from resettle.record.segment import Bounds

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
