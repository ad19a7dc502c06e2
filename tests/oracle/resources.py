"""What a pod asks for, what a node has left, and the ports it opens on the node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache

from tests.oracle.selectors import Object

Amounts = dict[str, Fraction]
Port = tuple[str, int, str]
"""Protocol, number, address."""

ANY_ADDRESS = "0.0.0.0"
_DECIMAL = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def refusal(pod: Object, node: Object, here: Sequence[Object]) -> str | None:
    """Why the node is too full for the pod beside those that are here."""
    offered = allocatable(node)
    if len(here) + 1 > offered.get("pods", 0):
        return "the node takes no more pods"
    for resource, amount in requests(pod).items():
        taken = sum((requests(other).get(resource, Fraction()) for other in here), Fraction())
        if amount and amount > offered.get(resource, Fraction()) - taken:
            return f"the node has too little {resource}"
    used = [port for other in here for port in ports(other)]
    for port in ports(pod):
        if any(clash(port, other) for other in used):
            return f"host port {port[0]}/{port[1]} is taken"
    return None


def allocatable(node: Object) -> Amounts:
    """What the node offers."""
    return _amounts(node["status"].get("allocatable"))


def requests(pod: Object) -> Amounts:
    """What the pod needs at its hungriest: while it runs, or at some step of its start."""
    spec = pod["spec"]
    running = _sum(_asked(container) for container in spec.get("containers") or ())
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        step = _sum([sidecars, _asked(container)])
        if container.get("restartPolicy") == "Always":
            sidecars = step
        starting = _most(starting, step)
    needed = _most(_sum([running, sidecars]), starting)
    for resource, amount in _asked(spec).items():
        if resource in ("cpu", "memory") or resource.startswith("hugepages-"):
            needed[resource] = amount
    return _sum([needed, _amounts(spec.get("overhead"))])


def ports(pod: Object) -> Iterator[Port]:
    """The ports of the node that the pod opens for as long as it runs."""
    spec = pod["spec"]
    sidecars = (
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    )
    for container in [*(spec.get("containers") or ()), *sidecars]:
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                address = port.get("hostIP") or ANY_ADDRESS
                yield port.get("protocol") or "TCP", port["hostPort"], address


def clash(first: Port, other: Port) -> bool:
    """Whether two ports cannot be open on one node."""
    same_address = first[2] == other[2] or ANY_ADDRESS in (first[2], other[2])
    return first[:2] == other[:2] and same_address


@cache
def amount_of(text: str) -> Fraction:
    """The exact value of a Kubernetes quantity."""
    match = re.fullmatch(r"([+-]?[0-9.]+)(?:[eE]([+-]?[0-9]+)|([A-Za-z]*))", text)
    if match is None:
        raise ValueError(f"`{text}` is not a quantity")
    number, exponent, suffix = Fraction(match[1]), int(match[2] or 0), match[3] or ""
    if suffix in _BINARY:
        return number * (1 << _BINARY[suffix])
    return number * Fraction(10) ** (exponent + _DECIMAL[suffix])


def _asked(container: Object) -> Amounts:
    return _amounts((container.get("resources") or {}).get("requests"))


def _amounts(written: Mapping[str, str | int | float] | None) -> Amounts:
    return {resource: amount_of(str(amount)) for resource, amount in (written or {}).items()}


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, Fraction()) + amount
    return total


def _most(first: Amounts, other: Amounts) -> Amounts:
    return {
        resource: max(first.get(resource, Fraction()), other.get(resource, Fraction()))
        for resource in {**first, **other}
    }
