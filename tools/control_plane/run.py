"""Runs the suites that want a real control plane.

    python -m tools.control_plane.run [arguments of pytest]

Builds the control plane if need be, starts it, passes its address to the suites, and stops it,
however they end. If no test is named, all suites are dealt out to two control planes. Exit status:
pytest's own, or 1 if any suite failed; 10 if something is missing here and nothing was run; 11 if
a control plane did not come up.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from tools.control_plane.build import built
from tools.control_plane.dealing import NO_TESTS, Deal
from tools.control_plane.plane import ControlPlane, NotReady
from tools.control_plane.processes import Stopped
from tools.go_programs.build import NOT_HERE, Missing, Programs

ROOT = Path(__file__).parents[2]
SUITES = ("tests/e2e", "tests/conformance")
LONG_SUITES = ROOT / "tests" / "e2e" / "jobs"
"""Suites that take a quarter of an hour; `make e2e-jobs` runs them."""
PLANES = 2
NOT_STARTED = 11
"""The exit status that says everything was there and a control plane did not come up."""


def main(words: list[str]) -> int:
    """How the suites ended."""
    try:
        programs = built()
        chosen = any((ROOT / word.partition("::")[0]).exists() for word in words)
        with ExitStack() as stack:
            planes = [_started(programs, stack) for _ in range(1 if chosen else PLANES)]
            return _tested(planes[0], words) if chosen else _dealt(planes, words)
    except Missing as missing:
        _say(f"error: {missing}")
        _say("nothing was tested end to end; `make test` needs none of this")
        return NOT_HERE
    except (NotReady, Stopped) as error:
        _say(f"error: {error}")
        return NOT_STARTED


def _started(programs: Programs, stack: ExitStack) -> ControlPlane:
    began = time.monotonic()
    plane = stack.enter_context(ControlPlane(programs))
    _say(f"control plane ready after {time.monotonic() - began:.0f} s at {plane.url}")
    _say(f"logs: {plane.folder}")
    return plane


def _tested(plane: ControlPlane, words: list[str]) -> int:
    """How the tests ended that were named."""
    command = [sys.executable, "-m", "pytest", *words]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **plane.environment}, check=False)
    return done.returncode


def _dealt(planes: list[ControlPlane], words: list[str]) -> int:
    """How all of them ended."""
    files = sorted(
        file
        for name in SUITES
        for file in (ROOT / name).rglob("test_*.py")
        if LONG_SUITES not in file.parents
    )
    deal = Deal(files, words, ROOT)
    deal.play([plane.environment for plane in planes])
    for word, files in (("unsteady", deal.unsteady), ("failed", deal.failed)):
        for file in files:
            print(f"{word}: {file.relative_to(ROOT)}")
    print(deal.summary())
    if deal.failed:
        return 1
    return 0 if deal.counts["passed"] else NO_TESTS


def _leave(signum: int, frame: FrameType | None) -> None:
    sys.exit(128 + signum)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
