"""What does not move while pods do, and a pod with the node it is on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.oracle.selectors import Labels, Object, labels_of


class Placed(NamedTuple):
    """A pod that is somewhere."""

    key: str
    """`namespace/name`"""
    pod: Object
    node: Object

    @property
    def terminating(self) -> bool:
        """Whether it is being deleted."""
        return bool(self.pod["metadata"].get("deletionTimestamp"))


class World(NamedTuple):
    """Everything but the pods."""

    nodes: Mapping[str, Object]
    namespaces: Mapping[str, Labels]
    """Labels of each namespace."""
    claims: Mapping[str, Object]
    """`namespace/name` to PersistentVolumeClaim."""
    volumes: Mapping[str, Object]
    limits: Mapping[str, Mapping[str, int]]
    """Node to CSI driver to how many of its volumes the node attaches."""


def world_of(objects: Iterable[Object]) -> World:
    """The world that these objects describe."""
    kinds: dict[str, list[Object]] = {}
    for manifest in objects:
        kinds.setdefault(manifest["kind"], []).append(manifest)
    return World(
        nodes={name_of(manifest): manifest for manifest in kinds.get("Node", ())},
        namespaces={
            name_of(manifest): labels_of(manifest) for manifest in kinds.get("Namespace", ())
        },
        claims={key_of(manifest): manifest for manifest in kinds.get("PersistentVolumeClaim", ())},
        volumes={name_of(manifest): manifest for manifest in kinds.get("PersistentVolume", ())},
        limits={name_of(manifest): _limits(manifest) for manifest in kinds.get("CSINode", ())},
    )


def name_of(manifest: Object) -> str:
    """The name of an object."""
    name: str = manifest["metadata"]["name"]
    return name


def key_of(manifest: Object) -> str:
    """`namespace/name` of an object."""
    return f"{manifest['metadata']['namespace']}/{name_of(manifest)}"


def _limits(csi_node: Object) -> dict[str, int]:
    counts = {
        driver["name"]: (driver.get("allocatable") or {}).get("count")
        for driver in csi_node["spec"].get("drivers") or ()
    }
    return {name: count for name, count in counts.items() if count is not None}
