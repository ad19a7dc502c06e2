"""kubernetes-sigs/descheduler, built from its Go module at a pinned version.

    python -m bench.upstream

builds it into the cache directory, once, and prints where it is. It is built from a module of our
own, so that what its go.mod replaces has to be replaced here again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

VERSION = "v0.36.0"
MODULE = f"""module upstream

go 1.26.0

require sigs.k8s.io/descheduler {VERSION}

replace k8s.io/kube-openapi => k8s.io/kube-openapi v0.0.0-20260512234627-ef417d054102
"""
_COMMAND = "sigs.k8s.io/descheduler/cmd/descheduler"


class UpstreamUnavailable(Exception):
    """kubernetes-sigs/descheduler cannot be built or run here, and why."""


@dataclass(frozen=True)
class Upstream:
    """A built descheduler."""

    binary: Path
    go: str
    """The version of Go it was built with."""


def build_upstream(cache: Path | None = None) -> Upstream:
    """The descheduler from the cache, or built now."""
    folder = (cache or cache_folder()) / f"descheduler-{VERSION}"
    binary = folder / "descheduler"
    if not binary.exists():
        _build(folder, binary)
    return read_binary(binary)


def read_binary(binary: Path) -> Upstream:
    """A descheduler that is built already."""
    try:
        output = subprocess.run(
            [binary, "version"], capture_output=True, text=True, check=True, timeout=60
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise UpstreamUnavailable(f"{binary} does not run: {error}") from None
    _, _, rest = output.partition("GoVersion:")
    return Upstream(binary, rest.split(" ")[0].strip() or "unknown")


def cache_folder() -> Path:
    """The folder for programs that take minutes to build."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "resettle-bench"


def _build(folder: Path, binary: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text(MODULE)
    print(f"building descheduler {VERSION}; a cold build takes minutes", file=sys.stderr)
    # Moved into place at the end: a build that was interrupted leaves no half of a program behind.
    part = folder / "descheduler.part"
    try:
        done = subprocess.run(
            ["go", "build", "-o", part, _COMMAND],
            cwd=folder,
            env={**os.environ, "GOFLAGS": "-mod=mod"},
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise UpstreamUnavailable(
            "Go is not installed; version 1.26 builds the descheduler"
        ) from None
    if done.returncode:
        raise UpstreamUnavailable(
            f"`go build` of the descheduler failed:\n{done.stderr.strip()[-2000:]}"
        )
    part.replace(binary)


def main() -> None:
    """Build the descheduler and print its path."""
    try:
        print(build_upstream().binary)
    except UpstreamUnavailable as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
