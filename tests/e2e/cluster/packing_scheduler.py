"""A kube-scheduler that packs: of the feasible nodes it prefers the fullest.

It runs beside the scheduler of the cluster and places the pods whose `schedulerName` is its own.
All other score plugins are off, so only requests decide.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.control_plane.api import Object
from tools.control_plane.build import built
from tools.control_plane.plane import Access, start_scheduler
from tools.control_plane.processes import Crew, free_ports


@contextmanager
def packing_scheduler(access: Access, folder: Path) -> Iterator[str]:
    """Runs the scheduler while the block lasts; yields the `schedulerName` for pods."""
    name = f"packing-{os.getpid()}"
    with Crew(access.logs) as crew:
        config = folder / "packing.json"
        config.write_text(json.dumps(_configuration(access, name)))
        (port,) = free_ports(1)
        start_scheduler(access, built(), crew, f"kube-scheduler-{name}", port, config)
        yield name


def _configuration(access: Access, name: str) -> Object:
    fit = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "NodeResourcesFitArgs",
        "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]},
    }
    score_plugins = {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}
    kubeconfig_file = access.papers.kubeconfig("system:kube-scheduler")
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig_file), "qps": 1000, "burst": 1000},
        "leaderElection": {"leaderElect": False},
        "profiles": [
            {
                "schedulerName": name,
                "plugins": {"score": score_plugins},
                "pluginConfig": [{"name": "NodeResourcesFit", "args": fit}],
            }
        ],
    }
