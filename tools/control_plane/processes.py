"""Programs that run beside the tests, each with a log, and that never outlive them."""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

PATIENCE_SECONDS = 10
_PR_SET_PDEATHSIG = 1


class Stopped(Exception):
    """A program ended that should have kept running."""


class Process:
    """A running program."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        self.name, self.log = name, log
        self._command = list(map(str, command))
        log.unlink(missing_ok=True)
        self._child = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as out:
            # A session of its own: Ctrl-C reaches the runner alone, which then stops them in order.
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    def check(self) -> None:
        """Raises with the end of its log if it is not running any more."""
        if (code := self._child.poll()) is not None:
            last = "\n".join(f"    {line}" for line in _tail(self.log))
            raise Stopped(f"{self.name} ended with status {code}; {self.log} ends with\n{last}")

    def kill(self) -> None:
        """Ends it in the middle of whatever it does."""
        self._child.kill()
        self._child.wait()

    def restart(self) -> None:
        """Starts it again as it was started before; its log goes on."""
        self.stop()
        self._child = self._started()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Has it stand still while the block lasts."""
        self._child.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._child.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Asks it to end, and insists after a while."""
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()


class Crew(ExitStack):
    """Processes that are stopped together, the last one first."""

    def __init__(self, logs: Path) -> None:
        super().__init__()
        self._logs = logs
        self.members: list[Process] = []

    def start(self, name: str, command: Sequence[str | Path]) -> Process:
        """One more of them."""
        process = Process(name, command, self._logs / f"{name}.log")
        self.members.append(process)
        self.callback(process.stop)
        return process

    def member(self, name: str) -> Process:
        """The one of this name."""
        return next(it for it in self.members if it.name == name)

    def check(self) -> None:
        """Raises if one of them is not running any more."""
        for member in self.members:
            member.check()


def free_ports(count: int) -> list[int]:
    """As many loopback ports as wanted that are free."""
    with ExitStack() as held:
        found = []
        for _ in range(count):
            taken = held.enter_context(socket.socket())
            taken.bind(("127.0.0.1", 0))
            found.append(int(taken.getsockname()[1]))
        return found


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _tail(log: Path, lines: int = 12) -> list[str]:
    return log.read_text(errors="replace").splitlines()[-lines:]
