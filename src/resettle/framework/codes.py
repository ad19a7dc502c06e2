"""Every code a refusal of resettle's own carries, and what it says of the pods it stands for."""

from __future__ import annotations

REASONS = {
    "already-planned": "are in this plan already",
    "budget": "their disruption budget allows no more now",
    "budget-not-ready": "the status of their disruption budget lags behind its spec",
    "daemon-set": "belong to a DaemonSet",
    "guard-failed": "a guard could not answer for them",
    "limit-namespace": "the limit for their namespace is reached",
    "limit-node": "the limit for their node is reached",
    "limit-total": "the limit for the cycle is reached",
    "local-storage": "keep data in local storage",
    "min-age": "have not been running for `minPodAge` yet",
    "min-replicas": "their owner has fewer pods than `minReplicas`",
    "mirror-pod": "are mirror pods of a kubelet",
    "namespace-not-selected": "their namespace is not selected by `namespaceLabelSelector`",
    "no-budget": "are covered by no disruption budget",
    "no-node-fits": "no other node would take them",
    "no-owner": "have no owner that would make them anew",
    "no-uid": "have no uid, so that they could not be told from namesakes",
    "not-selected": "are not selected by `labelSelector`",
    "prefers-no-eviction": "carry prefer-no-eviction, which is mandatory here",
    "priority": "have a priority at or above the threshold",
    "resource-claim": "use resource claims",
    "several-budgets": "are covered by several budgets, which evictions do not support",
    "static-pod": "are static pods of a kubelet",
    "storage-class": "use a volume claim of a protected or unknown storage class",
    "system-critical": "are critical to the system",
    "terminating": "are already terminating",
    "volume-claim": "use a persistent volume claim",
}
