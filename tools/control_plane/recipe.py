"""What the control plane is made of."""

from __future__ import annotations

from pathlib import Path

from tools.go_programs.recipe import Recipe, Source

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
RECIPE = Recipe("the control plane", "control-plane", Path(__file__).parent / "modules", SOURCES)
