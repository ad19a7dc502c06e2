"""Quantities as exact whole numbers, and the requests of pods and nodes.

One unit for everything: the nano (10^-9), the finest Kubernetes itself keeps, so that `100m` of
cpu, `1536Mi` of memory and a metrics server's `1234n` add and compare without rounding. Rounding
happens where Kubernetes rounds: `milli` and `units`, both upwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from msgspec import Struct

from resettle.errors import InputError
from resettle.model.pod import Pod

NANO = 10**9
_MILLI = 10**6

_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<number>\d+\.?\d*|\.\d+)"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?\d+))?",
    re.ASCII,
)
_SUFFIX = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_LARGEST_EXPONENT = 36
_WHOLE = re.compile(r"(\d+)([numkMGTPE]|[KMGTPE]i|)", re.ASCII)
_NANO_OF = {"": NANO} | {suffix: int(factor * NANO) for suffix, factor in _SUFFIX.items()}


def parse_quantity(text: str) -> int:
    """The quantity in nano units; finer fractions round up, as Kubernetes does."""
    if whole := _WHOLE.fullmatch(text):
        return int(whole[1]) * _NANO_OF[whole[2]]
    match = _FORM.fullmatch(text)
    if match is None or abs(int(match["exponent"] or 0)) > _LARGEST_EXPONENT:
        raise InputError(
            f"`{text}` is not a quantity", "write a number such as `250m`, `1.5` or `2Gi`"
        )
    value = Fraction(match["number"]) * _SUFFIX.get(match["suffix"], Fraction(1))
    value *= Fraction(10) ** int(match["exponent"] or 0)
    nano = -((-value * NANO).__floor__())
    if match["sign"] == "-" and nano:
        raise InputError(f"`{text}` is negative", "a resource is zero or more")
    return nano


def milli(nano: int) -> int:
    """In thousandths, rounded up."""
    return -(-nano // _MILLI)


def units(nano: int) -> int:
    """In whole units, rounded up."""
    return -(-nano // NANO)


def in_resource_unit(resource: str, nano: int) -> int:
    """In the unit that Kubernetes counts the resource in: milli for cpu, else whole units."""
    return milli(nano) if resource == "cpu" else units(nano)


def format_amount(resource: str, amount: int) -> str:
    """An amount in the resource's own unit, as people write it: `250m`, `3`, `1536Mi`."""
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix in ("Gi", "Mi", "Ki"):
            size = int(_SUFFIX[suffix])
            if amount and amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)


def requested_by(pods: Sequence[Pod]) -> dict[str, int]:
    """Total requests of these pods in nano units; `pods` is their number."""
    used: dict[str, int] = {"pods": len(pods) * NANO}
    for pod in pods:
        for name, amount in pod.template.spec.demand.requests.items():
            if name != "pods" and amount:
                used[name] = used.get(name, 0) + amount
    return used


def requests_after(
    before: Mapping[str, int], came: Sequence[Pod], left: Sequence[Pod]
) -> dict[str, int]:
    """Total requests after some pods have come and others have left."""
    used = dict(before)
    for pods, sign in ((came, 1), (left, -1)):
        for name, amount in requested_by(pods).items():
            used[name] = used.get(name, 0) + sign * amount
    return {name: amount for name, amount in used.items() if amount or name == "pods"}


Amounts = Mapping[str, int]


class ContainerResources(Struct, frozen=True):
    """Requests and limits of one container, in nano units."""

    requests: Amounts
    limits: Amounts
    restartable: bool = False
    """Whether it is a sidecar: an init container that keeps running."""


class PodResources(Struct, frozen=True):
    """Total requests and QoS class of a pod."""

    requests: dict[str, int]
    requested: frozenset[str]
    """Resources that some container requests, even with the amount 0."""
    qos: str


def pod_resources_of(
    containers: Sequence[ContainerResources],
    init_containers: Sequence[ContainerResources],
    pod_level: Amounts,
    overhead: Amounts,
) -> PodResources:
    """Total requests and QoS class of a pod with these containers."""
    all_containers = (*containers, *init_containers)
    return PodResources(
        pod_requests(containers, init_containers, pod_level, overhead),
        frozenset(name for container in all_containers for name in container.requests),
        quality_of_service(all_containers),
    )


def pod_requests(
    containers: Iterable[ContainerResources],
    init_containers: Iterable[ContainerResources],
    pod_level: Amounts,
    overhead: Amounts,
) -> dict[str, int]:
    """What a node must have free (`PodRequests` in k8s.io/component-helpers).

    The larger of the sum of running containers and the peak while init containers run.
    """
    running = total(container.requests for container in containers)
    sidecars: dict[str, int] = {}
    startup: dict[str, int] = {}
    for container in init_containers:
        at_once = total((container.requests, sidecars))
        if container.restartable:
            sidecars = at_once
            running = total((running, container.requests))
        startup = larger(startup, at_once)
    needed = larger(running, startup)
    for name, amount in pod_level.items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            needed[name] = amount
    return total((needed, overhead))


def total(parts: Iterable[Amounts]) -> dict[str, int]:
    """Sum for each resource."""
    result: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            result[name] = result.get(name, 0) + amount
    return result


def larger(first: Amounts, second: Amounts) -> dict[str, int]:
    """The larger amount for each resource."""
    result = dict(first)
    for name, amount in second.items():
        result[name] = max(result.get(name, 0), amount)
    return result


def quality_of_service(containers: Iterable[ContainerResources]) -> str:
    """The QoS class, from cpu and memory of all containers (`ComputePodQOS`)."""
    containers = tuple(containers)
    requests = _positive(total(container.requests for container in containers))
    limits = _positive(total(container.limits for container in containers))
    if not requests and not limits:
        return "BestEffort"
    pinned = all(len(_positive(container.limits)) == 2 for container in containers)
    return "Guaranteed" if pinned and requests == limits else "Burstable"


def _positive(amounts: Amounts) -> dict[str, int]:
    return {name: n for name, n in amounts.items() if name in ("cpu", "memory") and n > 0}
