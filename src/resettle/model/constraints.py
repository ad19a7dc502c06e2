"""Where a pod wants to be: node affinity, pod anti-affinity, topology spread.

All parts are hashable values, so that the answer to "which nodes?" is worked out once for all pods
that ask alike.

Taints on nodes, and the tolerations of pods that answer them.
"""

from __future__ import annotations

from msgspec import Struct

from resettle.model.selectors import Requirement, Selector, as_int64, sound_key, sound_value

OWN_NODE = "\0own node"
"""Stands for the name of the node a pod is on, so that the pods of a DaemonSet share one spec."""

OWN_NODE_FIELD = Requirement("metadata.name", "In", (OWN_NODE,))


class NodeTerm(Struct, frozen=True, cache_hash=True):
    """One alternative of a node affinity: conditions on labels and on the node's name."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    @property
    def empty(self) -> bool:
        """Without conditions a term matches no node."""
        return not self.expressions and not self.fields

    @property
    def own_node_only(self) -> bool:
        """Whether it asks for the node the pod is on and for nothing else, as a DaemonSet does."""
        return not self.expressions and self.fields == (OWN_NODE_FIELD,)

    @property
    def valid(self) -> bool:
        """Whether Kubernetes can read the term; an unreadable one matches nothing."""
        return all(map(_sound_expression, self.expressions)) and all(map(_sound_field, self.fields))


def _sound_expression(wanted: Requirement) -> bool:
    if not sound_key(wanted.key) or not all(map(sound_value, wanted.values)):
        return False
    match wanted.operator:
        case "In" | "NotIn":
            return bool(wanted.values)
        case "Exists" | "DoesNotExist":
            return not wanted.values
        case "Gt" | "Lt":
            return len(wanted.values) == 1 and as_int64(wanted.values[0]) is not None
    return False


def _sound_field(wanted: Requirement) -> bool:
    return (
        wanted.key == "metadata.name"
        and wanted.operator in ("In", "NotIn")
        and len(wanted.values) == 1
    )


class PreferredTerm(Struct, frozen=True):
    """A node term that is only wished for, with its weight."""

    weight: int
    term: NodeTerm


class PodTerm(Struct, frozen=True, cache_hash=True):
    """Pods to keep away from (or near to), and the topology that counts as near."""

    topology_key: str
    selector: Selector | None
    """None when it cannot be read; `NOTHING` when absent."""
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector | None = None
    """None when absent; then `namespaces` alone count, or the pod's own where there are none."""
    same_labels: tuple[str, ...] = ()
    """Keys whose value must be the one the stating pod has (`matchLabelKeys`)."""
    other_labels: tuple[str, ...] = ()
    """Keys whose value must be another (`mismatchLabelKeys`)."""


class PreferredPodTerm(Struct, frozen=True):
    """A pod term that is only wished for, with its weight."""

    weight: int
    term: PodTerm


class SpreadConstraint(Struct, frozen=True, cache_hash=True):
    """How evenly pods must lie over the domains of a topology."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    selector: Selector | None
    """None when it cannot be read; `NOTHING` when absent."""
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    min_domains: int = 1


NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"


class Taint(Struct, frozen=True, cache_hash=True):
    """A mark on a node that keeps pods away unless they tolerate it."""

    key: str
    effect: str
    value: str = ""

    @property
    def hard(self) -> bool:
        """Whether the scheduler itself would keep a pod away."""
        return self.effect in (NO_SCHEDULE, NO_EXECUTE)

    def __str__(self) -> str:
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


class Toleration(Struct, frozen=True, cache_hash=True):
    """A pod's consent to taints of one key, value and effect; empty parts consent to any."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether this taint is consented to."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case "" | "Equal":
                return self.value == taint.value
            case "Exists":
                return True
            case "Lt" | "Gt":
                ours, theirs = as_int64(self.value), as_int64(taint.value)
                if ours is None or theirs is None:
                    return False
                return theirs < ours if self.operator == "Lt" else theirs > ours
        return False


def tolerated(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Whether any of the tolerations consents to the taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)
