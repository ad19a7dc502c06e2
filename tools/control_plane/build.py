"""Builds the control plane into the cache directory, once.

    python -m tools.control_plane.build

prints where the programs are. A cold build takes about nine minutes on two cores; afterwards
nothing is done until a pinned version changes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tools.control_plane.recipe import GO, SOURCES, Source, key

NOT_HERE = 10
"""The exit status that says something is missing here; those up to 5 are pytest's."""


class Missing(Exception):
    """Something the control plane needs is not on this machine; the text says how to get it."""


@dataclass(frozen=True)
class Programs:
    """The built programs."""

    folder: Path

    def __getitem__(self, name: str) -> Path:
        """Where one of them is."""
        return self.folder / name


def built(cache: Path | None = None) -> Programs:
    """The programs, from the cache or built now."""
    folder = (cache or cache_folder()) / key()
    folder.mkdir(parents=True, exist_ok=True)
    for source in SOURCES:
        for name, package in source.packages.items():
            if not (folder / name).exists():
                _build(source, name, package, folder)
    return Programs(folder)


def cache_folder() -> Path:
    """Where control planes are kept."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "resettle" / "control-plane"


def _build(source: Source, name: str, package: str, folder: Path) -> None:
    _require_go(source.folder)
    print(f"building {name} {source.version}", file=sys.stderr, flush=True)
    began = time.monotonic()
    # Moved into place at the end: a build that was interrupted leaves no half of a program behind.
    part = folder / f"{name}.{os.getpid()}.part"
    command = ["go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly"]
    done = subprocess.run(
        ["nice", "-n", "10", *command, "-ldflags", source.linker_flags, "-o", part, package],
        cwd=source.folder,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        part.unlink(missing_ok=True)
        raise Missing(_failure(name, source, done.stdout.strip()))
    part.replace(folder / name)
    print(f"built {name} in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def _require_go(folder: Path) -> None:
    try:
        asked = subprocess.run(
            ["go", "env", "GOVERSION"], cwd=folder, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise Missing(f"Go is not installed; install Go {GO} and put `go` on the PATH") from None
    version = asked.stdout.strip().removeprefix("go")
    if version != GO and not version.startswith(f"{GO}."):
        said = version or asked.stderr.strip()
        raise Missing(f"Go {GO} is needed to build the control plane, and `go` is {said}")


def _failure(name: str, source: Source, said: str) -> str:
    last = "\n".join(f"    {line}" for line in said.splitlines()[-15:])
    return (
        f"{name} {source.version} could not be built:\n{last}\n"
        "if modules could not be downloaded, let Go reach a module proxy (`go env GOPROXY`), "
        "or build where it can and copy the cache directory over"
    )


def main() -> None:
    """Builds what is not built yet and prints where it all is."""
    try:
        print(built().folder)
    except Missing as missing:
        print(f"error: {missing}", file=sys.stderr)
        sys.exit(NOT_HERE)


if __name__ == "__main__":
    main()
