"""Really installing a package from its folder, and running commands with it in reach."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def install(folder: Path, into: Path) -> Path:
    """The directory into which pip has installed the package; nothing is downloaded."""
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    words = ("-m", "pip", "install", "--quiet", "--upgrade", *offline, "--target", str(into))
    done = python(*words, str(folder), cwd=folder)
    assert done.returncode == 0, done.stderr
    return into


def python(
    *words: str, cwd: Path, reach: tuple[Path, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """What the interpreter says and how it ends, with these directories in reach."""
    surroundings = {
        **os.environ,
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONIOENCODING": "utf-8",
        "PYTHONPATH": os.pathsep.join(map(str, reach)),
    }
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=surroundings,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
