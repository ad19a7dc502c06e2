"""How evenly pods lie over the domains of a topology, for each constraint that is a must."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tests.oracle.cluster_state import Placed, name_of
from tests.oracle.node_rules import suits, untolerated
from tests.oracle.selectors import Object, labels_of, narrowed, selects


def refusal(
    pod: Object, node: Object, others: Iterable[Placed], nodes: Mapping[str, Object]
) -> str | None:
    """The constraint of the pod that would be broken by one more on the node."""
    for rule in constraints(pod):
        key = rule["topologyKey"]
        domain = labels_of(node).get(key)
        if domain is None:
            return f"the node has no {key} to spread over"
        counts = counted(rule, pod, others, nodes)
        own = int(_selected(rule, pod, pod))  # not even itself where nothing is asked of labels
        if counts and counts.get(domain, 0) + own - lowest(rule, counts) > rule["maxSkew"]:
            return f"{domain} has its share of pods spread over {key}"
    return None


def lopsided(pod: Object, placed: Iterable[Placed], nodes: Mapping[str, Object]) -> Iterator[str]:
    """The constraints of the pod that do not hold, each by its place in the list and its key."""
    for i, rule in enumerate(constraints(pod), start=1):
        counts = counted(rule, pod, placed, nodes)
        if counts and max(counts.values()) - lowest(rule, counts) > rule["maxSkew"]:
            yield f"{rule['topologyKey']} (rule {i})"


def constraints(pod: Object) -> list[Object]:
    """The constraints that the scheduler must not break."""
    rules = pod["spec"].get("topologySpreadConstraints") or ()
    return [rule for rule in rules if rule["whenUnsatisfiable"] == "DoNotSchedule"]


def counted(
    rule: Object, pod: Object, placed: Iterable[Placed], nodes: Mapping[str, Object]
) -> dict[str, int]:
    """How many pods of the rule each domain holds, over the nodes that count for the pod."""
    keys = [constraint["topologyKey"] for constraint in constraints(pod)]
    domains = {
        name: labels_of(node)[rule["topologyKey"]]
        for name, node in nodes.items()
        if all(key in labels_of(node) for key in keys) and _included(rule, pod, node)
    }
    counts = dict.fromkeys(domains.values(), 0)
    for other in placed:
        domain = domains.get(name_of(other.node))
        if domain is not None and not other.terminating and _selected(rule, pod, other.pod):
            counts[domain] += 1
    return counts


def lowest(rule: Object, counts: Mapping[str, int]) -> int:
    """The count that the others are measured against."""
    return 0 if len(counts) < (rule.get("minDomains") or 1) else min(counts.values())


def _included(rule: Object, pod: Object, node: Object) -> bool:
    if (rule.get("nodeAffinityPolicy") or "Honor") == "Honor" and not suits(pod, node):
        return False
    honours_taints = (rule.get("nodeTaintsPolicy") or "Ignore") == "Honor"
    return not honours_taints or untolerated(pod, node) is None


def _selected(rule: Object, pod: Object, other: Object) -> bool:
    if pod["metadata"]["namespace"] != other["metadata"]["namespace"]:
        return False
    selector = narrowed(rule.get("labelSelector"), labels_of(pod), rule.get("matchLabelKeys"))
    asks = selector and (selector.get("matchLabels") or selector.get("matchExpressions"))
    # The scheduler counts no pods for a selector without requirements.
    return bool(asks) and selects(selector, labels_of(other))
