"""Installs resettle as its pages say, with kustomize or Helm, and uninstalls it after the test."""

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
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.installing.terminal import CHART, Terminal
from tests.e2e.processes.run import Policy
from tools.control_plane.plane import MANAGED

KUSTOMIZE = ROOT / "deploy" / "kustomize"
SELECTOR = "app.kubernetes.io/name=resettle"
NAMESPACE = "resettle"
USER = f"system:serviceaccount:{NAMESPACE}:resettle"


@contextmanager
def node_for_resettle(workspace: Workspace) -> Iterator[dict[str, str]]:
    """Creates a node for resettle itself that its policies ignore; yields the node selector."""
    name, labels = f"{workspace.name}-extra", {"extra-node": workspace.name}
    extra_node = node(name, cpu="8", labels=labels).node
    extra_node["metadata"]["annotations"] = MANAGED
    workspace.api.post("/api/v1/nodes", extra_node).granted()
    try:
        yield labels
    finally:
        workspace.api.delete(f"/api/v1/nodes/{name}")


@contextmanager
def kustomize_install(terminal: Terminal, folder: Path) -> Iterator[None]:
    """Applies a kustomize folder, and deletes its objects when the block ends."""
    terminal.output_of("kubectl", "apply", "--server-side", "-k", folder)
    try:
        yield
    finally:
        terminal.output_of("kubectl", "delete", "--ignore-not-found", "-k", folder)


@contextmanager
def helm_install(terminal: Terminal, *words: str | Path) -> Iterator[None]:
    """Installs a release of the chart, and uninstalls it when the block ends."""
    namespace_flags = ("--namespace", NAMESPACE)
    terminal.output_of(
        "helm", "install", NAMESPACE, CHART, *namespace_flags, "--create-namespace", *words
    )
    try:
        yield
    finally:
        terminal.output_of("helm", "uninstall", NAMESPACE, *namespace_flags)
        terminal.output_of("kubectl", "delete", "namespace", NAMESPACE)


def write_overlay(
    terminal: Terminal,
    folder: Path,
    base: str,
    policy: Policy,
    *flags: str,
    node_selector: dict[str, str],
) -> Path:
    """Writes an overlay as an operator would: a base, a policy and the permissions for it."""
    overlay = folder / "overlay"
    overlay.mkdir(exist_ok=True)
    (overlay / "policy.yaml").write_text(yaml.safe_dump(policy))
    permissions = terminal.output_of(
        "resettle", "rbac", "--policy", overlay / "policy.yaml", *flags
    )
    (overlay / "rbac.yaml").write_text(permissions)
    patch = json.dumps(
        [{"op": "add", "path": "/spec/template/spec/nodeSelector", "value": node_selector}]
    )
    config_map = {
        "name": "resettle-policy",
        "namespace": NAMESPACE,
        "behavior": "merge",
        "files": ["policy.yaml"],
    }
    kustomization = {
        "resources": [os.path.relpath(KUSTOMIZE / base, overlay)],
        "configMapGenerator": [config_map],
        "generatorOptions": {"disableNameSuffixHash": True},
        "patches": [
            {"path": "rbac.yaml"},
            {"target": {"kind": "Job|Deployment"}, "patch": patch},
        ],
    }
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return overlay


def write_values(terminal: Terminal, folder: Path, policy: Policy, **more: Any) -> Path:
    """Writes values for the chart: a policy and the permissions for it."""
    file = folder / "policy.yaml"
    file.write_text(yaml.safe_dump(policy))
    permissions = terminal.output_of("resettle", "rbac", "--policy", file, "-o", "helm")
    values = {**yaml.safe_load(permissions), "deschedulerPolicy": policy, **more}
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    return folder / "values.yaml"
