"""resettle installed as its pages say, for one test: by kustomize or by Helm, and gone after it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from resettle.testing import node
from tests import ROOT
from tests.e2e.cluster.workspace import Room
from tests.e2e.installing.terminal import CHART, Terminal
from tests.e2e.processes.run import Policy
from tools.control_plane.plane import MANAGED

KUSTOMIZE = ROOT / "deploy" / "kustomize"
SELECTOR = "app.kubernetes.io/name=resettle"
NAMESPACE = "resettle"
USER = f"system:serviceaccount:{NAMESPACE}:resettle"


@contextmanager
def home(room: Room) -> Iterator[dict[str, str]]:
    """A node for resettle itself, outside of what its policies look at; how it is selected."""
    name, labels = f"{room.name}-home", {"home": room.name}
    made = node(name, cpu="8", labels=labels).node
    made["metadata"]["annotations"] = MANAGED
    room.api.post("/api/v1/nodes", made).granted()
    try:
        yield labels
    finally:
        room.api.delete(f"/api/v1/nodes/{name}")


@contextmanager
def by_kustomize(terminal: Terminal, folder: Path) -> Iterator[None]:
    """What a folder describes, applied."""
    terminal.does("kubectl", "apply", "--server-side", "-k", folder)
    try:
        yield
    finally:
        terminal.does("kubectl", "delete", "--ignore-not-found", "-k", folder)


@contextmanager
def by_helm(terminal: Terminal, *words: str | Path) -> Iterator[None]:
    """A release of the chart."""
    place = ("--namespace", NAMESPACE)
    terminal.does("helm", "install", NAMESPACE, CHART, *place, "--create-namespace", *words)
    try:
        yield
    finally:
        terminal.does("helm", "uninstall", NAMESPACE, *place)
        terminal.does("kubectl", "delete", "namespace", NAMESPACE)


def overlay(
    terminal: Terminal, folder: Path, form: str, policy: Policy, *flags: str, at: dict[str, str]
) -> Path:
    """A folder as an operator would write it: a form, a policy, and the rights for that policy."""
    made = folder / "overlay"
    made.mkdir(exist_ok=True)
    (made / "policy.yaml").write_text(yaml.safe_dump(policy))
    rights = terminal.does("resettle", "rbac", "--policy", made / "policy.yaml", *flags)
    (made / "rbac.yaml").write_text(rights)
    patch = json.dumps([{"op": "add", "path": "/spec/template/spec/nodeSelector", "value": at}])
    mapped = {
        "name": "resettle-policy",
        "namespace": NAMESPACE,
        "behavior": "merge",
        "files": ["policy.yaml"],
    }
    described = {
        "resources": [os.path.relpath(KUSTOMIZE / form, made)],
        "configMapGenerator": [mapped],
        "generatorOptions": {"disableNameSuffixHash": True},
        "patches": [
            {"path": "rbac.yaml"},
            {"target": {"kind": "Job|Deployment"}, "patch": patch},
        ],
    }
    (made / "kustomization.yaml").write_text(yaml.safe_dump(described))
    return made


def values(terminal: Terminal, folder: Path, policy: Policy, **more: Any) -> Path:
    """The same as values of the chart."""
    file = folder / "policy.yaml"
    file.write_text(yaml.safe_dump(policy))
    rights = terminal.does("resettle", "rbac", "--policy", file, "-o", "helm")
    given = {**yaml.safe_load(rights), "deschedulerPolicy": policy, **more}
    (folder / "values.yaml").write_text(yaml.safe_dump(given))
    return folder / "values.yaml"
