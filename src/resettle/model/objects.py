"""Nodes, and the other objects that a cycle reads besides pods."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from resettle.model.constraints import NodeTerm, Taint
from resettle.model.selectors import Selector


class Node(Struct, frozen=True, eq=False):
    """A node, with the fields that matter for placement."""

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    """False only if its Ready condition is not true; a node without that condition is ready."""
    allocatable: dict[str, int] = {}
    """Resource name to nano units."""
    capacity: dict[str, int] = {}
    tainted_at: dict[Taint, datetime] = {}
    """When each taint was added, if it says so; separate, so that equal taints stay equal."""

    @property
    def key(self) -> str:
        return self.name


class Budget(Struct, frozen=True, eq=False):
    """A PodDisruptionBudget and the disruptions it still allows."""

    namespace: str
    name: str
    selector: Selector | None
    """None if it is invalid: such a budget covers no pods."""
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    up_to_date: bool = True
    """False while its status lags behind its spec; the API server then refuses."""
    always_allow_unhealthy: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Claim(Struct, frozen=True, eq=False):
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    storage_class: str | None = None
    volume: str = ""
    """Name of the volume it is bound to; empty while unbound."""
    one_pod_only: bool = False
    """Whether only a single pod may use it (ReadWriteOncePod)."""
    going: bool = False
    """Whether it is being deleted."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Volume(Struct, frozen=True, eq=False):
    """A PersistentVolume, with the fields that tie pods to nodes."""

    name: str
    labels: dict[str, str] = {}
    terms: tuple[NodeTerm, ...] | None = None
    """Node affinity: the nodes that can reach it; None for all."""
    driver: str = ""
    handle: str = ""

    @property
    def key(self) -> str:
        return self.name


class AttachLimits(Struct, frozen=True, eq=False):
    """A CSINode: how many volumes of each driver can be attached to the node of that name."""

    name: str
    limits: dict[str, int] = {}

    @property
    def key(self) -> str:
        return self.name


class Namespace(Struct, frozen=True, eq=False):
    """A namespace and its labels."""

    name: str
    labels: dict[str, str] = {}

    @property
    def key(self) -> str:
        return self.name


class PriorityClass(Struct, frozen=True, eq=False):
    """A named priority."""

    name: str
    value: int = 0

    @property
    def key(self) -> str:
        return self.name
