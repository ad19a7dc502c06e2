"""Scheduling constraints of pods: node affinity, pod affinity, topology spread, tolerations.

All of them are hashable values, so that the nodes that satisfy them are computed once for all pods
with equal constraints.
"""

from __future__ import annotations

from msgspec import Struct

from resettle.model.selectors import Requirement, Selector, as_int64, is_label_key, is_label_value

OWN_NODE = "\0own node"
"""A placeholder for the name of the pod's own node, so that pods of a DaemonSet share a spec."""

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
        """Whether the term only names the pod's own node, as a DaemonSet does."""
        return not self.expressions and self.fields == (OWN_NODE_FIELD,)

    @property
    def valid(self) -> bool:
        """Whether Kubernetes accepts the term; an invalid one matches no node."""
        return all(map(_is_valid_expression, self.expressions)) and all(
            map(_is_valid_field, self.fields)
        )


def _is_valid_expression(requirement: Requirement) -> bool:
    if not is_label_key(requirement.key) or not all(map(is_label_value, requirement.values)):
        return False
    match requirement.operator:
        case "In" | "NotIn":
            return bool(requirement.values)
        case "Exists" | "DoesNotExist":
            return not requirement.values
        case "Gt" | "Lt":
            return len(requirement.values) == 1 and as_int64(requirement.values[0]) is not None
    return False


def _is_valid_field(requirement: Requirement) -> bool:
    return (
        requirement.key == "metadata.name"
        and requirement.operator in ("In", "NotIn")
        and len(requirement.values) == 1
    )


class PreferredTerm(Struct, frozen=True):
    """A preferred node term and its weight."""

    weight: int
    term: NodeTerm


class PodTerm(Struct, frozen=True, cache_hash=True):
    """A term of pod affinity or anti-affinity, as the pod declares it."""

    topology_key: str
    selector: Selector | None
    """None if it is invalid; `NOTHING` if it is absent."""
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector | None = None
    """None if absent; then `namespaces` count, or the pod's own namespace if there are none."""
    same_labels: tuple[str, ...] = ()
    """Keys whose value must equal that of the pod with the term (`matchLabelKeys`)."""
    other_labels: tuple[str, ...] = ()
    """Keys whose value must differ from that of the pod with the term (`mismatchLabelKeys`)."""


class PreferredPodTerm(Struct, frozen=True):
    """A preferred pod term and its weight."""

    weight: int
    term: PodTerm


class SpreadConstraint(Struct, frozen=True, cache_hash=True):
    """A topology spread constraint, as the pod declares it."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    selector: Selector | None
    """None if it is invalid; `NOTHING` if it is absent."""
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    min_domains: int = 1


NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"


class Taint(Struct, frozen=True, cache_hash=True):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""

    @property
    def hard(self) -> bool:
        """Whether the scheduler keeps pods away that do not tolerate it."""
        return self.effect in (NO_SCHEDULE, NO_EXECUTE)

    def __str__(self) -> str:
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


class Toleration(Struct, frozen=True, cache_hash=True):
    """A toleration of a pod; an empty key or effect matches any."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether the toleration matches this taint."""
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


def is_tolerated(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Whether any of the tolerations matches the taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)
