"""Which nodes a pod's volumes can follow it to, and how many volumes a node attaches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.oracle.cluster_state import Placed, World, key_of, name_of
from tests.oracle.selectors import Object, labels_of, some_term_matches

ZONES = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""The labels that say where a volume is, each with the one a node may carry in its stead."""

Handle = tuple[str, str]
"""A CSI driver and its name for a volume."""


def refusal(pod: Object, node: Object, others: Sequence[Placed], world: World) -> str | None:
    """Why the pod's volumes keep it off the node."""
    for key in claims_of(pod):
        claim = world.claims.get(key)
        if claim is None:
            return f"claim {key} is not there"
        if claim["metadata"].get("deletionTimestamp"):
            return f"claim {key} is being deleted"
        alone = "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ())
        if alone and any(key in claims_of(other.pod) for other in others):
            return f"claim {key} is for one pod alone and has one"
        name = claim["spec"].get("volumeName")
        if name and name not in world.volumes:
            return f"volume {name} is not there"
        if name and not reaches(world.volumes[name], node):
            return f"volume {name} cannot be had on the node"
    here = (other.pod for other in others if other.node is node)
    return _too_many(pod, node, here, world)


def _too_many(pod: Object, node: Object, here: Iterable[Object], world: World) -> str | None:
    attached = {handle for other in here for handle in attached_for(other, world)}
    new = set(_handles(claims_of(pod), world)) - attached
    for driver, limit in _limits(node, world).items():
        coming = count(new, driver)
        if coming and count(attached, driver) + coming > limit:
            return f"the node attaches no more volumes of {driver}"
    return None


def overfull(node: Object, here: Iterable[Object], world: World) -> Iterator[str]:
    """Drivers of which the node has more volumes attached than it can."""
    attached = {handle for pod in here for handle in attached_for(pod, world)}
    for driver, limit in _limits(node, world).items():
        if count(attached, driver) > limit:
            yield driver


def out_of_reach(pod: Object, node: Object, world: World) -> Iterator[str]:
    """Volumes of the pod that cannot be had on the node."""
    for key in claims_of(pod):
        volume = world.volumes.get(_volume_name(key, world))
        if volume is not None and not reaches(volume, node):
            yield name_of(volume)


def reaches(volume: Object, node: Object) -> bool:
    """Whether the volume's own node affinity and the labels of its zone agree with the node."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if required is not None and not some_term_matches(required.get("nodeSelectorTerms"), node):
        return False
    where = labels_of(node)
    if not any(label in where for label in ZONES):
        return True
    return all(
        where.get(label, where.get(ZONES[label])) in value.split("__")
        for label, value in labels_of(volume).items()
        if label in ZONES
    )


def claims_of(pod: Object) -> list[str]:
    """The claims that the pod names; a replacement will name the same."""
    namespace = pod["metadata"]["namespace"]
    return [
        f"{namespace}/{volume['persistentVolumeClaim']['claimName']}"
        for volume in pod["spec"].get("volumes") or ()
        if volume.get("persistentVolumeClaim")
    ]


def attached_for(pod: Object, world: World) -> set[Handle]:
    """The volumes that are attached for a running pod, those made for it alone among them."""
    volumes = pod["spec"].get("volumes") or ()
    made = [f"{key_of(pod)}-{volume['name']}" for volume in volumes if volume.get("ephemeral")]
    return set(_handles([*claims_of(pod), *made], world))


def count(handles: Iterable[Handle], driver: str) -> int:
    """How many of these volumes are the driver's."""
    return sum(of == driver for of, _ in handles)


def _handles(claims: Iterable[str], world: World) -> Iterator[Handle]:
    for key in claims:
        volume = world.volumes.get(_volume_name(key, world))
        if volume is not None and (csi := volume["spec"].get("csi")):
            yield csi["driver"], csi["volumeHandle"]


def _volume_name(claim: str, world: World) -> str:
    name: str | None = (
        world.claims[claim]["spec"].get("volumeName") if claim in world.claims else ""
    )
    return name or ""


def _limits(node: Object, world: World) -> Mapping[str, int]:
    return world.limits.get(name_of(node), {})
