"""What the control plane is made of: programs, the Go modules they come from, their versions.

Versions stand in the `go.mod` files under `modules/` and nowhere else; `go.sum` beside each pins
every byte that is downloaded.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent / "modules"
GO = "1.26"
"""The Go that builds them all; the kube-openapi that Kubernetes 1.36 pins is none for 1.27."""


@dataclass(frozen=True)
class Source:
    """A Go module of ours that pins programs of another, and how these are built."""

    name: str
    """The folder under `modules/`."""
    path: str
    """The module that the programs are part of."""
    packages: dict[str, str]
    """Each program and its main package."""
    stamps: tuple[str, ...] = ()
    """Variables that hold the version a program says it is."""

    @property
    def folder(self) -> Path:
        """Where its `go.mod` and `go.sum` are."""
        return MODULES / self.name

    @property
    def version(self) -> str:
        """The pinned version."""
        found = re.search(
            rf"^\s*(?:require )?{re.escape(self.path)} (v\S+)",
            (self.folder / "go.mod").read_text(),
            re.MULTILINE,
        )
        if found is None:
            raise LookupError(f"{self.folder / 'go.mod'} requires no {self.path}")
        return found[1]

    @property
    def linker_flags(self) -> str:
        """No symbols, and the version where the program looks for it."""
        return " ".join(["-s", "-w", *(f"-X {name}={self.version}" for name in self.stamps)])


SOURCES = (
    Source("etcd", "go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Source(
        "kubernetes",
        "k8s.io/kubernetes",
        {
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        },
        ("k8s.io/component-base/version.gitVersion", "k8s.io/client-go/pkg/version.gitVersion"),
    ),
    Source(
        "kwok",
        "sigs.k8s.io/kwok",
        {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        ("sigs.k8s.io/kwok/pkg/consts.Version",),
    ),
)


def key() -> str:
    """A name for exactly these programs: versions to read, and a digest of all that is pinned."""
    digest = hashlib.sha256()
    for source in SOURCES:
        digest.update(repr(source).replace(str(MODULES), "").encode())
        for file in ("go.mod", "go.sum"):
            digest.update((source.folder / file).read_bytes())
    versions = "_".join(f"{source.name}-{source.version}" for source in SOURCES)
    return f"{versions}_{digest.hexdigest()[:8]}"
