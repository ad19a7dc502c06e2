"""Commands that a page shows with what they print, and what they print when they are run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.cli.harness import surroundings


def commands(page: str) -> list[tuple[str, str]]:
    """The words after `resettle` of each console block, and the lines below them."""
    return re.findall(r"^```console\n\$ resettle (.+?)\n(.*?)^```$", page, re.M | re.S)


def printed(words: str, folder: Path) -> str:
    """What the command prints in a folder, on a line of 100 columns; it must end well."""
    done = subprocess.run(
        [sys.executable, "-m", "resettle", *words.split()],
        cwd=folder,
        env=surroundings(COLUMNS="100"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
