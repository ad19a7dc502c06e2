"""Runs the suites that want a real control plane.

    python -m tools.control_plane.run [what pytest is to be told]

Builds the control plane if need be, starts it, tells the suites where it is, and stops it, however
they end. Exit status: pytest's own; 10 if something is missing here and nothing was run; 11 if the
control plane did not come up.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from tools.control_plane.build import NOT_HERE, Missing, built
from tools.control_plane.plane import ControlPlane, NotReady
from tools.control_plane.processes import Stopped

ROOT = Path(__file__).parents[2]
SUITES = ("tests/e2e", "tests/conformance")
NOT_STARTED = 11
"""The exit status that says everything was there and the control plane did not come up."""


def main(words: list[str]) -> int:
    """How the suites ended."""
    try:
        programs = built()
        began = time.monotonic()
        with ControlPlane(programs) as plane:
            _say(f"control plane ready after {time.monotonic() - began:.0f} s at {plane.url}")
            _say(f"logs: {plane.folder}")
            return _tested(plane, words)
    except Missing as missing:
        _say(f"error: {missing}")
        _say("nothing was tested end to end; `make test` needs none of this")
        return NOT_HERE
    except (NotReady, Stopped) as error:
        _say(f"error: {error}")
        return NOT_STARTED


def _tested(plane: ControlPlane, words: list[str]) -> int:
    suites = [name for name in SUITES if (ROOT / name).exists()]
    chosen = any((ROOT / word.partition("::")[0]).exists() for word in words)
    command = [sys.executable, "-m", "pytest", *words, *(() if chosen else suites)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **plane.environment}, check=False)
    return done.returncode


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
