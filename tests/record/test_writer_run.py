"""A run that is recorded: all of its cycles, and whatever is wrong with the disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from resettle.cycle import CycleReport
from resettle.framework import Args, Draft, Plugin, default_registry
from resettle.framework.mover import MoveResult
from resettle.framework.view import View
from resettle.log import Log
from resettle.model.snapshot import Snapshot
from resettle.record.reader import RecordReader
from resettle.record.writer import CycleRecorder
from resettle.testing import Fault, node, pod
from tests.record.harness import PLENTY, replays_as
from tests.runtime.harness import Stage, policy, running

OLD, YOUNG = "3h", "1m"
DENIED = 'admission webhook "virt.example" denied the request: no'


def world(*pods: dict[str, Any]) -> list[dict[str, Any]]:
    """Two nodes, the first of which holds the pods."""
    full = node("n1").holding(*pods)
    return [full.node, node("n2").node, *full.pods]


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


class Recording:
    """A run that is recorded, and its reports as another observer received them."""

    def __init__(
        self, stage: Stage, scribe: CycleRecorder, reports: list[CycleReport], log: list[str]
    ) -> None:
        self.stage, self.scribe, self.reports, self._log = stage, scribe, reports, log

    def log_lines(self, event: str) -> list[str]:
        """The log lines of the recorder about an event."""
        return [line for line in self._log if line.partition(" ")[2].startswith(event)]

    async def written(self) -> None:
        """Returns once the last cycle is on the disk, or is not to be."""
        await self.stage.resting()
        if self.scribe._writing is not None:
            await self.scribe._writing


@asynccontextmanager
async def recorded(
    folder: Path, objects: list[dict[str, Any]], *more: Any, **settings: Any
) -> AsyncIterator[Recording]:
    reports: list[CycleReport] = []
    log: list[str] = []
    scribe = CycleRecorder(str(folder), PLENTY, Log.to(log))

    def keep(snapshot: Snapshot, report: CycleReport) -> None:
        reports.append(report)

    async with running(objects, *more, observers=[scribe, keep], **settings) as stage:
        yield Recording(stage, scribe, reports, log)
    await scribe.close()


def test_every_cycle_of_a_run_can_be_drawn_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        objects = world(*(pod(f"p{i}", age=OLD) for i in range(5)), pod("young", age=YOUNG))
        async with recorded(tmp_path, objects, policy(maxNoOfPodsToEvictTotal=2)) as run:
            fault = Fault(path="*/p0/eviction", status=403, message=DENIED)
            run.stage.server.faults.add(fault)
            await run.stage.cycles(1)
            await run.written()
            await run.stage.next_cycle()
            await run.written()
            run.stage.write(policy(maxNoOfPodsToEvictTotal=1))
            await run.stage.next_cycle()
            await run.written()
            reports = run.reports
        assert run.log_lines("cycles are recorded") == [
            f"INFO cycles are recorded record={tmp_path}"
        ]

        book = RecordReader(str(tmp_path))
        assert [cycle.entry.cycle for cycle in book.cycles] == [1, 2, 3]
        for cycle, report in zip(book.cycles, reports, strict=True):
            replays_as(book, cycle, report, default_registry())
        endings = [move.ending for cycle in book.cycles for move in cycle.entry.moves]
        assert sorted(endings) == [*[MoveResult.EVICTED] * 5, MoveResult.WEBHOOK]
        assert any(len(cycle.entry.rounds) > 1 for cycle in book.cycles)

    play(scenario())


def test_a_folder_that_cannot_be_written_is_logged_once_and_the_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "record"
    folder.write_text("in the way")

    async def scenario() -> None:
        async with recorded(folder, world(pod("a", age=OLD), pod("b", age="59m50s"))) as run:
            await run.stage.cycles(1)
            await run.written()
            await run.stage.next_cycle()
            await run.written()
            assert run.stage.evictions == ["a", "b"]
            assert run.log_lines("cycles are not recorded") == [
                f'WARNING cycles are not recorded record={folder} reason="File exists"'
            ]

            folder.unlink()
            await run.stage.next_cycle()
            await run.written()
            assert len(run.log_lines("cycles are recorded")) == 1
            reports = run.reports

        book = RecordReader(str(folder))
        assert [cycle.entry.cycle for cycle in book.cycles] == [1]
        replays_as(book, book.cycles[0], reports[-1], default_registry())

    play(scenario())


def test_a_single_cycle_is_on_the_disk_when_the_run_is_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with recorded(tmp_path, world(pod("a", age=OLD)), interval=0, dry_run=True) as run:
            assert await run.stage.working == 0
        (cycle,) = RecordReader(str(tmp_path)).cycles
        assert cycle.entry.endings == {MoveResult.SHOWN: 1}

    play(scenario())


def remember_a_set(args: Args, view: View, draft: Draft) -> None:
    draft.remember({"seen"})


def test_a_plugin_whose_memory_cannot_be_written_is_logged_once(tmp_path: Path) -> None:
    elephant = Plugin(name="Elephant", deschedule=remember_a_set)

    async def scenario() -> None:
        document = policy("Elephant", configs=[{"name": "Elephant"}])
        async with recorded(tmp_path, world(), document, plugins=[elephant]) as run:
            await run.stage.cycles(1)
            for _ in range(3):
                await run.written()
                await run.stage.next_cycle()
            await run.written()
            (line,) = run.log_lines("cycles are recorded in part")
            assert 'plugin="Elephant in profile main"' in line

    play(scenario())
