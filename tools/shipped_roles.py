"""Writes the roles, admission policies and definitions of `deploy/`, as commands print them.

    python -m tools.shipped_roles        (or `make roles`)

Run it after a change of what plugins read, of the policy to begin with, of `resettle rbac` or of
`resettle crds`; a test says when that is due.
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
_MIGRATION = ("--component", "migration-controller")
_MIGRATION_LEASE = ("--leader-elect", "--leader-elect-resource-namespace", "resettle")
_ANY_STEERING = ("--steering", "Soft", "--steering", "Hard", "--steering", "Gate")
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
    "migration-controller/rbac.yaml": (*_MIGRATION, *_MIGRATION_LEASE),
    "migration-controller/gate/rbac.yaml": (*_MIGRATION, *_MIGRATION_LEASE, *_ANY_STEERING),
    "helm/resettle/files/migration-controller.yaml": (
        *_MIGRATION,
        *("--steering", "None", "--without-guard"),
    ),
}
"""Each file under `deploy/`, and the arguments of `resettle rbac` for it."""
SHIPPED_CRDS = {
    "migration-controller/process/crd.yaml": (),
    # The chart puts its own names in place of these two.
    "helm/resettle/files/crds.yaml": (
        *("--admission-policies", *_ANY_STEERING),
        *("--service-account", "name-of-controller", "--namespace", "namespace-of-release"),
    ),
}
"""Each file under `deploy/`, and the arguments of `resettle crds` for it."""


def printed(*words: str, command: str = "rbac") -> str:
    """What the command prints, as the files in `deploy/` say."""
    line = [sys.executable, "-m", "resettle", command, *words]
    done = subprocess.run(line, cwd=DEPLOY, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def main() -> None:
    """Writes them all."""
    for name, words in SHIPPED.items():
        (DEPLOY / name).write_text(printed(*words), encoding="utf-8")
    for name, words in SHIPPED_CRDS.items():
        (DEPLOY / name).write_text(printed(*words, command="crds"), encoding="utf-8")


if __name__ == "__main__":
    main()
