"""kubectl and Helm as somebody at a terminal runs them against the control plane."""

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
    """A shell's worth of surroundings: the programs, a kubeconfig, a home of its own."""

    def __init__(self, programs: Programs, kubeconfig: Path, home: Path) -> None:
        paths = [str(programs.folder), str(RESETTLE.parent), os.environ["PATH"]]
        self._surroundings: Mapping[str, str] = {
            "PATH": os.pathsep.join(paths),
            "HOME": str(home),
            "KUBECONFIG": str(kubeconfig),
            "LANG": "C.UTF-8",
        }

    def tries(self, *words: str | Path, stdin: str = "", cwd: Path = ROOT) -> Done:
        """How a command ends."""
        done = subprocess.run(
            list(map(str, words)),
            cwd=cwd,
            env=self._surroundings,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def does(self, *words: str | Path, stdin: str = "", cwd: Path = ROOT) -> str:
        """What a command prints that has to end well."""
        done = self.tries(*words, stdin=stdin, cwd=cwd)
        assert done.code == 0, f"{' '.join(map(str, words))}\n{done.out}{done.err}"
        return done.out

    def rendered(self, *words: str | Path, release: str = "resettle") -> list[Object]:
        """The objects that the chart makes of values."""
        printed = self.does("helm", "template", release, CHART, "--namespace", release, *words)
        return objects(printed)

    def built(self, folder: Path) -> list[Object]:
        """The objects that kustomize makes of a folder."""
        return objects(self.does("kubectl", "kustomize", folder))


def objects(text: str) -> list[Object]:
    """The objects of a manifest."""
    return [it for it in yaml.safe_load_all(text) if it]


def of_kind(found: list[Object], kind: str) -> Object:
    """The only one of a kind."""
    (one,) = (it for it in found if it["kind"] == kind)
    return one
