"""What a set of programs is made of: the Go modules they come from, and their versions.

Versions stand in `go.mod` files and nowhere else; `go.sum` beside each pins every byte that is
downloaded.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

GO = "1.26"
"""The Go that builds them all; the kube-openapi that Kubernetes 1.36 pins is none for 1.27."""


@dataclass(frozen=True)
class Source:
    """A Go module of ours that pins programs of another, and how these are built."""

    name: str
    """The folder of its `go.mod` and `go.sum`."""
    path: str
    """The module that the programs are part of."""
    packages: dict[str, str]
    """Each program and its main package."""
    stamps: tuple[str, ...] = ()
    """Variables that hold the version a program says it is."""


@dataclass(frozen=True)
class Recipe:
    """Programs that are built and kept together."""

    title: str
    """What they are, for messages."""
    cache: str
    """The folder of the cache directory that they are kept in."""
    modules: Path
    """Where the folders of the sources are."""
    sources: tuple[Source, ...]

    def folder(self, source: Source) -> Path:
        """Where the `go.mod` and `go.sum` of a source are."""
        return self.modules / source.name

    def version(self, source: Source) -> str:
        """The pinned version of a source."""
        file = self.folder(source) / "go.mod"
        found = re.search(
            rf"^\s*(?:require )?{re.escape(source.path)} (v\S+)", file.read_text(), re.MULTILINE
        )
        if found is None:
            raise LookupError(f"{file} requires no {source.path}")
        return found[1]

    def linker_flags(self, source: Source) -> str:
        """No symbols, and the version where the program looks for it."""
        version = self.version(source)
        return " ".join(["-s", "-w", *(f"-X {name}={version}" for name in source.stamps)])

    @property
    def key(self) -> str:
        """A name for exactly these programs: versions, and a digest of all that is pinned."""
        digest = hashlib.sha256()
        for source in self.sources:
            digest.update(repr(source).encode())
            for file in ("go.mod", "go.sum"):
                digest.update((self.folder(source) / file).read_bytes())
        versions = "_".join(f"{source.name}-{self.version(source)}" for source in self.sources)
        return f"{versions}_{digest.hexdigest()[:8]}"
