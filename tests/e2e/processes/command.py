"""The installed `resettle`, run against the control plane, and policies to run it with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

RESETTLE = Path(sys.executable).parent / "resettle"
FAR_FUTURE = "2099-01-01T00:00:00Z"
"""A time at which every pod that exists now is old."""


class Done(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def moves(self) -> list[dict[str, Any]]:
        """The moves of a plan that was printed as JSON."""
        moves: list[dict[str, Any]] = json.loads(self.out)["moves"]
        return moves


def run_plan(kubeconfig: Path, policy: dict[str, Any], folder: Path, *words: str) -> Done:
    """Runs `resettle plan` with this kubeconfig and policy."""
    file = folder / "policy.json"
    file.write_text(json.dumps(policy))
    flags = ["--kubeconfig", str(kubeconfig), "--policy", str(file), "--now", FAR_FUTURE]
    done = subprocess.run(
        [RESETTLE, "plan", *flags, "-o", "json", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def life_time_policy(api_version: str, namespace: str, **more: Any) -> dict[str, Any]:
    """A policy by which pods of the namespace are too old after an hour."""
    args = {"maxPodLifeTimeSeconds": 3600, "namespaces": {"include": [namespace]}}
    return {
        "apiVersion": api_version,
        "kind": "DeschedulerPolicy",
        **more,
        "profiles": [
            {
                "name": "main",
                "pluginConfig": [{"name": "PodLifeTime", "args": args}],
                "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
            }
        ],
    }
