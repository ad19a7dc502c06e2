"""Suites dealt out to several control planes, file by file, to whichever is free.

Most of a suite's time is spent waiting for controllers. What pytest prints comes out one file at a
time, when the file is done. A file that failed while others ran beside it is run once more on its
own: what fails again has failed, what passes is named as unsteady.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_COUNTED = re.compile(r"(\d+) (passed|failed|errors?|skipped)")
NO_TESTS = 5
"""What pytest exits with when no test is as its words say; its largest status."""


class Deal:
    """Test files, and what became of those that were run."""

    def __init__(self, files: Iterable[Path], words: Sequence[str], root: Path) -> None:
        self._left = deque(files)
        self._words = words
        self._root = root
        self._guard = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._over = False
        self._counts: dict[Path, Counter[str]] = {}
        self._wrong: dict[Path, bool] = {}
        self.unsteady: list[Path] = []
        """Files that failed beside others and passed alone."""

    @property
    def counts(self) -> Counter[str]:
        """Tests by how they ended when they last ran."""
        return sum(self._counts.values(), Counter[str]())

    @property
    def failed(self) -> list[Path]:
        """Files that went wrong when they last ran."""
        return [file for file, wrong in self._wrong.items() if wrong]

    def summary(self) -> str:
        """One line: how many tests passed, failed and were skipped, and how many files unsteady."""
        counts, unsteady = self.counts, len(self.unsteady)
        return (
            f"{counts['passed']} passed, {counts['failed'] + counts['error']} failed, "
            f"{counts['skipped']} skipped; "
            f"{unsteady} unsteady {'file' if unsteady == 1 else 'files'} of {len(self._counts)}"
        )

    def play(self, environments: Sequence[Mapping[str, str]]) -> None:
        """Runs all files, as many at a time as there are environments, and failed ones again."""
        self._round(environments)
        if failed := self.failed:
            self._left.extend(failed)
            self._round(environments[:1])
            self.unsteady = [file for file in failed if not self._wrong[file]]

    def _round(self, environments: Sequence[Mapping[str, str]]) -> None:
        hands = [threading.Thread(target=self._work, args=(it,)) for it in environments]
        for hand in hands:
            hand.start()
        try:
            for hand in hands:
                hand.join()
        except BaseException:
            self._stop()
            raise

    def _work(self, environment: Mapping[str, str]) -> None:
        while (file := self._next()) is not None:
            command = [sys.executable, "-m", "pytest", *self._words, str(file)]
            with subprocess.Popen(
                command,
                cwd=self._root,
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process:
                self._running.add(process)
                said, _ = process.communicate()
                self._running.discard(process)
            self._enter(file, process.returncode, said)

    def _next(self) -> Path | None:
        with self._guard:
            return self._left.popleft() if self._left and not self._over else None

    def _enter(self, file: Path, status: int, said: str) -> None:
        with self._guard:
            print(said, end="", flush=True)
            last = said.rstrip().rpartition("\n")[2]
            counts = self._counts[file] = Counter[str]()
            for number, kind in _COUNTED.findall(last):
                counts[kind.rstrip("s") if kind.startswith("err") else kind] += int(number)
            self._wrong[file] = status not in (0, NO_TESTS)
            if not 0 <= status <= NO_TESTS:
                print(f"{file.relative_to(self._root)} was ended: {status}", flush=True)

    def _stop(self) -> None:
        with self._guard:
            self._over = True
        for process in list(self._running):
            process.terminate()
