"""Writes the roles and the guard that `deploy/` ships, as `resettle rbac` prints them.

    python -m tools.shipped_roles        (or `make roles`)

Run it after a change of what plugins read, of the policy to begin with, or of `resettle rbac`; a
test says when that is due.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEPLOY = Path(__file__).parents[1] / "deploy"
_POLICY = ("--policy", "kustomize/base/policy.yaml")
_LEASE = (
    "--leader-elect",
    *("--leader-elect-resource-name", "resettle"),
    *("--leader-elect-resource-namespace", "resettle"),
)
SHIPPED = {
    "kustomize/deployment/rbac.yaml": (*_POLICY, *_LEASE),
    "kustomize/dry-run/rbac.yaml": (*_POLICY, "--dry-run"),
    "kustomize/cronjob/rbac.yaml": _POLICY,
    "kustomize/job/rbac.yaml": _POLICY,
    "helm/resettle/files/rights.yaml": ("-o", "helm"),
    "soft-tainter/rbac.yaml": (
        *("--component", "soft-tainter", "--leader-elect"),
        *("--leader-elect-resource-namespace", "resettle"),
    ),
    "helm/resettle/files/soft-tainter.yaml": ("--component", "soft-tainter"),
}
"""Each file under `deploy/`, and the arguments of the command for it."""


def printed(*words: str) -> str:
    """What the command prints, as the files in `deploy/` say."""
    command = [sys.executable, "-m", "resettle", "rbac", *words]
    done = subprocess.run(command, cwd=DEPLOY, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def main() -> None:
    """Writes them all."""
    for name, words in SHIPPED.items():
        (DEPLOY / name).write_text(printed(*words), encoding="utf-8")


if __name__ == "__main__":
    main()
