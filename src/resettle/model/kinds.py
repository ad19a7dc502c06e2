"""The kinds of objects that resettle reads, in one table; plugins may declare more.

Lists, watches, dumps, records and roles all use this table. To read another kind, add a row here
and a field of that name in `Snapshot`, `Changes` and the pages of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MethodType
from typing import Any

from msgspec import Struct

from resettle.errors import InputError, PluginError
from resettle.model.decoding import wire, workloads
from resettle.model.decoding.decoder import Decoder
from resettle.model.workloads import WORKLOAD_KINDS


class Kind(Struct, frozen=True):
    """A kind of object that is read, such as one that a plugin declares for itself."""

    name: str
    struct: type[Struct]
    """The fields that are read, as the API writes them."""
    path: str = ""
    """Where an API server lists it, such as `/apis/example.com/v1/widgets`."""
    optional: bool = False
    """Whether many clusters lack it: then it is read only where a policy needs it."""

    @property
    def list_path(self) -> str:
        """Where an API server lists it; raises `InputError` if the declaration does not say so."""
        if not self.path:
            raise InputError(f"the plugin that reads {self.name} declares no path to list it")
        return self.path

    @property
    def plural(self) -> str:
        """The resource name, such as `pods`."""
        return self.list_path.rpartition("/")[2]

    @property
    def group(self) -> str:
        """The API group, empty for the core."""
        return group_of(self.list_path)

    @property
    def api_version(self) -> str:
        """Group and version as objects write them, such as `policy/v1`."""
        return "/".join(self.list_path.split("/")[2:-1])

    def converter(self, decoder: Decoder) -> Callable[[Any], Any] | None:
        """A function from a decoded struct to the model's object; None to keep the struct."""
        return None


class BuiltInKind(Kind, frozen=True, kw_only=True):
    """A kind that resettle itself reads: a row of the table."""

    field: str
    """The field of `Snapshot` and `Changes` that holds its objects."""
    decode: Callable[[Decoder, Any], Any]
    """The method of `Decoder` that builds the model's object."""
    namespaced: bool = False
    kubectl_name: str = ""
    """The name to use after `kubectl get`, if not the plural."""

    def converter(self, decoder: Decoder) -> Callable[[Any], Any]:
        """A function from a decoded struct to the model's object."""
        return MethodType(self.decode, decoder)


_TABLE = (
    BuiltInKind(
        "Node",
        wire.NodeObject,
        "/api/v1/nodes",
        field="nodes",
        decode=Decoder.node,
    ),
    BuiltInKind(
        "Pod",
        wire.PodObject,
        "/api/v1/pods",
        field="pods",
        decode=Decoder.pod,
        namespaced=True,
    ),
    BuiltInKind(
        "Namespace",
        wire.NamespaceObject,
        "/api/v1/namespaces",
        field="namespaces",
        decode=Decoder.namespace,
    ),
    BuiltInKind(
        "PriorityClass",
        wire.PriorityClassObject,
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        field="priority_classes",
        decode=Decoder.priority_class,
    ),
    BuiltInKind(
        "PodDisruptionBudget",
        wire.BudgetObject,
        "/apis/policy/v1/poddisruptionbudgets",
        field="budgets",
        decode=Decoder.budget,
        namespaced=True,
        kubectl_name="pdb",
    ),
    BuiltInKind(
        "PersistentVolumeClaim",
        wire.ClaimObject,
        "/api/v1/persistentvolumeclaims",
        field="claims",
        decode=Decoder.claim,
        namespaced=True,
        kubectl_name="pvc",
    ),
    BuiltInKind(
        "PersistentVolume",
        wire.VolumeObject,
        "/api/v1/persistentvolumes",
        field="volumes",
        decode=Decoder.volume,
        kubectl_name="pv",
    ),
    BuiltInKind(
        "CSINode",
        wire.CsiNodeObject,
        "/apis/storage.k8s.io/v1/csinodes",
        field="attach_limits",
        decode=Decoder.attach_limits,
    ),
    BuiltInKind(
        "Deployment",
        workloads.DeploymentObject,
        "/apis/apps/v1/deployments",
        field="deployments",
        decode=workloads.deployment_of,
        namespaced=True,
    ),
    BuiltInKind(
        "ReplicaSet",
        workloads.ReplicasObject,
        "/apis/apps/v1/replicasets",
        field="replica_sets",
        decode=workloads.replica_set_of,
        namespaced=True,
    ),
    BuiltInKind(
        "StatefulSet",
        workloads.StatefulSetObject,
        "/apis/apps/v1/statefulsets",
        field="stateful_sets",
        decode=workloads.stateful_set_of,
        namespaced=True,
    ),
    BuiltInKind(
        "Job",
        workloads.JobObject,
        "/apis/batch/v1/jobs",
        field="jobs",
        decode=workloads.job_of,
        namespaced=True,
    ),
    BuiltInKind(
        "ReplicationController",
        workloads.ReplicasObject,
        "/api/v1/replicationcontrollers",
        field="replication_controllers",
        decode=workloads.replication_controller_of,
        namespaced=True,
    ),
)

KINDS: Mapping[str, BuiltInKind] = {kind.name: kind for kind in _TABLE}
"""The table, by name."""
ALWAYS_READ = ("Node", "Pod")
"""What every plan reads; the other kinds are read where a policy needs them."""
FIELDS = tuple(kind.field for kind in _TABLE)
"""Fields of `Changes`, one for each kind."""
KEYED_FIELDS = tuple(kind.field for kind in _TABLE if kind.name not in ALWAYS_READ)
"""Fields of `Snapshot` that map keys to objects; nodes and pods have an index instead."""
WORKLOAD_FIELDS = tuple(kind.field for kind in _TABLE if kind.name in WORKLOAD_KINDS)
"""Fields of `Snapshot` that hold workloads."""


def kinds_by_name(declared: Iterable[Kind] = ()) -> dict[str, Kind]:
    """The table and the kinds that plugins declare; raises `PluginError` if they conflict."""
    kinds: dict[str, Kind] = dict(KINDS)
    for kind in declared:
        if kinds.setdefault(kind.name, kind).struct is not kind.struct:
            raise PluginError(
                f"two structs are declared for the kind `{kind.name}`; plugins that read one "
                "kind must share a struct, and the built-in kinds are in the snapshot already"
            )
        if kind.name not in KINDS:
            kinds[kind.name] = kind
    return kinds


def kinds_to_list(declared: Iterable[Kind] = (), reads: frozenset[str] | None = None) -> list[Kind]:
    """Nodes, pods, then the other kinds that are read, by name; None for all but optional ones.

    Raises `InputError` for a kind that is read and has no path.
    """
    kinds = kinds_by_name(declared)
    if reads is None:
        reads = frozenset(kind.name for kind in kinds.values() if kind.path and not kind.optional)
    others = sorted(reads & kinds.keys() - set(ALWAYS_READ))
    return [kinds[name] for name in (*ALWAYS_READ, *others) if kinds[name].list_path]


def group_of(path: str) -> str:
    """The API group that a path belongs to, empty for the core."""
    parts = path.split("/")
    return parts[2] if parts[1:2] == ["apis"] else ""
