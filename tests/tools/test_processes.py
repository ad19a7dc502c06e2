"""Programs that run beside tests end with them, and say so if they end before."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.control_plane.processes import Crew, Stopped, free_ports

IDLE = [sys.executable, "-c", "import signal; signal.pause()"]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _interrupted(folder: Path, pids: list[int]) -> None:
    with Crew(folder) as crew:
        pids += [crew.start(name, IDLE).pid for name in ("one", "two")]
        crew.check()
        raise KeyboardInterrupt


def test_all_are_stopped_when_the_block_is_interrupted(tmp_path: Path) -> None:
    pids: list[int] = []

    with pytest.raises(KeyboardInterrupt):
        _interrupted(tmp_path, pids)

    assert [_alive(pid) for pid in pids] == [False, False]


def test_one_that_ends_early_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    with Crew(tmp_path) as crew:
        early = crew.start("early", ["sh", "-c", "echo no such flag; exit 7"])
        os.waitid(os.P_PID, early.pid, os.WEXITED | os.WNOWAIT)

        with pytest.raises(Stopped, match=r"early ended with status 7; .*\n    no such flag"):
            crew.check()


def test_ports_are_handed_out_once() -> None:
    assert len(set(free_ports(6))) == 6


def test_one_that_was_killed_can_be_started_again_and_its_log_goes_on(tmp_path: Path) -> None:
    speaking = ["sh", "-c", "echo here; exec sleep 60"]
    with Crew(tmp_path) as crew:
        process = crew.start("speaker", speaking)
        first = process.pid
        _until(lambda: process.log.read_text() == "here\n")
        process.kill()

        process.restart()
        _until(lambda: process.log.read_text() == "here\nhere\n")

        assert crew.member("speaker").pid != first
        crew.check()


def test_one_that_is_paused_stands_still_until_the_block_ends(tmp_path: Path) -> None:
    with Crew(tmp_path) as crew:
        process = crew.start("idle", IDLE)

        with process.paused():
            _until(lambda: _state(process.pid) == "T")

        _until(lambda: _state(process.pid) != "T")


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def _until(so: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not so():
        assert time.monotonic() < until
        time.sleep(0.01)
