"""Builds programs into the cache directory, once.

Nothing is done until a pinned version changes, and nothing of what is there is built again.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tools.go_programs.recipe import GO, Recipe, Source

NOT_HERE = 10
"""The exit status that says something is missing here; those up to 5 are pytest's."""


class Missing(Exception):
    """Something that is needed is not on this machine; the text says how to get it."""


@dataclass(frozen=True)
class Programs:
    """The built programs."""

    folder: Path

    def __getitem__(self, name: str) -> Path:
        """Where one of them is."""
        return self.folder / name


def built(recipe: Recipe, cache: Path | None = None) -> Programs:
    """The programs, from the cache or built now."""
    folder = (cache or cache_folder(recipe)) / recipe.key
    folder.mkdir(parents=True, exist_ok=True)
    names = [name for source in recipe.sources for name in source.packages]
    if not all((folder / name).exists() for name in names):
        # Two suites that start at once share one build: each would take all cores for minutes.
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _build_missing(recipe, folder)
    return Programs(folder)


def _build_missing(recipe: Recipe, folder: Path) -> None:
    for source in recipe.sources:
        for name, package in source.packages.items():
            if not (folder / name).exists():
                _build(recipe, source, name, package, folder)


def cache_folder(recipe: Recipe) -> Path:
    """Where such programs are kept."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "resettle" / recipe.cache


def _build(recipe: Recipe, source: Source, name: str, package: str, folder: Path) -> None:
    module = recipe.folder(source)
    title = f"{name} {recipe.version(source)}"
    _require_go(recipe)
    print(f"building {title}", file=sys.stderr, flush=True)
    began = time.monotonic()
    # Moved into place at the end: a build that was interrupted leaves no half of a program behind.
    part = folder / f"{name}.{os.getpid()}.part"
    command = ["go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly"]
    flags = ["-ldflags", recipe.linker_flags(source)]
    done = subprocess.run(
        ["nice", "-n", "10", *command, *flags, "-o", part, package],
        cwd=module,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        part.unlink(missing_ok=True)
        raise Missing(_failure(title, done.stdout.strip()))
    part.replace(folder / name)
    print(f"built {name} in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def _require_go(recipe: Recipe) -> None:
    folder = recipe.folder(recipe.sources[0])
    try:
        asked = subprocess.run(
            ["go", "env", "GOVERSION"], cwd=folder, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise Missing(f"Go is not installed; install Go {GO} and put `go` on the PATH") from None
    version = asked.stdout.strip().removeprefix("go")
    if version != GO and not version.startswith(f"{GO}."):
        said = version or asked.stderr.strip()
        raise Missing(f"Go {GO} is needed to build {recipe.title}, and `go` is {said}")


def _failure(title: str, said: str) -> str:
    last = "\n".join(f"    {line}" for line in said.splitlines()[-15:])
    return (
        f"{title} could not be built:\n{last}\n"
        "if modules could not be downloaded, let Go reach a module proxy (`go env GOPROXY`), "
        "or build where it can and copy the cache directory over"
    )


def main(recipe: Recipe) -> None:
    """Builds what is not built yet and prints where it all is."""
    try:
        print(built(recipe).folder)
    except Missing as missing:
        print(f"error: {missing}", file=sys.stderr)
        sys.exit(NOT_HERE)
