"""kubectl and Helm as a user at a terminal runs them against the control plane."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests import ROOT
from tests.e2e.processes.command import RESETTLE, Done
from tools.go_programs.build import Programs

CHART = ROOT / "deploy" / "helm" / "resettle"
Object = dict[str, Any]


class Terminal:
    """The environment of a shell: the programs, a kubeconfig and a home folder."""

    def __init__(self, programs: Programs, kubeconfig: Path, home: Path) -> None:
        paths = [str(programs.folder), str(RESETTLE.parent), os.environ["PATH"]]
        self._environment: Mapping[str, str] = {
            "PATH": os.pathsep.join(paths),
            "HOME": str(home),
            "KUBECONFIG": str(kubeconfig),
            "LANG": "C.UTF-8",
        }

    def run(self, *words: str | Path, stdin: str = "", cwd: Path = ROOT) -> Done:
        """Runs a command; returns its exit code and output."""
        done = subprocess.run(
            list(map(str, words)),
            cwd=cwd,
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def output_of(self, *words: str | Path, stdin: str = "", cwd: Path = ROOT) -> str:
        """Runs a command that must succeed; returns what it prints."""
        done = self.run(*words, stdin=stdin, cwd=cwd)
        assert done.code == 0, f"{' '.join(map(str, words))}\n{done.out}{done.err}"
        return done.out

    def render_chart(self, *words: str | Path, release: str = "resettle") -> list[Object]:
        """Renders the chart with these values; returns the objects."""
        printed = self.output_of("helm", "template", release, CHART, "--namespace", release, *words)
        return parse_manifest(printed)

    def build_kustomization(self, folder: Path) -> list[Object]:
        """Builds a kustomize folder; returns the objects."""
        return parse_manifest(self.output_of("kubectl", "kustomize", folder))


def parse_manifest(text: str) -> list[Object]:
    """The objects of a manifest, parsed."""
    return [obj for obj in yaml.safe_load_all(text) if obj]


def object_of_kind(objects: list[Object], kind: str) -> Object:
    """The only object of this kind."""
    (match,) = (obj for obj in objects if obj["kind"] == kind)
    return match
