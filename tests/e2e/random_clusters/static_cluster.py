"""A random cluster set up on the API server, and cleared away for the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.e2e.cluster.workspace import eventually
from tests.e2e.random_clusters.valid_objects import OVERHEAD_CLASS, ROOMY, STORAGE_CLASS, creatable
from tests.oracle.clusters import TEAMS
from tools.control_plane.api import Api, Declined

Object = dict[str, Any]
FINISHED = ("Succeeded", "Failed")
CORE, STORAGE = "/api/v1", "/apis/storage.k8s.io/v1"
DEVICES = "/apis/resource.k8s.io/v1"
AT_ONCE = 4
OVERHEAD = {"cpu": "250m", "memory": "100Mi"}


class Stage:
    """The API server, holding one cluster at a time."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._hands = ThreadPoolExecutor(AT_ONCE)
        self._nodes: list[str] = []
        self._held: list[str] = []

    def __enter__(self) -> Stage:
        """The stage with what all clusters share."""
        self._furnish()
        return self

    def __exit__(self, *_: object) -> None:
        """Sends the helping hands home."""
        self._hands.shutdown()

    def _furnish(self) -> None:
        """Makes what all clusters share; the devices that pods may claim are on no node."""
        for name, team in TEAMS.items():
            labels = {"metadata": {"name": name, "labels": {"team": team}}}
            if self.api.post(f"{CORE}/namespaces", labels).status == 409:
                self.api.patch(f"{CORE}/namespaces/{name}", labels).granted()
            account = f"{CORE}/namespaces/{name}/serviceaccounts/default"
            eventually(f"the account of {name}", partial(self._there, account))
        storage = {
            "metadata": {"name": STORAGE_CLASS},
            "provisioner": ROOMY,
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
        wish = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
        claim = {"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [wish]}}}
        for name in TEAMS:
            self._post_once(f"{DEVICES}/namespaces/{name}/resourceclaims", claim)

    def _post_once(self, path: str, it: Object) -> None:
        answer = self.api.post(path, it)
        if answer.status != 409:
            answer.granted()

    @contextmanager
    def holding(self, objects: Iterable[Object]) -> Iterator[None]:
        """The cluster that these objects describe, for as long as the block lasts."""
        try:
            self._set_up(objects)
            yield
        finally:
            self._clear()

    def _set_up(self, objects: Iterable[Object]) -> None:
        kinds: dict[str, list[Object]] = {}
        for it in objects:
            kinds.setdefault(it["kind"], []).append(it)
        self._nodes = [it["metadata"]["name"] for it in kinds["Node"]]
        # A claim must find its volume, and a pod its node and its claims.
        self._each(self._make, [*kinds["Node"], *kinds.get("PersistentVolume", ())])
        claims = kinds.get("PersistentVolumeClaim", ())
        self._each(self._make, [*kinds.get("CSINode", ()), *claims])
        # A pod that has ended was there once, and leaves no trace if the others come after it.
        pods = kinds.get("Pod", ())
        self._each(self.put, [it for it in pods if it["status"]["phase"] in FINISHED])
        self._each(self.put, [it for it in pods if it["status"]["phase"] not in FINISHED])

    def put(self, pod: Object) -> None:
        """Makes a pod, with as much of a history as a scheduler cares for."""
        made = self._make(pod)
        path = path_of(pod)
        phase = pod["status"]["phase"]
        if phase in FINISHED:
            self.api.patch(f"{path}/status", {"status": {"phase": phase}}).granted()
        for volume in pod["spec"].get("volumes") or ():
            if "ephemeral" in volume:
                self._hand_over(f"{pod['metadata']['name']}-{volume['name']}", made)

    def take(self, pod: Object) -> None:
        """Removes a pod at once."""
        self.api.delete(path_of(pod), grace_seconds=0)

    def _clear(self) -> None:
        self._each(self._release, self._held)
        self._held = []
        bins = [f"{CORE}/namespaces/{home}/{kind}" for home in TEAMS for kind in NAMESPACED]
        bins += [f"{CORE}/nodes/{name}" for name in self._nodes]
        bins += [f"{CORE}/persistentvolumes", f"{STORAGE}/csinodes"]
        self._each(lambda path: self.api.delete(path, grace_seconds=0), bins)
        lists = [*bins[: len(TEAMS) * len(NAMESPACED)], f"{CORE}/persistentvolumes"]
        for path in lists:
            eventually(f"nothing in {path}", partial(self._empty, path))

    def _make(self, it: Object) -> Object:
        path = path_of(it)
        collection = path.rpartition("/")[0]
        try:
            made = self.api.post(collection, creatable(it)).granted()
        except Declined as no:
            raise AssertionError(f"{path} is not accepted: {no}") from None
        if it["metadata"].get("deletionTimestamp"):
            self._held.append(path)
            self.api.delete(path).granted()
        return made

    def _hand_over(self, claim: str, pod: Object) -> None:
        """Makes the pod the owner of the claim that was made for it, if that is there."""
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

    def _there(self, path: str) -> bool:
        return self.api.get(path).fine

    def _empty(self, path: str) -> bool:
        return not self.api.items(path)

    def _release(self, path: str) -> None:
        self.api.patch(path, {"metadata": {"finalizers": None}})

    def _each(self, act: Callable[[Any], object], them: Iterable[Any]) -> None:
        list(self._hands.map(act, them))


NAMESPACED = ("pods", "persistentvolumeclaims")
_PLACES = {
    "Node": (CORE, "nodes"),
    "Pod": (CORE, "pods"),
    "PersistentVolume": (CORE, "persistentvolumes"),
    "PersistentVolumeClaim": (CORE, "persistentvolumeclaims"),
    "CSINode": (STORAGE, "csinodes"),
}


def path_of(it: Object) -> str:
    """Where the API server has the object."""
    group, kind = _PLACES[it["kind"]]
    home = it["metadata"].get("namespace")
    inside = f"/namespaces/{home}" if home else ""
    return f"{group}{inside}/{kind}/{it['metadata']['name']}"
