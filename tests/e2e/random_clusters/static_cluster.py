"""Creates random clusters on the API server, one at a time, and deletes each before the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.e2e.cluster.workspace import eventually
from tests.e2e.random_clusters.valid_objects import (
    OVERHEAD_CLASS,
    PROVISIONER,
    STORAGE_CLASS,
    creatable_object,
)
from tests.oracle.clusters import TEAMS
from tools.control_plane.api import Api, Declined

Object = dict[str, Any]
FINISHED = ("Succeeded", "Failed")
CORE, STORAGE = "/api/v1", "/apis/storage.k8s.io/v1"
DEVICES = "/apis/resource.k8s.io/v1"
THREADS = 4
OVERHEAD = {"cpu": "250m", "memory": "100Mi"}


class StaticCluster:
    """The API server, holding one cluster at a time."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._threads = ThreadPoolExecutor(THREADS)
        self._nodes: list[str] = []
        self._with_finalizer: list[str] = []

    def __enter__(self) -> StaticCluster:
        """Creates what all clusters share."""
        self._create_shared_objects()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops the threads."""
        self._threads.shutdown()

    def _create_shared_objects(self) -> None:
        """Creates what all clusters share; no node has the devices that pods may claim."""
        for name, team in TEAMS.items():
            labels = {"metadata": {"name": name, "labels": {"team": team}}}
            if self.api.post(f"{CORE}/namespaces", labels).status == 409:
                self.api.patch(f"{CORE}/namespaces/{name}", labels).granted()
            account = f"{CORE}/namespaces/{name}/serviceaccounts/default"
            eventually(f"the account of {name}", partial(self._exists, account))
        storage = {
            "metadata": {"name": STORAGE_CLASS},
            "provisioner": PROVISIONER,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        self._post_once(f"{STORAGE}/storageclasses", storage)
        sandbox = {
            "metadata": {"name": OVERHEAD_CLASS},
            "handler": OVERHEAD_CLASS,
            "overhead": {"podFixed": OVERHEAD},
        }
        self._post_once("/apis/node.k8s.io/v1/runtimeclasses", sandbox)

        self._post_once(f"{DEVICES}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
        claim = {"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [request]}}}
        for name in TEAMS:
            self._post_once(f"{DEVICES}/namespaces/{name}/resourceclaims", claim)

    def _post_once(self, path: str, obj: Object) -> None:
        answer = self.api.post(path, obj)
        if answer.status != 409:
            answer.granted()

    @contextmanager
    def holding(self, objects: Iterable[Object]) -> Iterator[None]:
        """Creates these objects, and deletes them when the block ends."""
        try:
            self._create_all(objects)
            yield
        finally:
            self._delete_all()

    def _create_all(self, objects: Iterable[Object]) -> None:
        kinds: dict[str, list[Object]] = {}
        for obj in objects:
            kinds.setdefault(obj["kind"], []).append(obj)
        self._nodes = [node["metadata"]["name"] for node in kinds["Node"]]
        # Volumes are created before claims, nodes and claims before pods.
        self._for_each(self._create, [*kinds["Node"], *kinds.get("PersistentVolume", ())])
        claims = kinds.get("PersistentVolumeClaim", ())
        self._for_each(self._create, [*kinds.get("CSINode", ()), *claims])
        # Finished pods first, so that they have no influence on the others.
        pods = kinds.get("Pod", ())
        self._for_each(self.create_pod, [pod for pod in pods if pod["status"]["phase"] in FINISHED])
        self._for_each(
            self.create_pod, [pod for pod in pods if pod["status"]["phase"] not in FINISHED]
        )

    def create_pod(self, pod: Object) -> None:
        """Creates a pod, with the phase and the owned claims that a scheduler looks at."""
        created = self._create(pod)
        path = path_of(pod)
        phase = pod["status"]["phase"]
        if phase in FINISHED:
            self.api.patch(f"{path}/status", {"status": {"phase": phase}}).granted()
        for volume in pod["spec"].get("volumes") or ():
            if "ephemeral" in volume:
                self._set_claim_owner(f"{pod['metadata']['name']}-{volume['name']}", created)

    def delete_pod(self, pod: Object) -> None:
        """Deletes a pod at once."""
        self.api.delete(path_of(pod), grace_seconds=0)

    def _delete_all(self) -> None:
        self._for_each(self._remove_finalizers, self._with_finalizer)
        self._with_finalizer = []
        paths = [
            f"{CORE}/namespaces/{namespace}/{kind}" for namespace in TEAMS for kind in NAMESPACED
        ]
        paths += [f"{CORE}/nodes/{name}" for name in self._nodes]
        paths += [f"{CORE}/persistentvolumes", f"{STORAGE}/csinodes"]
        self._for_each(lambda path: self.api.delete(path, grace_seconds=0), paths)
        lists = [*paths[: len(TEAMS) * len(NAMESPACED)], f"{CORE}/persistentvolumes"]
        for path in lists:
            eventually(f"nothing in {path}", partial(self._is_empty, path))

    def _create(self, obj: Object) -> Object:
        path = path_of(obj)
        collection = path.rpartition("/")[0]
        try:
            created = self.api.post(collection, creatable_object(obj)).granted()
        except Declined as refusal:
            raise AssertionError(f"{path} is not accepted: {refusal}") from None
        if obj["metadata"].get("deletionTimestamp"):
            self._with_finalizer.append(path)
            self.api.delete(path).granted()
        return created

    def _set_claim_owner(self, claim: str, pod: Object) -> None:
        """Makes the pod the owner of its ephemeral claim, if that exists."""
        meta = pod["metadata"]
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
        }
        path = f"{CORE}/namespaces/{meta['namespace']}/persistentvolumeclaims/{claim}"
        self.api.patch(path, {"metadata": {"ownerReferences": [owner]}})

    def _exists(self, path: str) -> bool:
        return self.api.get(path).fine

    def _is_empty(self, path: str) -> bool:
        return not self.api.items(path)

    def _remove_finalizers(self, path: str) -> None:
        self.api.patch(path, {"metadata": {"finalizers": None}})

    def _for_each(self, action: Callable[[Any], object], items: Iterable[Any]) -> None:
        list(self._threads.map(action, items))


NAMESPACED = ("pods", "persistentvolumeclaims")
_COLLECTIONS = {
    "Node": (CORE, "nodes"),
    "Pod": (CORE, "pods"),
    "PersistentVolume": (CORE, "persistentvolumes"),
    "PersistentVolumeClaim": (CORE, "persistentvolumeclaims"),
    "CSINode": (STORAGE, "csinodes"),
}


def path_of(obj: Object) -> str:
    """The path of the object."""
    group, kind = _COLLECTIONS[obj["kind"]]
    namespace = obj["metadata"].get("namespace")
    prefix = f"/namespaces/{namespace}" if namespace else ""
    return f"{group}{prefix}/{kind}/{obj['metadata']['name']}"
