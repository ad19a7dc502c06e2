"""What a pod asks for in total, and the quality of service that earns it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

Amounts = Mapping[str, int]


class ContainerAsk(Struct, frozen=True):
    """Requests and limits of one container, in nano units."""

    requests: Amounts
    limits: Amounts
    restartable: bool = False
    """An init container that keeps running beside the others: a sidecar."""


class Size(Struct, frozen=True):
    """What a pod comes down to."""

    requests: dict[str, int]
    requested: frozenset[str]
    """Resources that some container names, be it with zero."""
    qos: str


def size_of(
    containers: Sequence[ContainerAsk],
    init_containers: Sequence[ContainerAsk],
    pod_level: Amounts,
    overhead: Amounts,
) -> Size:
    """What containers that ask for this make of a pod."""
    asks = (*containers, *init_containers)
    return Size(
        pod_requests(containers, init_containers, pod_level, overhead),
        frozenset(name for ask in asks for name in ask.requests),
        quality_of_service(asks),
    )


def pod_requests(
    containers: Iterable[ContainerAsk],
    init_containers: Iterable[ContainerAsk],
    pod_level: Amounts,
    overhead: Amounts,
) -> dict[str, int]:
    """The room a node must have: the larger of steady running and the worst start-up moment."""
    running = total(container.requests for container in containers)
    sidecars: dict[str, int] = {}
    startup: dict[str, int] = {}
    for container in init_containers:
        stage = total((container.requests, sidecars))
        if container.restartable:
            sidecars = stage
            running = total((running, container.requests))
        startup = larger(startup, stage)
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


def larger(one: Amounts, other: Amounts) -> dict[str, int]:
    """The larger amount for each resource."""
    result = dict(one)
    for name, amount in other.items():
        result[name] = max(result.get(name, 0), amount)
    return result


def quality_of_service(containers: Iterable[ContainerAsk]) -> str:
    """Guaranteed, Burstable or BestEffort, from cpu and memory of all containers."""
    containers = tuple(containers)
    requests = _positive(total(container.requests for container in containers))
    limits = _positive(total(container.limits for container in containers))
    if not requests and not limits:
        return "BestEffort"
    pinned = all(len(_positive(container.limits)) == 2 for container in containers)
    return "Guaranteed" if pinned and requests == limits else "Burstable"


def _positive(amounts: Amounts) -> dict[str, int]:
    return {name: n for name, n in amounts.items() if name in ("cpu", "memory") and n > 0}
