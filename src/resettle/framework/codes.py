"""Every code that resettle's own plugins answer with: its meaning, and what helps.

Codes are stable, because programs use them; `docs/reference/codes.md` lists them. Other
plugins may have their own codes, which are printed with their sentence.
"""

from __future__ import annotations

from typing import NamedTuple


class Meaning(NamedTuple):
    """What a code means, and what an operator can do about it."""

    says: str
    helps: str


REFUSED = {
    "already-planned": Meaning("are in this plan already", "nothing to do; a pod moves once"),
    "budget": Meaning(
        "their disruption budget allows no more now",
        "more replicas, a wider budget, or wait until pods are ready again",
    ),
    "budget-not-ready": Meaning(
        "the status of their disruption budget lags behind its spec",
        "wait for the controller of budgets, then look again",
    ),
    "daemon-set": Meaning(
        "belong to a DaemonSet",
        "leave them, they would come back to the same node; or disable `DaemonSetPods`",
    ),
    "declined": Meaning(
        "were asked to leave and stay",
        "read what the API server, a budget or a webhook said of each in the log",
    ),
    "guard-failed": Meaning(
        "a filter could not answer for them",
        "read the error on standard error; fix or remove that filter",
    ),
    "job-pod": Meaning(
        "belong to a Job, which would begin their work again",
        "let them finish, or `evictJobPods` of MigrationLimits",
    ),
    "limit-namespace": Meaning(
        "the limit for their namespace is reached",
        "the next cycle, or a higher `maxNoOfPodsToEvictPerNamespace`",
    ),
    "limit-node": Meaning(
        "the limit for their node is reached",
        "the next cycle, or a higher `maxNoOfPodsToEvictPerNode`",
    ),
    "limit-nodes": Meaning(
        "the limit of nodes that pods may leave is reached",
        "the next cycle, or a higher `maxPercentOfNodesToEvictFrom`",
    ),
    "limit-too-wide": Meaning(
        "a limit for each workload covers all replicas of theirs",
        "a lower `maxMigratingPerWorkload` or `maxUnavailablePerWorkload`",
    ),
    "limit-total": Meaning(
        "the limit for the cycle is reached",
        "the next cycle, or a higher `maxNoOfPodsToEvictTotal` or `maxPercentOfPodsToEvict`",
    ),
    "local-storage": Meaning(
        "keep data in local storage", "disable `PodsWithLocalStorage` if the data may be lost"
    ),
    "min-age": Meaning(
        "have not been running for `minPodAge` yet", "wait, or a shorter `minPodAge`"
    ),
    "min-replicas": Meaning(
        "their owner has fewer pods than `minReplicas`", "more replicas, or a lower `minReplicas`"
    ),
    "mirror-pod": Meaning(
        "are mirror pods of a kubelet", "nothing; the API server cannot move them"
    ),
    "moving-namespace": Meaning(
        "enough pods of their namespace are on the way",
        "wait, or a higher `maxMigratingPerNamespace`",
    ),
    "moving-node": Meaning(
        "enough pods are leaving their node", "wait, or a higher `maxMigratingPerNode`"
    ),
    "moving-total": Meaning(
        "enough pods are on the way", "wait, or a higher `maxMigratingGlobally`"
    ),
    "moving-workload": Meaning(
        "enough pods of their workload are on the way",
        "wait, or a higher `maxMigratingPerWorkload`",
    ),
    "namespace-not-selected": Meaning(
        "their namespace is not selected by `namespaceLabelSelector`",
        "label the namespace; dump namespaces too",
    ),
    "no-better-node": Meaning(
        "no node that would take them is better than their own",
        "room, labels or taints of the nodes that would be better",
    ),
    "no-budget": Meaning("are covered by no disruption budget", "write a budget for them"),
    "no-node-fits": Meaning(
        "no other node would take them", "room, labels or taints elsewhere; see `explain pod`"
    ),
    "no-owner": Meaning(
        "have no controller that would recreate them",
        "give them a controller; for failed ones disable `FailedBarePods`",
    ),
    "no-place-to-hold": Meaning(
        "no node but their own could hold a place for them",
        "room on another node; or a mover that holds no place",
    ),
    "no-uid": Meaning(
        "have no uid, so another pod of the same name could be evicted",
        "dump whole objects, as `kubectl get -o json` writes them",
    ),
    "not-selected": Meaning(
        "are not selected by `labelSelector`", "widen `labelSelector` of DefaultEvictor"
    ),
    "opted-out": Meaning(
        "carry the evict annotation with the value false", "remove the annotation"
    ),
    "placeholder": Meaning(
        "hold a place for a pod that is being moved", "nothing: they go when that move ends"
    ),
    "pod-changed": Meaning(
        "are not what they were when their migration job was created",
        "nothing: a later plan decides about them again",
    ),
    "prefers-no-eviction": Meaning(
        "carry prefer-no-eviction, which is mandatory here",
        "remove the annotation, or `noEvictionPolicy: Preferred`",
    ),
    "priority": Meaning(
        "have a priority at or above the threshold", "a higher `priorityThreshold`"
    ),
    "rate-namespace": Meaning(
        "pods of their namespace were moved a short time ago",
        "wait, or a wider `objectLimiters.namespace`",
    ),
    "rate-workload": Meaning(
        "pods of their workload were moved a short time ago",
        "wait, or a wider `objectLimiters.workload`",
    ),
    "resource-claim": Meaning(
        "use resource claims", "drop the protection `PodsWithResourceClaims`"
    ),
    "rolling-out": Meaning(
        "their workload is being rolled out", "wait until the rollout is complete"
    ),
    "several-budgets": Meaning(
        "are covered by several budgets, which evictions do not support",
        "leave one budget for each pod",
    ),
    "static-pod": Meaning(
        "are static pods of a kubelet", "nothing; a file on their node defines them"
    ),
    "storage-class": Meaning(
        "use a volume claim of a protected or unknown storage class",
        "dump claims too (`pvc`), or take the class off the list",
    ),
    "system-critical": Meaning(
        "are critical to the system", "leave them; else disable `SystemCriticalPods`"
    ),
    "terminating": Meaning("are already terminating", "nothing to do"),
    "too-few-replicas": Meaning(
        "their workload has no other replica",
        "more replicas, or `skipCheckExpectedReplicas` of MigrationLimits",
    ),
    "unavailable-workload": Meaning(
        "enough replicas of their workload are unavailable",
        "wait until pods are ready again, or a higher `maxUnavailablePerWorkload`",
    ),
    "volume-claim": Meaning(
        "use a persistent volume claim", "narrow `PodsWithPVC` with `protectedStorageClasses`"
    ),
    "workload-unknown": Meaning(
        "their workload is not known, so nothing says how many of its pods may go",
        "`scaleKinds` of MigrationLimits for other kinds; dump workloads too",
    ),
    "would-break": Meaning(
        "on every node that takes them, a rule that holds today would be broken",
        "room where the rules of other pods allow it",
    ),
    "would-return": Meaning(
        "the scheduler would most likely put them back where they are",
        "whatever makes another node more attractive: a preference, a soft taint here, room there",
    ),
    "would-stray": Meaning(
        "the scheduler would most likely put them on a node that is no better",
        "whatever makes a better node more attractive: a preference, a soft taint on the others",
    ),
}
"""Why a pod that a plugin proposed stays; a phrase about the pods."""

REASONS = {code: meaning.says for code, meaning in REFUSED.items()}

STOPPED = {
    "cooling-down": Meaning(
        "pods have just left every hot node, and its figures do not show it yet",
        "`cooldown` of the plugin",
    ),
    "all-underutilized": Meaning(
        "every node is below the thresholds, so there is nothing to balance", "lower `thresholds`"
    ),
    "balanced": Meaning(
        "every spread constraint holds, or no pod that may leave would improve it",
        "the filters: pods that may not leave are not counted",
    ),
    "limit-total": Meaning(
        "the cycle's limit is reached, the rest waits for the next cycle",
        "`maxNoOfPodsToEvictTotal`, `maxPercentOfPodsToEvict`",
    ),
    "no-candidate": Meaning(
        "no matching pods or nodes",
        "its arguments, `namespaces` and `labelSelector`",
    ),
    "no-destination": Meaning(
        "every node that is not underutilized is cordoned", "uncordon one of them"
    ),
    "not-hot-yet": Meaning(
        "nodes are above a high line, but have not been so often enough in a row",
        "wait, or a lower `consecutiveAbnormalities`",
    ),
    "no-room": Meaning(
        "the nodes that should take pods have nothing left of some resource",
        "`cpu`, `memory` and `pods` of those nodes",
    ),
    "none-overutilized": Meaning(
        "no node is above a target threshold",
        "`targetThresholds`; use is what pods request, unless something measures it",
    ),
    "none-underutilized": Meaning(
        "no node is below all thresholds",
        "`thresholds`; one resource above its own is enough to be left out",
    ),
    "taints-ignored": Meaning(
        "the only taints are ignored: young ones, or node lifecycle taints",
        "`minTaintAge`; name lifecycle taints in `includedTaints`",
    ),
    "too-few-nodes": Meaning(
        "fewer than two nodes are ready and selected, so no plugin ran",
        "readiness, the policy's `nodeSelector`, the dump",
    ),
    "too-few-underutilized": Meaning(
        "no more nodes are below the thresholds than `numberOfNodes`", "`numberOfNodes`"
    ),
}
"""Why a plugin ended early or had nothing to do."""

NOT_PROPOSED = {
    "control-plane": Meaning(
        "is on a node of the control plane, left out here",
        "name the role in `nodeSelector`",
    ),
    "few-restarts": Meaning("has restarted less often than the threshold", "`podRestartThreshold`"),
    "finished": Meaning("is finished, and the plugin looks only at other pods", "nothing to do"),
    "fair-share": Meaning(
        "is one of no more copies than are expected on its node",
        "more nodes that could take a copy",
    ),
    "labels-left-out": Meaning(
        "is not selected by the plugin's `labelSelector`", "widen `labelSelector`"
    ),
    "leaving": Meaning("is in this plan already", "nothing to do"),
    "namespace-left-out": Meaning(
        "is in a namespace that the plugin leaves out", "`namespaces` or `evictableNamespaces`"
    ),
    "no-node-fits": Meaning(
        "would be better placed elsewhere, but no node takes it", "room, labels or taints elsewhere"
    ),
    "no-place": Meaning(
        "has copies beside it, but fewer than two nodes could take them",
        "labels and taints of the other nodes",
    ),
    "no-relief": Meaning(
        "requests nothing of what the plugin is to move", "`thresholds`, `evictionModes`"
    ),
    "no-rule": Meaning("has no rule that the plugin checks", "nothing to do"),
    "no-taint": Meaning(
        "is on a node without a taint that the policy checks", "the taints of the node"
    ),
    "no-turn": Meaning(
        "matches the plugin's rule, but was not reached",
        "the next cycle, limits, or what holds back those before it",
    ),
    "node-not-selected": Meaning(
        "is on a node that the policy's `nodeSelector` leaves out", "`nodeSelector`"
    ),
    "node-under": Meaning("is on a node that is underutilized already", "nothing to do"),
    "node-unknown": Meaning("is on a node that is not listed", "dump all nodes"),
    "node-unready": Meaning("is on a node that is not ready", "look after the node"),
    "node-used": Meaning("is on a node that is used enough to stay", "`thresholds`"),
    "node-within": Meaning("is on a node that is within its targets", "`targetThresholds`"),
    "not-run": Meaning("is one of a cycle in which no plugin ran", "see why the cycle was skipped"),
    "not-wanted": Meaning("was not proposed, and the plugin does not say why", "ask its author"),
    "only-copy": Meaning("is the only copy of its owner on its node", "nothing to do"),
    "other-condition": Meaning("is in none of the `conditions`", "`conditions`"),
    "other-exit-code": Meaning("has no container with one of the `exitCodes`", "`exitCodes`"),
    "other-owner": Meaning(
        "has no owner of a kind that the plugin looks at", "`ownerKinds` or `excludeOwnerKinds`"
    ),
    "other-reason": Meaning("failed for none of the `reasons`", "`reasons`"),
    "other-state": Meaning("is in none of the states the plugin looks for", "`states`"),
    "plugin-failed": Meaning("belongs to a plugin that failed", "read the error"),
    "satisfied": Meaning("is where its rules allow it", "nothing to do"),
    "taint-ignored": Meaning(
        "is on a node whose taint is ignored", "`minTaintAge`, `includedTaints`"
    ),
    "taints": Meaning(
        "tolerates the taints of no node that has room", "tolerations of the pod, taints there"
    ),
    "terminating": Meaning("is already terminating", "nothing to do"),
    "tolerates": Meaning(
        "tolerates every taint of its node that the policy checks", "nothing to do"
    ),
    "too-young": Meaning("is younger than the plugin's limit", "wait, or a lower limit"),
    "unbound": Meaning("is not bound to a node yet", "see why the scheduler does not place it"),
    "usage-ambiguous": Meaning(
        "is on a node for which the query answers with several figures",
        "a query with one sample for each node, by `avg by (instance) (…)`",
    ),
    "usage-invalid": Meaning(
        "is on a node whose figure is no number from 0 to 1", "the query, in Prometheus itself"
    ),
    "usage-missing": Meaning(
        "is on a node that was not measured",
        "what measures there; does the answer call the node by its name?",
    ),
    "usage-stale": Meaning(
        "is on a node whose figure is too old", "what measures there, clocks, `maxAge`"
    ),
    "usage-unknown": Meaning(
        "is on a node that is too full, but its own use is not known",
        "wait a minute if it is new; else what measures there",
    ),
}
"""Why a plugin did not propose a pod; a phrase about that pod, or the code of a stop."""

NOTED = {
    "cooling-down": Meaning(
        "pods have just left the node, and its figures do not show it yet",
        "`cooldown` of the plugin",
    ),
    "not-hot-yet": Meaning(
        "the node is above a high line, but has not been so often enough in a row",
        "wait, or a lower `consecutiveAbnormalities`",
    ),
    "not-emptied": Meaning(
        "the node would be emptied, but one of its pods cannot leave", "see that pod"
    ),
    "taint-ignored": Meaning("a taint of the node is ignored", "`minTaintAge`, `includedTaints`"),
    "usage-ambiguous": Meaning(
        "the query answers with several figures for the node",
        "a query with one sample for each node, by `avg by (instance) (…)`",
    ),
    "usage-invalid": Meaning(
        "the figure of the node is no number from 0 to 1", "the query, in Prometheus itself"
    ),
    "usage-missing": Meaning(
        "the node was not measured",
        "what measures there; does the answer call the node by its name?",
    ),
    "usage-stale": Meaning(
        "the figure of the node is too old", "what measures there, clocks, `maxAge`"
    ),
}
"""What a plugin notes about a node."""

RULED_OUT = {
    "affinity": Meaning("the pods it must be near are not there", "its pod affinity"),
    "anti-affinity": Meaning("a pod is there that it keeps away from", "its pod anti-affinity"),
    "attach-limit": Meaning("no more volumes can be attached there", "nodes that take more"),
    "breaks-spread": Meaning(
        "it would break a spread that holds for other pods", "room in other domains"
    ),
    "cordoned": Meaning("the node is cordoned", "uncordon it"),
    "devices": Meaning("it uses devices that are not in the snapshot", "nothing; such pods stay"),
    "gated": Meaning("it has scheduling gates", "the controller that removes them"),
    "host-port": Meaning("another pod holds its host port there", "another port, or more nodes"),
    "kept-away": Meaning("a pod there keeps away from it", "the anti-affinity of that pod"),
    "needed-nearby": Meaning(
        "pods that stay behind must be near it", "the pod affinity of those pods"
    ),
    "node-affinity": Meaning(
        "its node selector or required affinity does not match", "labels of the node"
    ),
    "room": Meaning(
        "the node has too little left of the resource that is named",
        "a larger node, fewer requests",
    ),
    "spread": Meaning("its spread constraint does not allow it there", "room in other domains"),
    "taint": Meaning("it does not tolerate the taint that is named", "a toleration, or no taint"),
    "unready": Meaning("the node is not ready", "look after the node"),
    "volume": Meaning(
        "its volume cannot be reached from there, or is not known", "the topology of the volume"
    ),
}
"""Why a node does not take a pod; a phrase about the pod or the node."""
