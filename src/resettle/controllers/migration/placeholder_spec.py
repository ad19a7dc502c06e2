"""The parts of a placeholder's spec: requests, ports, and affinity with namespaces written out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from resettle.model.resources import (
    Amounts,
    ContainerResources,
    format_amount,
    in_resource_unit,
    larger,
    parse_quantity,
    pod_requests,
    total,
)

Object = dict[str, Any]

FIELD_NAME = "metadata.name"
"""The only field of nodes that node affinity may name."""
MOST_TERMS = 64
"""Terms of node affinity, at most, when the terms of volumes are combined with those of the pod."""


# -- requests --------------------------------------------------------------------------------------


def request_amounts(spec: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """What the scheduler counts for a pod, as requests and limits of a single container.

    Extended resources and huge pages must have a limit equal to the request.
    """
    containers = [_resources(container) for container in spec.get("containers") or ()]
    starting = [_resources(container) for container in spec.get("initContainers") or ()]
    overhead = _amounts(spec.get("overhead"))
    pod_level = _resources(spec).requests
    needed = larger(pod_requests(containers, starting, {}, overhead), total((pod_level, overhead)))
    requests = {
        name: format_amount(name, in_resource_unit(name, amount))
        for name, amount in sorted(needed.items())
        if amount
    }
    return requests, {name: text for name, text in requests.items() if _is_extended(name)}


def _resources(part: Mapping[str, Any]) -> ContainerResources:
    """Requests of a container or of a whole pod; a limit counts where no request is given."""
    resources = part.get("resources") or {}
    limits = _amounts(resources.get("limits"))
    requests = {**limits, **_amounts(resources.get("requests"))}
    return ContainerResources(requests, limits, part.get("restartPolicy") == "Always")


def _amounts(values: Mapping[str, Any] | None) -> Amounts:
    return {name: parse_quantity(str(value)) for name, value in (values or {}).items()}


def _is_extended(name: str) -> bool:
    domain, slash, _ = name.partition("/")
    native = not slash or domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return not native or name.startswith("hugepages-")


# -- host ports ------------------------------------------------------------------------------------


def host_ports(spec: Mapping[str, Any]) -> list[Object]:
    """The host ports that the scheduler counts, each once."""
    sidecars = [
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    ports: dict[tuple[str, int, str], Object] = {}
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            number = port.get("hostPort") or 0
            if number:
                protocol, address = port.get("protocol") or "TCP", port.get("hostIP") or ""
                copy = {"containerPort": number, "hostPort": number, "protocol": protocol}
                ports[protocol, number, address] = copy | ({"hostIP": address} if address else {})
    return [ports[key] for key in sorted(ports)]


# -- affinity --------------------------------------------------------------------------------------


def merge_terms(
    own: Sequence[Mapping[str, Any]], of_volumes: Sequence[Sequence[Mapping[str, Any]]]
) -> tuple[list[Object], str]:
    """Terms that match where the pod's terms and those of every volume match; and what is left out.

    Terms are alternatives, so this is every combination of one from each list.
    """
    combined = [dict(term) for term in own]
    for terms in of_volumes:
        product = [_combine_terms(left, right) for left in combined or [{}] for right in terms]
        if len(product) > MOST_TERMS:
            return combined, f"volumes are left out: they give more than {MOST_TERMS} combinations"
        combined = product
    return combined, ""


def _combine_terms(left: Mapping[str, Any], right: Mapping[str, Any]) -> Object:
    term: Object = {}
    for key in ("matchExpressions", "matchFields"):
        requirements = list(left.get(key) or ())
        requirements += [each for each in right.get(key) or () if each not in requirements]
        if requirements:
            term[key] = requirements
    return term


def pod_affinity(victim: Mapping[str, Any]) -> Object:
    """Required affinity and anti-affinity to other pods, as seen from another namespace."""
    affinity = victim["spec"].get("affinity") or {}
    result: Object = {}
    for kind in ("podAffinity", "podAntiAffinity"):
        required = (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
        if required:
            terms = [_foreign_term(term, victim["metadata"]) for term in required]
            result[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return result


def _foreign_term(term: Mapping[str, Any], meta: Mapping[str, Any]) -> Object:
    """A term that selects from another namespace the pods that it selects in the pod's own.

    `matchLabelKeys` refer to labels that a placeholder does not have: they become requirements.
    """
    result = {
        key: value
        for key, value in term.items()
        if key not in ("matchLabelKeys", "mismatchLabelKeys")
    }
    if not term.get("namespaces") and term.get("namespaceSelector") is None:
        result["namespaces"] = [meta["namespace"]]
    labels = meta.get("labels") or {}
    keys = [
        *_requirements(term.get("matchLabelKeys"), "In", labels),
        *_requirements(term.get("mismatchLabelKeys"), "NotIn", labels),
    ]
    selector = term.get("labelSelector")
    if keys and selector is not None:
        expressions = list(selector.get("matchExpressions") or ())
        expressions += [each for each in keys if each not in expressions]
        result["labelSelector"] = {**selector, "matchExpressions": expressions}
    return result


def _requirements(
    keys: Iterable[str] | None, operator: str, labels: Mapping[str, str]
) -> list[Object]:
    return [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for key in keys or ()
        if key in labels
    ]
