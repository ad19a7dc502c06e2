"""The manifests of `deploy/kustomize` as they are written, before kustomize puts them together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests import ROOT

DEPLOY = ROOT / "deploy"
KUSTOMIZE = DEPLOY / "kustomize"
Object = dict[str, Any]


def documents(file: Path) -> list[Object]:
    """The objects of a file."""
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


def pod_of(workload: Object) -> Object:
    """The template of the pods that a workload makes."""
    spec: Object = workload["spec"]
    template: Object = spec.get("jobTemplate", workload)["spec"]["template"]
    return template


WORKLOADS = {
    name: documents(KUSTOMIZE / file)[0]
    for name, file in {
        "deployment": "process/deployment.yaml",
        "cronjob": "cronjob/cronjob.yaml",
        "job": "job/job.yaml",
    }.items()
}
