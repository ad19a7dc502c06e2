"""What a command costs: wall clock, CPU and peak memory of a child, as the kernel accounts them.

Linux lets a child begin with the peak memory of the process that started it, so this process
must stay small: nothing large is read here, and a cluster is generated elsewhere.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.serving import Serving

POLL_SECONDS = 0.05
IDLE_SECONDS = 1.0
_TICKS = os.sysconf("SC_CLK_TCK")
_MOVE = re.compile(rb'"(uid|plugin)": "([^"]*)"')
_EVICTED = re.compile(rb'"Evicted pod in dry run mode" pod="([^"]+)".* strategy="(\w+)"')
_REALLY_EVICTED = re.compile(rb'"Evicted pod" pod="([^"]+)".* strategy="(\w+)"')
_OURS_EVICTED = re.compile(rb" INFO evicted pod=(\S+) .* plugin=(\w+) ")
_CYCLE_FAILED = b"failed to run descheduler loop"


@dataclass(frozen=True)
class Cost:
    """What one run took, and what came of it."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds, user and system together."""
    peak: float
    """MiB."""
    evictions: Mapping[str, int] = field(default_factory=dict)
    """Pods evicted, by strategy; each pod counts once."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """CPU milliseconds of each phase, where the program reports it."""
    remark: str = ""
    """Why it was ended before its own end."""

    @property
    def evicted(self) -> int:
        """Pods evicted by all strategies together."""
        return sum(self.evictions.values())


class Failed(Exception):
    """A measured command did not end well."""


def run_child(
    command: Sequence[str],
    *,
    out: Path,
    err: Path,
    timeout: float,
    look: Callable[[int], str | None] = lambda pid: None,
) -> tuple[Cost, int]:
    """Runs a command to its end, and gives what it cost and its exit code.

    `look` is called now and then while it runs; an answer ends the child and is kept as a remark.
    """
    remark = ""
    with out.open("wb") as stdout, err.open("wb") as stderr:
        begun = time.perf_counter()
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=out.parent
        )
        while True:
            pid, ended, used = os.wait4(child.pid, os.WNOHANG)
            wall = time.perf_counter() - begun
            if pid:
                break
            if not remark:
                remark = look(child.pid) or ""
                if wall > timeout:
                    remark = f"ended after {timeout:.0f} s"
                if remark:
                    child.send_signal(signal.SIGTERM)
            elif wall > timeout + 60:
                child.kill()
            time.sleep(POLL_SECONDS)
    # Popen must not wait for it a second time.
    child.returncode = os.waitstatus_to_exitcode(ended)
    cost = Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, remark=remark)
    return cost, child.returncode


def run_ours(served: Serving, policy: Path, folder: Path, timeout: float) -> Cost:
    """`resettle plan` over the served cluster."""
    out, err = folder / "plan.json", folder / "plan.err"
    words = f"plan --kubeconfig {served.kubeconfig} --policy {policy} -o json --profile-cycle"
    command = [sys.executable, "-m", "resettle", *words.split()]
    cost, code = run_child(command, out=out, err=err, timeout=timeout)
    if code or cost.remark:
        raise Failed(f"resettle ended with {code} {cost.remark}\n{err.read_text()[-2000:]}")
    return replace(cost, evictions=moves(out), phases=phases(err.read_text()))


def run_ours_acting(served: Serving, policy: Path, folder: Path, timeout: float) -> Cost:
    """`resettle run` over the served cluster: one cycle that evicts and writes events."""
    log = folder / "run.log"
    words = f"run --kubeconfig {served.kubeconfig} --policy {policy} --client-connection-qps=-1"
    command = [sys.executable, "-m", "resettle", *words.split(), "--secure-port=0"]
    cost, code = run_child(command, out=folder / "run.out", err=log, timeout=timeout)
    if code or cost.remark:
        raise Failed(f"resettle ended with {code} {cost.remark}\n{log.read_text()[-2000:]}")
    return replace(cost, evictions=evictions(log, _OURS_EVICTED))


def run_upstream_acting(
    binary: Path, served: Serving, policy: Path, folder: Path, timeout: float
) -> Cost:
    """One run of descheduler over the served cluster, evictions and events included."""
    log = folder / "upstream.log"
    files = f"--kubeconfig={served.kubeconfig} --policy-config-file={policy}"
    pace = "--client-connection-qps=1000000 --client-connection-burst=1000000"
    command = [str(binary), *files.split(), *pace.split(), "--secure-port=0", "-v=1"]
    cost, code = run_child(command, out=folder / "upstream.out", err=log, timeout=timeout)
    if code and not cost.remark:
        raise Failed(f"descheduler ended with {code}\n{log.read_text()[-2000:]}")
    return replace(cost, evictions=evictions(log, _REALLY_EVICTED))


def moves(plan: Path) -> dict[str, int]:
    """Moves by plugin; a plan can be large, so it is read line by line."""
    count: Counter[str] = Counter()
    uid = b""
    with plan.open("rb") as lines:
        for line in lines:
            match _MOVE.search(line):
                case None:
                    continue
                case found if found[1] == b"uid":
                    uid = found[2]
                case found if uid:
                    count[found[2].decode()] += 1
                    uid = b""
    return dict(count)


def phases(said: str) -> dict[str, float]:
    """CPU milliseconds by phase, from what `--profile-cycle` says."""
    found: dict[str, float] = {}
    lines = iter(said.splitlines())
    for line in lines:
        if line.startswith("PHASE "):
            break
    for line in lines:
        match line.rsplit(maxsplit=2):
            case [name, wall, cpu] if _number(wall) and _number(cpu) and name != "whole process":
                found[name.strip()] = float(cpu)
    return found


def _number(text: str) -> bool:
    return re.fullmatch(r"[\d.]+", text) is not None


def run_upstream(binary: Path, served: Serving, policy: Path, folder: Path, timeout: float) -> Cost:
    """One dry run of descheduler over the served cluster.

    Its dry run works on a copy of the cluster and begins before the copy is complete, so that it
    finds little or nothing to do; here the last list is held back until it has caught up. The time
    it idles for that is not counted.
    """
    log = folder / "upstream.log"
    held = _HeldBack(served, log)
    files = f"--kubeconfig={served.kubeconfig} --policy-config-file={policy}"
    command = [str(binary), *files.split(), *"--dry-run --secure-port=0 -v=1".split()]
    served.hold()
    try:
        cost, code = run_child(
            command, out=folder / "upstream.out", err=log, timeout=timeout, look=held.look
        )
    finally:
        served.release()
    if code and not cost.remark:
        raise Failed(f"descheduler ended with {code}\n{log.read_text()[-2000:]}")
    return replace(cost, wall=cost.wall - held.waited, evictions=evictions(log))


def evictions(log: Path, pattern: re.Pattern[bytes] = _EVICTED) -> dict[str, int]:
    """Evictions by strategy, as the log says; a pod that is evicted twice counts once."""
    evicted: dict[bytes, str] = {}
    with log.open("rb") as lines:
        for line in lines:
            if found := pattern.search(line):
                evicted.setdefault(found[1], found[2].decode())
    return dict(Counter(evicted.values()))


class _HeldBack:
    """Watches descheduler: releases the last list once it is idle, and ends it after one cycle."""

    def __init__(self, served: Serving, log: Path) -> None:
        self._served = served
        self._log = log
        self._read = 0
        self._before = served.asked("list PriorityClass")
        self._released = False
        self.waited = 0.0
        """Seconds that descheduler idled until it was let on."""
        self._busy = (time.monotonic(), 0.0)

    def look(self, pid: int) -> str | None:
        """Nothing, or why descheduler is to be ended."""
        if not self._released:
            self._release_if_idle(pid)
            return None
        with self._log.open("rb") as log:
            log.seek(self._read)
            news = log.read()
        # A line may be cut off where this look ends; the next look begins with it.
        self._read += news.rfind(b"\n") + 1
        if _CYCLE_FAILED in news:
            return "could not restore its copy within 5 s after the cycle"
        return None

    def _release_if_idle(self, pid: int) -> None:
        now, cpu = time.monotonic(), cpu_seconds(pid)
        since, used = self._busy
        if cpu - used > 0.05 * IDLE_SECONDS:
            self._busy = (now, cpu)
        elif now - since > IDLE_SECONDS and self._served.asked("list PriorityClass") > self._before:
            self._served.release()
            self._released = True
            self.waited = time.monotonic() - since


def cpu_seconds(pid: int) -> float:
    """CPU seconds a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
