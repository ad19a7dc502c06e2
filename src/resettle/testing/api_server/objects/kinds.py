"""Which kinds the test API server serves, and at which path.

A `Resource` is one line of the API's own discovery. Two resources with one `bucket` show the same
objects, as the two groups of events do, or two versions of a custom resource.

Custom kinds come and go with their definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from resettle.errors import InputError

READ = ("get", "list")
ALL = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
ASK = ("create",)


class Resource(Struct, frozen=True, kw_only=True):
    """A kind as one group and version of the API serves it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL
    generation: bool = False
    """Whether `metadata.generation` counts the changes of what is wanted."""
    custom: bool = False

    @property
    def api_version(self) -> str:
        """The apiVersion that its objects have."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def bucket(self) -> str:
        """Where its objects are kept."""
        if self.kind == "Event":
            return "events"
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def title(self) -> str:
        """What messages call it: `pods`, `poddisruptionbudgets.policy`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        """Whether its status is written apart from the rest."""
        return "status" in self.subresources


def _row(
    kind: str,
    plural: str,
    short: str = "",
    under: str = "",
    *,
    cluster: bool = False,
    counted: bool = False,
    verbs: tuple[str, ...] = ALL,
) -> Callable[[str, str], Resource]:
    """A line of the table below: short names and subresources are words."""

    def resource_of(group: str, version: str) -> Resource:
        return Resource(
            group=group,
            version=version,
            kind=kind,
            plural=plural,
            namespaced=not cluster,
            short=tuple(short.split()),
            subresources=tuple(under.split()),
            verbs=verbs,
            generation=counted,
        )

    return resource_of


_TABLE = {
    ("", "v1"): (
        _row("Node", "nodes", "no", "status", cluster=True),
        _row("Pod", "pods", "po", "status eviction binding", counted=True),
        _row("Namespace", "namespaces", "ns", "status finalize", cluster=True),
        _row("ServiceAccount", "serviceaccounts", "sa"),
        _row("Secret", "secrets"),
        _row("ConfigMap", "configmaps", "cm"),
        _row("Event", "events", "ev"),
        _row("PersistentVolume", "persistentvolumes", "pv", "status", cluster=True),
        _row("PersistentVolumeClaim", "persistentvolumeclaims", "pvc", "status"),
        _row("ReplicationController", "replicationcontrollers", "rc", "status scale", counted=True),
        _row("Service", "services", "svc", "status"),
    ),
    ("apps", "v1"): (
        _row("ReplicaSet", "replicasets", "rs", "status scale", counted=True),
        _row("Deployment", "deployments", "deploy", "status scale", counted=True),
        _row("StatefulSet", "statefulsets", "sts", "status scale", counted=True),
        _row("DaemonSet", "daemonsets", "ds", "status", counted=True),
    ),
    ("batch", "v1"): (_row("Job", "jobs", "", "status", counted=True),),
    ("policy", "v1"): (
        _row("PodDisruptionBudget", "poddisruptionbudgets", "pdb", "status", counted=True),
    ),
    ("scheduling.k8s.io", "v1"): (
        _row("PriorityClass", "priorityclasses", "pc", cluster=True, counted=True),
    ),
    ("coordination.k8s.io", "v1"): (_row("Lease", "leases"),),
    ("storage.k8s.io", "v1"): (
        _row("StorageClass", "storageclasses", "sc", cluster=True),
        _row("CSINode", "csinodes", cluster=True),
    ),
    ("autoscaling", "v2"): (
        _row("HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", "status"),
    ),
    ("events.k8s.io", "v1"): (_row("Event", "events", "ev"),),
    ("metrics.k8s.io", "v1beta1"): (
        _row("NodeMetrics", "nodes", verbs=READ, cluster=True),
        _row("PodMetrics", "pods", verbs=READ),
    ),
    ("apiextensions.k8s.io", "v1"): (
        _row(
            "CustomResourceDefinition",
            "customresourcedefinitions",
            "crd crds",
            "status",
            cluster=True,
            counted=True,
        ),
    ),
    ("authorization.k8s.io", "v1"): (
        _row("SelfSubjectAccessReview", "selfsubjectaccessreviews", verbs=ASK, cluster=True),
        _row("SubjectAccessReview", "subjectaccessreviews", verbs=ASK, cluster=True),
    ),
    ("authentication.k8s.io", "v1"): (
        _row("TokenReview", "tokenreviews", verbs=ASK, cluster=True),
    ),
}
BUILT_IN = tuple(row(*place) for place, rows in _TABLE.items() for row in rows)


def defined_by(definition: dict[str, Any]) -> Iterator[Resource]:
    """The resources, one for each served version, that a CustomResourceDefinition brings."""
    spec = definition["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        if version.get("served", True):
            yield Resource(
                group=spec["group"],
                version=version["name"],
                kind=names["kind"],
                plural=names["plural"],
                namespaced=spec.get("scope", "Namespaced") == "Namespaced",
                short=tuple(names.get("shortNames") or ()),
                subresources=tuple(version.get("subresources") or {}),
                generation=True,
                custom=True,
            )


class Catalogue:
    """The resources served now."""

    def __init__(self) -> None:
        self._by_path = {
            (resource.group, resource.version, resource.plural): resource for resource in BUILT_IN
        }

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._by_path.values()))

    def at(self, group: str, version: str, plural: str) -> Resource | None:
        """What is served at this place."""
        return self._by_path.get((group, version, plural))

    def add(self, resources: Iterable[Resource]) -> None:
        """Serves these from now on."""
        self._by_path |= {
            (resource.group, resource.version, resource.plural): resource for resource in resources
        }

    def drop(self, group: str, plural: str) -> None:
        """Serves this resource no more, in none of its versions."""
        for path in [
            path_key for path_key in self._by_path if (path_key[0], path_key[2]) == (group, plural)
        ]:
            del self._by_path[path]

    def of_object(self, obj: dict[str, Any]) -> Resource:
        """The resource an object belongs to, by its apiVersion and kind."""
        kind, api_version = obj.get("kind", ""), obj.get("apiVersion", "")
        for resource in self:
            if resource.kind == kind and resource.api_version == api_version:
                return resource
        raise InputError(
            f"nothing here serves the kind `{kind}` of `{api_version}`; "
            "put its CustomResourceDefinition first, or correct `apiVersion` and `kind`"
        )

    def of_kind(self, kind: str) -> Resource:
        """The resource of a kind; `Widget.example.com` where a name alone could mean two."""
        name, _, group = kind.partition(".")
        matching = [
            resource
            for resource in self
            if resource.kind == name and (not group or resource.group == group)
        ]
        if not matching:
            raise InputError(
                f"nothing here serves the kind `{kind}`; put its CustomResourceDefinition first"
            )
        return matching[0]
