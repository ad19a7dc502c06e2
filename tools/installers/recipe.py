"""The programs that people install resettle with."""

from __future__ import annotations

from pathlib import Path

from tools.go_programs.recipe import Recipe, Source

SOURCES = (
    Source(
        "kubectl",
        "k8s.io/kubernetes",
        {"kubectl": "k8s.io/kubernetes/cmd/kubectl"},
        ("k8s.io/component-base/version.gitVersion", "k8s.io/client-go/pkg/version.gitVersion"),
    ),
    Source(
        "helm",
        "helm.sh/helm/v4",
        {"helm": "helm.sh/helm/v4/cmd/helm"},
        ("helm.sh/helm/v4/internal/version.version",),
    ),
)
RECIPE = Recipe("kubectl and Helm", "installers", Path(__file__).parent / "modules", SOURCES)
