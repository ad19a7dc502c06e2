"""Which pods must be near one another, and which must not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.oracle.cluster_state import Placed
from tests.oracle.selectors import Labels, Object, labels_of, narrowed, selects

Namespaces = Mapping[str, Labels]


def refusal(
    pod: Object, node: Object, others: Sequence[Placed], namespaces: Namespaces
) -> str | None:
    """The neighbour that the pod would have on the node and must not, or lack and must not."""
    for other in others:
        for term in terms(other.pod, "podAntiAffinity"):
            if near(term, other.node, node) and picks(term, other.pod, pod, namespaces):
                return f"{other.key} keeps such pods away"
    for other in too_near(pod, node, others, namespaces):
        return f"it keeps away from {other.key}"
    return _lonely(pod, node, others, namespaces)


def too_near(
    pod: Object, node: Object, others: Iterable[Placed], namespaces: Namespaces
) -> Iterator[Placed]:
    """Pods that the pod's own anti-affinity does not want around it on the node."""
    away = terms(pod, "podAntiAffinity")
    for other in others:
        if any(
            near(term, other.node, node) and picks(term, pod, other.pod, namespaces)
            for term in away
        ):
            yield other


def _lonely(
    pod: Object, node: Object, others: Iterable[Placed], namespaces: Namespaces
) -> str | None:
    required = terms(pod, "podAffinity")
    for term in required:
        if term["topologyKey"] not in labels_of(node):
            return f"the node has no {term['topologyKey']} to be near to others in"
    company = wanted(pod, others, namespaces)
    missing = [
        term for term in required if not any(near(term, other.node, node) for other in company)
    ]
    if not missing:
        return None
    # The first pod of a group may go anywhere, as in kube-scheduler.
    keys = {term["topologyKey"] for term in required}
    somewhere = any(keys & labels_of(other.node).keys() for other in company)
    if not somewhere and matches_all(pod, pod, namespaces):
        return None
    return f"no pod that it wants near is in its {missing[0]['topologyKey']}"


def forsaken(
    pod: Object, node: Object, others: Iterable[Placed], namespaces: Namespaces
) -> Iterator[str]:
    """Topologies in which the pod wants others near and has none; its own kind needs none."""
    if matches_all(pod, pod, namespaces):
        return
    company = wanted(pod, others, namespaces)
    for term in terms(pod, "podAffinity"):
        if not any(near(term, other.node, node) for other in company):
            yield term["topologyKey"]


def wanted(pod: Object, others: Iterable[Placed], namespaces: Namespaces) -> list[Placed]:
    """The pods that every affinity term of the pod picks."""
    return [other for other in others if matches_all(pod, other.pod, namespaces)]


def matches_all(pod: Object, other: Object, namespaces: Namespaces) -> bool:
    """Whether every affinity term of the pod picks the other one."""
    return all(picks(term, pod, other, namespaces) for term in terms(pod, "podAffinity"))


def terms(pod: Object, kind: str) -> list[Object]:
    """The terms of one kind that are a must."""
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return list(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ())


def near(term: Object, first: Object, other: Object) -> bool:
    """Whether two nodes are in one domain of the term's topology."""
    key = term["topologyKey"]
    domain = labels_of(first).get(key)
    return domain is not None and domain == labels_of(other).get(key)


def picks(term: Object, owner: Object, other: Object, namespaces: Namespaces) -> bool:
    """Whether a term of one pod is about another pod."""
    selector = narrowed(
        term.get("labelSelector"),
        labels_of(owner),
        term.get("matchLabelKeys"),
        term.get("mismatchLabelKeys"),
    )
    return _in_scope(term, owner, other, namespaces) and selects(selector, labels_of(other))


def _in_scope(term: Object, owner: Object, other: Object, namespaces: Namespaces) -> bool:
    home, place = owner["metadata"]["namespace"], other["metadata"]["namespace"]
    listed, selector = term.get("namespaces") or (), term.get("namespaceSelector")
    if not listed and selector is None:
        return bool(place == home)
    return place in listed or selects(selector, namespaces.get(place, {}))
