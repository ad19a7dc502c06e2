"""Taints that say what a node is going through rather than whom it is meant for.

Kubernetes, autoscalers and node agents set them while a node starts, falters or goes, take them off
again, and see to its pods themselves.
"""

from __future__ import annotations

KEYS = frozenset(
    {
        # kubelet and node controllers
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/out-of-service",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
        # cloud controllers and Cluster API
        "cloud.google.com/impending-node-termination",
        "node.cloudprovider.kubernetes.io/shutdown",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cluster.x-k8s.io/outdated-revision",
        "node.cluster.x-k8s.io/uninitialized",
        "remediator.aks.microsoft.com/unschedulable",
        "remediator.kubernetes.azure.com/unschedulable",
        # autoscalers
        "DeletionCandidateOfClusterAutoscaler",
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "karpenter.sh/unregistered",
        # agents that a node waits for
        "cni.istio.io/not-ready",
        "ebs.csi.aws.com/agent-not-ready",
        "efs.csi.aws.com/agent-not-ready",
        "node.cilium.io/agent-not-ready",
    }
)
PREFIXES = (
    "aws-node-termination-handler/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
)


def of_lifecycle(key: str) -> bool:
    """Whether a taint of this key belongs to a node's life rather than to its purpose."""
    return key in KEYS or key.startswith(PREFIXES)
