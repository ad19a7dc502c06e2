"""Prometheus from the PATH, or out of Debian's package, without being root.

    python -m tools.prometheus.package

prints where the programs are. The package is downloaded by apt, which checks its signature, and
unpacked into the cache directory, once; nothing is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.go_programs.build import NOT_HERE, Missing, Programs

NAMES = ("prometheus", "promtool")
_ADVICE = "install Prometheus, so that `prometheus` and `promtool` are on the PATH"


def found(cache: Path | None = None) -> Programs:
    """The programs, from the PATH, from the cache, or downloaded now."""
    there = [shutil.which(name) for name in NAMES]
    folders = {Path(it).parent for it in there if it}
    if all(there) and len(folders) == 1:
        return Programs(folders.pop())
    folder = cache or cache_folder()
    if not all((folder / name).exists() for name in NAMES):
        _unpack(folder)
    return Programs(folder)


def cache_folder() -> Path:
    """Where the programs are kept."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "resettle" / "prometheus"


def _unpack(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        work = Path(name)
        print("downloading Debian's package prometheus", file=sys.stderr, flush=True)
        _run(["apt-get", "download", "--quiet", "prometheus"], work)
        (package,) = work.glob("prometheus_*.deb")
        _run(["dpkg-deb", "--extract", package.name, "unpacked"], work)
        for program in NAMES:
            (work / "unpacked" / "usr" / "bin" / program).replace(folder / program)


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise Missing(f"this machine has no `{command[0]}`; {_ADVICE}") from None
    if done.returncode:
        last = done.stdout.strip().splitlines()[-1:]
        said = f": {last[0]}" if last else ""
        raise Missing(f"`{' '.join(command)}` ended with {done.returncode}{said}; {_ADVICE}")


def main() -> None:
    """Prints where the programs are."""
    try:
        print(found().folder)
    except Missing as missing:
        print(f"error: {missing}", file=sys.stderr)
        sys.exit(NOT_HERE)


if __name__ == "__main__":
    main()
