"""Pods that are older than the policy allows, so that a run has something to evict."""

from __future__ import annotations

from tests.e2e.cluster.policies import UPSTREAM, policy
from tests.e2e.cluster.workloads import uids, wait_until_old
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.processes.run import Policy


def old_pods_policy(workspace: Workspace, seconds: int = 1) -> Policy:
    """A policy by which pods of the workspace are too old after this time."""
    return policy(UPSTREAM, "PodLifeTime", {"maxPodLifeTimeSeconds": seconds}, workspace)


def create_old_pods(workspace: Workspace, pods: int) -> set[str]:
    """Creates so many pods that are too old and are not replaced; returns their uids."""
    workspace.deploy("web", pods)
    workspace.cordon()
    wait_until_old(workspace)
    return uids(workspace.list_pods())


def uids_on_nodes(workspace: Workspace) -> set[str]:
    """The uids of pods that are on a node and are not being deleted."""
    placed = [pod for pod in workspace.list_pods() if "nodeName" in pod["spec"]]
    return uids(pod for pod in placed if "deletionTimestamp" not in pod["metadata"])
